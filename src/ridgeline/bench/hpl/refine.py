"""One run of HPL-MxP: generate, factor in low precision, solve, refine to 64-bit accuracy, test.

GMRES in float64, preconditioned by the factors, refines. The first guess is the solution with the factors alone.
GMRES (`krylov.gmres`) goes on until the root mean square of the residual is at most 2^-53 (||A|| ||x|| + ||b||), in
maximum norms: what elimination in float64 would reach. The rules ask for less, N times as much times 16. They allow
50 iterations.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any, Protocol

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.bench.hpl.block_cyclic import ProcessGrid, check_grid, make_grid
from ridgeline.bench.hpl.factor import UnpivotedLU, factor
from ridgeline.bench.hpl.host import HostTriangles, UnpivotedHost, allocate_singles
from ridgeline.bench.hpl.matrix import MxpHostMatrix, MxpMatrix, Vector
from ridgeline.bench.hpl.record import (
    EPSILON,
    MXP_BASIS,
    MXP_ITERATIONS,
    HplSample,
    HplSettings,
    MxpRun,
    ProgressLog,
    Storage,
)
from ridgeline.bench.hpl.solve import kernels
from ridgeline.bench.hpl.team import TileTeam
from ridgeline.bench.hpl.triangular import Triangles, solve
from ridgeline.jit.kernel import compile_kernels
from ridgeline.krylov.gmres import gmres, kernels_of_gmres
from ridgeline.krylov.operator import InnerProduct
from ridgeline.parallel.allreduce import allreduce_max
from ridgeline.parallel.communicator import in_turn_per_node


class MxpSystem(Protocol):
    """A process's part of one system, generated and not yet factored."""

    @property
    def matrix(self) -> MxpMatrix:
        """The matrix, made anew wherever it is used."""

    def factor(self, on_columns: Callable[[int], None]) -> Triangles:
        """Factor in place; return what solves. Collective. on_columns: called with the columns that are done."""

    def free(self) -> None:
        """Free what libraries hold; the factors solve no longer."""


class MxpHostSystem:
    """A system in host memory, which the threads of a team factor."""

    def __init__(
        self,
        comm: MPI.Comm,
        grid: ProcessGrid,
        team: TileTeam,
        storage: Storage,
        dominant: bool = False,
        diagonal: Vector | None = None,
    ) -> None:
        """Generate it. Collective over comm. dominant, diagonal: as of `MxpMatrix`."""
        rows, columns = grid.place.rows, grid.place.unknowns
        self.matrix = MxpHostMatrix(comm, rows, columns, team, dominant, diagonal)
        memory = allocate_singles(rows.count(), columns.count())
        self.matrix.write(memory)
        self._grid, self._team = grid, team
        self._backend = UnpivotedHost(grid, memory, team, storage)
        self._lu = UnpivotedLU(grid, self._backend, storage)

    def factor(self, on_columns: Callable[[int], None]) -> Triangles:
        """Factor by the team."""
        rows = self._grid.place.rows
        factor(self._lu, rows.n, rows.nb, on_columns)
        sums = np.zeros(rows.count(), np.float32)
        return HostTriangles(self._grid, self._backend.matrix, self._team, sums)

    def free(self) -> None:
        """Do nothing: nothing is held."""


def solve_mixed(
    comm: MPI.Comm,
    settings: HplSettings,
    storage: Storage = "float32",
    testing: bool = False,
    on_progress: Callable[[HplSample], None] | None = None,
    diagonal: Vector | None = None,
) -> MxpRun:
    """Solve one system and test the solution, the same on all ranks. Collective over comm.

    on_progress: called on rank 0 while it factors. diagonal: what is added to the random matrix's, float64 [n], in
    place of the one that makes it stable. A matrix that elimination fails for is no error: the test fails.
    Raises DecompositionError if the grid is not one of comm's ranks. Raises DeviceError if there is no device, too
    little memory on it, or no cuBLAS.
    """
    check_grid(comm.size, settings.p, settings.q)
    in_turn_per_node(comm, lambda: compile_kernels([*kernels(), *kernels_of_gmres(np.float64)]))
    with make_grid(comm, settings) as grid, TileTeam(settings.threads) as team:
        system: MxpSystem
        if settings.device == "cpu":
            system = MxpHostSystem(comm, grid, team, storage, testing, diagonal)
        else:
            from ridgeline.bench.hpl.device.system_cuda import MxpDeviceSystem  # needs numba-cuda

            system = MxpDeviceSystem(comm, settings, grid, storage, testing, diagonal)
        a = system.matrix
        b = a.right_hand_side()
        log = ProgressLog(settings.n, settings.nb, on_progress if comm.rank == 0 else None)
        clock = _Clock(comm)
        log.start = perf_counter()
        with np.errstate(all="ignore"):  # numbers that overflow fail the test
            triangles = system.factor(log.update)
            factor_seconds = clock.lap()
            x = solve(triangles, comm, b)
            solve_seconds = clock.lap()
            iterations, converged = refine(a, triangles, comm, b, x)
            refine_seconds = clock.lap()
            found = backward_error(a, b, x)
        system.free()
        samples = comm.bcast(log.samples)
    seconds = factor_seconds, solve_seconds, refine_seconds
    return MxpRun(settings, storage, testing, *seconds, iterations, converged, found, x, samples)


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
        return float(allreduce_max(self._comm, seconds))


class _Operator:
    """A for `gmres`: every rank holds whole vectors, so that it sums alone."""

    nullspace = False

    def __init__(self, matrix: MxpMatrix) -> None:
        self.matrix = matrix
        self.inner = InnerProduct(None, np.ones(matrix.n))

    def apply(self, u: Vector, out: Vector) -> None:
        """Set out = A u."""
        out[:] = self.matrix.product(u)

    direction: Any = None  # of conjugate gradients, which need a symmetric matrix


class _Preconditioner:
    """(L U)^-1 for `gmres`. Every rank gets the same bits, so that all take the same decisions."""

    dtype = np.dtype(np.float64)

    def __init__(self, triangles: Triangles, comm: MPI.Comm) -> None:
        self.triangles, self.comm = triangles, comm

    def apply(self, r: Vector, z: NDArray[Any]) -> None:
        """Set z to about A^-1 r."""
        z[:] = solve(self.triangles, self.comm, r)


def refine(matrix: MxpMatrix, triangles: Triangles, comm: MPI.Comm, b: Vector, x: Vector) -> tuple[int, bool]:
    """Improve x in place; return (iterations, whether the tolerance was met). Collective."""
    tolerance = EPSILON * (matrix.norm * float(np.abs(x).max()) + float(np.abs(b).max()))
    preconditioner = _Preconditioner(triangles, comm)
    done = gmres(_Operator(matrix), b, x, preconditioner, MXP_BASIS, tolerance, MXP_ITERATIONS)
    return done.iterations, done.converged


def backward_error(matrix: MxpMatrix, b: Vector, x: Vector) -> float:
    """Return ||b - A x|| / (||A|| ||x|| + ||b||) / (n 2^-53), maximum norms, the residual computed anew. Collective.

    NaN if anything is.
    """
    residual, solution, right = (float(np.abs(one).max()) for one in (b - matrix.product(x), x, b))
    return residual / (matrix.norm * solution + right) / (x.size * EPSILON)
