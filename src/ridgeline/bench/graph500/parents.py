"""Messages of breadth-first searches about parents: to the owners of vertices, then to the owners of parents.

A message is a vertex's place among those of the ranks that take part, and the id of its parent: uint32 [2].
"""

from __future__ import annotations

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.bench.graph500.graph import Graph
from ridgeline.bench.graph500.input_edges import look_up
from ridgeline.bench.graph500.search_kernels import count_messages, pack_messages
from ridgeline.bench.graph500.vertices import VertexBlocks

Words = NDArray[np.uint64]
Ids = NDArray[np.uint32]


class ParentMessages:
    """What this rank sends and receives, in arrays that stay: new memory in every level costs more than its use."""

    def __init__(self) -> None:
        self.sent, self.received = np.empty((0, 2), np.uint32), np.empty((0, 2), np.uint32)

    def exchange(self, comm: MPI.Comm, now: Words, before: Words, parents: Ids, skip: int) -> Ids:
        """Send the parents of all vertices whose bits differ to their owners; return what came. Collective.

        now, before: bitmaps of the vertices of all ranks of comm, one rank's after the other; parents: of these
        vertices; skip: a rank that gets nothing, or -1. 4 bytes for each rank, 8 for each parent.
        """
        words = now.size // comm.size
        going, coming = np.empty(comm.size, np.int64), np.empty(comm.size, np.int64)
        count_messages(now, before, words, skip, going)
        comm.Alltoall(going, coming)
        self.sent = _with_room(self.sent, int(going.sum()))
        self.received = _with_room(self.received, int(coming.sum()))
        sent, received = self.sent[: going.sum()], self.received[: coming.sum()]
        pack_messages(now, before, parents, words, skip, sent)
        comm.Alltoallv([sent, 2 * going], [received, 2 * coming])
        return received


def _with_room(messages: Ids, size: int) -> Ids:
    return messages if messages.shape[0] >= size else np.empty((2 * size, 2), np.uint32)


def number_distinct(graph: Graph, visited: Words, parents: Ids) -> NDArray[np.int32]:
    """Ask the owners of parents for their numbers in the edge list; return them, and put their places into parents.

    visited: words of own rows; parents: ids of those, which become places in the result. Collective over graph.comm:
    16 bytes for each parent, however many of this rank's vertices have it.
    """
    rows = np.flatnonzero(np.unpackbits(visited.view(np.uint8), count=graph.rows, bitorder="little"))
    ids, places = np.unique(parents[rows], return_inverse=True)
    parents.fill(0)
    parents[rows] = places
    ids_of_ranks = VertexBlocks(graph.stride * graph.comm.size, graph.comm.size)
    (numbers,) = look_up(graph.comm, ids_of_ranks, [graph.vertex_of_row], ids.astype(np.int64))
    return np.append(numbers, 0).astype(np.int32)
