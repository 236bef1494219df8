"""Breadth-first search in plain NumPy, level by level, written to be read: the oracle of the fast one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ridgeline.bench.graph500.graph import Graph


def breadth_first_reference(graph: Graph, root: int) -> NDArray[np.int64]:
    """Return the parents of this rank's vertices, in their order: int64 [owned], -1 for a vertex that is not reached.

    The root is its own parent. Of the neighbours on the level before, the first of a row is the parent, which has
    nearly the highest degree. Collective over graph.comm.
    """
    comm, blocks = graph.comm, graph.vertices
    numbers = np.zeros(graph.stride, np.int64)
    numbers[: graph.rows] = graph.vertex_of_row
    child = np.concatenate(graph.grid.row_comm.allgather(numbers)).repeat(np.diff(graph.offsets))
    other = np.concatenate(graph.grid.column_comm.allgather(numbers))[graph.neighbours]
    parents = np.full(blocks.total, -1, np.int64)
    parents[root] = root
    frontier = np.array([root])
    while frontier.size:
        in_frontier = np.zeros(blocks.total, bool)
        in_frontier[frontier] = True
        edges = np.flatnonzero(in_frontier[other] & (parents[child] < 0))
        children, first = np.unique(child[edges], return_index=True)
        frontiers = comm.allgather((children, other[edges[first]]))
        for vertices, their_parents in frontiers:
            parents[vertices] = their_parents
        frontier = np.unique(np.concatenate([vertices for vertices, _ in frontiers]))
    return parents[blocks.first(comm.rank) :][: blocks.count(comm.rank)]
