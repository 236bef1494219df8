"""The pass of the validation over this rank's input edges: one for levels, one for distances.

Both write the first edge of each chunk that breaks a rule. They set the flag of a vertex whose parent an edge joins
to it. Threads share the chunks; two that set one flag write the same value.
"""

import numpy as np
from numba import float32, int32, int64, prange, uint8

from ridgeline.jit.kernel import Specialisation, kernel, specialise

CHUNK = 1 << 16  # edges
# Rows of out_found: an edge whose ends are too far apart, one that leaves the tree.
APART, CUT = 0, 1
_ULP = 2.0**-23  # of float32: distances are sums that were rounded once an edge


@kernel(
    lambda: (int32[::1], int32[::1], int64[::1], int32[::1], int64[::1], uint8[::1], int64[:, ::1]),
    parallel=True,
    nogil=True,
)
def check_levels(start, end, numbers, level, parent, out_flags, out_found):
    """Return how many edges have both ends in the tree.

    start, end [edges]: places in the view; numbers, level (-1 outside), parent, out_flags [view];
    out_found [2, chunks]: edges by APART and CUT, -1 for none.
    """
    inside = 0
    for chunk in prange(out_found.shape[1]):
        for e in range(chunk * CHUNK, min((chunk + 1) * CHUNK, start.shape[0])):
            u, v = start[e], end[e]
            difference = level[u] - level[v]
            if level[u] < 0 or level[v] < 0:
                if difference != 0 and out_found[CUT, chunk] < 0:
                    out_found[CUT, chunk] = e
                continue
            inside += 1
            if difference == 1 and parent[u] == numbers[v]:
                out_flags[u] = 1
            elif difference == -1 and parent[v] == numbers[u]:
                out_flags[v] = 1
            elif (difference > 1 or difference < -1) and out_found[APART, chunk] < 0:
                out_found[APART, chunk] = e
    return inside


@kernel(
    lambda: (
        int32[::1], int32[::1], float32[::1], int64[::1], float32[::1], int64[::1], uint8[::1], int64[:, ::1],
    ),
    parallel=True,
    nogil=True,
)  # fmt: skip
def check_distances(start, end, weight, numbers, distance, parent, out_flags, out_found):
    """Return how many edges have both ends in the tree.

    Arguments as of `check_levels`, with weight [edges] and distance [view], infinite outside.
    """
    inside = 0
    for chunk in prange(out_found.shape[1]):
        for e in range(chunk * CHUNK, min((chunk + 1) * CHUNK, start.shape[0])):
            u, v = start[e], end[e]
            at_u, at_v = np.float64(distance[u]), np.float64(distance[v])
            if at_u == np.inf or at_v == np.inf:
                if at_u != at_v and out_found[CUT, chunk] < 0:
                    out_found[CUT, chunk] = e
                continue
            inside += 1
            to_v, to_u = at_u + weight[e] - at_v, at_v + weight[e] - at_u
            rounding_v, rounding_u = _ULP * (at_u + weight[e]), _ULP * (at_v + weight[e])
            if (to_v < -rounding_v or to_u < -rounding_u) and out_found[APART, chunk] < 0:
                out_found[APART, chunk] = e
            if parent[v] == numbers[u] and abs(to_v) <= rounding_v:
                out_flags[v] = 1
            if parent[u] == numbers[v] and abs(to_u) <= rounding_u:
                out_flags[u] = 1
    return inside


def kernels() -> list[Specialisation]:
    """Return the kernels of this file."""
    return specialise([check_levels, check_distances])
