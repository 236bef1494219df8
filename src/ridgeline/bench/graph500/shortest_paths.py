"""Kernel 3: single-source shortest paths by delta-stepping, whose crowded end is relaxed from the other side.

1. While few edges are concerned, vertices push, bucket by bucket of width delta. The light edges of a bucket are
   relaxed until it stays empty, then the heavy edges of all vertices that were in it, once.
2. When the vertices of a bucket have many edges, all buckets become one, and vertices pull. A vertex at distance d
   looks at its edges in the order of weights. It stops where low + weight >= d, low being the least distance that may
   have changed. On a Kronecker graph most vertices therefore look at only a few of their edges. Vertices of the
   highest degrees pull before the others until few of them change, because nearly all paths go through them.
3. When few edges are left, vertices push again.

A vertex is pending if its distance has become lower and its edges have not been relaxed since. The search ends when
no vertex is pending. Sums of float32 are monotonic, so the distances are the least over all paths, on any number of
ranks and threads.

On a grid of R x C ranks (`graph.py`), owners hold the distances and the other ranks of their process row and column
look at a part of the edges:

- A push gathers the active rows of a process row with their distances. Each rank relaxes its part of their edges, and
  sends candidates, the vertices that became lower, to the owners in its process column.
- Before a pull, owners send the distances that became lower since the last pull to their process row and column. Each
  rank looks at its part of the edges of the process row's vertices, and sends candidates to the owners in its row.
- A row or a distance takes 8 bytes to each rank that gathers it. A candidate takes 12: row, distance, parent.
- A rank's state is 9 bytes for each of N / R and of N / C vertices: a distance, a parent and a mark. A parent that
  was pulled is a place in the process column until it is sent, or until the end. Other parents are vertices' numbers.

With C = 1 the process row is the rank's own part of its process column: a pull sends no candidates.

Sources: U. Meyer and P. Sanders, Delta-stepping: a parallelizable shortest path algorithm, J. Algorithms 49 (2003)
114-152; V. T. Chakaravarthy et al., Scalable single source shortest path algorithms for massively parallel systems,
IEEE TPDS 28 (2017) 2031-2045 (pruning by pulling, the hybrid with Bellman-Ford).
"""

from __future__ import annotations

import numba
import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.bench.graph500 import path_kernels as kernel
from ridgeline.bench.graph500.graph import Graph
from ridgeline.parallel.counted_exchange import exchange_counted

# Shares of the edges: if active vertices have more, the others pull; if pending vertices have fewer, pulling ends;
# and those of the vertices of each rank that pull before all vertices do.
PULL_SHARE = 1 / 64
PUSH_SHARE = 1 / 16
CORE_SHARES = (1 / 4, 1 / 2, 3 / 4)
_INFINITE = np.float32(np.inf)
State = tuple[NDArray[np.float32], NDArray[np.uint32], NDArray[np.uint8]]


class PathGraph:
    """The edges of each row in the order of their weights: the part of kernel 1 that only shortest paths need.

    delta: the width of a bucket, 1 over the mean degree, as Meyer and Sanders choose it for random weights of [0, 1];
    cores: for each of CORE_SHARES, the number of first rows of each owner in the process row that have this share of
    its edges; the last item has all rows.
    """

    def __init__(self, graph: Graph) -> None:
        """Order the edges. Collective over graph.comm: an Allreduce, and an Allgather in the process row.

        Raises ValueError without weights.
        """
        if graph.weights is None:
            raise ValueError("shortest paths require weights. Construct the graph from edges with weights.")
        self.graph = graph
        words = np.empty(graph.neighbours.size, np.uint64)
        kernel.order_by_weight(graph.offsets, graph.neighbours, graph.weights, words)
        self.ids, self.reals = words.view(np.uint32), words.view(np.float32)
        self.entries, rows = graph.comm.allreduce(np.array([words.size, graph.rows]))
        self.delta = np.float32(rows / max(self.entries, 1))
        own = np.searchsorted(graph.own_offsets, graph.own_offsets[-1] * np.array(CORE_SHARES)).tolist()
        self.cores = list(zip(*graph.grid.row_comm.allgather([*own, graph.rows])))

    @property
    def lists(self) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.float32]]:
        """The offsets, ids and weights, as kernels take them."""
        return self.graph.offsets, self.ids, self.reals


class PathSearch:
    """The arrays of searches of one graph: every search begins by resetting them.

    state: distance, parent and mark of the process column, as kernels take them; row_state: those of the process row,
    of which this rank's own part is not used; blocks: the state of each owner of the process row.
    """

    def __init__(self, paths: PathGraph) -> None:
        graph, grid = paths.graph, paths.graph.grid
        self.paths, self.graph, self.comm = paths, graph, graph.comm
        ids, row_places = graph.stride * grid.rows, graph.stride * grid.columns
        owned = graph.vertices.count(graph.comm.rank)
        self.state = self.distance, self.parent, self.mark = _make_state(ids)
        own = _part(self.state, graph.own_ids)
        self.row_state = own if grid.columns == 1 else _make_state(row_places)
        begins = range(0, row_places, graph.stride)
        self.blocks = [_part(self.row_state, slice(begin, begin + graph.stride)) for begin in begins]
        self.blocks[grid.column] = own
        self.queue, self.active = (np.empty(graph.rows, np.uint32) for _ in range(2))
        self.words = np.empty(graph.rows, np.uint64)
        self.outbox = np.empty(max(ids, row_places) if self.comm.size > 1 else 0, np.uint32)
        places = np.where(graph.row_of_vertex < 0, graph.rows, graph.row_of_vertex)
        self.place_of_vertex = places.astype(np.int32)
        self.numbers, self.lengths = np.empty(graph.rows + 1, np.int64), np.empty(graph.rows + 1, np.float32)
        self.parents, self.distances = np.empty(owned, np.int64), np.empty(owned, np.float32)
        self.n_queue = 0

    def start(self, root: int) -> None:
        """Reset all arrays, and make the root pending."""
        _reset(self.state)
        if self.graph.grid.columns > 1:
            _reset(self.row_state)
        self.n_queue = 0
        row = self.graph.row_of(root)
        if row >= 0:
            place = self.graph.first_id + row
            self.distance[place], self.parent[place] = 0, root
            self.mark[place] = kernel.PENDING | kernel.STALE
            self.queue[0], self.n_queue = place, 1

    def take_active(self, limit: np.float32) -> tuple[int, int]:
        """Move pending vertices below a distance from queue to active; return how many they are and their edges."""
        self.n_queue, n_active, edges = kernel.take_active(
            self.queue,
            self.n_queue,
            limit,
            self.graph.own_offsets,
            self.graph.first_id,
            self.distance,
            self.mark,
            self.active,
        )
        return n_active, edges

    def push(self, active: NDArray[np.uint32], least: np.float32, most: np.float32) -> None:
        """Relax the edges of active vertices with least <= weight < most on all ranks that hold some. Collective."""
        graph, mine = self.graph, self.words[: active.size]
        kernel.pack(active, graph.first_row - graph.first_id, self.distance, mine)
        self.n_queue, n_outbox = kernel.push(
            *self.paths.lists,
            _gather(graph.grid.row_comm, mine),
            graph.row_vertices,
            least,
            most,
            graph.first_id,
            graph.stride,
            *self.state,
            self.queue,
            self.n_queue,
            self.outbox,
        )
        self._send(graph.grid.column_comm, n_outbox, self.state)

    def pull(self, core: int, low: np.float32) -> tuple[float, np.float32]:
        """Let a core's vertices pull from those at `low` or beyond. Those that become lower are then pending.

        Return the edges of all pending vertices, and their least distance. Collective.
        """
        graph, (offsets, ids, reals), rows = self.graph, self.paths.lists, self.paths.cores[core]
        self._share_distances()
        kernel.clear_pending(self.queue, self.n_queue, self.mark)
        self.n_queue, n_outbox, threads = 0, 0, numba.get_num_threads()
        for block, (state, count) in enumerate(zip(self.blocks, rows)):
            first = graph.stride * block
            some = offsets[first : first + count + 1]
            kernel.pull(some, ids, reals, count, low, threads, self.distance, *state)
            if block != graph.grid.column:
                n_outbox = kernel.list_lowered(self.row_state[2], first, count, self.outbox, n_outbox)
        self._send(graph.grid.row_comm, n_outbox, self.row_state)
        self.n_queue, edges, least = kernel.list_pending(
            graph.own_offsets,
            rows[graph.grid.column],
            graph.first_id,
            self.distance,
            self.mark,
            self.queue,
        )
        return self.allreduce_sums(edges)[0], self.allreduce_least(least)

    def _send(self, comm: MPI.Comm, n_outbox: int, state: State) -> None:
        """Send the outbox's candidates to their owners; those that become lower are pending there. Collective."""
        if comm.size == 1:
            return
        graph, counts = self.graph, np.empty(comm.size, np.int64)
        candidates = np.empty((n_outbox, 3), np.uint32)
        kernel.pack_candidates(
            self.outbox, n_outbox, graph.stride, *state, graph.column_vertices, counts, candidates
        )
        received, _ = exchange_counted(comm, candidates.reshape(-1), counts)
        self.n_queue = kernel.take_candidates(received, graph.first_id, *self.state, self.queue, self.n_queue)

    def _share_distances(self) -> None:
        """Send the distances that became lower since the last call to the process row and column. Collective."""
        graph, grid = self.graph, self.graph.grid
        if self.comm.size == 1:
            return
        count = kernel.pack_stale(graph.own_offsets, graph.first_id, self.distance, self.mark, self.words)
        mine = self.words[:count]
        if grid.rows > 1:
            kernel.unpack_distances(_gather(grid.column_comm, mine), self.distance)
        if grid.columns > 1:
            mine.view(np.int64)[:] += graph.first_row - graph.first_id
            kernel.unpack_distances(_gather(grid.row_comm, mine), self.row_state[0])

    def allreduce_sums(self, *mine: float) -> list[float]:
        """Return the sums of numbers over all ranks. Collective."""
        if self.comm.size == 1:
            return list(mine)
        total = np.empty(len(mine))
        self.comm.Allreduce(np.array(mine, np.float64), total)
        return total.tolist()

    def allreduce_least(self, mine: np.float32) -> np.float32:
        """Return the least distance of all ranks. Collective."""
        return mine if self.comm.size == 1 else np.float32(self.comm.allreduce(float(mine), MPI.MIN))

    def finish(self) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return the parents and distances of this rank's vertices, in their order."""
        graph = self.graph
        kernel.write_results(
            graph.column_vertices,
            *self.state,
            self.place_of_vertex,
            graph.first_id,
            self.numbers,
            self.lengths,
            self.parents,
            self.distances,
        )
        return self.parents, self.distances


def _make_state(size: int) -> State:
    return np.empty(size, np.float32), np.empty(size, np.uint32), np.empty(size, np.uint8)


def _reset(state: State) -> None:
    distance, parent, mark = state
    distance.fill(_INFINITE)
    parent.fill(0)
    mark.fill(0)


def _part(state: State, places: slice) -> State:
    distance, parent, mark = state
    return distance[places], parent[places], mark[places]


def _gather(comm: MPI.Comm, words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the words of all ranks, one rank's after the other. Collective over comm."""
    if comm.size == 1:
        return words
    counts = np.array(comm.allgather(words.size))
    everyone = np.empty(int(counts.sum()), np.uint64)
    comm.Allgatherv(words, [everyone, counts])
    return everyone


def shortest_paths(search: PathSearch, root: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the parents and distances of this rank's vertices. Collective over the graph's communicator.

    They are int64 and float32 [owned], -1 and infinity for a vertex without a path; the root is its own parent. The
    arrays belong to the search and are valid until the next one.
    """
    search.start(root)
    low = _push_buckets(search)
    while low < _INFINITE:
        _pull(search, low)
        low = _push_rest(search)
    return search.finish()


def _push_buckets(search: PathSearch) -> np.float32:
    """Step through buckets until pulling is better; return the least distance whose edges are left. Collective.

    Infinity means that nothing is left.
    """
    most_edges, delta = search.paths.entries * PULL_SHARE, search.paths.delta
    while True:
        mine = kernel.least_distance(search.queue, search.n_queue, search.distance)
        least = search.allreduce_least(mine)
        if least == _INFINITE:
            return least
        settled = []
        while True:
            n_active, edges = search.take_active(least + delta)
            active, all_edges = search.allreduce_sums(n_active, edges)
            if all_edges > most_edges:
                return least  # the bucket's heavy edges are left too
            if active == 0:
                break
            settled.append(search.active[:n_active].copy())
            search.push(settled[-1], np.float32(0), delta)
        search.push(np.unique(np.concatenate(settled)), delta, _INFINITE)


def _push_rest(search: PathSearch) -> np.float32:
    """Let pending vertices push while they have few edges; return the least distance of those left. Collective."""
    while True:
        n_active, edges = search.take_active(_INFINITE)
        active, all_edges = search.allreduce_sums(n_active, edges)
        if active == 0 or all_edges > search.paths.entries * PUSH_SHARE:
            return search.allreduce_least(kernel.least_distance(search.active, n_active, search.distance))
        search.push(search.active[:n_active].copy(), np.float32(0), _INFINITE)


def _pull(search: PathSearch, low: np.float32) -> None:
    """Let all vertices pull what those at `low` or beyond offer, until few edges are left. Collective.

    Each core pulls until few edges are left, before all vertices do.
    """
    few_edges = search.paths.entries * PUSH_SHARE
    while True:
        for core in range(len(CORE_SHARES)):
            edges, core_low = search.pull(core, low)
            while edges > few_edges:
                edges, core_low = search.pull(core, core_low)
        edges, low = search.pull(-1, low)
        if edges <= few_edges:
            return
