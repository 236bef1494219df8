"""The distributed graph that kernel 1 makes and the searches read: rows of neighbours, ordered by degree.

Every vertex that an edge joins to another one has a row on the rank that owns it (`vertices.py`). A rank's rows are
in the order of falling degrees, equal ones in the order of their vertices. Isolated vertices have no row.

- id of a vertex = stride * rank + row, below 2^32; stride, a multiple of 64, is the same on all ranks.
  A bitmap of all ids is therefore the ranks' bitmaps one after the other, in whole words of 64 bits.
- Neighbours are ids. In a row they are sorted by their own rows, then ranks: those of the highest degrees come first.
  A search that looks for a parent in the frontier finds it early, and its top-down and bottom-up steps are compact.
- Self-loops are left out; of duplicates the one with the least weight stays. The edge list keeps all of them.

The rank that owns a vertex owns its results, so nothing is sent when a search ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ridgeline.bench.graph500.vertices import VertexBlocks

if TYPE_CHECKING:
    from mpi4py import MPI

WORD = 64  # bits of a word of a bitmap


@dataclass(frozen=True)
class Graph:
    """This rank's part of the graph.

    offsets: int64 [rows + 1], where rows begin in neighbours; neighbours: uint32 [entries], ids;
    heads: uint32 [stride], the first neighbour of each row, then zeros: bottom-up steps look there before elsewhere;
    weights: float32 [entries], of the same edges, or None; vertex_of_row: int64 [rows];
    row_of_vertex: int32 [owned vertices], -1 for isolated ones; vertex_of_id: uint32 [ranks * stride], of all ranks.
    """

    comm: MPI.Comm
    vertices: VertexBlocks
    stride: int
    offsets: NDArray[np.int64]
    neighbours: NDArray[np.uint32]
    heads: NDArray[np.uint32]
    weights: NDArray[np.float32] | None
    vertex_of_row: NDArray[np.int64]
    row_of_vertex: NDArray[np.int32]
    vertex_of_id: NDArray[np.uint32]

    @property
    def rows(self) -> int:
        """Return how many vertices with neighbours this rank owns."""
        return self.vertex_of_row.size

    @property
    def first_id(self) -> int:
        """Return the id of this rank's first row."""
        return self.stride * self.comm.rank

    @property
    def own_ids(self) -> slice:
        """Return the ids of this rank in an array of all ids."""
        return slice(self.first_id, self.first_id + self.stride)

    @property
    def own_words(self) -> slice:
        """Return the words of this rank's rows in a bitmap of all ids."""
        words = self.stride // WORD
        return slice(words * self.comm.rank, words * (self.comm.rank + 1))

    def row_of(self, vertex: int) -> int:
        """Return the row of a vertex that this rank owns, or -1: isolated, or of another rank."""
        if self.vertices.owner(vertex) != self.comm.rank:
            return -1
        return int(self.row_of_vertex[self.vertices.local(vertex)])
