"""Sums and counts over points on NVIDIA GPUs: the twins of `point_sums`.

Points are flat device arrays of rows along x: n_rows of them, pitch pairs of reals apart, of which the first n_pairs
are points. Sums are float64 whatever the precision of the points, in an order of their own. The sums of a row do not
depend on how the other directions are cut. Counts are integers, whose sum has no order: they are added atomically.
"""

import math

import numpy as np
from numba import cuda

from ridgeline.jit.cuda_device import SIMULATED, device_function, kernel, load, load_pair, store, store_pair
from ridgeline.jit.cuda_sums import sum_threads

THREADS = 4 if SIMULATED else 128  # four at least, which leave four sums
BLOCKS = 8  # that fit on a multiprocessor: 64 registers for a thread
MOST_BLOCKS = 2 if SIMULATED else 4096
MOST_BINS = 2048
_THREE, _FOUR = 3 * THREADS, 4 * THREADS


@kernel(THREADS, BLOCKS)
def sum_powers(points, n_pairs, pitch, out_sums):
    """Set out_sums [4, n_rows] to the sums of x, x^2, x^3 and x^4 over each row; a thread block for each row."""
    scratch = cuda.shared.array(_FOUR, np.float64)
    row, thread = cuda.blockIdx.x, cuda.threadIdx.x
    first = second = third = fourth = 0.0
    for i in range(thread, n_pairs, THREADS):
        for value in load_pair(points, row * pitch + i):
            x = np.float64(value)
            square = x * x
            first += x
            second += square
            third += square * x
            fourth += square * square
    store(scratch, thread, first)
    store(scratch, THREADS + thread, second)
    store(scratch, 2 * THREADS + thread, third)
    store(scratch, 3 * THREADS + thread, fourth)
    sum_threads(scratch, 4, thread, THREADS)
    if thread < 4:
        store(out_sums, thread * cuda.gridDim.x + row, load(scratch, thread * THREADS))


@kernel(THREADS, BLOCKS)
def sum_increments(points, n, pitch, n_rows, offsets, out_sums):
    """Set out_sums [3, n_offsets, n_parts] to the sums of powers 2, 3, 4 of row[i + offset] - row[i], rows periodic.

    n, pitch : reals here; offsets : (n_offsets,) int64. Launch (n_offsets, n_parts) thread blocks: a part has every
    n_parts-th row.
    """
    scratch = cuda.shared.array(_THREE, np.float64)
    thread, part, n_parts = cuda.threadIdx.x, cuda.blockIdx.y, cuda.gridDim.y
    offset = load(offsets, cuda.blockIdx.x)
    second = third = fourth = 0.0
    for row in range(part, n_rows, n_parts):
        for i in range(thread, n, THREADS):
            other = i + offset
            other = other - n if other >= n else other
            step = np.float64(load(points, row * pitch + other)) - np.float64(load(points, row * pitch + i))
            square = step * step
            second += square
            third += square * step
            fourth += square * square
    store(scratch, thread, second)
    store(scratch, THREADS + thread, third)
    store(scratch, 2 * THREADS + thread, fourth)
    sum_threads(scratch, 3, thread, THREADS)
    if thread < 3:
        place = (thread * cuda.gridDim.x + cuda.blockIdx.x) * n_parts + part
        store(out_sums, place, load(scratch, thread * THREADS))


@kernel(THREADS, BLOCKS)
def add_squares(points, scale, fresh, n, out):
    """Set out += scale points^2, n pairs; out = if fresh is 1."""
    zero = out.dtype.type(0)
    for i in range(cuda.blockIdx.x * THREADS + cuda.threadIdx.x, n, cuda.gridDim.x * THREADS):
        a, b = load_pair(points, i)
        old_a, old_b = zero, zero
        if fresh == 0:
            old_a, old_b = load_pair(out, i)
        store_pair(out, i, old_a + scale * a * a, old_b + scale * b * b)


@kernel(THREADS, BLOCKS)
def multiply_points(a, b, n, out):
    """Set out = a b, n pairs."""
    for i in range(cuda.blockIdx.x * THREADS + cuda.threadIdx.x, n, cuda.gridDim.x * THREADS):
        a0, a1 = load_pair(a, i)
        b0, b1 = load_pair(b, i)
        store_pair(out, i, a0 * b0, a1 * b1)


@device_function
def _largest(a, b):
    """Return the larger number, NaN if one is."""
    return a if a >= b or math.isnan(a) else b


@kernel(THREADS, BLOCKS)
def largest_rate(u, v, w, per_cell, n_pairs, pitch, n_rows, out_rates):
    """Set out_rates, one for each thread block, to the largest |u| a + |v| b + |w| c met; (a, b, c) is per_cell."""
    of_threads = cuda.shared.array(THREADS, np.float64)
    a, b, c = per_cell
    thread, largest = cuda.threadIdx.x, u.dtype.type(0)
    for row in range(cuda.blockIdx.x, n_rows, cuda.gridDim.x):
        for i in range(thread, n_pairs, THREADS):
            u0, u1 = load_pair(u, row * pitch + i)
            v0, v1 = load_pair(v, row * pitch + i)
            w0, w1 = load_pair(w, row * pitch + i)
            largest = _largest(largest, a * abs(u0) + b * abs(v0) + c * abs(w0))
            largest = _largest(largest, a * abs(u1) + b * abs(v1) + c * abs(w1))
    of_threads[thread] = largest
    half = THREADS // 2
    while half > 0:
        cuda.syncthreads()
        if thread < half:
            of_threads[thread] = _largest(of_threads[thread], of_threads[thread + half])
        half //= 2
    if thread == 0:
        out_rates[cuda.blockIdx.x] = of_threads[0]


@device_function
def _begin_counts(counts, n):
    """Set the thread block's counts to zero."""
    for place in range(cuda.threadIdx.x, n, THREADS):
        counts[place] = 0
    cuda.syncthreads()


@device_function
def _add_counts(counts, n, out_counts):
    """Add the thread block's counts to those of all."""
    cuda.syncthreads()
    for place in range(cuda.threadIdx.x, n, THREADS):
        if counts[place] > 0:
            cuda.atomic.add(out_counts, place, np.int64(counts[place]))


@kernel(THREADS, BLOCKS)
def count_octaves(points, n_pairs, pitch, n_rows, inverse_unit, lowest, bits, n, out_counts):
    """Add to out_counts (n,) int64 what `point_sums.count_octaves` counts; n <= MOST_BINS."""
    counts = cuda.shared.array(MOST_BINS, np.int32)
    _begin_counts(counts, n)
    drop, first = 52 - bits, (1023 + lowest) << bits
    for row in range(cuda.blockIdx.x, n_rows, cuda.gridDim.x):
        for i in range(cuda.threadIdx.x, n_pairs, THREADS):
            for value in load_pair(points, row * pitch + i):
                place = ((np.float64(value) * inverse_unit).view(np.int64) >> drop) - first + 1
                cuda.atomic.add(counts, min(max(place, 0), n - 1), 1)
    _add_counts(counts, n, out_counts)


@kernel(THREADS, BLOCKS)
def count_evenly(points, n_pairs, pitch, n_rows, inverse_width, middle, out_counts):
    """Add to out_counts (2 middle + 2,) int64 what `point_sums.count_evenly` counts; as many <= MOST_BINS."""
    counts = cuda.shared.array(MOST_BINS, np.int32)
    last = 2 * middle + 1
    _begin_counts(counts, last + 1)
    for row in range(cuda.blockIdx.x, n_rows, cuda.gridDim.x):
        for i in range(cuda.threadIdx.x, n_pairs, THREADS):
            for value in load_pair(points, row * pitch + i):
                number = min(max(np.float64(value) * inverse_width, -middle - 1.0), 1.0 * last)
                place = math.floor(number) + middle + 1
                cuda.atomic.add(counts, min(place, last), 1)
    _add_counts(counts, last + 1, out_counts)
