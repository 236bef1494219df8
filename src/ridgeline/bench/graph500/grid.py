"""The process grid over which the edges are spread: rank = rows * column + row.

The ranks of a process column have consecutive numbers, so that they mostly share nodes: they exchange frontiers and
messages in every level.
"""

from __future__ import annotations

from dataclasses import dataclass

from mpi4py import MPI

from ridgeline.bench.graph500.graph500_options import EDGE_FACTOR

_ONE_COLUMN = 2 * EDGE_FACTOR  # ranks up to which the edges of a rank have as many ends as there are vertices
_ROW_OVER_COLUMN = 4  # bytes of a vertex of a process row over those of a process column


@dataclass(frozen=True)
class EdgeGrid:
    """This rank's place in a grid of rows x columns ranks, and the ranks of its row and of its column.

    The rank `row` of column_comm, and the rank `column` of row_comm, is this one.
    """

    rows: int
    columns: int
    row: int
    column: int
    row_comm: MPI.Comm
    column_comm: MPI.Comm


def make_grid(comm: MPI.Comm, columns: int) -> EdgeGrid:
    """Return the grid of so many columns, which divide the ranks. Collective over comm."""
    rows = comm.size // columns
    if rows * columns != comm.size:
        raise ValueError(f"{columns} process columns do not divide {comm.size} ranks")
    column, row = divmod(comm.rank, rows)
    if columns == 1:
        return EdgeGrid(rows, 1, row, 0, MPI.COMM_SELF, comm)
    return EdgeGrid(rows, columns, row, column, comm.Split(row, column), comm.Split(column, row))


def choose_columns(ranks: int) -> int:
    """Return the process columns of a run, which divide its ranks. No communication.

    One for few ranks. For more ranks the most columns c with 4 c^2 <= ranks. A vertex of a process row takes up to 4
    times the bytes of one of a process column. The bytes of both together are then nearly the least.
    """
    if ranks <= _ONE_COLUMN:
        return 1
    fitting = [c for c in range(1, ranks + 1) if ranks % c == 0 and _ROW_OVER_COLUMN * c * c <= ranks]
    return fitting[-1]
