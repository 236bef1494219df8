"""The back substitution: x from U x = y, both where the factorisation left them.

From the last block up, the process with the diagonal block gets what its row of processes holds of y. It solves, and
spreads its part of x in its column of processes, each of which subtracts the products with it from its part of y.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial

import numpy as np
from mpi4py import MPI

from ridgeline.bench.hpl.panel import Reals
from ridgeline.bench.hpl.process_grid import GridPlace
from ridgeline.bench.hpl.python_blas import solve_upper, subtract_product_of_vector
from ridgeline.bench.hpl.team import TileTeam, tiles

_MOST, _FEWEST = 4096, 512  # rows of a tile


class Triangle(ABC):
    """What a process has of U and of y, wherever they lie. Rows and columns are local."""

    @abstractmethod
    def right_side(self, row: int, width: int) -> Reals:
        """Return `width` numbers of y from `row` on, float64 on the host."""

    @abstractmethod
    def diagonal(self, row: int, column: int, width: int) -> Reals:
        """Return the diagonal block that begins at (row, column), float64 [width, width] on the host."""

    @abstractmethod
    def subtract(self, row: int, column: int, x: Reals) -> None:
        """Subtract U x from the rows of y before `row`; x: of the columns from `column` on, float64 [width]."""


class HostTriangle(Triangle):
    """U and y in host memory. a: what `Factorisation` left, float64 [at least rows, columns], column-major."""

    def __init__(self, grid: GridPlace, a: Reals, team: TileTeam) -> None:
        columns = grid.place.columns
        n = columns.n - 1
        self._a, self._team = a, team
        self._y = np.zeros(grid.place.rows.count())
        if columns.owner(n) == columns.part:
            self._y += a[: self._y.size, columns.local(n)]

    def right_side(self, row: int, width: int) -> Reals:
        """Return a part of y."""
        return self._y[row : row + width]

    def diagonal(self, row: int, column: int, width: int) -> Reals:
        """Return a block of U."""
        return self._a[row : row + width, column : column + width]

    def subtract(self, row: int, column: int, x: Reals) -> None:
        """Subtract U x from y, tile by tile."""
        team = self._team
        subtract = partial(_subtract, self._a[:row, column : column + x.size], x, self._y)
        team.start(subtract, tiles(0, row, team.n_threads, _MOST, _FEWEST))
        team.finish()


def substitute_back(grid: GridPlace, triangle: Triangle) -> Reals:
    """Return the part of x that belongs to this process's columns of A, float64. Collective over the grid.

    A process column has x together.
    """
    rows, columns = grid.place.rows, grid.place.columns
    n, nb = rows.n, rows.nb
    x = np.zeros(columns.count(n))
    for first in range((n - 1) // nb * nb, -1, -nb):
        width = min(nb, n - first)
        row, column = rows.count(first), columns.count(first)
        process_row, process_column = rows.owner(first), columns.owner(first)
        mine = np.zeros((width, 1), order="F")
        if rows.part == process_row:
            grid.row_comm.Reduce(triangle.right_side(row, width), mine, MPI.SUM, process_column)
        if columns.part != process_column:
            continue
        if rows.part == process_row:
            solve_upper(triangle.diagonal(row, column, width), mine)
        grid.column_comm.Bcast(mine, process_row)
        x[column : column + width] = mine[:, 0]
        triangle.subtract(row, column, mine[:, 0])
    return x


def _subtract(left: Reals, x: Reals, y: Reals, start: int, stop: int) -> None:
    """Compute y <- y - left x for rows start ... stop - 1."""
    subtract_product_of_vector(left[start:stop], x, y[start:stop])
