"""Compiled parts of kernel 1: edges into buckets by their owners, degrees, and rows sorted without duplicates.

A directed edge travels as one integer of 64 bits. Its upper half is its vertex among those of the process row, its
lower half the other vertex among those of the process column. Parts of a bucket fit into a core's cache, where they
are sorted digit by digit: by vertex, then by the neighbour's place in the order of degrees.
"""

import numpy as np
from numba import float32, int32, int64, prange, types, uint32, uint64

from ridgeline.jit.kernel import Specialisation, kernel, specialise, subroutine

PARTS = 64  # parts of the edges and of the rows, which threads take in turn
_LOW = 0xFFFFFFFF
_FLAGS = {"parallel": True, "nogil": True}
# Vertices of a rank, bits of a place in a bucket, buckets of a rank, process rows and columns.
_PLAN = types.UniTuple(int64, 5)


@subroutine
def _bucket(vertex, other, plan):
    """Return the bucket of an edge among those of all ranks, and both ends in the numbers of that rank.

    The edge goes into the process row of the vertex's owner and the process column of the other's.
    """
    length, shift, buckets, rows, columns = plan
    rank = vertex // length if rows * columns > 1 else 0
    place = vertex - rank * length
    if columns > 1:
        column, target = rank // rows, other // (length * rows)
        place += column * length
        rank += (target - column) * rows
        other -= target * (length * rows)
    return rank * buckets + (place >> shift), place, other


@kernel(lambda: (int64[::1], int64[::1], _PLAN, int64[:, ::1]), **_FLAGS)
def count_buckets(start, end, plan, counts):
    """Set counts[part, bucket] to the directed edges that a part of the list has for it. Self-loops are left out."""
    edges = start.shape[0]
    for part in prange(PARTS):
        for i in range(edges * part // PARTS, edges * (part + 1) // PARTS):
            if start[i] != end[i]:
                counts[part, _bucket(start[i], end[i], plan)[0]] += 1
                counts[part, _bucket(end[i], start[i], plan)[0]] += 1


@kernel(
    lambda: (int64[::1], int64[::1], float32[::1], _PLAN, int64[:, ::1], uint64[::1], float32[::1]), **_FLAGS
)
def fill_buckets(start, end, weight, plan, places, pairs, pair_weights):
    """Write both directions of every edge in the order of the list, from places[part, bucket] on, which are advanced.

    weight, pair_weights: may be empty.
    """
    edges = start.shape[0]
    for part in prange(PARTS):
        for i in range(edges * part // PARTS, edges * (part + 1) // PARTS):
            if start[i] != end[i]:
                for back in range(2):
                    here, there = (end[i], start[i]) if back else (start[i], end[i])
                    bucket, near, far = _bucket(here, there, plan)
                    place = places[part, bucket]
                    places[part, bucket] = place + 1
                    pairs[place] = uint64(near) << uint64(32) | uint64(far)
                    if weight.shape[0]:
                        pair_weights[place] = weight[i]


@kernel(lambda: (int64[:, ::1], int64[:, ::1], uint64[::1], int32[::1]), **_FLAGS)
def count_degrees(begins, counts, pairs, degree):
    """Add the edges here, duplicates included, to degree [places]. begins, counts [ranks, buckets]."""
    for bucket in prange(counts.shape[1]):
        for source in range(counts.shape[0]):
            begin = begins[source, bucket]
            for i in range(begin, begin + counts[source, bucket]):
                degree[int64(pairs[i] >> uint64(32))] += 1


@kernel(lambda: (int32[::1], int64[::1], int32[::1]))
def order_by_degree(degree, places, row_of_vertex):
    """Write the place of each vertex by falling degree, -1 for degree 0. places [largest degree + 1]: scratch."""
    places[:] = 0
    for v in range(degree.shape[0]):
        places[degree[v]] += 1
    total = 0
    for value in range(places.shape[0] - 1, 0, -1):
        total, places[value] = total + places[value], total
    for v in range(degree.shape[0]):
        row_of_vertex[v] = -1
        if degree[v] > 0:
            row_of_vertex[v] = places[degree[v]]
            places[degree[v]] += 1


@subroutine
def _sort_by_digits(key, weight, spare, spare_weight, digits, counts):
    """Sort keys digit by digit from the lowest one on; return whether they end in the spare arrays.

    digits [n, 2] : the shift and the mask of each digit; counts [n, values]: memory
    """
    counts[:] = 0
    for i in range(key.shape[0]):
        for digit in range(digits.shape[0]):
            value = (key[i] >> uint64(digits[digit, 0])) & uint64(digits[digit, 1])
            counts[digit, int64(value)] += 1
    swapped = False
    for digit in range(digits.shape[0]):
        shift, mask = uint64(digits[digit, 0]), uint64(digits[digit, 1])
        places, total = counts[digit], 0
        for value in range(places.shape[0]):
            total, places[value] = total + places[value], total
        source, target = (spare, key) if swapped else (key, spare)
        source_weight, target_weight = (spare_weight, weight) if swapped else (weight, spare_weight)
        for i in range(source.shape[0]):
            value = int64((source[i] >> shift) & mask)
            place = places[value]
            places[value] = place + 1
            target[place] = source[i]
            if source_weight.shape[0]:
                target_weight[place] = source_weight[i]
        swapped = not swapped
    return swapped


@subroutine
def _keep_first(key, weight, kept, sorted_key, sorted_weight, rows, lengths):
    """Append sorted keys to the `kept` ones, of duplicates the least weight; return how many there are then.

    rows : of the places that keys count from; lengths [rows + 1]: the edges of row i are added to entry i + 1
    """
    begin = kept
    for i in range(sorted_key.shape[0]):
        if kept == begin or sorted_key[i] != key[kept - 1]:
            key[kept] = sorted_key[i]
            if sorted_weight.shape[0]:
                weight[kept] = sorted_weight[i]
            lengths[int64(rows[int64(sorted_key[i] >> uint64(32))]) + 1] += 1
            kept += 1
        elif sorted_weight.shape[0]:
            weight[kept - 1] = min(weight[kept - 1], sorted_weight[i])
    return kept


@subroutine
def _gather(bucket, begins, counts, pairs, pair_weights, order, shift, part_shift, key, weight):
    """Write the keys of a bucket, those of 2^part_shift places after each other; return where these parts begin."""
    first, parts = uint64(bucket << shift), 1 << (shift - part_shift)
    starts = np.zeros(parts + 2, np.int64)
    for source in range(counts.shape[0]):
        begin = begins[source, bucket]
        for i in range(begin, begin + counts[source, bucket]):
            starts[int64(((pairs[i] >> uint64(32)) - first) >> uint64(part_shift)) + 2] += 1
    for part in range(parts):
        starts[part + 2] += starts[part + 1]
    for source in range(counts.shape[0]):
        begin = begins[source, bucket]
        for i in range(begin, begin + counts[source, bucket]):
            near = (pairs[i] >> uint64(32)) - first
            part = int64(near >> uint64(part_shift)) + 1
            to = starts[part]
            starts[part] = to + 1
            key[to] = near << uint64(32) | uint64(order[int64(pairs[i] & uint64(_LOW))])
            if pair_weights.shape[0]:
                weight[to] = pair_weights[i]
    return starts[: parts + 1]


@kernel(
    lambda: (
        *[int64[:, ::1]] * 2,
        *(uint64[::1], float32[::1], uint32[::1], uint32[::1], int64, int64, int64[:, ::1]),
        *(int64[::1], uint64[::1], float32[::1], int64[::1], int64[::1]),
    ),
    **_FLAGS,
)
def sort_buckets(
    begins,
    counts,
    pairs,
    pair_weights,
    row_of_place,
    order,
    shift,
    part_shift,
    digits,
    firsts,
    keys,
    weights,
    kept,
    lengths,
):
    """Sort the edges of each bucket by their place, then by their neighbour's order, without duplicates.

    Parameters
    ----------
    begins, counts [ranks, buckets], pairs, pair_weights : the edges by source rank and bucket
    row_of_place [vertices of a process row] : where a vertex's row is
    order [vertices of a process column] : a vertex's place in the order of degrees
    shift, part_shift : bits of a place in its bucket, and in one of the parts that are sorted one after the other
    digits [n, 2] : the shift and the mask of the digits of a key in a part, the lowest first
    firsts [buckets], keys, weights : where a bucket begins, and its keys: the place in the bucket in the upper half,
        the neighbour's order in the lower half
    kept [buckets] : set to the number of keys
    lengths [rows + 1] : zeros; entry row + 1 is set to the edges of a row
    """
    for bucket in prange(counts.shape[1]):
        n = counts[:, bucket].sum()
        key = keys[firsts[bucket] : firsts[bucket] + n]
        weight = weights[firsts[bucket] : firsts[bucket] + (n if pair_weights.shape[0] else 0)]
        starts = _gather(bucket, begins, counts, pairs, pair_weights, order, shift, part_shift, key, weight)
        longest = np.max(starts[1:] - starts[:-1])
        spare = np.empty(longest, np.uint64)
        spare_weight = np.empty(longest if weight.shape[0] else 0, np.float32)
        values = np.empty((digits.shape[0], np.max(digits[:, 1]) + 1), np.int64)
        rows = row_of_place[bucket << shift :]
        total = 0
        for part in range(starts.shape[0] - 1):
            a, b = starts[part], starts[part + 1]
            one, one_weight = key[a:b], weight[a:b]
            other, other_weight = spare[: b - a], spare_weight[: b - a]
            if _sort_by_digits(one, one_weight, other, other_weight, digits, values):
                one, one_weight = other, other_weight
            total = _keep_first(key, weight, total, one, one_weight, rows, lengths)
        kept[bucket] = total


@kernel(
    lambda: (
        *(int64, int64, int64, int64[::1], int64[::1], uint64[::1], float32[::1]),
        *(uint32[::1], int64[::1], uint32[::1], float32[::1]),
    ),
    **_FLAGS,
)
def fill_rows(
    ranks, stride, shift, firsts, kept, keys, weights, row_of_place, offsets, neighbours, edge_weights
):
    """Write the kept keys of every bucket into rows, from offsets[row] on, as ids, and weights unless there are none.

    Arguments are those of `sort_buckets`.
    """
    for bucket in prange(firsts.shape[0]):
        last, place = -1, 0
        for i in range(firsts[bucket], firsts[bucket] + kept[bucket]):
            near = int64(keys[i] >> uint64(32))
            if near != last:
                last, place = near, offsets[int64(row_of_place[(bucket << shift) + near])]
            order = int64(keys[i] & uint64(_LOW))
            neighbours[place] = uint32(order if ranks == 1 else order % ranks * stride + order // ranks)
            if edge_weights.shape[0]:
                edge_weights[place] = weights[i]
            place += 1


def kernels() -> list[Specialisation]:
    """Return the kernels of this file."""
    return specialise([count_buckets, fill_buckets, count_degrees, order_by_degree, sort_buckets, fill_rows])
