"""Kernel 2: breadth-first search that changes direction, on bitmaps, over a grid of ranks.

A level goes top-down, from the frontier's rows to their neighbours, while the frontier has few edges. It goes
bottom-up, from unvisited rows to a first neighbour in the frontier, while it has many (S. Beamer, K. Asanovic and
D. Patterson, Direction-optimizing breadth-first search, SC12). On a grid of R x C ranks (`graph.py`):

- Every rank has the bitmaps of its process column's visited ids and frontier: hubs and all others are replicated R
  times, with one bit each. After a level the column gathers the new frontier: a list while it is shorter than the
  bitmap.
- Top-down: the process row gathers the frontier too. A rank goes through these rows, and sends each unvisited id that
  it sees once, with its parent, to the owner in its column.
- Bottom-up: the process row's rows are searched in C turns. In each turn a rank searches the rows of one owner and
  then passes on the bits of those that got a parent, so that no later rank looks for these. The ranks that found
  parents keep them until the end.
- Then they send the parents to the owners. This belongs to the search and its time.

With C = 1 a rank searches its own rows alone: a bottom-up step sends nothing. The name of a parent is then its id,
which shows its degree. With more columns it is the vertex, which ranks know of their process row and column.

With N vertices a rank receives at most N / 8C bytes of frontier in a level, and N / 8R more if C > 1. Top-down adds
at most 8 bytes for each id seen. Turns: S. Beamer, A. Buluc, K. Asanovic and D. Patterson, Distributed memory
breadth-first search revisited: enabling bottom-up search, IPDPS Workshops 2013.

Rows and neighbours are ordered by degree. The first neighbour of every row is stored separately, because most
bottom-up searches end there. With C = 1 both directions give a vertex the same parent, the first of its row in the
frontier, so that the tree is the same on any number of threads. Other grids and numbers of ranks have other trees of
the same depths.

Bottom-up steps and the numbering of parents are shared by threads, top-down steps are not. With more threads the
search goes bottom-up earlier.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

import numba
import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.bench.graph500.graph import WORD, Graph
from ridgeline.bench.graph500.search_kernels import (
    bottom_up,
    count_messages,
    list_rows,
    mark,
    number_found,
    number_ids,
    number_parents,
    pack_messages,
    take_messages,
    top_down,
    visit,
)

Words = NDArray[np.uint64]
Ids = NDArray[np.uint32]


ALPHA = 15  # bottom-up once the frontier has more than 1 / (ALPHA * threads) of the unexplored edges
BETA = 8  # top-down again once the frontier shrinks to less than 1 / BETA of the unvisited vertices
_ID_BITS = 32  # bits of an id: a frontier of fewer ids than words of 32 bits is sent as a list


@dataclass(frozen=True)
class Level:
    """One level of a search on this rank: direction, size of the frontier, edges looked at, seconds with messages."""

    direction: str
    frontier: int
    edges: int
    seconds: float


class SearchWorkspace:
    """The arrays of breadth-first searches of one graph; every search begins by resetting them.

    Construction is collective, because ranks add up their edges. Bottom-up steps use the threads that Numba has at
    that time. levels: those of the latest search.
    """

    def __init__(self, graph: Graph) -> None:
        grid = graph.grid
        ids, words = graph.stride * grid.rows, graph.stride * grid.rows // WORD
        self.graph = graph
        self.levels: list[Level] = []
        self.numbers = np.empty(graph.row_of_vertex.size, np.int64)
        self.parents = np.empty(ids, np.uint32)
        self.numbers_of_rows = np.empty(graph.stride + 1, np.uint32)
        self.place_of_vertex = graph.row_of_vertex.astype(np.uint32)
        self.place_of_vertex[graph.row_of_vertex < 0] = graph.stride
        self.visited, self.seen, self.frontier = (np.empty(words, np.uint64) for _ in range(3))
        self.found = np.empty(graph.stride // WORD, np.uint64)
        self.rows = np.empty(graph.rows, np.uint32)
        self.row_parents = self.parents[graph.own_ids]
        if grid.columns == 1:
            self.names = np.arange(graph.first_id, graph.first_id + graph.stride, dtype=np.uint32)
        else:
            self.names = graph.row_vertices
            self.row_parents = np.empty(graph.heads.size, np.uint32)
            self.row_frontier = np.empty(graph.heads.size, np.uint32)
            self.row_ids = np.empty(graph.heads.size // _ID_BITS + 1, np.uint32)
            self.row_words, self.row_found = (np.empty(graph.heads.size // WORD, np.uint64) for _ in range(2))
            self.ring = np.empty((2, graph.stride // WORD), np.uint64)
        self.ids = np.empty(ids // _ID_BITS + 1, np.uint32)
        self.messages = ParentMessages()
        self.counts = np.empty((numba.get_num_threads(), 8), np.int64)
        self.totals = np.empty((grid.rows, 2), np.int64)
        self.total_rows, self.total_edges = (
            int(total) for total in graph.comm.allreduce(np.array([graph.rows, graph.neighbours.size]))
        )
        beyond = np.arange(graph.stride) >= graph.rows
        self.without_row = np.packbits(beyond, bitorder="little").view(np.uint64)

    def reset(self) -> None:
        """Reset all arrays for a search. Bits of ids without a row stay visited, so that no step looks at them."""
        self.levels.clear()
        self.row_parents[:] = self.graph.heads
        if self.graph.grid.columns > 1:
            self.row_found.fill(0)
        self.found.fill(0)
        self.visited.fill(0)
        self.visited[self.graph.own_words] = self.without_row


def breadth_first(graph: Graph, root: int, workspace: SearchWorkspace) -> NDArray[np.int64]:
    """Return the parents of this rank's vertices: int64 [owned]. Collective over graph.comm.

    Entry i belongs to vertex `graph.vertices.first(rank) + i`. It is -1 for a vertex that the search does not reach;
    the root is its own parent. The array belongs to the workspace and is valid until the next search. The time of a
    search is that of this call on all ranks, which includes resetting the workspace, as the rules demand.
    """
    start = perf_counter()
    workspace.reset()
    row = graph.row_of(root)
    if row >= 0:
        workspace.parents[graph.first_id + row] = workspace.names[graph.first_row + row]
        workspace.found[row // WORD] = np.uint64(1) << np.uint64(row % WORD)
    new = _list_rows(graph, workspace)
    upwards, unexplored, unvisited, size_before = False, workspace.total_edges, workspace.total_rows, 0
    while True:
        size, edges = _sum_frontier(graph, workspace, new)
        if size == 0:
            return _number_parents(graph, root, workspace)
        unvisited -= size
        if upwards:
            upwards = size * BETA >= unvisited or size >= size_before
        else:
            upwards = edges * ALPHA * len(workspace.counts) > unexplored
            unexplored -= edges
        frontier = _share_frontier(graph, workspace, new, list_them=not upwards)
        new, looked_at = _bottom_up(graph, workspace) if upwards else _top_down(graph, workspace, frontier)
        now = perf_counter()
        workspace.levels.append(Level("bottom-up" if upwards else "top-down", size, looked_at, now - start))
        start, size_before = now, size


class _NewRows(NamedTuple):
    """This rank's rows of the next frontier: their number and edges; edges is -1 while they are not listed."""

    size: int
    edges: int


def _number_parents(graph: Graph, root: int, workspace: SearchWorkspace) -> NDArray[np.int64]:
    """Return the parents in the numbers and the order of the edge list's vertices. Collective."""
    own, numbers_of_rows = workspace.parents[graph.own_ids], workspace.numbers_of_rows
    if graph.grid.columns == 1:
        number_ids(own, graph.column_vertices, numbers_of_rows[:-1])
    else:
        _collect_parents(graph, workspace)
        numbers_of_rows[:-1] = own
    number_parents(
        workspace.visited[graph.own_words],
        numbers_of_rows.view(np.int32),
        workspace.place_of_vertex,
        workspace.numbers,
    )
    if graph.vertices.owner(root) == graph.comm.rank:
        workspace.numbers[graph.vertices.local(root)] = root  # which an isolated root is not yet
    return workspace.numbers


def _collect_parents(graph: Graph, workspace: SearchWorkspace) -> None:
    """Receive the parents that ranks of the process row found in bottom-up steps. Collective over the process row."""
    grid, nothing, own = graph.grid, workspace.row_words, workspace.parents[graph.own_ids]
    nothing.fill(0)
    blocks_found = workspace.row_found.reshape(grid.columns, -1)
    blocks_ids = workspace.row_parents.reshape(grid.columns, -1)
    for block, (found, ids) in enumerate(zip(blocks_found, blocks_ids)):
        number_found(found, ids, graph.column_vertices, own if block == grid.column else ids)
    workspace.found.fill(0)
    workspace.messages.exchange(
        grid.row_comm, workspace.row_found, nothing, workspace.row_parents, workspace.found, own
    )


def _sum_frontier(graph: Graph, workspace: SearchWorkspace, new: _NewRows) -> tuple[int, int]:
    """Return the number of vertices in the next frontier and that of its edges, over all ranks. Collective."""
    grid = graph.grid
    if grid.rows == 1:
        workspace.totals[0] = new
    else:
        grid.column_comm.Allgather(np.array(new, np.int64), workspace.totals)
    totals = workspace.totals.sum(axis=0)
    if grid.columns > 1:
        grid.row_comm.Allreduce(MPI.IN_PLACE, totals)
    size, edges = totals
    return int(size), int(edges)


def _list_rows(graph: Graph, workspace: SearchWorkspace) -> _NewRows:
    """Write the rows of found into workspace.rows."""
    return _NewRows(*list_rows(workspace.found, graph.own_offsets, workspace.rows))


def _share_frontier(
    graph: Graph, workspace: SearchWorkspace, new: _NewRows, list_them: bool
) -> NDArray[np.uint32]:
    """Make the new rows of the process column the frontier and mark them visited. Collective.

    With list_them, return the frontier's rows of the process row for a top-down step.
    """
    grid, sizes = graph.grid, workspace.totals[:, 0]
    as_list = grid.rows > 1 and _is_short(sizes, workspace.frontier)
    if new.edges < 0 and (list_them or as_list):
        new = _list_rows(graph, workspace)
    mine = workspace.rows[: new.size]
    if grid.rows == 1:
        workspace.frontier[:] = workspace.found
    elif as_list:
        _gather_listed(grid.column_comm, mine, graph.first_id, sizes, workspace.ids, workspace.frontier)
    else:
        grid.column_comm.Allgather(workspace.found, workspace.frontier)
    visit(workspace.frontier, workspace.visited, workspace.seen)
    if not list_them or grid.columns == 1:
        return mine
    sizes = np.array(grid.row_comm.allgather(new.size))
    if _is_short(sizes, workspace.row_words):
        _gather_listed(grid.row_comm, mine, graph.first_row, sizes, workspace.row_ids, workspace.row_words)
    else:
        grid.row_comm.Allgather(workspace.found, workspace.row_words)
    count, _ = list_rows(workspace.row_words, graph.offsets, workspace.row_frontier)
    return workspace.row_frontier[:count]


def _is_short(sizes: NDArray[np.int64], words: NDArray[np.uint64]) -> bool:
    """Return whether a list of the ranks' rows is shorter than the bitmap."""
    return bool(_ID_BITS * sizes.sum() < WORD * words.size)


def _gather_listed(
    comm: MPI.Comm,
    mine: NDArray[np.uint32],
    first: int,
    sizes: NDArray[np.int64],
    ids: NDArray[np.uint32],
    words: NDArray[np.uint64],
) -> None:
    """Make `words` the bitmap of all ranks' listed rows. first: the bit of this rank's first row. Collective."""
    ids = ids[: sizes.sum()]
    comm.Allgatherv(mine + np.uint32(first), [ids, sizes])
    mark(ids, words)


def _bottom_up(graph: Graph, workspace: SearchWorkspace) -> tuple[_NewRows, int]:
    """Take a step from the unvisited rows; return the new rows and the edges looked at.

    In a grid of one column a rank searches its own rows without communication. Otherwise the rows of the process row
    are searched in turns, those of one rank in each. The bits of rows that have a parent travel along, so that no
    later rank looks for them. Collective over the process row.
    """
    grid, visited, looked_at = graph.grid, workspace.visited[graph.own_words], 0
    if grid.columns == 1:
        found, looked_at = _look_up(graph, workspace, 0, visited)
        return _NewRows(found, -1), looked_at
    done, received = workspace.ring
    done[:] = visited
    before, after = (grid.column - 1) % grid.columns, (grid.column + 1) % grid.columns
    for turn in range(grid.columns):
        block = (grid.column + turn) % grid.columns
        looked_at += _look_up(graph, workspace, block, done)[1]
        done |= workspace.found
        workspace.row_found.reshape(grid.columns, -1)[block] |= workspace.found
        grid.row_comm.Sendrecv(done, before, 0, received, after, 0)
        done, received = received, done
    np.bitwise_xor(done, visited, out=workspace.found)
    return _NewRows(int(np.bitwise_count(workspace.found).sum()), -1), looked_at


def _look_up(
    graph: Graph, workspace: SearchWorkspace, block: int, done: NDArray[np.uint64]
) -> tuple[int, int]:
    """Look for parents of a block's rows that are not done. Return how many got one, and the edges looked at."""
    begin, end = graph.stride * block, graph.stride * (block + 1)
    bottom_up(
        done,
        workspace.frontier,
        graph.offsets[begin : end + 1],
        graph.neighbours,
        graph.heads[begin:end],
        workspace.row_parents[begin:end],
        workspace.found,
        workspace.counts,
    )
    found, looked_at = workspace.counts[:, :2].sum(axis=0)
    return int(found), int(looked_at)


def _top_down(graph: Graph, workspace: SearchWorkspace, frontier: NDArray[np.uint32]) -> tuple[_NewRows, int]:
    """Take a step from the frontier's rows; return the new rows and the edges looked at. Collective."""
    grid, seen, parents = graph.grid, workspace.seen, workspace.parents
    looked_at = top_down(frontier, workspace.names, graph.offsets, graph.neighbours, seen, parents)
    if grid.rows > 1:
        workspace.messages.exchange(
            grid.column_comm,
            seen,
            workspace.visited,
            parents,
            seen[graph.own_words],
            parents[graph.own_ids],
        )
    np.bitwise_xor(seen[graph.own_words], workspace.visited[graph.own_words], out=workspace.found)
    return _list_rows(graph, workspace), looked_at


class ParentMessages:
    """Messages about parents to the owners of vertices.

    A message from one rank to another has the rows of its vertices on their owner, then the names of their parents.
    Rows are a list or a bitmap, whichever is shorter; both ranks know which from the number of rows. The arrays are
    kept, because allocating memory in every level would cost more than its use.
    """

    def __init__(self) -> None:
        self.sent, self.received = np.empty(0, np.uint32), np.empty(0, np.uint32)

    def exchange(
        self, comm: MPI.Comm, now: Words, before: Words, parents: Ids, seen: Words, own_parents: Ids
    ) -> None:
        """Send the parents of all vertices whose bits differ to their owners, and take those received. Collective.

        Parameters
        ----------
        comm : the ranks of a process row or column
        now, before : bitmaps of the vertices of all ranks of comm, one rank's after the other
        parents : of these vertices
        seen, own_parents : bitmap and parents of this rank's rows, which are updated by what is received

        Notes
        -----
        An alltoall of 8 bytes for each rank, then an alltoallv. A parent takes 4 bytes and a row: of 4 bytes, or as a
        bit in a bitmap of all rows of the owner.
        """
        words = now.size // comm.size
        n_sent, n_received = np.empty(comm.size, np.int64), np.empty(comm.size, np.int64)
        count_messages(now, before, words, comm.rank, n_sent)
        comm.Alltoall(n_sent, n_received)
        to_send, to_receive = message_lengths(n_sent, words), message_lengths(n_received, words)
        self.sent = _with_room(self.sent, int(to_send.sum()))
        self.received = _with_room(self.received, int(to_receive.sum()))
        pack_messages(now, before, parents, words, n_sent, self.sent)
        comm.Alltoallv([self.sent, to_send], [self.received, to_receive])
        take_messages(self.received, n_received, seen, own_parents)


def message_lengths(counts: NDArray[np.int64], words: int) -> NDArray[np.int64]:
    """Return the lengths of messages of some vertices, in words of 32 bits. words: those of an owner's bitmap."""
    return np.where(counts > 0, counts + np.minimum(counts, 2 * words), 0)


def _with_room(messages: Ids, size: int) -> Ids:
    return messages if messages.size >= size else np.empty(2 * size, np.uint32)
