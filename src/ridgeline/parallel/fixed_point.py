"""Sums that do not depend on their order: floats as integers on a fixed grid of powers of two.

A float x with |x| < 2**e, times 2**(width - e), is an integer of `width` bits plus a rest below 1; the rest
times 2**width gives the next integer, and so on. Each of FOLDS integers is summed on its own. Integer sums are
exact, and associative, so any order, any cutting into blocks and any number of threads give the same bits.

Source: the pre-rounding of Demmel and Nguyen, "Parallel Reproducible Summation", IEEE Trans. Comput. 64 (2015),
Sec. 4, with integers in place of their floating-point bins.
"""

import numpy as np
from numba import float64, int64, uint64

from ridgeline.jit.kernel import kernel, unsigned

FOLDS = 3
SIGN_BIT = {4: np.uint32(0x7FFFFFFF), 8: np.uint64(0x7FFFFFFFFFFFFFFF)}  # by bytes: all bits but the sign


@kernel(lambda T: (unsigned(T)[::1], unsigned(T), *[uint64] * 5), nogil=True)
def largest_bits(bits, magnitude, plane_pitch, row_pitch, nz, ny, nx):
    """Return the largest bit pattern without sign: that of the largest |x|; NaN beats infinity beats numbers.

    bits : (n,) uint32 or uint64, the floats' bits; magnitude : mask of all bits but the sign; pitches and extents
    in items, uint64.
    """
    largest = magnitude ^ magnitude
    for k in range(nz):
        for j in range(ny):
            start = k * plane_pitch + j * row_pitch
            for i in range(nx):
                largest = max(largest, bits[start + i] & magnitude)
    return largest


@kernel(lambda T: (T[::1], float64, float64, *[uint64] * 5, int64[::1]), nogil=True)
def fold_sums(values, scale, width, plane_pitch, row_pitch, nz, ny, nx, out_sums):
    """Add up the integer folds of all values.

    values : (n,) float32 or float64; scale : 2**(width - e), float64; width : 2**width, float64; pitches and
    extents in items, uint64; out_sums : (FOLDS,) int64. With |x| <= 2**e, 2**(62 - width bits) values fit.
    """
    first, second, third = np.int64(0), np.int64(0), np.int64(0)
    for k in range(nz):
        for j in range(ny):
            start = k * plane_pitch + j * row_pitch
            for i in range(nx):
                rest = np.float64(values[start + i]) * scale
                fold = np.int64(rest)
                first += fold
                rest = (rest - np.float64(fold)) * width
                fold = np.int64(rest)
                second += fold
                rest = (rest - np.float64(fold)) * width
                third += np.int64(rest)
    out_sums[0] = first
    out_sums[1] = second
    out_sums[2] = third
