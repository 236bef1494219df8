"""Compiled loops over the elements of matrices: random ones made where they are needed, sums, rounding to float16.

The state of element (i, j) is multipliers[i] starts[j] + increments[i] modulo 2^64. Arrays are uint64, those of rows
[rows], those of columns [columns]. The value is 1/2 - state / 2^64, rounded to float64 as HPL's generator rounds it.

Kernels get matrices transposed, as [columns, rows] in C order. Numba would take a column-major matrix of one column
for a row-major one, and compile anew in the middle of a run.
"""

import numpy as np
from numba import float32, float64, int64, uint32, uint64

from ridgeline.jit.kernel import kernel, subroutine

_SCALE = 2.0**-64
_ROWS = 256  # at once: their multipliers, increments and sums stay in the first cache
# A product by a power of two is exact, so that contraction into multiply-adds leaves every element as it is.
_FAST = {"nogil": True, "fastmath": {"contract"}}
# Bits of float32 numbers that are rounded to float16.
SIGN, INFINITY = np.uint32(0x80000000), np.uint32(0x7F800000)
ONE = np.uint32(1)
HALF_OVERFLOW = np.uint32(0x477FF000)  # 65520: halfway between the largest float16 and what would be next
HALF_NORMAL = np.uint32(0x38800000)  # 2^-14
# float32 numbers from here on are multiples of 2^-24, as subnormals of float16.
HALF_QUANTUM = np.float32(0.5)
# Bits at the end that go, those before them, and what rounds to nearest: it is added with the last bit that stays.
HALF_CUT, HALF_KEPT, HALF_TIE = np.uint32(13), np.uint32(0xFFFFE000), np.uint32(0xFFF)
_MATRIX = float64[:, ::1]
_TABLES = (uint64[::1], uint64[::1], uint64[::1])


@subroutine(fastmath={"contract"}, inline="always")
def _value(multiplier, start, increment):
    return 0.5 - np.float64(multiplier * start + increment) * _SCALE


@kernel(lambda T: (*_TABLES, T[:, ::1]), **_FAST)
def fill(starts, multipliers, increments, out):
    """Write the elements of columns into out [columns, at least rows]: a row of out is a column of the matrix."""
    for j in range(starts.size):
        for i in range(multipliers.size):
            out[j, i] = _value(multipliers[i], starts[j], increments[i])


@kernel(lambda: (*_TABLES, float64[::1], float64[::1]), **_FAST)
def add_product(starts, multipliers, increments, x, out):
    """Add the product with x [columns] to out [rows], four columns at a time."""
    columns, rows = starts.size, multipliers.size
    whole = columns - columns % 4
    for first in range(0, rows, _ROWS):
        last = min(first + _ROWS, rows)
        for j in range(0, whole, 4):
            a, b, c, d = starts[j], starts[j + 1], starts[j + 2], starts[j + 3]
            f, g, h, q = x[j], x[j + 1], x[j + 2], x[j + 3]
            for i in range(first, last):
                m, p = multipliers[i], increments[i]
                left = _value(m, a, p) * f + _value(m, b, p) * g
                out[i] += left + (_value(m, c, p) * h + _value(m, d, p) * q)
        for j in range(whole, columns):
            for i in range(first, last):
                out[i] += _value(multipliers[i], starts[j], increments[i]) * x[j]


@kernel(lambda: (*_TABLES, float64[::1]), **_FAST)
def add_magnitudes(starts, multipliers, increments, out):
    """Add the sum of the magnitudes of each row to out [rows]."""
    for first in range(0, multipliers.size, _ROWS):
        last = min(first + _ROWS, multipliers.size)
        for j in range(starts.size):
            for i in range(first, last):
                out[i] += abs(_value(multipliers[i], starts[j], increments[i]))


@kernel(lambda: (_MATRIX, float64[::1], int64, int64, float64[::1], float64[::1]), nogil=True)
def multiply_rows(a, x, start, stop, product, sums):
    """Add a x to product and magnitudes of a to sums, for rows start ... stop - 1 and the x.size first columns."""
    a = a.T
    for column in range(x.size):
        for row in range(start, stop):
            product[row] += a[row, column] * x[column]
            sums[row] += abs(a[row, column])


@kernel(lambda: (_MATRIX, int64, int64, int64, float64[::1]), nogil=True)
def sum_columns(a, rows, start, stop, sums):
    """Write the sum of the magnitudes of each of columns start ... stop - 1 of a, its first `rows` rows."""
    a = a.T
    for column in range(start, stop):
        total = 0.0
        for row in range(rows):
            total += abs(a[row, column])
        sums[column] = total


@kernel(lambda: (float32[::1], uint32[::1], int64, int64, int64), nogil=True)
def round_to_float16(values, words, pitch, rows, columns):
    """Round columns of a matrix in place, which lie `pitch` numbers apart. words: the same memory as uint32."""
    for j in range(columns):
        for at in range(j * pitch, j * pitch + rows):
            word = words[at]
            sign, magnitude = word & SIGN, word & ~SIGN
            if magnitude < HALF_NORMAL:
                values[at] = (abs(values[at]) + HALF_QUANTUM) - HALF_QUANTUM
                words[at] |= sign
            elif magnitude < HALF_OVERFLOW:
                words[at] = (word + HALF_TIE + ((word >> HALF_CUT) & ONE)) & HALF_KEPT
            elif magnitude <= INFINITY:
                words[at] = sign | INFINITY
