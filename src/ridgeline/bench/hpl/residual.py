"""The official test of HPL 2.3: norms of A x - b with A and b generated again."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from mpi4py import MPI
from numba import float64, int64

from ridgeline.bench.hpl.block_cyclic import ProcessGrid
from ridgeline.bench.hpl.panel import Reals
from ridgeline.bench.hpl.record import HplNorms
from ridgeline.bench.hpl.team import TileTeam, tiles
from ridgeline.jit.kernel import Specialisation, kernel, specialise
from ridgeline.parallel.allreduce import allreduce_max

_ROWS = 512  # rows of a tile, whose sums stay in the first cache
_COLUMNS = 256
_MATRIX = float64[:, ::1]


class ResidualSums(NamedTuple):
    """The contributions of a process to the norms, from its part of A and b before the factorisation.

    Attributes
    ----------
    product : A x, float64 [local rows]
    by_rows, by_columns : sums of magnitudes of A by rows [local rows] and columns [local columns], that of b being 0
    b : float64 [local rows], None where this process does not have b
    """

    product: Reals
    by_rows: Reals
    by_columns: Reals
    b: Reals | None


def host_sums(grid: ProcessGrid, a: Reals, x: Reals, team: TileTeam) -> ResidualSums:
    """Return the sums of a part in host memory. No communication.

    a: this process's part of [A, b], float64 [at least rows, columns], column-major; x: of this process's columns.
    """
    n_rows, n_columns = grid.place.shape
    product, by_rows = np.zeros((2, n_rows))
    by_columns = np.zeros(n_columns)

    def rows_of_tile(start: int, stop: int) -> None:
        multiply_rows(a.T, x, start, stop, product, by_rows)

    def columns_of_tile(start: int, stop: int) -> None:
        sum_columns(a.T, n_rows, start, stop, by_columns)

    team.start(rows_of_tile, tiles(0, n_rows, 1, _ROWS, _ROWS))
    team.finish()
    team.start(columns_of_tile, tiles(0, x.size, 1, _COLUMNS, _COLUMNS))
    team.finish()
    return ResidualSums(product, by_rows, by_columns, a[:n_rows, x.size] if n_columns > x.size else None)


def measure_norms(comm: MPI.Comm, grid: ProcessGrid, mine: ResidualSums, x: Reals) -> HplNorms:
    """Return the norms of the official test, the same on all ranks. Collective over comm, the ranks of the grid.

    mine: the sums of this process, which are overwritten; x: of this process's columns.
    """
    sums = np.stack([mine.product, mine.by_rows])
    largest_b = 0.0
    if mine.b is not None:
        largest_b = _largest(mine.b)
        with np.errstate(all="ignore"):
            sums[0] -= mine.b
    grid.row_comm.Allreduce(MPI.IN_PLACE, sums, MPI.SUM)
    grid.column_comm.Allreduce(MPI.IN_PLACE, mine.by_columns, MPI.SUM)
    largest = [_largest(sums[0]), _largest(sums[1]), _largest(x), largest_b, _largest(mine.by_columns)]
    residual, rows, x_largest, b, columns = allreduce_max(comm, largest).tolist()
    x_one = float(grid.row_comm.allreduce(float(np.abs(x).sum())))
    return HplNorms(residual, rows, x_largest, b, columns, x_one)


def _largest(values: Reals) -> float:
    return float(np.abs(values).max()) if values.size else 0.0


@kernel(lambda: (_MATRIX, float64[::1], int64, int64, float64[::1], float64[::1]), nogil=True)
def multiply_rows(a, x, start, stop, product, sums):
    """Add a x to product and magnitudes of a to sums, for rows start ... stop - 1 and the first x.size columns."""
    a = a.T
    for column in range(x.size):
        for row in range(start, stop):
            product[row] += a[row, column] * x[column]
            sums[row] += abs(a[row, column])


@kernel(lambda: (_MATRIX, int64, int64, int64, float64[::1]), nogil=True)
def sum_columns(a, rows, start, stop, sums):
    """Write the sums of magnitudes of columns start ... stop - 1 of a, over its first `rows` rows."""
    a = a.T
    for column in range(start, stop):
        total = 0.0
        for row in range(rows):
            total += abs(a[row, column])
        sums[column] = total


def kernels() -> list[Specialisation]:
    """Return all kernels of this file."""
    return specialise([multiply_rows, sum_columns])
