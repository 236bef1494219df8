"""Kernel 3: single-source shortest paths by delta-stepping, whose crowded end is relaxed from the other side.

1. While few edges are at stake, vertices push, bucket by bucket of width delta. The light edges of a bucket are
   relaxed until it stays empty, then once the heavy ones of all that were in it.
2. When the vertices of a bucket have many edges, all buckets become one, and vertices pull. A vertex at distance d
   looks at its edges in the order of weights. It stops where low + weight >= d, low being the least distance that may
   have changed. On a Kronecker graph most vertices so look at a few of their edges.
   Vertices of the highest degrees pull before the others until few of them change: nearly all paths go through them.
3. When few edges are left, vertices push again.

A vertex is pending if its distance became lower and its edges were not relaxed since; the search ends when none is.
Sums of float32 are monotonic, so the distances are the least over all paths, on any number of ranks and threads.

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
from ridgeline.parallel.exchange import exchange_counted

PULL_SHARE = 1 / 64  # of the edges: if active vertices have more, the others pull
PUSH_SHARE = 1 / 16  # of the edges: if pending vertices have fewer, pulling ends
CORE_SHARES = (1 / 4, 1 / 2, 3 / 4)  # of a rank's edges: those of the vertices that pull before all do
_INFINITE = np.float32(np.inf)


class PathGraph:
    """The edges of each row in the order of their weights: the part of kernel 1 that only shortest paths need.

    delta: the width of a bucket, 1 over the mean degree, as Meyer and Sanders choose it for random weights of [0, 1];
    cores: the numbers of first rows that have these shares of this rank's edges.
    """

    def __init__(self, graph: Graph) -> None:
        """Order the edges. Collective over graph.comm: an Allreduce.

        Raises ValueError without weights, or for more than one process column.
        """
        if graph.weights is None:
            raise ValueError("shortest paths need weights; construct the graph from edges with weights")
        if graph.grid.columns > 1:
            raise ValueError(f"shortest paths need one process column; the graph has {graph.grid.columns}")
        self.graph = graph
        words = np.empty(graph.neighbours.size, np.uint64)
        kernel.order_by_weight(graph.offsets, graph.neighbours, graph.weights, words)
        self.ids, self.reals = words.view(np.uint32), words.view(np.float32)
        self.entries, rows = graph.comm.allreduce(np.array([words.size, graph.rows]))
        self.delta = np.float32(rows / max(self.entries, 1))
        self.cores = [int(np.searchsorted(graph.offsets, words.size * share)) for share in CORE_SHARES]

    @property
    def lists(self) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.float32]]:
        """Return offsets, ids and weights as kernels take them."""
        return self.graph.offsets, self.ids, self.reals


class PathSearch:
    """The arrays of searches of one graph: every search begins by resetting them."""

    def __init__(self, paths: PathGraph) -> None:
        graph = paths.graph
        self.paths, self.graph, self.comm = paths, graph, graph.comm
        n_ids, owned = graph.stride * graph.comm.size, graph.vertices.count(graph.comm.rank)
        self.first_id = graph.first_id
        self.distance = np.empty(n_ids, np.float32)
        self.parent = np.empty(n_ids, np.uint32)
        self.mark = np.empty(n_ids, np.uint8)
        self.queue, self.active = (np.empty(graph.rows, np.uint32) for _ in range(2))
        elsewhere = n_ids if self.comm.size > 1 else 0
        self.outbox = np.empty(elsewhere, np.uint32)
        self.words = np.empty(2 * elsewhere, np.uint64)
        self.place_of_vertex = np.where(graph.row_of_vertex < 0, graph.rows, graph.row_of_vertex).astype(
            np.int32
        )
        self.numbers, self.lengths = np.empty(graph.rows + 1, np.int64), np.empty(graph.rows + 1, np.float32)
        self.parents, self.distances = np.empty(owned, np.int64), np.empty(owned, np.float32)
        self.n_queue = 0

    @property
    def state(self) -> tuple[NDArray[np.float32], NDArray[np.uint32], NDArray[np.uint8]]:
        """Return distance, parent and mark as kernels take them."""
        return self.distance, self.parent, self.mark

    def start(self, root: int) -> None:
        """Forget everything, and make the root pending."""
        self.distance.fill(_INFINITE)
        self.parent.fill(0)
        self.mark.fill(0)
        self.n_queue = 0
        row = self.graph.row_of(root)
        if row >= 0:
            root_id = self.first_id + row
            self.distance[root_id], self.parent[root_id] = 0, root_id
            self.mark[root_id] = kernel.PENDING | kernel.STALE
            self.queue[0], self.n_queue = root_id, 1

    def take(self, limit: np.float32) -> tuple[int, int]:
        """Move pending rows below a distance from queue to active; return how many they are and their edges."""
        self.n_queue, n_active, edges = kernel.take_active(
            *(self.queue, self.n_queue, limit, self.graph.offsets, self.first_id),
            *(self.distance, self.mark, self.active),
        )
        return n_active, edges

    def push(self, active: NDArray[np.uint32], least: np.float32, most: np.float32) -> None:
        """Relax edges of active rows with least <= weight < most, on their owners too. Collective."""
        self.n_queue, n_outbox = kernel.push(
            *(*self.paths.lists, active, least, most, self.first_id),
            *(*self.state, self.queue, self.n_queue, self.outbox),
        )
        if self.comm.size == 1:
            return
        counts = np.empty(self.comm.size, np.int64)
        kernel.pack_outbox(self.outbox, n_outbox, self.graph.stride, *self.state, counts, self.words)
        come, _ = exchange_counted(self.comm, self.words[: 2 * n_outbox].view(np.int64), counts)
        self.n_queue = kernel.take_messages(
            come.view(np.uint64), self.first_id, self.graph.rows, *self.state, self.queue, self.n_queue
        )

    def pull(self, rows: int, low: np.float32) -> tuple[float, np.float32]:
        """Let the first rows pull from vertices at `low` or beyond, after which only what became lower is pending.

        Return the edges of all pending vertices, and their least distance. Collective.
        """
        self._refresh()
        kernel.clear_pending(self.queue, self.n_queue, self.mark)
        lists, threads = self.paths.lists, numba.get_num_threads()
        kernel.pull(*lists, rows, low, self.first_id, threads, *self.state)
        self.n_queue, edges, least = kernel.list_pending(
            *(self.graph.offsets, rows, self.first_id, self.distance, self.mark, self.queue)
        )
        return self.sums(edges)[0], self.least(least)

    def _refresh(self) -> None:
        """Tell all ranks the distances that became lower since the last time. Collective: 8 bytes for each."""
        if self.comm.size == 1:
            return
        count = kernel.pack_stale(self.graph.offsets, self.first_id, *self.state, self.words)
        counts = np.array(self.comm.allgather(count))
        come = np.empty(int(counts.sum()), np.uint64)
        self.comm.Allgatherv(self.words[:count], [come, counts])
        kernel.unpack_distances(come, self.distance)

    def sums(self, *mine: float) -> list[float]:
        """Return the sums over ranks. Collective."""
        if self.comm.size == 1:
            return list(mine)
        total = np.empty(len(mine))
        self.comm.Allreduce(np.array(mine, np.float64), total)
        return total.tolist()

    def least(self, mine: np.float32) -> np.float32:
        """Return the least distance of all ranks. Collective."""
        return mine if self.comm.size == 1 else np.float32(self.comm.allreduce(float(mine), MPI.MIN))

    def finish(self) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return parents and distances of the own vertices, in their order."""
        graph = self.graph
        kernel.write_results(
            *(graph.vertex_of_id, self.parent, self.distance, self.place_of_vertex, self.first_id),
            *(self.numbers, self.lengths, self.parents, self.distances),
        )
        return self.parents, self.distances


def shortest_paths(search: PathSearch, root: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the parents and distances of this rank's vertices. Collective over the graph's communicator.

    int64 and float32 [owned], -1 and infinity where no path leads; the root is its own parent. The arrays are the
    search's, valid until the next one.
    """
    search.start(root)
    low = _push_buckets(search)
    while low < _INFINITE:
        _pull(search, low)
        low = _push_rest(search)
    return search.finish()


def _push_buckets(search: PathSearch) -> np.float32:
    """Step through buckets until vertices shall pull; return the least distance whose edges are left. Collective.

    Infinity: nothing is left.
    """
    most_edges, delta = search.paths.entries * PULL_SHARE, search.paths.delta
    while (
        least := search.least(kernel.least_distance(search.queue, search.n_queue, search.distance))
    ) < _INFINITE:
        settled = []
        while True:
            n_active, edges = search.take(least + delta)
            active, all_edges = search.sums(n_active, edges)
            if all_edges > most_edges:
                return least  # the bucket's heavy edges are left too
            if active == 0:
                break
            settled.append(search.active[:n_active].copy())
            search.push(settled[-1], np.float32(0), delta)
        search.push(np.unique(np.concatenate(settled)), delta, _INFINITE)
    return least


def _push_rest(search: PathSearch) -> np.float32:
    """Let pending vertices push while they have few edges; return the least distance of those left. Collective."""
    while True:
        n_active, edges = search.take(_INFINITE)
        active, all_edges = search.sums(n_active, edges)
        if active == 0 or all_edges > search.paths.entries * PUSH_SHARE:
            return search.least(kernel.least_distance(search.active, n_active, search.distance))
        search.push(search.active[:n_active].copy(), np.float32(0), _INFINITE)


def _pull(search: PathSearch, low: np.float32) -> None:
    """Let all vertices pull what those at `low` or beyond offer, until few edges are left. Collective."""
    while True:
        for core in search.paths.cores:
            _pull_first(search, core, low)
        edges, low = search.pull(search.graph.rows, low)
        if edges <= search.paths.entries * PUSH_SHARE:
            return


def _pull_first(search: PathSearch, core: int, low: np.float32) -> None:
    """Let the first rows pull until few edges are left. Collective."""
    while True:
        edges, low = search.pull(core, low)
        if edges <= search.paths.entries * PUSH_SHARE:
            return
