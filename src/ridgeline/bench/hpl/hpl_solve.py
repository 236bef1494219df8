"""The solution of one system, timed and tested: by HPL (`solve_system`) or by HPL-MxP (`solve_mixed`).

HPL generates the system, factors it, substitutes back, generates the matrix again for the official test, and applies
the test. HPL-MxP generates the system, factors it in low precision, solves, refines the solution to 64-bit accuracy,
and tests it.

The refinement is GMRES in float64 (`krylov.gmres`), preconditioned by the factors. The first guess is the solution
with the factors alone. GMRES continues until the root mean square of the residual is at most 2^-53 (||A|| ||x|| +
||b||), in maximum norms: what elimination in float64 would reach. The rules demand less, N times as much times 16.
They allow 50 iterations.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any, Protocol

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.bench.hpl import matrix, panel, residual, update
from ridgeline.bench.hpl.block_cyclic import BlockCyclic, ProcessGrid, check_grid, make_grid
from ridgeline.bench.hpl.broadcast import choose_broadcast
from ridgeline.bench.hpl.factor import PivotedLU, UnpivotedLU, factor
from ridgeline.bench.hpl.factor_host import (
    HostPanel,
    HostTriangles,
    PivotedHost,
    UnpivotedHost,
    allocate_reals,
    allocate_singles,
)
from ridgeline.bench.hpl.matrix import Fill, MxpHostMatrix, MxpMatrix, Vector, random_matrix
from ridgeline.bench.hpl.panel import Reals
from ridgeline.bench.hpl.record import (
    EPSILON,
    MXP_BASIS,
    MXP_ITERATIONS,
    Broadcast,
    HplRun,
    HplSample,
    HplSettings,
    MxpRun,
    ProgressLog,
    Storage,
)
from ridgeline.bench.hpl.residual import ResidualSums, host_sums, measure_norms
from ridgeline.bench.hpl.team import TileTeam, tiles
from ridgeline.bench.hpl.triangular import Triangles, solve, substitute_back
from ridgeline.jit.kernel import Specialisation, compile_kernels
from ridgeline.krylov.gmres import gmres, kernels_of_gmres
from ridgeline.krylov.operator import InnerProduct
from ridgeline.parallel.allreduce import allreduce_max
from ridgeline.parallel.communicator import compile_on_nodes
from ridgeline.runtime.regions import Regions

_COLUMNS = 64  # columns that a thread generates at a time


class HplSystem(Protocol):
    """A process's part of one system, generated and not yet factored. All methods are collective over the grid.

    regions: the time of each part of a solve.
    """

    regions: Regions

    def factor(self, on_columns: Callable[[int], None]) -> None:
        """Factor [A, b]. on_columns: called with the number of factored columns, on all processes."""

    def substitute(self) -> Reals:
        """Return the part of x that belongs to this process's columns of A, float64 on the host."""

    def sums(self, x: Reals) -> ResidualSums:
        """Generate [A, b] again and return this process's contributions to the norms. No communication."""


class HostSystem:
    """A system in host memory, solved by the threads of a team. fill: writes the matrix, before and after."""

    def __init__(
        self, settings: HplSettings, grid: ProcessGrid, broadcast: Broadcast, team: TileTeam, fill: Fill
    ) -> None:
        self.regions = Regions()
        self._settings, self._grid, self._team, self._fill = settings, grid, team, fill
        self._a = allocate_reals(grid.place)
        self._generate()
        backend = PivotedHost(settings, grid, self._a, team, self.regions)
        self._lu: PivotedLU[HostPanel] | None = PivotedLU(settings, grid, backend, broadcast, self.regions)

    def factor(self, on_columns: Callable[[int], None]) -> None:
        assert self._lu is not None
        factor(self._lu, self._settings.n, self._settings.nb, on_columns)

    def substitute(self) -> Reals:
        rows, columns = self._grid.place.rows, self._grid.place.columns
        y, b = np.zeros(rows.count()), columns.n - 1
        if columns.owner(b) == columns.part:
            y += self._a[: y.size, columns.local(b)]
        with self.regions("substitution"):
            return substitute_back(HostTriangles(self._grid, self._a, self._team, y))

    def sums(self, x: Reals) -> ResidualSums:
        """Return the sums of the matrix, which is generated in the memory of its factors."""
        self._lu = None  # frees the memory of its panels
        self._generate()
        return host_sums(self._grid, self._a, x, self._team)

    def _generate(self) -> None:
        self._team.start(
            lambda start, stop: self._fill(self._a, start, stop),
            tiles(0, self._grid.place.columns.count(), 1, _COLUMNS, 1),
        )
        self._team.finish()


def kernels() -> list[Specialisation]:
    """Return the kernels that hosts use."""
    return [*panel.kernels(), *update.kernels(), *matrix.kernels(), *residual.kernels()]


def solve_system(
    comm: MPI.Comm,
    settings: HplSettings,
    on_progress: Callable[[HplSample], None] | None = None,
    fill: Callable[[BlockCyclic, int], Fill] = random_matrix,
) -> HplRun:
    """Solve one system and test the solution; all but x the same on all ranks. Collective over comm.

    Parameters
    ----------
    on_progress : called on rank 0 during the factorisation, at most MOST_SAMPLES times
    fill : returns the function that writes the matrix of a host, for a place and a seed

    Raises
    ------
    DecompositionError : if the grid does not have the ranks of comm
    DeviceError : if there is no device, too little memory on it, or no cuBLAS

    Notes
    -----
    A singular or badly scaled matrix is not an error: the official test fails.
    """
    check_grid(comm.size, settings.p, settings.q)
    compile_on_nodes(comm, lambda: compile_kernels(kernels()))
    with make_grid(comm, settings) as grid, TileTeam(settings.threads) as team:
        broadcast, tried = choose_broadcast(comm, grid.row_comm, settings)
        system: HplSystem
        if settings.device == "cpu":
            system = HostSystem(settings, grid, broadcast, team, fill(grid.place, settings.seed))
        else:
            from ridgeline.bench.hpl.device.system_cuda import DeviceSystem  # needs numba-cuda

            system = DeviceSystem(comm, settings, grid, broadcast)
        log = ProgressLog(settings.n, settings.nb, on_progress if comm.rank == 0 else None)
        comm.Barrier()
        start = log.start = perf_counter()
        system.factor(log.update)
        x = system.substitute()
        seconds = perf_counter() - start
        norms = measure_norms(comm, grid, system.sums(x), x)
        regions = system.regions
        names = sorted({name for names in comm.allgather(list(regions.table)) for name in names})
        slowest = allreduce_max(comm, [seconds, *(regions.seconds(name) for name in names)])
        samples = comm.bcast(log.samples)
    phases = dict(zip(names, slowest[1:].tolist()))
    return HplRun(settings, float(slowest[0]), norms, broadcast, x, phases, samples, tried)


class MxpSystem(Protocol):
    """A process's part of one system, generated and not yet factored."""

    @property
    def matrix(self) -> MxpMatrix:
        """The matrix, whose elements are generated wherever they are used."""

    def factor(self, on_columns: Callable[[int], None]) -> Triangles:
        """Factor in place and return the triangles. Collective. on_columns: called with the columns done so far."""

    def free(self) -> None:
        """Free the resources of libraries. The factors cannot be used afterwards."""


class MxpHostSystem:
    """A system in host memory, factored by the threads of a team."""

    def __init__(
        self,
        comm: MPI.Comm,
        grid: ProcessGrid,
        team: TileTeam,
        storage: Storage,
        dominant: bool = False,
        diagonal: Vector | None = None,
    ) -> None:
        """Generate the system. Collective over comm. dominant, diagonal: as for `MxpMatrix`."""
        rows, columns = grid.place.rows, grid.place.unknowns
        self.matrix = MxpHostMatrix(comm, rows, columns, team, dominant, diagonal)
        memory = allocate_singles(rows.count(), columns.count())
        self.matrix.write(memory)
        self._grid, self._team = grid, team
        self._backend = UnpivotedHost(grid, memory, team, storage)
        self._lu = UnpivotedLU(grid, self._backend, storage)

    def factor(self, on_columns: Callable[[int], None]) -> Triangles:
        rows = self._grid.place.rows
        factor(self._lu, rows.n, rows.nb, on_columns)
        sums = np.zeros(rows.count(), np.float32)
        return HostTriangles(self._grid, self._backend.matrix, self._team, sums)

    def free(self) -> None:
        """Do nothing, because there is nothing to free."""


def solve_mixed(
    comm: MPI.Comm,
    settings: HplSettings,
    storage: Storage = "float32",
    testing: bool = False,
    on_progress: Callable[[HplSample], None] | None = None,
    diagonal: Vector | None = None,
) -> MxpRun:
    """Solve one system and test the solution, the same on all ranks. Collective over comm.

    Parameters
    ----------
    testing : whether to take a strictly diagonally dominant matrix
    on_progress : called on rank 0 during the factorisation
    diagonal : added to the diagonal of the random matrix, float64 [n], in place of the one that makes it stable

    Raises
    ------
    DecompositionError : if the grid does not have the ranks of comm
    DeviceError : if there is no device, too little memory on it, or no cuBLAS

    Notes
    -----
    A matrix for which elimination fails is not an error: the test fails.
    """
    check_grid(comm.size, settings.p, settings.q)
    compile_on_nodes(comm, lambda: compile_kernels([*kernels(), *kernels_of_gmres(np.float64)]))
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
        clock = _LapClock(comm)
        log.start = perf_counter()
        with np.errstate(all="ignore"):  # numbers that overflow fail the test
            triangles = system.factor(log.update)
            factor_seconds = clock.lap()
            x = solve(triangles, comm, b)
            solve_seconds = clock.lap()
            iterations, converged = refine(a, triangles, comm, b, x)
            refine_seconds = clock.lap()
            scaled_residual = backward_error(a, b, x)
        system.free()
        samples = comm.bcast(log.samples)
    return MxpRun(
        settings,
        storage,
        testing,
        factor_seconds,
        solve_seconds,
        refine_seconds,
        iterations,
        converged,
        scaled_residual,
        x,
        samples,
    )


class _LapClock:
    """Measures intervals of all ranks: each ends when the last rank has reached its end."""

    def __init__(self, comm: MPI.Comm) -> None:
        self._comm = comm
        comm.Barrier()
        self._since = perf_counter()

    def lap(self) -> float:
        """Return the slowest rank's seconds since the last call. Collective."""
        self._comm.Barrier()
        seconds = perf_counter() - self._since
        self._since += seconds
        return float(allreduce_max(self._comm, seconds))


class _Operator:
    """A for `gmres`. Every rank has whole vectors, so that inner products need no communication."""

    nullspace = False

    def __init__(self, matrix: MxpMatrix) -> None:
        self.matrix = matrix
        self.inner = InnerProduct(None, np.ones(matrix.n))

    def apply(self, u: Vector, out: Vector) -> None:
        """Set out = A u."""
        out[:] = self.matrix.product(u)

    direction: Any = None  # for conjugate gradients, which need a symmetric matrix


class _Preconditioner:
    """(L U)^-1 for `gmres`. Every rank gets the same bits, so that all ranks take the same decisions."""

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
    """Return ||b - A x|| / (||A|| ||x|| + ||b||) / (n 2^-53) in maximum norms, NaN if any of them is. Collective."""
    residual, solution, right = (float(np.abs(vector).max()) for vector in (b - matrix.product(x), x, b))
    return residual / (matrix.norm * solution + right) / (x.size * EPSILON)
