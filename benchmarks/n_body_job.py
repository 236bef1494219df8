"""N-body gravity on some ranks, and alone on one: blocks of steps in turn, in one MPI job.

Started by `n_body.py`; what each rank runs: mpiexec -n P python benchmarks/n_body_job.py SETTINGS. SETTINGS is a JSON
object: cells, steps of a block, before: steps that are taken first, seconds, min_rounds. Rank 0 prints seconds of a
block by candidate and round, seconds of the phases of all blocks of all ranks together, and counted work.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from harness.ranks import wait_asleep

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.models.contract import Model

MAX_ROUNDS = 20
STEPS_TO_TODAY = 24


def grown(comm: "MPI.Comm", cells: int, before: int) -> tuple["Model", Any]:
    """Return a model after so many of 24 steps from redshift 49 to today, and the regions of its steps."""
    from ridgeline.models import case_class, create
    from ridgeline.runtime.context import Context

    document = {
        "run": {"model": "n_body", "steps": 1, "seed": 1},
        "grid": {"shape": [cells] * 3, "length": float(cells)},
        "model": {"steps_to_today": STEPS_TO_TODAY, "substeps": 3},
    }
    context = Context(comm, "cpu", 1)
    model = create("n_body")
    model.setup(case_class("n_body").model_validate(document), context)
    model.compile()
    model.initialize()
    for _ in range(before):
        model.step(1)
    context.regions.reset()
    return model, context.regions


def timed(model: "Model", comm: "MPI.Comm", steps: int) -> float:
    """Take steps and return the seconds."""
    comm.Barrier()
    start = time.perf_counter()
    for _ in range(steps):
        model.step(1)
    comm.Barrier()
    return time.perf_counter() - start


def main() -> None:
    from mpi4py import MPI

    from ridgeline.limits.peak import measure_peak_here

    comm, settings = MPI.COMM_WORLD, json.loads(sys.argv[1])
    peak, steps = measure_peak_here(), settings["steps"]
    together, regions = grown(comm, settings["cells"], settings["before"])
    candidates: dict[str, Callable[[], float]] = {"together": lambda: timed(together, comm, steps)}
    if comm.size > 1:
        alone = grown(MPI.COMM_SELF, settings["cells"], settings["before"])[0] if comm.rank == 0 else None

        def by_one() -> float:
            """Take steps on rank 0 while the other ranks sleep."""
            seconds = 0.0
            if alone is not None:
                time.sleep(0.005)
                seconds = timed(alone, MPI.COMM_SELF, steps)
            wait_asleep(comm)
            return seconds

        wait_asleep(comm)
        candidates["alone"] = by_one
    samples: dict[str, list[float]] = {name: [] for name in candidates}
    end, rounds = time.monotonic() + settings["seconds"], 0
    while comm.bcast(rounds < settings["min_rounds"] or (time.monotonic() < end and rounds < MAX_ROUNDS)):
        for name in list(candidates) if rounds % 2 == 0 else reversed(list(candidates)):
            samples[name].append(candidates[name]())
        rounds += 1
    phases = {name: comm.allreduce(regions.seconds(name)) / comm.size for name in type(together).phases}
    work, substeps = together.work(), 3
    if comm.rank == 0:
        said = {"peak": peak, "flops": work.flops, "pushed": work.points * substeps}
        print(json.dumps({"samples": samples, "phases": phases, **said}))


if __name__ == "__main__":
    from ridgeline.parallel.job import job

    with job(debug=True):
        main()
