"""Combine copies of points that elements share on NVIDIA GPUs: the twins of `gather_scatter_kernels`, for sums.

Each group of copies has one thread, so that nothing is added atomically. The order within a group is that of the
CPU's kernels: the same bits. Lists are flat int32 device arrays; values, partial and message are flat float64 ones.
"""

import numpy as np
from numba import cuda

from ridgeline.jit.cuda_device import SIMULATED, kernel, load, store
from ridgeline.jit.cuda_sums import sum_threads

THREADS = 8 if SIMULATED else 256


def grid_of(count: int) -> int:
    """Return the number of thread blocks of THREADS for `count` groups, points or slots."""
    return -(-count // THREADS)


@kernel(THREADS)
def combine_groups(lists, counts, values, out_squares, first, step):
    """Put the sum over a group's copies into each of them.

    lists: pairs, fours, eights, starts and others of `LocalGroups`, one after the other; counts: how many pairs,
    fours, eights and others there are. The sum of squares of the sums of thread block b goes to
    out_squares[first + b step]. Launch grid_of(sum(counts)) x THREADS.

    Cost: reads and writes each copy once, 4 bytes of list per copy.
    """
    scratch = cuda.shared.array(THREADS, np.float64)
    pairs, fours, eights, rest = counts
    g = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    square = 0.0
    fours_at = 2 * pairs
    eights_at = fours_at + 4 * fours
    starts_at = eights_at + 8 * eights
    if g < pairs:
        a, b = load(lists, 2 * g), load(lists, 2 * g + 1)
        value = load(values, a) + load(values, b)
        store(values, a, value)
        store(values, b, value)
        square = value * value
    elif g < pairs + fours:
        at = fours_at + 4 * (g - pairs)
        a, b, c, d = load(lists, at), load(lists, at + 1), load(lists, at + 2), load(lists, at + 3)
        value = (load(values, a) + load(values, b)) + (load(values, c) + load(values, d))
        store(values, a, value)
        store(values, b, value)
        store(values, c, value)
        store(values, d, value)
        square = value * value
    elif g < pairs + fours + eights:
        at = eights_at + 8 * (g - pairs - fours)
        low = load(values, load(lists, at)) + load(values, load(lists, at + 1))
        low += load(values, load(lists, at + 2)) + load(values, load(lists, at + 3))
        high = load(values, load(lists, at + 4)) + load(values, load(lists, at + 5))
        high += load(values, load(lists, at + 6)) + load(values, load(lists, at + 7))
        value = low + high
        for place in range(8):
            store(values, load(lists, at + place), value)
        square = value * value
    elif g < pairs + fours + eights + rest:
        at = starts_at + g - pairs - fours - eights
        others_at = starts_at + rest + 1
        begin, end = others_at + load(lists, at), others_at + load(lists, at + 1)
        value = load(values, load(lists, begin))
        for place in range(begin + 1, end):
            value += load(values, load(lists, place))
        for place in range(begin, end):
            store(values, load(lists, place), value)
        square = value * value
    store(scratch, cuda.threadIdx.x, square)
    sum_threads(scratch, 1, cuda.threadIdx.x, cuda.blockDim.x)
    if cuda.threadIdx.x == 0:
        store(out_squares, first + cuda.blockIdx.x * step, scratch[0])


@kernel(THREADS)
def gather_shared(starts, places, values, out_partial):
    """out_partial[k] = the sum over this rank's copies of shared point k; launch grid_of(points) x THREADS."""
    k = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if k < out_partial.size:
        begin, end = load(starts, k), load(starts, k + 1)
        value = load(values, load(places, begin))
        for i in range(begin + 1, end):
            value += load(values, load(places, i))
        store(out_partial, k, value)


@kernel(THREADS)
def pack_shared(send_index, partial, out_message):
    """out_message[slot] = partial[send_index[slot]]; launch grid_of(slots) x THREADS."""
    slot = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if slot < out_message.size:
        store(out_message, slot, load(partial, load(send_index, slot)))


@kernel(THREADS)
def scatter_shared(
    starts, places, source_starts, sources, message, partial, values, out_squares, first, step
):
    """Add what the ranks have of each shared point in the order of ranks, and put it into all of this rank's copies.

    Source -1 is this rank's partial, any other one is a slot of the message. Squares are divided by the number of
    ranks that have the point; out_squares as in `combine_groups`. Launch grid_of(points) x THREADS.
    """
    scratch = cuda.shared.array(THREADS, np.float64)
    k = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    square = 0.0
    if k < partial.size:
        begin, end = load(source_starts, k), load(source_starts, k + 1)
        source = load(sources, begin)
        value = load(partial, k) if source < 0 else load(message, source)
        for i in range(begin + 1, end):
            source = load(sources, i)
            value += load(partial, k) if source < 0 else load(message, source)
        for i in range(load(starts, k), load(starts, k + 1)):
            store(values, load(places, i), value)
        square = value * value / (end - begin)
    store(scratch, cuda.threadIdx.x, square)
    sum_threads(scratch, 1, cuda.threadIdx.x, cuda.blockDim.x)
    if cuda.threadIdx.x == 0:
        store(out_squares, first + cuda.blockIdx.x * step, scratch[0])
