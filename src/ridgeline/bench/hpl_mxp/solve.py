"""One run of HPL-MxP: generate, factorise, solve, refine, test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from mpi4py import MPI

from ridgeline.bench.hpl.block_cyclic import check_grid
from ridgeline.bench.hpl.process_grid import make_grid
from ridgeline.bench.hpl.record import HplSample, HplSettings, operations
from ridgeline.bench.hpl.solve import ProgressLog
from ridgeline.bench.hpl.team import TileTeam
from ridgeline.bench.hpl_mxp import factor, matrix
from ridgeline.bench.hpl_mxp.factor import Grid
from ridgeline.bench.hpl_mxp.matrix import Vector
from ridgeline.bench.hpl_mxp.refine import BASIS, LIMIT, MOST_ITERATIONS, first_guess, judge, refine
from ridgeline.bench.hpl_mxp.storage import Storage
from ridgeline.bench.hpl_mxp.system import HostMxpSystem, MxpSystem, grid_of
from ridgeline.jit.kernel import compile_kernels
from ridgeline.krylov.gmres import kernels_of_gmres
from ridgeline.parallel.communicator import in_turn_per_node
from ridgeline.parallel.reduce import global_max


@dataclass(frozen=True)
class MxpRun:
    """A finished run.

    seconds: of factorisation, first solve and refinement, each of the slowest rank; iterations: of GMRES; converged:
    whether its own tolerance was met, which is tighter than the rules'; scaled_residual: the backward error over
    N 2^-53; x: the solution, float64 [n]; samples: performance of the factorisation over progress.
    """

    settings: HplSettings
    storage: Storage
    testing: bool
    factor_seconds: float
    solve_seconds: float
    refine_seconds: float
    iterations: int
    converged: bool
    scaled_residual: float
    x: Vector
    samples: list[HplSample]

    @property
    def seconds(self) -> float:
        """What the official formula counts."""
        return self.factor_seconds + self.solve_seconds + self.refine_seconds

    @property
    def flops_per_second(self) -> float:
        """The official rate."""
        return operations(self.settings.n) / self.seconds

    @property
    def factor_flops_per_second(self) -> float:
        """The rate of the factorisation alone: 2/3 N^3 over its time."""
        return 2.0 / 3.0 * self.settings.n**3 / self.factor_seconds

    @property
    def passed(self) -> bool:
        """Whether the scaled residual is a number of at most 16, after at most 50 iterations."""
        return self.scaled_residual <= LIMIT and self.iterations <= MOST_ITERATIONS


def bytes_of(n: int, nb: int, p: int, q: int) -> int:
    """Return the bytes that a process needs at most: the factors, and vectors and tables of all unknowns."""
    vectors = 2 * BASIS + 16
    return factor.bytes_of(n, nb, p, q) + 8 * n * vectors


def compile_mxp(comm: MPI.Comm) -> None:
    """Compile all kernels of HPL-MxP, or load them from the cache. Collective."""
    wanted = [*factor.kernels(), *matrix.kernels(), *kernels_of_gmres(np.float64)]
    in_turn_per_node(comm, lambda: compile_kernels(wanted))


def solve_mixed(
    comm: MPI.Comm,
    settings: HplSettings,
    storage: Storage = "float32",
    testing: bool = False,
    on_progress: Callable[[HplSample], None] | None = None,
    diagonal: Vector | None = None,
) -> MxpRun:
    """Solve one system and test the solution, the same on all ranks. Collective over comm.

    on_progress: told on rank 0 while it factorises. diagonal: what is added to the random matrix's, float64 [n], in
    place of the one that makes it stable. A matrix that elimination fails for is no error: the test fails.
    Raises DecompositionError if the grid is not one of comm's ranks. Raises DeviceError if there is no device, too
    little memory on it, or no cuBLAS.
    """
    check_grid(comm.size, settings.p, settings.q)
    compile_mxp(comm)
    with make_grid(comm, settings) as place, TileTeam(settings.threads) as team:
        grid = grid_of(place, settings)
        system = (
            HostMxpSystem(comm, grid, team, storage, testing, diagonal)
            if settings.device == "cpu"
            else _on_device(comm, settings, grid, storage, testing, diagonal)
        )
        a = system.matrix
        b = a.right_hand_side()
        log = ProgressLog(settings.n, settings.nb, on_progress if comm.rank == 0 else None)
        clock = _Clock(comm)
        log.start = perf_counter()
        with np.errstate(all="ignore"):  # numbers that overflow fail the test
            triangles = system.factor(lambda done: log.told(min(done * settings.nb, settings.n)))
            factor_seconds = clock.lap()
            x = first_guess(triangles, comm, b)
            solve_seconds = clock.lap()
            iterations, converged = refine(a, triangles, comm, b, x)
            refine_seconds = clock.lap()
            found = judge(a, b, x)
        system.free()
        samples = comm.bcast(log.samples)
    seconds = factor_seconds, solve_seconds, refine_seconds
    return MxpRun(settings, storage, testing, *seconds, iterations, converged, found, x, samples)


def _on_device(
    comm: MPI.Comm,
    settings: HplSettings,
    grid: Grid,
    storage: Storage,
    dominant: bool,
    diagonal: Vector | None,
) -> MxpSystem:
    from ridgeline.bench.hpl_mxp.device.system_cuda import DeviceMxpSystem  # numba-cuda is only needed here

    return DeviceMxpSystem(comm, settings, grid, storage, dominant, diagonal)


class _Clock:
    """Laps of all ranks together: each ends when the last rank is through."""

    def __init__(self, comm: MPI.Comm) -> None:
        self._comm = comm
        comm.Barrier()
        self._since = perf_counter()

    def lap(self) -> float:
        """Return the seconds since the last lap, the slowest rank's. Collective."""
        self._comm.Barrier()
        seconds = perf_counter() - self._since
        self._since += seconds
        return float(global_max(self._comm, seconds))
