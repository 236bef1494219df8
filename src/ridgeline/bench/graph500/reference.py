"""Breadth-first search in plain NumPy, level by level, written to be read: the oracle of the fast one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ridgeline.bench.graph500.graph import Graph


def breadth_first_reference(graph: Graph, root: int) -> NDArray[np.int64]:
    """Return the parents of this rank's vertices, in their order: int64 [owned], -1 where the search does not come.

    The root is its own parent. Of the neighbours on the level before, the first of a row is the parent, which has
    nearly the highest degree. Collective over graph.comm.
    """
    comm = graph.comm
    parents = np.full(graph.vertices.count(comm.rank), -1, np.int64)
    if graph.vertices.owner(root) == comm.rank:
        parents[graph.vertices.local(root)] = root
    row_of_entry = np.repeat(np.arange(graph.rows), np.diff(graph.offsets))
    row = graph.row_of(root)
    frontier = comm.allreduce([] if row < 0 else [graph.first_id + row])
    while len(frontier):
        in_frontier = np.zeros(graph.stride * comm.size, bool)
        in_frontier[frontier] = True
        unvisited = parents[graph.vertex_of_row - graph.vertices.first(comm.rank)] < 0
        found = np.flatnonzero(in_frontier[graph.neighbours] & unvisited[row_of_entry])
        rows, first = np.unique(row_of_entry[found], return_index=True)
        parent = graph.vertex_of_id[graph.neighbours[found[first]]]
        parents[graph.vertex_of_row[rows] - graph.vertices.first(comm.rank)] = parent
        frontier = np.concatenate(comm.allgather(graph.first_id + rows))
    return parents
