"""The official test of HPL 2.3: norms of A x - b with A and b generated anew."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI

from ridgeline.bench.hpl.block_cyclic import BlockCyclic
from ridgeline.bench.hpl.panel import Reals
from ridgeline.bench.hpl.record import HplNorms
from ridgeline.bench.hpl.solve_kernels import multiply_rows, sum_columns
from ridgeline.bench.hpl.team import TileTeam, tiles
from ridgeline.parallel.reduce import global_max

_ROWS = 512  # of a piece, whose sums stay in the first cache
_COLUMNS = 256


def measure_norms(
    comm: MPI.Comm,
    place: BlockCyclic,
    a: Reals,
    x: Reals,
    row_comm: MPI.Comm,
    column_comm: MPI.Comm,
    team: TileTeam,
) -> HplNorms:
    """Return the norms of the official test, the same on all ranks. Collective over comm, the ranks of the grid.

    a: this process's part of [A, b], unfactored, float64 [at least rows, columns]; x: of this process's columns.
    """
    n_rows, n_columns = place.rows.count(), place.columns.count()
    sums = np.zeros((2, n_rows))  # A x, and magnitudes by rows
    by_columns = np.zeros(n_columns)

    def rows_of_tile(start: int, stop: int) -> None:
        multiply_rows(a.T, x, start, stop, *sums)

    def columns_of_tile(start: int, stop: int) -> None:
        sum_columns(a.T, n_rows, start, stop, by_columns)

    team.start(rows_of_tile, tiles(0, n_rows, 1, _ROWS, _ROWS))
    team.finish()
    team.start(columns_of_tile, tiles(0, x.size, 1, _COLUMNS, _COLUMNS))
    team.finish()
    largest_b = 0.0
    if n_columns > x.size:  # b is here
        b = a[:n_rows, x.size]
        largest_b = _largest(b)
        with np.errstate(all="ignore"):
            sums[0] -= b
    row_comm.Allreduce(MPI.IN_PLACE, sums, MPI.SUM)
    column_comm.Allreduce(MPI.IN_PLACE, by_columns, MPI.SUM)
    mine = [_largest(sums[0]), _largest(sums[1]), _largest(x), largest_b, _largest(by_columns)]
    residual, rows, x_largest, b, columns = global_max(comm, mine).tolist()
    x_one = float(row_comm.allreduce(float(np.abs(x).sum())))
    return HplNorms(residual, rows, x_largest, b, columns, x_one)


def _largest(values: Reals) -> float:
    return float(np.abs(values).max()) if values.size else 0.0
