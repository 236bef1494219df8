"""Kernels of HPL and HPL-MxP on GPUs: matrices, rows that are exchanged, sums, panels rounded to 16 bits.

Elements are generated as on hosts (`matrix.fill`), with the same bits. Matrices are column-major in one flat array. A
thread block has rows of one column, so that neighbouring threads work on neighbouring rows. `chunks` thread blocks
share a column: block b has rows (b mod chunks) THREADS ... of column b / chunks. Sums are added up in a fixed order.
"""

import numpy as np
from numba import cuda, float64

from ridgeline.bench.hpl.panel import (
    HALF_CUT,
    HALF_KEPT,
    HALF_NORMAL,
    HALF_OVERFLOW,
    HALF_QUANTUM,
    HALF_TIE,
    INFINITY,
    ONE,
    SIGN,
)
from ridgeline.jit.cuda_device import SIMULATED, device_function, kernel, load, store, sum_threads

THREADS = 8 if SIMULATED else 256
BLOCKS = 8  # thread blocks on a multiprocessor: the most threads that it can have, with 32 registers each
_SCALE = 2.0**-64
# As HALF_CUT, HALF_KEPT and HALF_TIE, of bfloat16.
BRAIN_CUT, BRAIN_KEPT, BRAIN_TIE = np.uint32(16), np.uint32(0xFFFF0000), np.uint32(0x7FFF)
_QUANTA = np.float32(2.0**24)
_REBIASED = np.uint32(0x38000000)  # by how much exponents of float32 exceed those of float16
_UPPER = np.uint32(16)  # bits of a word that lie below its upper half


@device_function
def _value(multiplier, start, increment):
    return 0.5 - np.float64(multiplier * start + increment) * _SCALE


@kernel(THREADS, BLOCKS)
def fill(starts, multipliers, increments, rows, chunks, pitch, out):
    """Write the random elements, rounded to the type of out, [pitch x columns]."""
    column = cuda.blockIdx.x // chunks
    row = (cuda.blockIdx.x - column * chunks) * cuda.blockDim.x + cuda.threadIdx.x
    if row < rows:
        value = _value(load(multipliers, row), load(starts, column), load(increments, row))
        store(out, row + column * pitch, value)


@kernel(THREADS, BLOCKS)
def put(places, values, rows, out):
    """Set out[places[row]] = values[row], where the place is not negative. A thread has a row."""
    row = cuda.grid(1)
    if row < rows:
        place = load(places, row)
        if place >= 0:
            store(out, place, load(values, row))


@kernel(THREADS, BLOCKS)
def multiply(starts, multipliers, increments, x, rows, columns, out):
    """Set out to the product of the random elements with x, float64. A thread has a row."""
    row = cuda.grid(1)
    if row < rows:
        multiplier, increment, total = load(multipliers, row), load(increments, row), 0.0
        for column in range(columns):
            total += _value(multiplier, load(starts, column), increment) * load(x, column)
        store(out, row, total)


@kernel(THREADS, BLOCKS)
def add_magnitudes(starts, multipliers, increments, rows, columns, out):
    """Set out to the sums of magnitudes of the random elements, float64. A thread has a row."""
    row = cuda.grid(1)
    if row < rows:
        multiplier, increment, total = load(multipliers, row), load(increments, row), 0.0
        for column in range(columns):
            total += abs(_value(multiplier, load(starts, column), increment))
        store(out, row, total)


@kernel(THREADS, BLOCKS)
def round_to_float16(values, first, pitch, rows, chunks, out, out_pitch):
    """Round columns of a matrix in place, and copy their 16 bits. out: uint16 [out_pitch x columns]."""
    column = cuda.blockIdx.x // chunks
    row = (cuda.blockIdx.x - column * chunks) * cuda.blockDim.x + cuda.threadIdx.x
    if row < rows:
        at = first + row + column * pitch
        value = load(values, at)
        word = np.uint32(value.view(np.uint32))
        sign, magnitude = np.uint32(word & SIGN), np.uint32(word & ~SIGN)
        if magnitude < HALF_NORMAL:
            size = (abs(value) + HALF_QUANTUM) - HALF_QUANTUM
            bits = np.uint32(size * _QUANTA)
            rounded = np.uint32(np.float32(size).view(np.uint32))
        elif magnitude < HALF_OVERFLOW:
            rounded = np.uint32(magnitude + HALF_TIE + ((magnitude >> HALF_CUT) & ONE))
            rounded = np.uint32(rounded & HALF_KEPT)
            bits = np.uint32((rounded - _REBIASED) >> HALF_CUT)
        elif magnitude <= INFINITY:
            rounded, bits = INFINITY, np.uint32(0x7C00)
        else:
            rounded, bits = magnitude, np.uint32(0x7E00)
        store(values, at, np.uint32(sign | rounded).view(np.float32))
        store(out, row + column * out_pitch, np.uint16((sign >> _UPPER) | bits))


@kernel(THREADS, BLOCKS)
def round_to_bfloat16(values, first, pitch, rows, chunks, out, out_pitch):
    """Round columns of a matrix in place, and copy their 16 bits. out: uint16 [out_pitch x columns]."""
    column = cuda.blockIdx.x // chunks
    row = (cuda.blockIdx.x - column * chunks) * cuda.blockDim.x + cuda.threadIdx.x
    if row < rows:
        at = first + row + column * pitch
        word = np.uint32(load(values, at).view(np.uint32))
        if (word & ~SIGN) <= INFINITY:
            rounded = np.uint32(word + BRAIN_TIE + ((word >> BRAIN_CUT) & ONE))
            rounded = np.uint32(rounded & BRAIN_KEPT)
            bits = rounded
        else:
            # A NaN must remain one without its last bits.
            rounded, bits = word, np.uint32(word | np.uint32(0x00400000))
        store(values, at, rounded.view(np.float32))
        store(out, row + column * out_pitch, np.uint16(bits >> BRAIN_CUT))


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
