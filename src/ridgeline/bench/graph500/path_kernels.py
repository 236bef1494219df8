"""Compiled parts of kernel 3: edges in the order of weights, relaxations that push and that pull, messages.

An edge is one word of 64 bits, the weight's bits above the neighbour's id. Weights are not negative, so that words
are in the order of weights. Kernels read the word's halves, `ids` [2 entries] and `reals` [2 entries], which are the
same memory: ids[2 e] is the neighbour and reals[2 e + 1] the weight (little-endian).

The state of a search is distance float32, parent uint32 (an id) and mark uint8, all [ids of all ranks]. Distances of
other ranks' vertices are upper bounds. A mark has two bits:

- PENDING, of an own row: its edges are still to be relaxed; of another rank's vertex: a message will go to it.
- STALE, of an own row: other ranks do not know its distance.
"""

import numpy as np
from numba import float32, int32, int64, prange, uint8, uint32, uint64

from ridgeline.jit.kernel import Specialisation, kernel, specialise, subroutine

PENDING, STALE = 1, 2
CHUNK = 256  # rows that a thread takes in turn
_PARTS = 64
_LOW = 0xFFFFFFFF
_FLAGS = {"parallel": True, "nogil": True}
_ROWS = (int64[::1], uint32[::1], float32[::1])  # offsets, ids, reals
_STATE = (float32[::1], uint32[::1], uint8[::1])  # distance, parent, mark


@kernel(lambda: (int64[::1], uint32[::1], float32[::1], uint64[::1]), **_FLAGS)
def order_by_weight(offsets, neighbours, weights, out_words):
    """Write the edges of every row in the order of their weights, equal ones in the order of ids."""
    rows = offsets.shape[0] - 1
    for part in prange(_PARTS):  # every 64th row: the longest ones come first, so parts have equal work
        for row in range(part, rows, _PARTS):
            begin, end = offsets[row], offsets[row + 1]
            for e in range(begin, end):
                out_words[e] = uint64(weights[e : e + 1].view(uint32)[0]) << uint64(32) | uint64(
                    neighbours[e]
                )
            if end - begin > 1:
                mine = out_words[begin:end]
                mine.sort()


@subroutine
def _lower(id, distance, parent, mark, new_distance, new_parent, queue, count):
    """Give a vertex a lower distance; return how long the queue of own rows, or of ids of others, is now."""
    distance[id] = new_distance
    parent[id] = new_parent
    if mark[id] & PENDING == 0:
        queue[count] = id
        count += 1
    mark[id] = PENDING | STALE
    return count


@kernel(
    lambda: (
        *_ROWS,
        uint32[::1],
        float32,
        float32,
        int64,
        *_STATE,
        uint32[::1],
        int64,
        uint32[::1],
    ),
    nogil=True,
)
def push(offsets, ids, reals, active, least, most, first_id, distance, parent, mark, queue, n_queue, outbox):
    """Relax the edges of the active rows with least <= weight < most; return the lengths of queue and outbox.

    active: ids of own rows; queue [rows]: of those that became pending; outbox: ids of other ranks' vertices.
    """
    rows, n_outbox = offsets.shape[0] - 1, 0
    for i in range(active.shape[0]):
        u = active[i]
        row = int64(u) - first_id
        for e in range(offsets[row], offsets[row + 1]):
            weight = reals[2 * e + 1]
            if weight >= most:
                break
            if weight < least:
                continue
            v = ids[2 * e]
            there = distance[u] + weight
            if there < distance[v]:
                if 0 <= int64(v) - first_id < rows:
                    n_queue = _lower(v, distance, parent, mark, there, u, queue, n_queue)
                else:
                    n_outbox = _lower(v, distance, parent, mark, there, u, outbox, n_outbox)
    return n_queue, n_outbox


@kernel(
    lambda: (uint32[::1], int64, float32, int64[::1], int64, float32[::1], uint8[::1], uint32[::1]),
    nogil=True,
)
def take_active(queue, n_queue, limit, offsets, first_id, distance, mark, out_active):
    """Move the rows below a distance from the queue to out_active, no longer pending.

    Return (rows left in the queue, active rows, edges of those).
    """
    kept, taken, edges = 0, 0, 0
    for i in range(n_queue):
        id = queue[i]
        if distance[id] < limit:
            out_active[taken] = id
            taken += 1
            mark[id] &= ~PENDING
            row = int64(id) - first_id
            edges += offsets[row + 1] - offsets[row]
        else:
            queue[kept] = id
            kept += 1
    return kept, taken, edges


@kernel(lambda: (uint32[::1], int64, float32[::1]), nogil=True)
def least_distance(queue, n_queue, distance):
    """Return the least distance of the rows in a queue, infinity for none."""
    least = np.float32(np.inf)
    for i in range(n_queue):
        least = min(least, distance[queue[i]])
    return least


@kernel(lambda: (*_ROWS, int64, float32, int64, int64, *_STATE), **_FLAGS)
def pull(offsets, ids, reals, rows, low, first_id, threads, distance, parent, mark):
    """Give the first rows the least distance that neighbours at `low` or beyond offer; who gets one is pending.

    Weights rise along a row, and rounding keeps order: the first edge with low + weight >= distance ends the row.
    Rows are taken in the order of degrees, and see what rows before them got. Threads write their own rows alone.
    """
    for thread in prange(threads):
        for begin in range(thread * CHUNK, rows, threads * CHUNK):
            for row in range(begin, min(begin + CHUNK, rows)):
                best = distance[first_id + row]
                if best <= low:
                    continue
                found = int64(-1)
                for e in range(offsets[row], offsets[row + 1]):
                    weight = reals[2 * e + 1]
                    if low + weight >= best:
                        break
                    there = distance[ids[2 * e]] + weight
                    if there < best:
                        best, found = there, e
                if found >= 0:
                    distance[first_id + row] = best
                    parent[first_id + row] = ids[2 * found]
                    mark[first_id + row] = PENDING | STALE


@kernel(lambda: (int64[::1], int64, int64, float32[::1], uint8[::1], uint32[::1]), nogil=True)
def list_pending(offsets, rows, first_id, distance, mark, out_queue):
    """List those of the first rows that are pending; return (how many, their edges, their least distance)."""
    count, edges, least = 0, 0, np.float32(np.inf)
    for row in range(rows):
        id = first_id + row
        if mark[id] & PENDING:
            out_queue[count] = id
            count += 1
            edges += offsets[row + 1] - offsets[row]
            least = min(least, distance[id])
    return count, edges, least


@kernel(lambda: (uint32[::1], int64, uint8[::1]), nogil=True)
def clear_pending(queue, n_queue, mark):
    """Take the mark of pending rows off."""
    for i in range(n_queue):
        mark[queue[i]] &= ~PENDING


@kernel(lambda: (int64[::1], int64, *_STATE, uint64[::1]), nogil=True)
def pack_stale(offsets, first_id, distance, parent, mark, out_words):
    """Write (distance, id) of the own rows that other ranks do not know; return how many words.

    A row of one edge is left out, unless it is the root: it got its distance over that edge, and can lower nobody's.
    """
    reals, count = distance.view(uint32), 0
    for row in range(offsets.shape[0] - 1):
        id = first_id + row
        if mark[id] & STALE:
            mark[id] &= ~STALE
            if offsets[row + 1] - offsets[row] > 1 or parent[id] == id:
                out_words[count] = uint64(reals[id]) << uint64(32) | uint64(id)
                count += 1
    return count


@kernel(lambda: (uint64[::1], float32[::1]), nogil=True)
def unpack_distances(words, distance):
    """Take in distances of other ranks' vertices."""
    reals = distance.view(uint32)
    for i in range(words.shape[0]):
        reals[int64(words[i] & uint64(_LOW))] = uint32(words[i] >> uint64(32))


@kernel(
    lambda: (uint32[::1], int64, int64, float32[::1], uint32[::1], uint8[::1], int64[::1], uint64[::1]),
    nogil=True,
)
def pack_outbox(outbox, n_outbox, stride, distance, parent, mark, out_counts, out_words):
    """Write (distance, id), parent of the outbox's vertices by owner, and how many words each rank gets."""
    reals = distance.view(uint32)
    out_counts[:] = 0
    for i in range(n_outbox):
        out_counts[int64(outbox[i]) // stride] += 2
    places = np.cumsum(out_counts) - out_counts
    for i in range(n_outbox):
        id = outbox[i]
        mark[id] = 0
        owner = int64(id) // stride
        out_words[places[owner]] = uint64(reals[id]) << uint64(32) | uint64(id)
        out_words[places[owner] + 1] = uint64(parent[id])
        places[owner] += 2


@kernel(lambda: (uint64[::1], int64, int64, *_STATE, uint32[::1], int64), nogil=True)
def take_messages(words, first_id, rows, distance, parent, mark, queue, n_queue):
    """Lower the distances of own rows by what other ranks found; return the length of the queue."""
    bits = np.empty(1, uint32)
    real = bits.view(float32)
    for i in range(0, words.shape[0], 2):
        id = uint32(words[i] & uint64(_LOW))
        bits[0] = uint32(words[i] >> uint64(32))
        if real[0] < distance[id]:
            n_queue = _lower(id, distance, parent, mark, real[0], uint32(words[i + 1]), queue, n_queue)
    return n_queue


@kernel(
    lambda: (
        *(uint32[::1], uint32[::1], float32[::1], int32[::1], int64),
        *(int64[::1], float32[::1], int64[::1], float32[::1]),
    ),
    **_FLAGS,
)
def write_results(
    vertex_of_id, parent, distance, place_of_vertex, first_id, numbers, lengths, out_parents, out_distances
):
    """Write parents, as vertices, and distances of the own vertices in their order; -1 and infinity: not reached.

    place_of_vertex: own row, or the last place of numbers and lengths [own rows + 1], which are scratch.
    Loops with one gather each become vector instructions; a loop with two does not.
    """
    rows = numbers.shape[0] - 1
    for row in prange(rows):
        numbers[row] = vertex_of_id[parent[first_id + row]]
    for row in prange(rows):
        lengths[row] = distance[first_id + row]
        numbers[row] = numbers[row] if lengths[row] < np.inf else -1
    numbers[rows], lengths[rows] = -1, np.inf
    for v in prange(place_of_vertex.shape[0]):
        out_parents[v] = numbers[place_of_vertex[v]]
    for v in prange(place_of_vertex.shape[0]):
        out_distances[v] = lengths[place_of_vertex[v]]


def kernels() -> list[Specialisation]:
    """Return the kernels of this file."""
    return specialise(
        [
            order_by_weight,
            push,
            take_active,
            least_distance,
            pull,
            list_pending,
            clear_pending,
            pack_stale,
            unpack_distances,
            pack_outbox,
            take_messages,
            write_results,
        ]
    )
