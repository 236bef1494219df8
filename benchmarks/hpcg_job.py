"""One MPI job of benchmarks/hpcg.py: seconds of kernels and of sets of CG, in turn. Prints them as JSON on rank 0.

mpiexec -n 2 python benchmarks/hpcg_job.py '{"box": [104, 104, 104], "iterations": 50, "rounds": 3, ...}'
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from mpi4py import MPI

from harness.ranks import wait_asleep
from ridgeline.bench.hpcg.geometry import make_geometry
from ridgeline.bench.hpcg.hpcg_run import compile_hpcg
from ridgeline.bench.hpcg.implementation import Implementation
from ridgeline.bench.hpcg.optimised import OptimisedImplementation
from ridgeline.bench.hpcg.optimised_matrix import bytes_per_iteration
from ridgeline.bench.hpcg.plain_c import PlainC, PlainCUnavailable
from ridgeline.bench.hpcg.problem import generate_problem, level_sizes
from ridgeline.bench.hpcg.rating import count_flops
from ridgeline.bench.hpcg.reference import ReferenceImplementation
from ridgeline.jit.kernel import numba_threads
from ridgeline.limits.stream import StreamArrays, measure_stream
from ridgeline.parallel.communicator import ends_job_on_error
from ridgeline.sparse.row_strips import Strips

Action = Callable[[], object]
WORD = 8
COMPARED = 1e-12  # scaled residuals above this must agree; below, a residual is rounding


class Job:
    """What takes turns: actions by name. ranks: how many of comm run one; the others sleep meanwhile."""

    def __init__(self, comm: MPI.Comm) -> None:
        self.comm = comm
        self.actions: dict[str, Action] = {}
        self.alone: set[str] = set()
        self.counts: dict[str, Any] = {"read": {}, "written": {}, "flops": {}}
        self.result: dict[str, Any] = {"set_up": {}, "missing": {}, "agreement": {}}

    def add_kernel(self, name: str, action: Action, read: int, written: int) -> None:
        """Add a kernel that reads and writes so many bytes on this rank."""
        self.actions[name] = action
        self.counts["read"][name] = self.comm.allreduce(read)
        self.counts["written"][name] = self.comm.allreduce(written)

    def add_set(self, name: str, action: Action, flops: float, alone: bool = False) -> None:
        """Add a set of CG iterations; alone: on rank 0 only."""
        self.actions[name] = action
        self.counts["flops"][name] = flops
        if alone:
            self.alone.add(name)

    def run(self, rounds: int) -> dict[str, list[float]]:
        """Return seconds of the slowest rank by name, one of every round; a round that does not count comes first.

        Every other round runs backwards.
        """
        samples: dict[str, list[float]] = {name: [] for name in self.actions}
        for turn in range(rounds + 1):
            names = list(self.actions)
            for name in names if turn % 2 == 0 else reversed(names):
                seconds = self._once(name)
                if turn:
                    samples[name].append(seconds)
        return samples

    def _once(self, name: str) -> float:
        self.comm.Barrier()
        start = time.perf_counter()
        if name not in self.alone or self.comm.rank == 0:
            self.actions[name]()
        mine = time.perf_counter() - start
        if name in self.alone:
            wait_asleep(self.comm)
        return float(self.comm.allreduce(mine, MPI.MAX))


def solve(path: Implementation, right_side: np.ndarray, iterations: int, kept: list[float]) -> Action:
    """Return a set: `iterations` from zero. kept: its scaled residuals."""
    b, x = path.vector(right_side), path.vector()

    def run() -> None:
        x.values.fill(0.0)
        kept[:] = path.cg(b, x, iterations, 0.0).history

    return run


def stored_bytes(triangle: Strips) -> int:
    """Return the bytes that a sweep must read of a triangle: values and lists, without the gaps between strips."""
    values = np.dot(np.diff(triangle.strip_rows), np.diff(triangle.strip_slots).astype(np.int64))
    return int(values) * WORD + sum(part.nbytes for part in triangle) - triangle.values.nbytes


def add_kernels(job: Job, path: OptimisedImplementation) -> None:
    """Add STREAM's dot and triad, the half sweeps and the product of the finest level, with their bytes.

    Bytes: of the matrix as stored, and of each vector once for reading and once for writing; an array that is only
    written counts as written, though its lines are read first.
    """
    limits = measure_stream(job.comm, 1, repeats=1)
    arrays = StreamArrays(3 * limits.bytes_per_array, 1)
    job.add_kernel("dot", lambda: arrays.run("read"), 2 * arrays.a.nbytes, 0)
    job.add_kernel("triad", lambda: arrays.run("triad"), 2 * arrays.a.nbytes, arrays.a.nbytes)
    level, passes = path.level, path.multigrid.passes
    vector = WORD * level.n_rows
    rng = np.random.default_rng(job.comm.rank)
    r, half_product, y = (rng.standard_normal(level.n_rows) for _ in range(3))
    x = path.vector(r).values
    lower, upper = stored_bytes(level.lower), stored_bytes(level.upper)
    inverse = level.inverse_diagonal
    job.add_kernel(
        "forward sweep from zero",
        lambda: passes.forward_zero(level.lower, r, inverse, x, half_product),
        lower + 3 * vector,
        2 * vector,
    )
    job.add_kernel(
        "backward sweep",
        lambda: passes.backward(level.upper, half_product, inverse, x),
        upper + 3 * vector,
        vector,
    )
    job.add_kernel(
        "forward sweep",
        lambda: passes.forward(level.lower, r, half_product, inverse, x),
        lower + 4 * vector,
        2 * vector,
    )
    job.add_kernel(
        "SpMV with dot",
        lambda: passes.multiply_dot(level.lower, level.upper, level.diagonal, x, y),
        lower + upper + 2 * vector,
        vector,
    )


def add_sets(job: Job, settings: dict[str, Any]) -> tuple[OptimisedImplementation, dict[str, list[float]]]:
    """Add sets of the optimised path, the reference path and the C twin; note how long their set-up took.

    Without "peers" in the settings, only those of the optimised path; then there are no residuals to compare.
    """
    comm, iterations = job.comm, settings["iterations"]
    box: tuple[int, int, int] = tuple(settings["box"])
    geometry = make_geometry(comm.size, comm.rank, *box)
    histories: dict[str, list[float]] = {}

    def timed(name: str, make: Callable[[], Any]) -> Any:
        comm.Barrier()
        start = time.perf_counter()
        made = make()
        job.result["set_up"][name] = comm.allreduce(time.perf_counter() - start, MPI.MAX)
        return made

    level, right_side, _ = timed("problem", lambda: generate_problem(comm, geometry))
    flops = count_flops(level_sizes(level), 1, iterations).total
    optimised = timed("optimised", lambda: OptimisedImplementation(comm, level, 1))
    job.result["moved"] = iterations * comm.allreduce(bytes_per_iteration(optimised.level))
    histories["optimised"] = []
    job.add_set("optimised", solve(optimised, right_side, iterations, histories["optimised"]), flops)
    if not settings.get("peers", True):
        return optimised, {}
    reference = ReferenceImplementation(comm, level)
    histories["reference"] = []
    job.add_set("reference", solve(reference, right_side, iterations, histories["reference"]), flops)
    try:
        grid = geometry.npx, geometry.npy, geometry.npz
        twin = timed("C", lambda: PlainC(comm, box, grid))
    except PlainCUnavailable as reason:
        job.result["missing"]["C"] = str(reason)
        return optimised, histories
    job.result["how"] = twin.how
    histories["C"] = []

    def run_twin() -> None:
        histories["C"][:] = twin.cg(iterations, 0.0)[0][1:]

    job.add_set("C", run_twin, flops)
    return optimised, histories


def add_threads(job: Job, settings: dict[str, Any]) -> None:
    """Add a set of the same global problem on rank 0 alone, with as many threads as there are ranks."""
    comm, iterations, threads = job.comm, settings["iterations"], job.comm.size
    whole = make_geometry(comm.size, comm.rank, *settings["box"]).whole
    name, action, flops = f"1 rank x {threads} threads", None, 0.0
    if comm.rank == 0:
        level, right_side, _ = generate_problem(MPI.COMM_SELF, make_geometry(1, 0, *whole))
        flops = count_flops(level_sizes(level), 1, iterations).total
        with numba_threads(threads):
            path = OptimisedImplementation(MPI.COMM_SELF, level, threads)
        solved = solve(path, right_side, iterations, [])

        def action() -> None:
            with numba_threads(threads):
                solved()

    wait_asleep(comm)
    job.add_set(name, action, comm.bcast(flops), alone=True)


def differences(histories: dict[str, list[float]]) -> dict[str, float]:
    """Return the largest relative difference from the reference's residuals, by name."""
    if not histories:
        return {}
    reference = np.array(histories["reference"])
    counts = reference > COMPARED
    return {
        name: float(np.max(np.abs(np.array(values) / reference - 1.0)[counts]))
        for name, values in histories.items()
    }


def main() -> None:
    settings = json.loads(sys.argv[1])
    numba.set_num_threads(1)
    comm = MPI.COMM_WORLD.Dup()
    with ends_job_on_error(comm):  # ranks that wait for one that has failed would wait for ever
        job = Job(comm)
        compile_hpcg(comm, threads=1)
        optimised, histories = add_sets(job, settings)
        if settings["kernels"]:
            add_kernels(job, optimised)
        if settings["threads"]:
            add_threads(job, settings)
        samples = job.run(settings["rounds"])
        if comm.rank == 0:
            agreement = differences(histories)
            print(json.dumps(job.result | job.counts | {"samples": samples, "agreement": agreement}))


if __name__ == "__main__":
    main()
