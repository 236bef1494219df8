"""One system of HPL-MxP, where it is factored: its matrix, its factorisation, and solves with its factors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from mpi4py import MPI

from ridgeline.bench.hpl.block_cyclic import Axis
from ridgeline.bench.hpl.process_grid import GridPlace
from ridgeline.bench.hpl.record import HplSettings
from ridgeline.bench.hpl.team import TileTeam
from ridgeline.bench.hpl_mxp import factor
from ridgeline.bench.hpl_mxp.factor import Grid, MxpFactors
from ridgeline.bench.hpl_mxp.matrix import MxpMatrix, SystemMatrix, Vector
from ridgeline.bench.hpl_mxp.triangular import HostTriangles, Triangles


class MxpSystem(ABC):
    """A process's part of one system, generated and not yet factored. matrix: made anew wherever it is used."""

    matrix: SystemMatrix

    @abstractmethod
    def factor(self, on_step: Callable[[int], None]) -> Triangles:
        """Factor in place; return what solves. Collective. on_step: called with the finished block columns."""

    @abstractmethod
    def free(self) -> None:
        """Give back what libraries hold; the factors solve no longer."""


class HostMxpSystem(MxpSystem):
    """A system in host memory, which the threads of a team factor."""

    def __init__(
        self,
        comm: MPI.Comm,
        grid: Grid,
        team: TileTeam,
        storage: str,
        dominant: bool = False,
        diagonal: Vector | None = None,
    ) -> None:
        """Generate it. Collective over comm. dominant, diagonal: as of `SystemMatrix`."""
        self.matrix = matrix = MxpMatrix(comm, grid.rows, grid.columns, team, dominant, diagonal)
        memory = factor.allocate(grid.rows.count(), grid.columns.count())
        matrix.write(memory)
        self._factors = MxpFactors(grid, memory, team, storage)

    def factor(self, on_step: Callable[[int], None]) -> Triangles:
        """Factor by the team."""
        self._factors.run(on_step)
        return HostTriangles(self._factors)

    def free(self) -> None:
        """Do nothing: nothing is held."""


def grid_of(place: GridPlace, settings: HplSettings) -> Grid:
    """Return a process's place among N rows and N columns; those of HPL have b too."""
    rows, columns = place.place.rows, place.place.columns
    return Grid(
        place.row_comm, place.column_comm, rows, Axis(settings.n, settings.nb, settings.q, columns.part)
    )
