"""Folding floats into integers."""

import math
from fractions import Fraction

import numpy as np
import pytest

from ridgeline.parallel.allreduce import FOLDS, SIGN_BIT, fold_sums, largest_bits

LAYOUT = tuple(np.uint64(n) for n in (40, 10, 3, 4, 7))  # pitches, extents


def cells(flat: np.ndarray) -> np.ndarray:
    return flat.reshape(3, 4, 10)[:, :, :7]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_largest_is_the_magnitude_and_nan_beats_all(dtype) -> None:
    flat = np.random.default_rng(1).standard_normal(120).astype(dtype)
    flat.reshape(3, 4, 10)[:, :, 7:] = 1e9  # padding
    bits = np.dtype(f"u{flat.itemsize}")

    def largest() -> float:
        found = largest_bits(flat.view(bits), SIGN_BIT[flat.itemsize], *LAYOUT)
        return float(np.array(found, bits).view(dtype))

    assert largest() == np.abs(cells(flat)).max()
    cells(flat)[2, 3, 6] = -np.inf
    assert largest() == math.inf
    cells(flat)[0, 0, 0] = -np.nan
    assert math.isnan(largest())


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("bits", [20, 30, 50])
def test_folds_add_up_to_the_sum(dtype, bits) -> None:
    flat = (np.random.default_rng(2).random(120) * 2 - 1).astype(dtype)  # |x| < 2**0
    flat.reshape(3, 4, 10)[:, :, 7:] = 1e9
    sums = np.zeros(FOLDS, np.int64)
    fold_sums(flat, 2.0**bits, 2.0**bits, *LAYOUT, sums)
    total = sum(Fraction(int(fold), 2 ** (bits * (n + 1))) for n, fold in enumerate(sums))
    exact = sum(map(Fraction, cells(flat).astype(np.float64).ravel().tolist()))
    assert abs(total - exact) <= Fraction(84, 2 ** (FOLDS * bits))
    # The same values in another order fold to the same integers.
    again = np.zeros(FOLDS, np.int64)
    shuffled = flat.copy()
    cells(shuffled)[...] = np.random.default_rng(3).permutation(cells(flat).ravel()).reshape(3, 4, 7)
    fold_sums(shuffled, 2.0**bits, 2.0**bits, *LAYOUT, again)
    assert again.tolist() == sums.tolist()
