"""Compiled loops over the elements of the matrix of HPL-MxP, which are made where they are needed.

The state of element (i, j) is multipliers[i] starts[j] + increments[i] modulo 2^64. Arrays are uint64, those of rows
[rows], those of columns [columns]. The value is 1/2 - state / 2^64, rounded to float64 as HPL's generator rounds it.
"""

import numpy as np
from numba import float32, float64, uint64

from ridgeline.jit.kernel import kernel, subroutine

_SCALE = 2.0**-64
_ROWS = 256  # at once: their multipliers, increments and sums stay in the first cache
# A product by a power of two is exact, so that contraction into multiply-adds leaves every element as it is.
_FAST = {"nogil": True, "fastmath": {"contract"}}
_TABLES = (uint64[::1], uint64[::1], uint64[::1])


@subroutine(fastmath={"contract"}, inline="always")
def _value(multiplier, start, increment):
    return 0.5 - np.float64(multiplier * start + increment) * _SCALE


@kernel(lambda: (*_TABLES, float32[:, ::1]), **_FAST)
def fill(starts, multipliers, increments, out):
    """Write the elements of columns into out [columns, at least rows]: a row of out is a column of the matrix."""
    for j in range(starts.size):
        for i in range(multipliers.size):
            out[j, i] = np.float32(_value(multipliers[i], starts[j], increments[i]))


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
