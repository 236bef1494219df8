"""Whole steps with exchange: 2 ranks of 1 thread against 1 rank of 2 threads, in turn in one job.

Started by `gray_scott.py`; this file is also what each rank runs:
    mpiexec -n 2 python benchmarks/gray_scott_ranks.py N DTYPE STEPS_PER_SWEEP SECONDS
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from harness.ranks import wait_asleep
from harness.table import Row
from ridgeline.runtime.mpiexec import find_mpiexec

if TYPE_CHECKING:
    from mpi4py import MPI

    from gray_scott_sweep import Settings
    from ridgeline.models.contract import Model

RANKS = 2
BATCH_SECONDS = 0.05


def ranks_against_threads(settings: "Settings") -> Iterator[Row]:
    """Speed of 2 ranks x 1 thread over that of 1 rank x 2 threads."""
    n = min(256, max(settings.sizes))
    for dtype in settings.dtypes:
        for steps_per_sweep in (1, 2):
            name = (
                f"2 ranks x 1 thread over 1 rank x 2 threads, {steps_per_sweep} step"
                f"{'s' * (steps_per_sweep > 1)} a sweep: {n}^3 {dtype}"
            )
            arguments = [str(n), dtype, str(steps_per_sweep), str(2 * settings.seconds)]
            command = [*find_mpiexec(), "-n", str(RANKS), sys.executable, __file__, *arguments]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                yield Row(name, None, ">= 0.95", note=f"failed: {done.stderr.strip().splitlines()[-1]}")
                continue
            result = json.loads(done.stdout)
            yield Row(name, result["best"], ">= 0.95", result["median"], result["note"])


def make_model(comm: "MPI.Comm", threads: int, n: int, dtype: str, steps_per_sweep: int | str) -> "Model":
    from ridgeline.models import create
    from ridgeline.models.gray_scott.settings import GrayScottCase
    from ridgeline.runtime.context import Context

    case = GrayScottCase.model_validate(
        {
            "run": {"model": "gray_scott", "steps": 1, "precision": dtype},
            "grid": {"shape": [n, n, n]},
            "model": {"steps_per_sweep": steps_per_sweep},
        }
    )
    model = create("gray_scott")
    model.setup(case, Context(comm, "cpu", threads))
    model.compile()
    model.initialize()
    return model


def advance(model: "Model", steps: int) -> None:
    done = 0
    while done < steps:
        done += model.step(steps - done)


def _job(n: int, dtype: str, steps_per_sweep: int, seconds: float) -> None:
    import numba
    import numpy as np
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    numba.set_num_threads(1)
    both = make_model(comm, 1, n, dtype, steps_per_sweep)
    alone = None
    if comm.rank == 0:
        numba.set_num_threads(RANKS)
        alone = make_model(MPI.COMM_SELF, RANKS, n, dtype, steps_per_sweep)
    wait_asleep(comm)
    cells = n**3
    steps = max(1, round(BATCH_SECONDS * 1e9 / cells / steps_per_sweep)) * steps_per_sweep
    times: dict[str, list[float]] = {"ranks": [], "threads": []}
    end = comm.bcast(time.monotonic() + seconds)
    while comm.bcast(time.monotonic() < end or len(times["ranks"]) < 5):
        numba.set_num_threads(1)
        comm.Barrier()
        start = time.perf_counter()
        advance(both, steps)
        comm.Barrier()
        times["ranks"].append(time.perf_counter() - start)
        if alone is not None:
            time.sleep(0.005)  # until the other rank sleeps
            numba.set_num_threads(RANKS)
            start = time.perf_counter()
            advance(alone, steps)
            times["threads"].append(time.perf_counter() - start)
        wait_asleep(comm)
    if comm.rank == 0:
        ranks, threads = np.array(times["ranks"][1:]), np.array(times["threads"][1:])
        rates = [cells * steps / x.min() / 1e6 for x in (ranks, threads)]
        result = {
            "best": threads.min() / ranks.min(),
            "median": float(np.median(threads / ranks)),
            "note": f"{rates[0]:.0f} against {rates[1]:.0f} million cells/s, noise on, exchange included",
        }
        print(json.dumps(result))


if __name__ == "__main__":
    from ridgeline.parallel.job import prepare_rank

    prepare_rank(RANKS)
    _job(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
