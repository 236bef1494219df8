"""Combine copies of points that elements share: sums, minima, maxima over lists of places.

Places are flat indices (int32) into one field. Groups of two, four and eight copies (faces, edges and corners of
hexahedra) have loops of their own. Any other number goes through a list with starts. Groups are ordered by when their
last element is processed. So a loop over elements can combine the groups that it has completed while they are still
in cache: `bounds[c, i]` groups of class c end before the i-th element processed.

The copies of a group are combined in the order of the list, two at a time in pairs: the same bits in every copy.
"""

from functools import cache
from typing import Any

import numpy as np
from numba import int32, int64

from ridgeline.jit.kernel import kernel, subroutine

ADD, MIN, MAX = range(3)
BLOCK = 8  # elements whose pairs, fours, ... are combined in turn: the next class then finds them in cache
OPERATIONS = {"add": ADD, "min": MIN, "max": MAX}


@subroutine(inline="always")
def _combine(operation, a, b):
    if operation == ADD:
        return a + b
    return min(a, b) if operation == MIN else max(a, b)


@subroutine(inline="always")
def combine_local(operation, pairs, fours, eights, starts, others, bounds, first, end, v):
    """Combine the groups of one field v [n] that are complete with the elements processed at first ... end.

    Returns the sum of the squares of the combined values, each counted once; unused, it costs nothing.

    operation: a constant; the others as elements.gather_scatter_plan.LocalGroups has them.
    """
    squares = second = third = fourth = 0.0  # in turn: no sum waits for the one before
    for g in range(bounds[0, first], bounds[0, end]):
        a, b = np.uint32(pairs[g, 0]), np.uint32(pairs[g, 1])
        value = _combine(operation, v[a], v[b])
        v[a] = value
        v[b] = value
        squares, second, third, fourth = second, third, fourth, squares + value * value
    for g in range(bounds[1, first], bounds[1, end]):
        a, b = np.uint32(fours[g, 0]), np.uint32(fours[g, 1])
        c, d = np.uint32(fours[g, 2]), np.uint32(fours[g, 3])
        value = _combine(operation, _combine(operation, v[a], v[b]), _combine(operation, v[c], v[d]))
        v[a] = value
        v[b] = value
        v[c] = value
        v[d] = value
        squares, second, third, fourth = second, third, fourth, squares + value * value
    for g in range(bounds[2, first], bounds[2, end]):
        places = eights[g]
        low = _combine(operation, v[places[0]], v[places[1]])
        low = _combine(operation, low, _combine(operation, v[places[2]], v[places[3]]))
        high = _combine(operation, v[places[4]], v[places[5]])
        high = _combine(operation, high, _combine(operation, v[places[6]], v[places[7]]))
        value = _combine(operation, low, high)
        for i in range(8):
            v[places[i]] = value
        squares += value * value
    for g in range(bounds[3, first], bounds[3, end]):
        value = v[others[starts[g]]]
        for i in range(starts[g] + 1, starts[g + 1]):
            value = _combine(operation, value, v[others[i]])
        for i in range(starts[g], starts[g + 1]):
            v[others[i]] = value
        squares += value * value
    return (squares + second) + (third + fourth)


@cache
def make_kernels(operation: int) -> Any:
    """Return the compiled (local, gather, scatter) for ADD, MIN or MAX.

    local(pairs, fours, eights, starts, others, bounds, first, end, u): combine the groups that are complete with the
        elements processed at first ... end. All copies of such a group are on this rank.
    gather(starts, places, send_index, u, partial, message): partial[f, k] = the combined copies of shared point k
        on this rank; message[slot, f] = partial[f, send_index[slot]].
    scatter(starts, places, source_starts, sources, message, partial, u): combine what the ranks have of shared
        point k in the order of ranks, and put it into all copies. Source -1 is this rank's partial, any other one is
        a slot of the message.
    u : (m, n) fields of one dtype, changed in place (not by gather)

    Cost: reads and writes each copy once; 4 bytes of list per copy and field.
    """
    return _make_local(operation), _make_gather(operation), _make_scatter(operation)


def _make_local(operation: int) -> Any:
    @kernel(
        lambda T: (*[int32[:, ::1]] * 3, *[int32[::1]] * 2, int64[:, ::1], int64, int64, T[:, ::1]),
        nogil=True,
    )
    def local(pairs, fours, eights, starts, others, bounds, first, end, u):
        for f in range(u.shape[0]):
            for begin in range(first, end, BLOCK):
                stop = min(begin + BLOCK, end)
                combine_local(operation, pairs, fours, eights, starts, others, bounds, begin, stop, u[f])

    return local


def _make_gather(operation: int) -> Any:
    @kernel(lambda T: (*[int32[::1]] * 3, *[T[:, ::1]] * 3), nogil=True)
    def gather(starts, places, send_index, u, partial, message):
        for f in range(u.shape[0]):
            v = u[f]
            for k in range(starts.size - 1):
                value = v[places[starts[k]]]
                for i in range(starts[k] + 1, starts[k + 1]):
                    value = _combine(operation, value, v[places[i]])
                partial[f, k] = value
        for slot in range(send_index.size):
            for f in range(u.shape[0]):
                message[slot, f] = partial[f, send_index[slot]]

    return gather


def _make_scatter(operation: int) -> Any:
    @kernel(lambda T: (*[int32[::1]] * 4, *[T[:, ::1]] * 3), nogil=True)
    def scatter(starts, places, source_starts, sources, message, partial, u):
        for f in range(u.shape[0]):
            v = u[f]
            for k in range(starts.size - 1):
                source = sources[source_starts[k]]
                value = partial[f, k] if source < 0 else message[source, f]
                for i in range(source_starts[k] + 1, source_starts[k + 1]):
                    source = sources[i]
                    other = partial[f, k] if source < 0 else message[source, f]
                    value = _combine(operation, value, other)
                for i in range(starts[k], starts[k + 1]):
                    v[places[i]] = value

    return scatter
