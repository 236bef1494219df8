"""One MPI job of benchmarks/multigrid.py: seconds of V-cycles, in turn. Prints them as JSON on rank 0.

mpiexec -n 2 python benchmarks/multigrid_job.py '{"size": 128, "rounds": 5}'
"""

import json
import sys
import time
from typing import Any

import numpy as np
from mpi4py import MPI

from ridgeline.blocks.block import BlockArray
from ridgeline.blocks.cartesian import decompose
from ridgeline.blocks.multigrid.cells import CellMultigrid
from ridgeline.limits.stream import measure_stream
from ridgeline.parallel.communicator import ends_job_on_error

WALLS = ("neumann", "neumann")
RESIDUAL_WORDS = 2  # read by the residual that `solve` checks after each cycle, besides coefficients


class Case:
    """A problem with its fields, solved by a given number of cycles."""

    def __init__(self, comm: MPI.Comm, name: str, n: int) -> None:
        self.name, self.comm = name, comm
        # A flow is cut in y and x; lines along z need that.
        cuts = (1, comm.size, 1)
        self.cartesian, block = decompose(comm, (n, n, n), cuts, (False, True, True))
        along_z = 1.03 ** np.arange(n) if name == "lines" else 1.0
        self.multigrid = CellMultigrid(
            self.cartesian, block, (along_z, 1.0, 1.0), (WALLS, "periodic", "periodic")
        )
        self.b, self.x = (BlockArray.allocate(block, np.float64) for _ in range(2))
        self.b.owned[...] = np.random.default_rng(comm.rank).standard_normal(block.shape_local)
        words = 0
        if name == "varying coefficients":
            self.multigrid.set_coefficients(
                beta=np.random.default_rng(1).uniform(0.5, 2.0, block.shape_local)
            )
            words = 4
        residual = (RESIDUAL_WORDS + words) * 8 * int(np.prod(block.shape_local))
        self.bytes = comm.allreduce(self.multigrid.bytes_per_cycle + residual)
        self.factor = self.multigrid.solve(self.b, self.x, 0.0, 8).factor

    def seconds(self, cycles: int) -> float:
        """Return the time of the slowest rank for a solve of so many cycles."""
        self.comm.Barrier()
        start = time.perf_counter()
        self.multigrid.solve(self.b, self.x, 0.0, cycles)
        return float(self.comm.allreduce(time.perf_counter() - start, MPI.MAX))

    def phases(self, cycles: int) -> list[list[float]]:
        """Return the seconds of a cycle by level and phase, of the slowest rank for each."""
        self.multigrid.seconds[:] = 0
        self.seconds(cycles)
        seconds = self.multigrid.seconds / cycles
        self.comm.Allreduce(MPI.IN_PLACE, seconds, MPI.MAX)
        return [[float(each) for each in level] for level in seconds]


def main(settings: dict[str, Any]) -> None:
    """Time all cases in turn; a cycle is the difference of a solve with five cycles and one with one."""
    comm = MPI.COMM_WORLD
    cases = [Case(comm, name, settings["size"]) for name in ("constant", "varying coefficients", "lines")]
    samples: dict[str, list[float]] = {case.name: [] for case in cases}
    phases: dict[str, list[list[float]]] = {}
    limits = measure_stream(comm, 1, repeats=3)
    for turn in range(settings["rounds"]):
        for case in cases if turn % 2 == 0 else reversed(cases):
            one, five = case.seconds(1), case.seconds(5)
            samples[case.name].append((five - one) / 4)
            now = case.phases(4)
            known = phases.setdefault(case.name, now)
            phases[case.name] = [[min(*pair) for pair in zip(*levels)] for levels in zip(known, now)]
    report = []
    for case in cases:
        before = case.multigrid.messages
        case.multigrid.solve(case.b, case.x, 0.0, 2)
        two = case.multigrid.messages - before
        case.multigrid.solve(case.b, case.x, 0.0, 1)
        messages = 2 * two - (case.multigrid.messages - before)
        report.append(
            {
                "name": case.name,
                "seconds": samples[case.name],
                "bytes": case.bytes,
                "factor": case.factor,
                "passes": case.multigrid.passes_per_cycle,
                "messages": messages,
                "phases": phases[case.name],
                "levels": [level.cells for level in case.multigrid.levels],
            }
        )
    if comm.rank == 0:
        triad = max(limits.ordinary.triad, limits.streaming.triad)
        print(json.dumps({"size": settings["size"], "triad": triad, "cases": report}))


if __name__ == "__main__":
    with ends_job_on_error(MPI.COMM_WORLD):
        main(json.loads(sys.argv[1]))
