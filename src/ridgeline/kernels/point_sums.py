"""Sums of powers, histograms and pointwise sums of fields in physical space.

Fields are contiguous, float32 or float64, seen as rows (n_rows, n) of whole grid lines in x, so that the sums of
a row do not depend on how the other directions are cut. Sums and powers are float64 whatever the precision.
"""

import math

import numba
import numpy as np

POWERS = 4


@numba.njit(cache=True, nogil=True)
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


@numba.njit(cache=True, nogil=True)
def count_logarithmic(rows, unit, lowest_decade, bins_per_decade, out_counts):
    """Count x / unit in bins of equal width in log10.

    rows : (n_rows, n) values >= 0; unit : float64 > 0
    out_counts : (n_bins + 2,) int64, added to: below the first bin, the bins from 10^lowest_decade on, above
    """
    n_bins = len(out_counts) - 2
    for row in range(rows.shape[0]):
        for x in rows[row]:
            ratio = np.float64(x) / unit
            if ratio > 0.0:
                place = np.floor((math.log10(ratio) - lowest_decade) * bins_per_decade)
                out_counts[int(min(max(place, -1.0), float(n_bins))) + 1] += 1
            else:
                out_counts[0] += 1


@numba.njit(cache=True, nogil=True)
def add_squares(values, scale, out):
    """Set out += scale * values^2. (n,) each, one dtype; scale of that dtype."""
    for i in range(len(values)):
        out[i] += scale * values[i] * values[i]


@numba.njit(cache=True, nogil=True)
def add_magnitudes(values, scale, out):
    """Set out += scale * |values|. (n,) each, one dtype; scale of that dtype."""
    for i in range(len(values)):
        out[i] += scale * abs(values[i])


@numba.njit(cache=True, nogil=True)
def multiply(a, b, out):
    """Set out = a * b. (n,) each, one dtype."""
    for i in range(len(out)):
        out[i] = a[i] * b[i]
