"""The distributed graph that kernel 1 makes and the searches read: rows of neighbours, ordered by degree.

Vertices of the edge list have owners: rank r owns a block of consecutive numbers (`VertexBlocks`), and results of
searches are stored in that order. The specification's generator scrambles the vertex numbers, so that all blocks have
nearly the same number of edges.

Every vertex that an edge joins to another one has a row, which its owner numbers: in the order of falling degrees,
equal degrees in the order of their vertices. Isolated vertices have no row. The id of a vertex is
stride * owner + row, below 2^32. The stride, a multiple of 64, is the same on all ranks and larger than their rows.

The ranks form a grid of R process rows and C process columns (`EdgeGrid`): rank = R * column + row. The ranks of a
process column have consecutive numbers, so that most of them share a node; they exchange frontiers and messages in
every level. Rank (i, j) is the owner j R + i. It holds the edges from vertices whose owners are in process row i to
vertices whose owners are in process column j.

- It numbers the former, its rows: stride * column of the owner + row. There are C * stride of them.
- It numbers the latter, its neighbours: stride * row of the owner + row. There are R * stride of them.
- Arrays and bitmaps of both are therefore those of the owners one after the other, in whole words of 64 bits. The
  rank's own vertices are part of both. With C = 1 a rank has the whole rows of its own vertices, and neighbours are
  ids.
- In a row, neighbours are sorted by their own rows, then by ranks: those of the highest degrees come first. A search
  that looks for a parent in the frontier finds it early, and its top-down and bottom-up steps are compact.
- Self-loops are left out; of duplicates the edge with the least weight stays. The edge list keeps all of them.

With N vertices, a rank has 16 bytes of offsets, heads and vertices for each of N / R rows, and 4 bytes of vertices
for each of N / C neighbours. Searches add theirs (`graph500_memory`). With N / ranks constant and R and C near the
square root of the ranks, the bytes and messages of a rank grow as that root; with C = 1 they grow as N.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.bench.graph500.graph500_options import EDGE_FACTOR

Number = TypeVar("Number", int, NDArray[np.int64])
WORD = 64  # bits of a word of a bitmap
_ONE_COLUMN = (
    2 * EDGE_FACTOR
)  # up to this many ranks, the edges of a rank have as many ends as there are vertices
_ROW_OVER_COLUMN = 4  # bytes of a vertex of a process row, divided by those of a vertex of a process column


@dataclass(frozen=True)
class VertexBlocks:
    """Who owns which vertex: blocks of `length` vertices, one a rank. The last ranks may own fewer, or none."""

    total: int
    ranks: int

    @property
    def length(self) -> int:
        """The number of vertices of a full block."""
        return -(-self.total // self.ranks)

    def owner(self, vertex: Number) -> Number:
        """Return the rank that owns a vertex. For an array: int64 of the same shape."""
        return vertex // self.length

    def local(self, vertex: Number) -> Number:
        """Return the place of a vertex in its owner's arrays. For an array: int64 of the same shape."""
        return vertex % self.length

    def first(self, rank: int) -> int:
        """Return the first vertex of a rank."""
        return min(rank * self.length, self.total)

    def count(self, rank: int) -> int:
        """Return how many vertices a rank owns."""
        return self.first(rank + 1) - self.first(rank)


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
    """Return the grid with a number of columns that divides the ranks. Collective over comm."""
    rows = comm.size // columns
    if rows * columns != comm.size:
        raise ValueError(f"{columns} process columns do not divide {comm.size} ranks evenly")
    column, row = divmod(comm.rank, rows)
    if columns == 1:
        return EdgeGrid(rows, 1, row, 0, MPI.COMM_SELF, comm)
    return EdgeGrid(rows, columns, row, column, comm.Split(row, column), comm.Split(column, row))


def choose_columns(ranks: int) -> int:
    """Return the number of process columns of a run, a divisor of its ranks. No communication.

    Few ranks have one column. More ranks have the most columns c with 4 c^2 <= ranks: a vertex of a process row takes
    up to 4 times the bytes of a vertex of a process column, and the bytes of both together are then nearly the least.
    """
    if ranks <= _ONE_COLUMN:
        return 1
    fitting = [c for c in range(1, ranks + 1) if ranks % c == 0 and _ROW_OVER_COLUMN * c * c <= ranks]
    return fitting[-1]


@dataclass(frozen=True)
class Graph:
    """This rank's part of the graph.

    Attributes
    ----------
    offsets : int64 [C * stride + 1], where rows begin in neighbours
    neighbours : uint32 [entries]
    heads : uint32 [C * stride], the first neighbour of each row, where bottom-up steps look first. A row without
        entries here has stride - 1, which is not a vertex
    weights : float32 [entries], of the same edges, or None
    rows : the number of vertices with neighbours that this rank owns
    row_of_vertex : int32 [owned vertices], -1 for isolated ones
    own_offsets : int64 [stride + 1], of this rank's rows as if they were stored whole on this rank
    row_vertices : uint32 [C * stride], the vertices of the process row in the numbers of the edge list
    column_vertices : uint32 [R * stride], those of the process column
    """

    comm: MPI.Comm
    grid: EdgeGrid
    vertices: VertexBlocks
    stride: int
    offsets: NDArray[np.int64]
    neighbours: NDArray[np.uint32]
    heads: NDArray[np.uint32]
    weights: NDArray[np.float32] | None
    rows: int
    row_of_vertex: NDArray[np.int32]
    own_offsets: NDArray[np.int64]
    row_vertices: NDArray[np.uint32]
    column_vertices: NDArray[np.uint32]

    @property
    def vertex_of_row(self) -> NDArray[np.uint32]:
        """The vertices of this rank's rows."""
        return self.column_vertices[self.own_ids][: self.rows]

    @property
    def first_id(self) -> int:
        """The place of this rank's first row among the vertices of its process column."""
        return self.stride * self.grid.row

    @property
    def first_row(self) -> int:
        """The place of this rank's first row among the vertices of its process row."""
        return self.stride * self.grid.column

    @property
    def own_ids(self) -> slice:
        """This rank's rows in an array of the process column."""
        return slice(self.first_id, self.first_id + self.stride)

    @property
    def own_words(self) -> slice:
        """The words of this rank's rows in a bitmap of the process column."""
        words = self.stride // WORD
        return slice(words * self.grid.row, words * (self.grid.row + 1))

    def row_of(self, vertex: int) -> int:
        """Return the row of a vertex that this rank owns, or -1 for a vertex that is isolated or of another rank."""
        if self.vertices.owner(vertex) != self.comm.rank:
            return -1
        return int(self.row_of_vertex[self.vertices.local(vertex)])
