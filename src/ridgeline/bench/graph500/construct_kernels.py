"""Compiled parts of kernel 1: edges into buckets by their owners, degrees, rows, and rows sorted without duplicates.

A directed edge travels as one integer of 64 bits. Its upper half is its vertex among those of the process row, its
lower half the other vertex among those of the process column. In a row the edge is a key: the neighbour's place in
the order of degrees, then the bits of the weight. Weights are not negative, so their bits are in their order.
"""

from numba import float32, int32, int64, prange, types, uint32, uint64

from ridgeline.jit.kernel import Specialisation, kernel, specialise, subroutine

PARTS = 64  # parts of the edges and of the rows, which threads take in turn
_LOW = 0xFFFFFFFF
_FLAGS = {"parallel": True, "nogil": True}
# Vertices of a rank, vertices of a bucket, buckets of a rank, process rows and columns.
_PLAN = types.UniTuple(int64, 5)


@subroutine
def _bucket(vertex, other, plan):
    """Return the bucket of an edge among those of all ranks, and both ends in the numbers of that rank.

    The edge goes into the process row of the vertex's owner and the process column of the other's.
    """
    length, width, buckets, rows, columns = plan
    rank = vertex // length
    place = vertex - rank * length
    if columns > 1:
        column, target = rank // rows, other // (length * rows)
        place += column * length
        rank += (target - column) * rows
        other -= target * (length * rows)
    return rank * buckets + place // width, place, other


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


@kernel(
    lambda: (
        *[int64[:, ::1]] * 2,
        uint64[::1],
        float32[::1],
        uint32[::1],
        uint32[::1],
        int64[::1],
        uint64[::1],
    ),
    **_FLAGS,
)
def fill_rows(begins, counts, pairs, pair_weights, row_of_place, order, places, keys):
    """Write every edge's key into its row, from places[row] on, which are advanced.

    row_of_place [vertices of a process row]; order [vertices of a process column]: places in the order of degrees.
    """
    for bucket in prange(counts.shape[1]):
        for source in range(counts.shape[0]):
            begin = begins[source, bucket]
            for i in range(begin, begin + counts[source, bucket]):
                row = int64(row_of_place[int64(pairs[i] >> uint64(32))])
                key = uint64(order[int64(pairs[i] & uint64(_LOW))]) << uint64(32)
                if pair_weights.shape[0]:
                    key |= uint64(pair_weights[i : i + 1].view(uint32)[0])
                keys[places[row]] = key
                places[row] += 1


@kernel(lambda: (int64[::1], uint64[::1], int64[::1]), **_FLAGS)
def sort_rows(offsets, keys, lengths):
    """Sort every row, keep the first key of each neighbour, and write how many there are to lengths[row + 1]."""
    rows = offsets.shape[0] - 1
    # A part has every 64th row: the longest ones come first, so that parts have equal work.
    for part in prange(PARTS):
        for row in range(part, rows, PARTS):
            mine = keys[offsets[row] : offsets[row + 1]]
            mine.sort()
            kept = 0
            for i in range(mine.shape[0]):
                if kept == 0 or mine[i] >> uint64(32) != mine[kept - 1] >> uint64(32):
                    mine[kept] = mine[i]
                    kept += 1
            lengths[row + 1] = kept


@kernel(
    lambda: (int64, int64, int64[::1], int64[::1], uint64[::1], uint32[::1], float32[::1]),
    **_FLAGS,
)
def unpack_rows(ranks, stride, loose, offsets, keys, neighbours, weights):
    """Write the rows kept in keys from loose[row] on into neighbours, as ids, and weights unless it is empty."""
    rows = offsets.shape[0] - 1
    for part in prange(PARTS):
        for row in range(part, rows, PARTS):
            shift = loose[row] - offsets[row]
            for i in range(offsets[row], offsets[row + 1]):
                order = int64(keys[i + shift] >> uint64(32))
                neighbours[i] = uint32(order % ranks * stride + order // ranks)
                if weights.shape[0]:
                    weights[i : i + 1].view(uint32)[0] = uint32(keys[i + shift] & uint64(_LOW))


def kernels() -> list[Specialisation]:
    """Return the kernels of this file."""
    filling = [count_buckets, fill_buckets, count_degrees, order_by_degree, fill_rows]
    return specialise([*filling, sort_rows, unpack_rows])
