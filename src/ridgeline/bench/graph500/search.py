"""Kernel 2: breadth-first search that changes direction, on bitmaps of all ids.

A level goes top-down, from the frontier's rows to their neighbours, while the frontier has few edges. It goes
bottom-up, from unvisited rows to a first neighbour in the frontier, while it has many (S. Beamer, K. Asanovic and
D. Patterson, Direction-optimizing breadth-first search, SC12). Every rank steps through its own rows alone.

- Every rank has the bitmaps of all visited ids and of the whole frontier: hubs and all others are replicated, one bit
  each. A bottom-up step sends nothing, and a top-down step sends each unvisited id once from each rank that sees it.
- After a level the ranks gather the new frontier: a list of ids while that is shorter than the bitmap.
- Parents are ids until all levels are done. Then each rank writes those of its vertices in the numbers of the edge
  list: this belongs to the search and its time.
- Rows and neighbours are ordered by degree (`graph.py`). The first neighbour of every row is kept apart, since most
  bottom-up looks end there.

Both directions give a vertex the same parent, the first of its row in the frontier. So the tree is the same on any
number of threads. Other numbers of ranks order rows otherwise: their trees are as valid, with the same depths.

Bottom-up steps and the numbering of parents are shared by threads, top-down steps are not. With more threads the
search goes bottom-up earlier.
The messages of a level, a bit of every vertex to every rank, bound the number of ranks to some hundreds.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from ridgeline.bench.graph500.graph import WORD, Graph
from ridgeline.bench.graph500.search_kernels import (
    bottom_up,
    count_messages,
    list_rows,
    mark,
    number_parents,
    pack_messages,
    take_messages,
    top_down,
    visit,
)

ALPHA = 15  # bottom-up once the frontier has more than 1 / (ALPHA * threads) of the unexplored edges
BETA = 8  # top-down again once the frontier shrinks to less than 1 / BETA of the unvisited vertices
_LISTED = 32  # bits of an id: a frontier of fewer ids than words of 32 bits is sent as a list


@dataclass(frozen=True)
class Level:
    """What one level of a search took on this rank: edges looked at, and seconds with their messages."""

    direction: str
    frontier: int
    edges: int
    seconds: float


class SearchWorkspace:
    """The arrays of breadth-first searches of one graph; every search begins by resetting them.

    Collective: ranks add up their edges. Bottom-up steps use the threads that Numba has when this is made.
    levels: of the latest search.
    """

    def __init__(self, graph: Graph) -> None:
        ids, words = graph.vertex_of_id.size, graph.vertex_of_id.size // WORD
        self.graph = graph
        self.levels: list[Level] = []
        self.numbers = np.empty(graph.row_of_vertex.size, np.int64)
        self.parents = np.empty(ids, np.uint32)
        self.vertex_of_id = graph.vertex_of_id.view(np.int32)
        self.numbers_of_rows = np.empty(graph.stride + 1, np.int32)
        self.place_of_vertex = graph.row_of_vertex.astype(np.uint32)
        self.place_of_vertex[graph.row_of_vertex < 0] = graph.stride
        self.visited, self.seen, self.frontier = (np.empty(words, np.uint64) for _ in range(3))
        self.found = np.empty(graph.stride // WORD, np.uint64)
        self.rows = np.empty(graph.rows, np.uint32)
        self.ids = np.empty(ids // _LISTED + 1, np.uint32)
        self.sent, self.received = np.empty((0, 2), np.uint32), np.empty((0, 2), np.uint32)
        self.counts = np.empty((numba.get_num_threads(), 8), np.int64)
        self.totals = np.empty((graph.comm.size, 2), np.int64)
        self.total_rows, self.total_edges = (
            int(total) for total in graph.comm.allreduce(np.array([graph.rows, graph.neighbours.size]))
        )
        beyond = np.arange(graph.stride) >= graph.rows
        self.without_row = np.packbits(beyond, bitorder="little").view(np.uint64)

    def reset(self) -> None:
        """Forget the search before. Bits of ids that no row has stay visited: a step never looks at them."""
        self.levels.clear()
        self.parents[self.graph.own_ids] = self.graph.heads
        self.found.fill(0)
        self.visited.fill(0)
        self.visited[self.graph.own_words] = self.without_row


def breadth_first(graph: Graph, root: int, workspace: SearchWorkspace) -> NDArray[np.int64]:
    """Return the parents of this rank's vertices: int64 [owned]. Collective over graph.comm.

    Entry i belongs to vertex `graph.vertices.first(rank) + i`; -1 where the search does not come, and the root is its
    own parent. The array is the workspace's and is valid until the next search.
    Time it from this call to its return on all ranks: the workspace is reset in it, as the rules want.
    """
    start = perf_counter()
    new = _begin(graph, root, workspace)
    upwards, unexplored, unvisited, size_before = False, workspace.total_edges, workspace.total_rows, 0
    while True:
        size, edges = _totals(graph, workspace, new)
        if size == 0:
            return _numbered(graph, root, workspace)
        unvisited -= size
        if upwards:
            upwards = size * BETA >= unvisited or size >= size_before
        else:
            upwards = edges * ALPHA * len(workspace.counts) > unexplored
            unexplored -= edges
        new = _share_frontier(graph, workspace, new, size, list_them=not upwards)
        new, looked_at = _bottom_up(graph, workspace) if upwards else _top_down(graph, workspace, new)
        now = perf_counter()
        workspace.levels.append(Level("bottom-up" if upwards else "top-down", size, looked_at, now - start))
        start, size_before = now, size


class _NewRows(NamedTuple):
    """This rank's rows of the next frontier: their number and edges; edges is -1 while they are not listed."""

    size: int
    edges: int


def _begin(graph: Graph, root: int, workspace: SearchWorkspace) -> _NewRows:
    """Reset the workspace and put the root into the first frontier."""
    workspace.reset()
    row = graph.row_of(root)
    if row >= 0:
        workspace.parents[graph.first_id + row] = graph.first_id + row
        workspace.found[row // WORD] = np.uint64(1) << np.uint64(row % WORD)
    return _listed(graph, workspace)


def _numbered(graph: Graph, root: int, workspace: SearchWorkspace) -> NDArray[np.int64]:
    """Return the parents in the numbers and the order of the edge list's vertices. No communication."""
    number_parents(
        workspace.visited[graph.own_words],
        workspace.parents[graph.own_ids],
        workspace.vertex_of_id,
        workspace.place_of_vertex,
        workspace.numbers_of_rows,
        workspace.numbers,
    )
    if graph.vertices.owner(root) == graph.comm.rank:
        workspace.numbers[graph.vertices.local(root)] = root  # which an isolated root is not yet
    return workspace.numbers


def _totals(graph: Graph, workspace: SearchWorkspace, new: _NewRows) -> tuple[int, int]:
    """Return the vertices of the next frontier and its edges, of all ranks. Collective."""
    if graph.comm.size == 1:
        workspace.totals[0] = new
    else:
        graph.comm.Allgather(np.array(new, np.int64), workspace.totals)
    size, edges = workspace.totals.sum(axis=0)
    return int(size), int(edges)


def _listed(graph: Graph, workspace: SearchWorkspace) -> _NewRows:
    """Write the rows of found into workspace.rows."""
    return _NewRows(*list_rows(workspace.found, graph.offsets, workspace.rows))


def _share_frontier(
    graph: Graph, workspace: SearchWorkspace, new: _NewRows, size: int, list_them: bool
) -> _NewRows:
    """Make all ranks' new rows the frontier and visit them; list this rank's own if wanted. Collective."""
    comm, as_list = graph.comm, _LISTED * size < graph.vertex_of_id.size
    if new.edges < 0 and (list_them or (as_list and comm.size > 1)):
        new = _listed(graph, workspace)
    if comm.size == 1:
        workspace.frontier[:] = workspace.found
    elif as_list:
        ids = workspace.ids[:size]
        mine = workspace.rows[: new.size] + np.uint32(graph.first_id)
        comm.Allgatherv(mine, [ids, workspace.totals[:, 0]])
        mark(ids, workspace.frontier)
    else:
        comm.Allgather(workspace.found, workspace.frontier)
    visit(workspace.frontier, workspace.visited, workspace.seen)
    return new


def _bottom_up(graph: Graph, workspace: SearchWorkspace) -> tuple[_NewRows, int]:
    """Take a step from the unvisited rows; return the new rows and the edges looked at. No communication."""
    bottom_up(
        workspace.visited[graph.own_words],
        workspace.frontier,
        graph.offsets,
        graph.neighbours,
        graph.heads,
        workspace.parents[graph.own_ids],
        workspace.found,
        workspace.counts,
    )
    found, looked_at = workspace.counts[:, :2].sum(axis=0)
    return _NewRows(int(found), -1), int(looked_at)


def _top_down(graph: Graph, workspace: SearchWorkspace, new: _NewRows) -> tuple[_NewRows, int]:
    """Take a step from the listed rows; return the new rows and the edges looked at. Collective."""
    seen, parents = workspace.seen, workspace.parents
    frontier = workspace.rows[: new.size]
    looked_at = top_down(frontier, graph.first_id, graph.offsets, graph.neighbours, seen, parents)
    if graph.comm.size > 1:
        take_messages(_messages(graph, workspace), graph.stride, seen, parents)
    np.bitwise_xor(seen[graph.own_words], workspace.visited[graph.own_words], out=workspace.found)
    return _listed(graph, workspace), looked_at


def _messages(graph: Graph, workspace: SearchWorkspace) -> NDArray[np.uint32]:
    """Return what other ranks saw of this rank's ids: id and parent, uint32 [n, 2]. Collective."""
    comm, words = graph.comm, graph.stride // WORD
    going, coming = np.empty(comm.size, np.int64), np.empty(comm.size, np.int64)
    count_messages(workspace.seen, workspace.visited, words, comm.rank, going)
    comm.Alltoall(going, coming)
    workspace.sent = _with_room(workspace.sent, int(going.sum()))
    workspace.received = _with_room(workspace.received, int(coming.sum()))
    sent, received = workspace.sent[: going.sum()], workspace.received[: coming.sum()]
    pack_messages(workspace.seen, workspace.visited, workspace.parents, words, comm.rank, sent)
    comm.Alltoallv([sent, 2 * going], [received, 2 * coming])
    return received


def _with_room(messages: NDArray[np.uint32], size: int) -> NDArray[np.uint32]:
    """Return the array, or a longer one: memory that is new in every level costs more than what is written to it."""
    return messages if messages.shape[0] >= size else np.empty((2 * size, 2), np.uint32)
