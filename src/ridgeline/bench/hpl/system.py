"""One linear system, where it is solved: generated, factored, substituted back, tested."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from mpi4py import MPI

from ridgeline.bench.hpl import factor, generator, solve_kernels
from ridgeline.bench.hpl.block_cyclic import BlockCyclic
from ridgeline.bench.hpl.factor import Factorisation
from ridgeline.bench.hpl.panel import Reals
from ridgeline.bench.hpl.process_grid import GridPlace
from ridgeline.bench.hpl.record import Broadcast, HplSettings
from ridgeline.bench.hpl.residual import ResidualSums, host_sums
from ridgeline.bench.hpl.substitution import HostTriangle, substitute_back
from ridgeline.bench.hpl.team import TileTeam, tiles
from ridgeline.jit.kernel import compile_kernels
from ridgeline.parallel.communicator import in_turn_per_node
from ridgeline.runtime.regions import Regions

_COLUMNS = 64  # that a thread generates at a time

# Writes local columns first ... last - 1 of [A, b] into out [at least rows, columns], which has them all: called as
# fill(out, place, first, last, seed).
Fill = Callable[[Reals, BlockCyclic, int, int, int], None]


class HplSystem(ABC):
    """A process's part of one system, generated and not yet factored. All methods are collective over the grid.

    regions: the time of each part of a solve.
    """

    regions: Regions

    @abstractmethod
    def factor(self, told: Callable[[int], None]) -> None:
        """Factor [A, b]. told: called with the columns that are done, on all processes."""

    @abstractmethod
    def substitute(self) -> Reals:
        """Return the part of x that belongs to this process's columns of A, float64 on the host."""

    @abstractmethod
    def sums(self, x: Reals) -> ResidualSums:
        """Generate [A, b] anew, and return what this process adds to the norms of the test. No communication."""


class HostSystem(HplSystem):
    """A system in host memory, which the threads of a team solve. fill: writes the matrix, twice the same."""

    def __init__(
        self, settings: HplSettings, grid: GridPlace, broadcast: Broadcast, team: TileTeam, fill: Fill
    ) -> None:
        self.regions = Regions()
        self._settings, self._grid, self._team, self._fill = settings, grid, team, fill
        self._a = _allocate(grid.place)
        self._generate()
        self._lu: Factorisation | None = Factorisation(
            settings, grid.place, self._a, grid.row_comm, grid.column_comm, broadcast, team, self.regions
        )

    def factor(self, told: Callable[[int], None]) -> None:
        """Factor in place."""
        assert self._lu is not None
        self._lu.run(told)

    def substitute(self) -> Reals:
        """Return x from what `factor` left."""
        with self.regions("substitution"):
            return substitute_back(self._grid, HostTriangle(self._grid, self._a, self._team))

    def sums(self, x: Reals) -> ResidualSums:
        """Return the sums of the matrix, generated in the place of its factors."""
        self._lu = None  # whose panels take memory
        self._generate()
        return host_sums(self._grid, self._a, x, self._team)

    def _generate(self) -> None:
        place, team, seed = self._grid.place, self._team, self._settings.seed
        columns = place.columns.count()
        team.start(
            lambda start, stop: self._fill(self._a, place, start, stop, seed),
            tiles(0, columns, 1, _COLUMNS, 1),
        )
        team.finish()


def compile_hpl(comm: MPI.Comm) -> None:
    """Compile all kernels of HPL, or load them from the cache. Collective."""
    wanted = [*factor.kernels(), *generator.kernels(), *solve_kernels.kernels()]
    in_turn_per_node(comm, lambda: compile_kernels(wanted))


def _allocate(place: BlockCyclic) -> Reals:
    """Return room for this process's part. Columns begin at cache lines, and not at one place of the cache's sets."""
    rows, columns = place.shape
    lines = -(-max(rows, 1) // 8)
    return np.empty(((lines + (lines % 8 == 0)) * 8, columns), order="F")
