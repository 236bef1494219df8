"""Who owns which vertex of the edge list: consecutive numbers in blocks of equal length. No communication.

Results of searches lie so: entry i of a rank's array belongs to vertex `first(rank) + i`. The arrays of all ranks one
after the other are the array of all vertices. The specification's generator scrambles the vertex numbers, therefore
blocks have nearly the same numbers of edges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Number = TypeVar("Number", int, NDArray[np.int64])


@dataclass(frozen=True)
class VertexBlocks:
    """Blocks of `length` vertices, a rank each; the last ranks may own fewer, or none."""

    total: int
    ranks: int

    @property
    def length(self) -> int:
        """Return the vertices of a full block."""
        return -(-self.total // self.ranks)

    def owner(self, vertex: Number) -> Number:
        """Return the rank that owns a vertex; of an array, int64 of the same shape."""
        return vertex // self.length

    def local(self, vertex: Number) -> Number:
        """Return the place of a vertex in its owner's arrays; of an array, int64 of the same shape."""
        return vertex % self.length

    def first(self, rank: int) -> int:
        """Return the first vertex of a rank."""
        return min(rank * self.length, self.total)

    def count(self, rank: int) -> int:
        """Return how many vertices a rank owns."""
        return self.first(rank + 1) - self.first(rank)
