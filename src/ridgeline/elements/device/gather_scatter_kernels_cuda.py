"""Combine copies of points that elements share on NVIDIA GPUs: the twins of `gather_scatter_kernels`, for sums.

Each group of copies has one thread, so that nothing is added atomically. The order within a group is that of the
CPU's kernels: the same bits. Lists are flat int32 device arrays; values, partial and message are flat device arrays
of float64 or float32. Kernels of several fields [m, stride] have a row of thread blocks for each field (grid's y).
A message is [slots, m], a partial [m, points].
"""

import numpy as np
from numba import cuda

from ridgeline.jit.cuda_device import SIMULATED, device_function, kernel, load, store, sum_threads

THREADS = 8 if SIMULATED else 256
_BLOCKS = 8  # of a multiprocessor: its 2048 threads


def grid_of(count: int) -> int:
    """Return the number of thread blocks of THREADS for `count` groups, points or slots."""
    return -(-count // THREADS)


@device_function
def _combine_group(lists, counts, g, values, first):
    """Put the sum over group g's copies into each of them, of the field that begins at values[first]; return it.

    lists, counts: as of `combine_groups`. Each class of groups has names of its own: the type of a sum is that of
    the values.
    """
    pairs, fours, eights, rest = counts
    fours_at = 2 * pairs
    eights_at = fours_at + 4 * fours
    starts_at = eights_at + 8 * eights
    if g < pairs:
        a, b = first + load(lists, 2 * g), first + load(lists, 2 * g + 1)
        of_pair = load(values, a) + load(values, b)
        store(values, a, of_pair)
        store(values, b, of_pair)
        return of_pair
    if g < pairs + fours:
        at = fours_at + 4 * (g - pairs)
        a, b = first + load(lists, at), first + load(lists, at + 1)
        c, d = first + load(lists, at + 2), first + load(lists, at + 3)
        of_four = (load(values, a) + load(values, b)) + (load(values, c) + load(values, d))
        store(values, a, of_four)
        store(values, b, of_four)
        store(values, c, of_four)
        store(values, d, of_four)
        return of_four
    if g < pairs + fours + eights:
        at = eights_at + 8 * (g - pairs - fours)
        low = load(values, first + load(lists, at)) + load(values, first + load(lists, at + 1))
        low += load(values, first + load(lists, at + 2)) + load(values, first + load(lists, at + 3))
        high = load(values, first + load(lists, at + 4)) + load(values, first + load(lists, at + 5))
        high += load(values, first + load(lists, at + 6)) + load(values, first + load(lists, at + 7))
        of_eight = low + high
        for place in range(8):
            store(values, first + load(lists, at + place), of_eight)
        return of_eight
    if g < pairs + fours + eights + rest:
        at = starts_at + g - pairs - fours - eights
        others_at = starts_at + rest + 1
        begin, end = others_at + load(lists, at), others_at + load(lists, at + 1)
        of_others = load(values, first + load(lists, begin))
        for place in range(begin + 1, end):
            of_others += load(values, first + load(lists, place))
        for place in range(begin, end):
            store(values, first + load(lists, place), of_others)
        return of_others
    return 0.0


@kernel(THREADS, _BLOCKS)
def combine_groups(lists, counts, values, out_squares, first, step):
    """Put the sum over a group's copies into each of them, of one field of float64.

    lists: pairs, fours, eights, starts and others of `LocalGroups`, one after the other; counts: how many pairs,
    fours, eights and others there are. The sum of squares of the sums of thread block b goes to
    out_squares[first + b step]. Launch grid_of(sum(counts)) x THREADS.

    Cost: reads and writes each copy once, 4 bytes of list per copy.
    """
    scratch = cuda.shared.array(THREADS, np.float64)
    g = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    value = _combine_group(lists, counts, g, values, 0)
    store(scratch, cuda.threadIdx.x, value * value)
    sum_threads(scratch, 1, cuda.threadIdx.x, cuda.blockDim.x)
    if cuda.threadIdx.x == 0:
        store(out_squares, first + cuda.blockIdx.x * step, scratch[0])


@kernel(THREADS, _BLOCKS)
def combine_fields(lists, counts, stride, values):
    """Put the sum over a group's copies into each of them, of m fields [m, stride], float64 or float32.

    lists, counts: as of `combine_groups`. Launch (grid_of(sum(counts)), m) x THREADS.
    """
    g = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    _combine_group(lists, counts, g, values, cuda.blockIdx.y * stride)


@kernel(THREADS, _BLOCKS)
def gather_shared(starts, places, stride, values, out_partial):
    """out_partial[c, k] = the sum over this rank's copies of shared point k.

    Launch (grid_of(points), m) x THREADS.
    """
    k = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    points, first = starts.size - 1, cuda.blockIdx.y * stride
    if k < points:
        begin, end = load(starts, k), load(starts, k + 1)
        value = load(values, first + load(places, begin))
        for i in range(begin + 1, end):
            value += load(values, first + load(places, i))
        store(out_partial, cuda.blockIdx.y * points + k, value)


@kernel(THREADS, _BLOCKS)
def pack_shared(send_index, points, partial, out_message):
    """out_message[slot, c] = partial[c, send_index[slot]]; launch (grid_of(slots), m) x THREADS."""
    slot = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if slot < send_index.size:
        value = load(partial, cuda.blockIdx.y * points + load(send_index, slot))
        store(out_message, slot * cuda.gridDim.y + cuda.blockIdx.y, value)


@device_function
def _scatter_point(starts, places, source_starts, sources, message, partial, k, values, stride):
    """Put the sum of all ranks' parts of shared point k into this rank's copies; return it."""
    field, fields, points = cuda.blockIdx.y, cuda.gridDim.y, starts.size - 1
    begin, end = load(source_starts, k), load(source_starts, k + 1)
    source = load(sources, begin)
    mine = load(partial, field * points + k)
    value = mine if source < 0 else load(message, source * fields + field)
    for i in range(begin + 1, end):
        source = load(sources, i)
        value += mine if source < 0 else load(message, source * fields + field)
    for i in range(load(starts, k), load(starts, k + 1)):
        store(values, field * stride + load(places, i), value)
    return value


@kernel(THREADS, _BLOCKS)
def scatter_shared(
    starts, places, source_starts, sources, message, partial, values, out_squares, first, step
):
    """Add what the ranks have of each shared point in the order of ranks, and put it into all of this rank's copies.

    Source -1 is this rank's partial, any other one is a slot of the message. One field of float64. Squares are
    divided by the number of ranks that have the point; out_squares as in `combine_groups`. Launch
    grid_of(points) x THREADS.
    """
    scratch = cuda.shared.array(THREADS, np.float64)
    k = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    square = 0.0
    if k < starts.size - 1:
        value = _scatter_point(starts, places, source_starts, sources, message, partial, k, values, 0)
        square = value * value / (load(source_starts, k + 1) - load(source_starts, k))
    store(scratch, cuda.threadIdx.x, square)
    sum_threads(scratch, 1, cuda.threadIdx.x, cuda.blockDim.x)
    if cuda.threadIdx.x == 0:
        store(out_squares, first + cuda.blockIdx.x * step, scratch[0])


@kernel(THREADS, _BLOCKS)
def scatter_fields(starts, places, source_starts, sources, message, partial, stride, values):
    """As `scatter_shared`, of m fields [m, stride], without squares; launch (grid_of(points), m) x THREADS."""
    k = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if k < starts.size - 1:
        _scatter_point(starts, places, source_starts, sources, message, partial, k, values, stride)
