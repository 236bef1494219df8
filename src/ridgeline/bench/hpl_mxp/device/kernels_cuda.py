"""Kernels of HPL-MxP on GPUs: the matrix, its products in float64, and panels that are rounded to 16 bits.

Elements are made as on hosts (`hpl_mxp.matrix_kernels`), with the same bits. The matrix is float32 and column-major
in one flat array. `chunks` thread blocks share a column, as in `hpl.device.kernels_cuda`. Sums have a fixed order.
"""

import numpy as np
from numba import cuda

from ridgeline.jit.cuda_device import SIMULATED, device_function, kernel, load, store

THREADS = 8 if SIMULATED else 256
BLOCKS = 8  # that fit on a multiprocessor: as many threads as there can be, with 32 registers each
_SCALE = 2.0**-64
_SIGN, _INFINITY = np.uint32(0x80000000), np.uint32(0x7F800000)
_HALF_OVERFLOW = np.uint32(0x477FF000)  # 65520: halfway between the largest float16 and what would be next
_HALF_NORMAL = np.uint32(0x38800000)  # 2^-14
# float32 numbers from here on are multiples of 2^-24, as subnormals of float16.
_HALF_QUANTUM = np.float32(0.5)
_QUANTA = np.float32(2.0**24)
_REBIASED = np.uint32(0x38000000)  # by how much exponents of float32 exceed those of float16
_ONE, _THIRTEEN, _SIXTEEN = np.uint32(1), np.uint32(13), np.uint32(16)


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
        sign, magnitude = np.uint32(word & _SIGN), np.uint32(word & ~_SIGN)
        if magnitude < _HALF_NORMAL:
            size = (abs(value) + _HALF_QUANTUM) - _HALF_QUANTUM
            bits = np.uint32(size * _QUANTA)
            rounded = np.uint32(np.float32(size).view(np.uint32))
        elif magnitude < _HALF_OVERFLOW:
            rounded = np.uint32(magnitude + np.uint32(0xFFF) + ((magnitude >> _THIRTEEN) & _ONE))
            rounded = np.uint32(rounded & np.uint32(0xFFFFE000))
            bits = np.uint32((rounded - _REBIASED) >> _THIRTEEN)
        elif magnitude <= _INFINITY:
            rounded, bits = _INFINITY, np.uint32(0x7C00)
        else:
            rounded, bits = magnitude, np.uint32(0x7E00)
        store(values, at, np.uint32(sign | rounded).view(np.float32))
        store(out, row + column * out_pitch, np.uint16((sign >> _SIXTEEN) | bits))


@kernel(THREADS, BLOCKS)
def round_to_bfloat16(values, first, pitch, rows, chunks, out, out_pitch):
    """Round columns of a matrix in place, and copy their 16 bits. out: uint16 [out_pitch x columns]."""
    column = cuda.blockIdx.x // chunks
    row = (cuda.blockIdx.x - column * chunks) * cuda.blockDim.x + cuda.threadIdx.x
    if row < rows:
        at = first + row + column * pitch
        word = np.uint32(load(values, at).view(np.uint32))
        if (word & ~_SIGN) <= _INFINITY:
            rounded = np.uint32(word + np.uint32(0x7FFF) + ((word >> _SIXTEEN) & _ONE))
            rounded = np.uint32(rounded & np.uint32(0xFFFF0000))
            bits = rounded
        else:
            # No number remains one without its last bits.
            rounded, bits = word, np.uint32(word | np.uint32(0x00400000))
        store(values, at, rounded.view(np.float32))
        store(out, row + column * out_pitch, np.uint16(bits >> _SIXTEEN))
