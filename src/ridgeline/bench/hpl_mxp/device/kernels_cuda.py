"""Kernels of HPL-MxP on GPUs: the matrix, its products in float64, and panels that are rounded to 16 bits.

Elements are made as on hosts (`hpl_mxp.matrix_kernels`), with the same bits. The matrix is float32 and column-major
in one flat array. `chunks` thread blocks share a column, as in `hpl.device.kernels_cuda`. Sums have a fixed order.
"""

import numpy as np
from numba import cuda

from ridgeline.bench.hpl_mxp.float_bits import (
    BRAIN_CUT,
    BRAIN_KEPT,
    BRAIN_TIE,
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
from ridgeline.jit.cuda_device import SIMULATED, device_function, kernel, load, store

THREADS = 8 if SIMULATED else 256
BLOCKS = 8  # that fit on a multiprocessor: as many threads as there can be, with 32 registers each
_SCALE = 2.0**-64
_QUANTA = np.float32(2.0**24)
_REBIASED = np.uint32(0x38000000)  # by how much exponents of float32 exceed those of float16
_UPPER = np.uint32(16)  # bits of a word that lie below its upper half


@device_function
def _value(multiplier, start, increment):
    return 0.5 - np.float64(multiplier * start + increment) * _SCALE


@kernel(THREADS, BLOCKS)
def fill(starts, multipliers, increments, rows, chunks, pitch, out):
    """Write the random elements, rounded to float32. out: [pitch x columns]."""
    column = cuda.blockIdx.x // chunks
    row = (cuda.blockIdx.x - column * chunks) * cuda.blockDim.x + cuda.threadIdx.x
    if row < rows:
        value = _value(load(multipliers, row), load(starts, column), load(increments, row))
        store(out, row + column * pitch, np.float32(value))


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
            # No number remains one without its last bits.
            rounded, bits = word, np.uint32(word | np.uint32(0x00400000))
        store(values, at, rounded.view(np.float32))
        store(out, row + column * out_pitch, np.uint16(bits >> BRAIN_CUT))
