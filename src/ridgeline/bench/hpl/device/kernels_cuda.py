"""Kernels of HPL on GPUs: the matrix, rows that change places, and the sums of the official test.

The matrix is column-major in one flat array. A thread block has rows of one column, so that neighbouring threads are
at neighbouring rows. `chunks` thread blocks share a column: block b has rows (b mod chunks) THREADS ... of column
b / chunks. Sums have a fixed order.
"""

import numpy as np
from numba import cuda, float64

from ridgeline.jit.cuda_device import SIMULATED, kernel, load, store
from ridgeline.jit.cuda_sums import sum_threads

THREADS = 8 if SIMULATED else 256
BLOCKS = 8  # that fit on a multiprocessor: as many threads as there can be, with 32 registers each
_SCALE = 2.0**-64


@kernel(THREADS, BLOCKS)
def generate(starts, steps, nb, parts, rows, chunks, pitch, out):
    """Write [A, b]: the numbers of HPL's generator, each by itself.

    starts: state of the first local row of each column, uint64 [columns]; steps: multiplier and increment of 2^k
    steps as one, uint64 [2 x 63]; nb, parts: of the distribution of rows; rows: local ones; out: [pitch x columns].
    """
    column = cuda.blockIdx.x // chunks
    row = (cuda.blockIdx.x - column * chunks) * cuda.blockDim.x + cuda.threadIdx.x
    if row < rows:
        block = row // nb
        distance = block * nb * parts + row - block * nb
        state = load(starts, column)
        at = 0
        while distance > 0:
            if distance & 1:
                state = load(steps, at) * state + load(steps, at + 1)
            distance >>= 1
            at += 2
        store(out, row + column * pitch, 0.5 - np.float64(state) * _SCALE)


@kernel(THREADS, BLOCKS)
def copy_rows(source, first, pitch, rows, at, out, out_first, out_pitch, out_rows, out_at, count, chunks):
    """Copy rows of some columns: number (out_rows[out_at + i], j) of out is (rows[at + i], j) of source, i < count.

    rows, out_rows: int64; first, out_first: where row 0 of the first column lies. source and out may be one array, if
    no row is in both lists.
    """
    column = cuda.blockIdx.x // chunks
    i = (cuda.blockIdx.x - column * chunks) * cuda.blockDim.x + cuda.threadIdx.x
    if i < count:
        value = load(source, first + load(rows, at + i) + column * pitch)
        store(out, out_first + load(out_rows, out_at + i) + column * out_pitch, value)


@kernel(THREADS, BLOCKS)
def copy_block(source, first, pitch, out, out_first, out_pitch, count, chunks):
    """Copy `count` neighbouring rows of some columns."""
    column = cuda.blockIdx.x // chunks
    i = (cuda.blockIdx.x - column * chunks) * cuda.blockDim.x + cuda.threadIdx.x
    if i < count:
        value = load(source, first + i + column * pitch)
        store(out, out_first + i + column * out_pitch, value)


@kernel(THREADS, BLOCKS)
def sum_rows(a, pitch, x, rows, columns, product, magnitudes):
    """Set product = A x and magnitudes to the sums of |A| by rows, of its first columns. A thread has a row."""
    row = cuda.grid(1)
    if row < rows:
        total, size = 0.0, 0.0
        at = row
        for column in range(columns):
            value = load(a, at)
            total += value * load(x, column)
            size += abs(value)
            at += pitch
        store(product, row, total)
        store(magnitudes, row, size)


@kernel(THREADS, BLOCKS)
def sum_columns(a, pitch, rows, magnitudes):
    """Set magnitudes to the sums of |A| by columns. A thread block has a column."""
    scratch = cuda.shared.array(THREADS, float64)
    column, thread, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    size = 0.0
    for row in range(thread, rows, threads):
        size += abs(load(a, row + column * pitch))
    store(scratch, thread, size)
    sum_threads(scratch, 1, thread, threads)
    if thread == 0:
        store(magnitudes, column, load(scratch, 0))
