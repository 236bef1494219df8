"""Compiled parts of kernel 3: edges in the order of weights, relaxations that push and that pull, messages.

An edge is one word of 64 bits, the weight's bits above the neighbour's id. Weights are not negative, so that words
are in the order of weights. Kernels read the word's halves, `ids` [2 entries] and `reals` [2 entries], which are the
same memory: ids[2 e] is the neighbour and reals[2 e + 1] the weight (little-endian).

The state of vertices is distance float32, parent uint32 and mark uint8. A rank has it of its process column, and of
other ranks in its process row. Distances of other ranks' vertices are upper bounds. A mark has three bits:

- PENDING: the edges of a vertex of this rank are still to be relaxed; a message will go to a vertex of another rank.
- STALE: other ranks do not know the distance of a vertex of this rank.
- PULLED: the parent is a place in the process column; otherwise it is a vertex in the numbers of the edge list.
"""

import numpy as np
from numba import float32, int32, int64, prange, uint8, uint32, uint64

from ridgeline.jit.kernel import Specialisation, kernel, specialise, subroutine

PENDING, STALE, PULLED = 1, 2, 4
CHUNK = 256  # rows that a thread takes in turn
_PARTS = 64
_LOW = 0xFFFFFFFF
_FLAGS = {"parallel": True, "nogil": True}
_ROWS = (int64[::1], uint32[::1], float32[::1])  # offsets, ids, reals
_STATE = (float32[::1], uint32[::1], uint8[::1])  # distance, parent, mark
_QUEUE = (uint32[::1], int64)  # places of vertices, how many


@kernel(lambda: (int64[::1], uint32[::1], float32[::1], uint64[::1]), **_FLAGS)
def order_by_weight(offsets, neighbours, weights, out_words):
    """Write the edges of every row in the order of their weights, equal ones in the order of ids."""
    rows = offsets.shape[0] - 1
    # A part has every 64th row: the longest ones come first, so that parts have equal work.
    for part in prange(_PARTS):
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
def _lower(place, state, new_distance, new_parent, queue, count):
    """Give a vertex a lower distance and a parent by its number; return the new length of the queue."""
    distance, parent, mark = state
    distance[place] = new_distance
    parent[place] = new_parent
    if mark[place] & PENDING == 0:
        queue[count] = place
        count += 1
    mark[place] = PENDING | STALE
    return count


@subroutine
def _packed(place, shift, distances):
    """Return a word: the bits of a vertex's distance above its place, which is shifted."""
    return uint64(distances[place]) << uint64(32) | uint64(place + shift)


@kernel(
    lambda: (*_ROWS, uint64[::1], uint32[::1], float32, float32, int64, int64, *_STATE, *_QUEUE, uint32[::1]),
    nogil=True,
)
def push(
    offsets,
    ids,
    reals,
    active,
    vertices,
    least,
    most,
    first,
    stride,
    distance,
    parent,
    mark,
    queue,
    n_queue,
    outbox,
):
    """Relax the edges of the active rows with least <= weight < most; return the lengths of queue and outbox.

    active: words of rows of the process row; vertices: of these rows; distance, parent, mark [process column], of
    which the `stride` from `first` on belong to this rank; queue: those of them that became pending; outbox: others
    that became lower.
    """
    places, distances, n_outbox = active.view(uint32), active.view(float32), 0
    state = distance, parent, mark
    for i in range(active.shape[0]):
        row, start = int64(places[2 * i]), distances[2 * i + 1]
        for e in range(offsets[row], offsets[row + 1]):
            weight = reals[2 * e + 1]
            if weight >= most:
                break
            if weight < least:
                continue
            v = ids[2 * e]
            there = start + weight
            if there < distance[v]:
                if 0 <= int64(v) - first < stride:
                    n_queue = _lower(v, state, there, vertices[row], queue, n_queue)
                else:
                    n_outbox = _lower(v, state, there, vertices[row], outbox, n_outbox)
    return n_queue, n_outbox


@kernel(
    lambda: (uint32[::1], int64, float32, int64[::1], int64, float32[::1], uint8[::1], uint32[::1]),
    nogil=True,
)
def take_active(queue, n_queue, limit, own_offsets, first, distance, mark, out_active):
    """Move the vertices below a distance from the queue to out_active, no longer pending.

    Return (vertices left in the queue, active ones, edges of those).
    """
    kept, taken, edges = 0, 0, 0
    for i in range(n_queue):
        place = queue[i]
        if distance[place] < limit:
            out_active[taken] = place
            taken += 1
            mark[place] &= ~PENDING
            row = int64(place) - first
            edges += own_offsets[row + 1] - own_offsets[row]
        else:
            queue[kept] = place
            kept += 1
    return kept, taken, edges


@kernel(lambda: (uint32[::1], int64, float32[::1]), nogil=True)
def least_distance(queue, n_queue, distance):
    """Return the least distance of the vertices in a queue, infinity for none."""
    least = np.float32(np.inf)
    for i in range(n_queue):
        least = min(least, distance[queue[i]])
    return least


@kernel(lambda: (*_ROWS, int64, float32, int64, float32[::1], *_STATE), **_FLAGS)
def pull(offsets, ids, reals, rows, low, threads, offered, distance, parent, mark):
    """Give the first rows the least distance that neighbours at `low` or beyond offer; rows that get one are pending.

    offsets [rows + 1] and state [rows] of one owner's vertices; offered: distances of the process column, of which
    those of own rows are a part. Weights rise along a row, and rounding keeps order: the first edge with
    low + weight >= distance ends the row. Rows are taken in the order of degrees, and see what own rows before them
    got. A thread writes only its own rows.
    """
    for thread in prange(threads):
        for begin in range(thread * CHUNK, rows, threads * CHUNK):
            for row in range(begin, min(begin + CHUNK, rows)):
                best = distance[row]
                if best <= low:
                    continue
                found = int64(-1)
                for e in range(offsets[row], offsets[row + 1]):
                    weight = reals[2 * e + 1]
                    if low + weight >= best:
                        break
                    there = offered[ids[2 * e]] + weight
                    if there < best:
                        best, found = there, e
                if found >= 0:
                    distance[row] = best
                    parent[row] = ids[2 * found]
                    mark[row] = PENDING | STALE | PULLED


@kernel(lambda: (int64[::1], int64, int64, float32[::1], uint8[::1], uint32[::1]), nogil=True)
def list_pending(own_offsets, rows, first, distance, mark, out_queue):
    """List those of the first own rows that are pending; return (how many, their edges, their least distance)."""
    count, edges, least = 0, 0, np.float32(np.inf)
    for row in range(rows):
        place = first + row
        if mark[place] & PENDING:
            out_queue[count] = place
            count += 1
            edges += own_offsets[row + 1] - own_offsets[row]
            least = min(least, distance[place])
    return count, edges, least


@kernel(lambda: (uint32[::1], int64, uint8[::1]), nogil=True)
def clear_pending(queue, n_queue, mark):
    """Remove the mark of pending vertices."""
    for i in range(n_queue):
        mark[queue[i]] &= ~PENDING


@kernel(lambda: (uint8[::1], int64, int64, *_QUEUE), nogil=True)
def list_lowered(mark, first, rows, out_list, count):
    """Append the marked places of a block's first rows to a list; return its new length."""
    for place in range(first, first + rows):
        if mark[place] & PENDING:
            out_list[count] = place
            count += 1
    return count


@kernel(lambda: (uint32[::1], int64, float32[::1], uint64[::1]), nogil=True)
def pack(places, shift, distance, out_words):
    """Write the words of some vertices."""
    distances = distance.view(uint32)
    for i in range(places.shape[0]):
        out_words[i] = _packed(int64(places[i]), shift, distances)


@kernel(lambda: (int64[::1], int64, float32[::1], uint8[::1], uint64[::1]), nogil=True)
def pack_stale(own_offsets, first, distance, mark, out_words):
    """Write the words of this rank's vertices whose distances other ranks do not know; return their number.

    A vertex of one edge is left out unless it is the root: it got its distance over that edge, and lowers no other.
    """
    distances, count = distance.view(uint32), 0
    for row in range(own_offsets.shape[0] - 1):
        place = first + row
        if mark[place] & STALE:
            mark[place] &= ~STALE
            if own_offsets[row + 1] - own_offsets[row] > 1 or distance[place] == 0:
                out_words[count] = _packed(place, 0, distances)
                count += 1
    return count


@kernel(lambda: (uint64[::1], float32[::1]), nogil=True)
def unpack_distances(words, distance):
    """Store the distances of vertices."""
    reals = distance.view(uint32)
    for i in range(words.shape[0]):
        reals[int64(words[i] & uint64(_LOW))] = uint32(words[i] >> uint64(32))


@kernel(lambda: (*_QUEUE, int64, *_STATE, uint32[::1], int64[::1], uint32[:, ::1]), nogil=True)
def pack_candidates(outbox, n_outbox, stride, distance, parent, mark, vertices, out_counts, out_candidates):
    """Write (row on the owner, distance's bits, parent's number) of listed vertices by owner: [n, 3]; clear marks.

    out_counts: uint32 numbers for each rank; vertices [process column].
    """
    distances = distance.view(uint32)
    out_counts[:] = 0
    for i in range(n_outbox):
        out_counts[int64(outbox[i]) // stride] += 1
    ends = np.cumsum(out_counts) - out_counts
    for i in range(n_outbox):
        place = int64(outbox[i])
        owner = place // stride
        out_candidates[ends[owner], 0] = uint32(place - owner * stride)
        out_candidates[ends[owner], 1] = distances[place]
        pulled = mark[place] & PULLED
        out_candidates[ends[owner], 2] = vertices[parent[place]] if pulled else parent[place]
        mark[place] = 0
        ends[owner] += 1
    for owner in range(out_counts.shape[0]):
        out_counts[owner] *= 3


@kernel(lambda: (uint32[::1], int64, *_STATE, *_QUEUE), nogil=True)
def take_candidates(candidates, first, distance, parent, mark, queue, n_queue):
    """Lower the distances of this rank's vertices to those of candidates; return the length of the queue."""
    distances, state = candidates.view(float32), (distance, parent, mark)
    for i in range(0, candidates.shape[0], 3):
        place = uint32(first + candidates[i])
        if distances[i + 1] < distance[place]:
            n_queue = _lower(place, state, distances[i + 1], candidates[i + 2], queue, n_queue)
    return n_queue


@kernel(
    lambda: (
        *(uint32[::1], *_STATE, int32[::1], int64),
        *(int64[::1], float32[::1], int64[::1], float32[::1]),
    ),
    **_FLAGS,
)
def write_results(
    vertices, distance, parent, mark, place_of_vertex, first, numbers, lengths, out_parents, out_distances
):
    """Write parents and distances of the own vertices in their order; -1 and infinity: not reached.

    vertices [process column]; place_of_vertex: own row, or the last place of numbers and lengths [own rows + 1],
    which are scratch. Loops with one gather each become vector instructions; a loop with two does not.
    """
    rows = numbers.shape[0] - 1
    last = uint32(vertices.shape[0] - 1)
    for row in prange(rows):
        numbers[row] = vertices[min(parent[first + row], last)]  # of no use where the parent is a number
    for row in prange(rows):
        if mark[first + row] & PULLED == 0:  # seldom: a branch costs less than a choice
            numbers[row] = parent[first + row]
    for row in prange(rows):
        lengths[row] = distance[first + row]
        numbers[row] = numbers[row] if lengths[row] < np.inf else -1
    numbers[rows], lengths[rows] = -1, np.inf
    for v in prange(place_of_vertex.shape[0]):
        out_parents[v] = numbers[place_of_vertex[v]]
    for v in prange(place_of_vertex.shape[0]):
        out_distances[v] = lengths[place_of_vertex[v]]


def kernels() -> list[Specialisation]:
    """Return the kernels of this file."""
    pushing = [order_by_weight, push, take_active, least_distance, pack]
    pulling = [pull, list_pending, clear_pending, list_lowered, pack_stale, unpack_distances]
    return specialise([*pushing, *pulling, pack_candidates, take_candidates, write_results])
