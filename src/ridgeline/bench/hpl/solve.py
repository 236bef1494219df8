"""One run of HPL: generate, factor, substitute back, generate again, and the official test."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Protocol

import numpy as np
from mpi4py import MPI

from ridgeline.bench.hpl import matrix, panel, residual, update
from ridgeline.bench.hpl.block_cyclic import BlockCyclic, ProcessGrid, check_grid, make_grid
from ridgeline.bench.hpl.broadcast import choose_broadcast
from ridgeline.bench.hpl.factor import PivotedLU, factor
from ridgeline.bench.hpl.host import HostPanel, HostTriangles, PivotedHost, allocate_reals
from ridgeline.bench.hpl.matrix import Fill, random_matrix
from ridgeline.bench.hpl.panel import Reals
from ridgeline.bench.hpl.record import (
    Broadcast,
    HplRun,
    HplSample,
    HplSettings,
    ProgressLog,
)
from ridgeline.bench.hpl.residual import ResidualSums, host_sums, measure_norms
from ridgeline.bench.hpl.team import TileTeam, tiles
from ridgeline.bench.hpl.triangular import substitute_back
from ridgeline.jit.kernel import Specialisation, compile_kernels
from ridgeline.parallel.allreduce import allreduce_max
from ridgeline.parallel.communicator import in_turn_per_node
from ridgeline.runtime.regions import Regions

_COLUMNS = 64  # that a thread generates at a time


class HplSystem(Protocol):
    """A process's part of one system, generated and not yet factored. All methods are collective over the grid.

    regions: the time of each part of a solve.
    """

    regions: Regions

    def factor(self, on_columns: Callable[[int], None]) -> None:
        """Factor [A, b]. on_columns: called with the columns that are done, on all processes."""

    def substitute(self) -> Reals:
        """Return the part of x that belongs to this process's columns of A, float64 on the host."""

    def sums(self, x: Reals) -> ResidualSums:
        """Generate [A, b] anew, and return what this process adds to the norms of the test. No communication."""


class HostSystem:
    """A system in host memory, which the threads of a team solve. fill: writes the matrix, twice."""

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
        """Factor in place."""
        assert self._lu is not None
        factor(self._lu, self._settings.n, self._settings.nb, on_columns)

    def substitute(self) -> Reals:
        """Return x from what `factor` left."""
        rows, columns = self._grid.place.rows, self._grid.place.columns
        y, b = np.zeros(rows.count()), columns.n - 1
        if columns.owner(b) == columns.part:
            y += self._a[: y.size, columns.local(b)]
        with self.regions("substitution"):
            return substitute_back(HostTriangles(self._grid, self._a, self._team, y))

    def sums(self, x: Reals) -> ResidualSums:
        """Return the sums of the matrix, generated in the place of its factors."""
        self._lu = None  # whose panels take memory
        self._generate()
        return host_sums(self._grid, self._a, x, self._team)

    def _generate(self) -> None:
        self._team.start(
            lambda start, stop: self._fill(self._a, start, stop),
            tiles(0, self._grid.place.columns.count(), 1, _COLUMNS, 1),
        )
        self._team.finish()


def kernels() -> list[Specialisation]:
    """Return all kernels of hosts."""
    return [*panel.kernels(), *update.kernels(), *matrix.kernels(), *residual.kernels()]


def solve_system(
    comm: MPI.Comm,
    settings: HplSettings,
    on_progress: Callable[[HplSample], None] | None = None,
    fill: Callable[[BlockCyclic, int], Fill] = random_matrix,
) -> HplRun:
    """Solve one system and test the solution; all but x the same on all ranks. Collective over comm.

    on_progress: called on rank 0 while it factors, at most MOST_SAMPLES times. fill: returns what writes the matrix
    of a host, for a place and a seed. A singular or badly scaled matrix is no error: the official test fails.
    Raises DecompositionError if the grid is not one of comm's ranks. Raises DeviceError if there is no device, too
    little memory on it, or no cuBLAS.
    """
    check_grid(comm.size, settings.p, settings.q)
    in_turn_per_node(comm, lambda: compile_kernels(kernels()))
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
