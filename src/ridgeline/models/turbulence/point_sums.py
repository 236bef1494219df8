"""Sums of powers, histograms and pointwise sums of fields in physical space.

Fields are contiguous, float32 or float64, seen as rows (n_rows, n) of whole grid lines in x. So the sums of a row do
not depend on how the other directions are cut. Sums and powers are float64 whatever the precision.
"""

import math

import numpy as np
from numba import float64, int64
from numpy.typing import NDArray

from ridgeline.jit.kernel import kernel

POWERS = 4


@kernel(lambda T: (T[:, ::1], float64[:, ::1]), nogil=True)
def sum_powers(rows, out_sums):
    """Set out_sums[p - 1, row] to the sum of x^p over each row, p = 1 ... 4. out_sums : (4, n_rows) float64."""
    for row in range(rows.shape[0]):
        first = second = third = fourth = 0.0
        for x in rows[row]:
            value = np.float64(x)
            square = value * value
            first += value
            second += square
            third += square * value
            fourth += square * square
        out_sums[0, row] = first
        out_sums[1, row] = second
        out_sums[2, row] = third
        out_sums[3, row] = fourth


def octave_edges(lowest: int, highest: int, bits: int) -> NDArray[np.float64]:
    """Return the edges of the bins of `count_octaves`: 2^bits equal bins in each octave 2^lowest ... 2^highest."""
    steps = np.arange((highest - lowest) << bits)
    edges = np.ldexp(1.0 + (steps & ((1 << bits) - 1)) / (1 << bits), lowest + (steps >> bits))
    return np.append(edges, 2.0**highest)


@kernel(lambda T: (T[:, ::1], float64, int64, int64, int64[::1]), nogil=True)
def count_octaves(rows, inverse_unit, lowest, bits, out_counts):
    """Count x times inverse_unit in bins that are nearly equal in the logarithm: `octave_edges`.

    rows : (n_rows, n) values >= 0; inverse_unit : float64 > 0; lowest : exponent of the first octave
    out_counts : (n_bins + 2,) int64, added to: below the first bin, the bins, at or above the last edge

    Exponent and leading bits of a float64 are the number of its bin, so that no logarithm is needed and no edge
    is rounded.
    """
    drop = 52 - bits
    first = (1023 + lowest) << bits
    last = len(out_counts) - 1
    for row in range(rows.shape[0]):
        for x in rows[row]:
            place = (np.float64(np.float64(x) * inverse_unit).view(np.int64) >> drop) - first + 1
            out_counts[min(max(place, 0), last)] += 1


@kernel(lambda T: (T[:, ::1], float64, int64, int64[::1]), nogil=True)
def count_evenly(rows, inverse_width, middle, out_counts):
    """Count values of either sign in bins of one width; an edge lies at zero, and belongs to the bin above it.

    rows : (n_rows, n) finite; inverse_width : float64, 1 / width; middle : bins below zero
    out_counts : (n_bins + 2,) int64, added to: below the first bin, the bins, at or above the last edge
    """
    last = len(out_counts) - 1
    for row in range(rows.shape[0]):
        for x in rows[row]:
            place = (
                math.floor(min(max(np.float64(x) * inverse_width, -middle - 1.0), 1.0 * last)) + middle + 1
            )
            out_counts[min(place, last)] += 1


@kernel(lambda T: (T[:, ::1], int64[::1], float64[:, ::1]), nogil=True)
def add_increments(rows, offsets, out_sums):
    """Add powers 2, 3, 4 of row[i + offset] - row[i], rows being periodic, of all rows.

    rows : (n_rows, n) real; offsets : (n_offsets,) int64, 1 ... n; out_sums : (3, n_offsets) float64, added to
    """
    n = rows.shape[1]
    for row in range(rows.shape[0]):
        for o in range(len(offsets)):
            offset = offsets[o]
            second = third = fourth = 0.0
            for part in range(2):
                first, end, other = (0, n - offset, offset) if part == 0 else (n - offset, n, offset - n)
                for i in range(first, end):
                    step = np.float64(rows[row, i + other]) - np.float64(rows[row, i])
                    square = step * step
                    second += square
                    third += square * step
                    fourth += square * square
            out_sums[0, o] += second
            out_sums[1, o] += third
            out_sums[2, o] += fourth


@kernel(lambda T: (T[::1], T, T[::1]), nogil=True)
def add_squares(values, scale, out):
    """Set out += scale * values^2. (n,) each, one dtype; scale of that dtype."""
    for i in range(len(values)):
        out[i] += scale * values[i] * values[i]


@kernel(lambda T: (T[::1], T, T[::1]), nogil=True)
def add_magnitudes(values, scale, out):
    """Set out += scale * |values|. (n,) each, one dtype; scale of that dtype."""
    for i in range(len(values)):
        out[i] += scale * abs(values[i])


@kernel(lambda T: (T[::1], T[::1], T[::1]), nogil=True)
def multiply(a, b, out):
    """Set out = a * b. (n,) each, one dtype."""
    for i in range(len(out)):
        out[i] = a[i] * b[i]


def offsets_along(n: int) -> NDArray[np.int64]:
    """Return separations in grid cells, int64, rising: 2^m and 3 2^m up to n / 2, and that."""
    powers = 2 ** np.arange(n.bit_length())
    every = np.unique(np.concatenate([powers, 3 * powers, [n // 2]]))
    return every[every <= n // 2].astype(np.int64)
