"""What hosts factor: the factors of a panel give its rows, and numbers are rounded to 16 bits.

float16 is held against NumPy's, bfloat16 against the nearest one found by search.
"""

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.bench.hpl.blas import blas_addresses
from ridgeline.bench.hpl.panel import BLOCK, ColumnPanel, PanelFactoriser, round_to

UNIT_ROUNDOFF = {"float16": 2.0**-11, "bfloat16": 2.0**-8}


@pytest.mark.parametrize("magnitude", [1.0, 2.0**-1050])
@pytest.mark.parametrize(("rows", "width"), [(1, 1), (5, 5), (40, 13), (700, 24)])
def test_the_factors_give_the_rows(rows, width, magnitude):
    """Beneath 2^-1022 numbers are multiples of 2^-1074: so large is what each of their roundings may add."""
    panel = ColumnPanel(rows, width)
    panel.shape(0, rows, width)
    given = np.random.default_rng(rows).integers(-99, 99, (rows, width)) * magnitude
    panel.below[:] = given
    PanelFactoriser(MPI.COMM_SELF, blas_addresses(), width, 8, 2).factor(panel, np.arange(rows), True)
    for row, pivot in enumerate(panel.pivots.astype(int)):
        given[[row, pivot]] = given[[pivot, row]]
    lower = np.vstack([np.tril(panel.top, -1) + np.eye(width), panel.below[width:]])
    assert np.abs(lower).max() <= 1
    np.testing.assert_allclose(
        lower @ np.triu(panel.top), given, rtol=0, atol=1e-11 * magnitude + 300 * 2.0**-1074
    )


@pytest.mark.parametrize("width", [1, 64, 100, 130])
def test_diagonal_blocks_are_inverted(width):
    panel = ColumnPanel(width, width)
    panel.shape(0, width, width)
    panel.top[:] = np.random.default_rng(width).random((width, width)) / width
    panel.invert()
    lower = np.tril(panel.top, -1) + np.eye(width)
    for start in range(0, width, BLOCK):
        rows = slice(start, min(start + BLOCK, width))
        identity = lower[rows, rows] @ panel.inverses[rows, : rows.stop - start]
        np.testing.assert_allclose(identity, np.eye(rows.stop - start), rtol=0, atol=1e-14)


def samples():
    rng = np.random.default_rng(4)
    words = rng.integers(0, 2**32, 40_000, dtype=np.uint64).astype(np.uint32)
    ties = (np.arange(1 << 12, dtype=np.uint32) << 19) | np.uint32(0x1000)
    near = np.float32(
        [0, -0.0, 1, 65504, 65519.99, 65520, 65536, 2**-14, 2**-24, 2**-25, 3 * 2**-25, 1e-9, -3e-6]
    )
    with np.errstate(invalid="ignore"):  # signalling NaN
        return np.concatenate(
            [words.view(np.float32), ties.view(np.float32), near, -near, [np.inf, -np.inf, np.nan]]
        )


def test_float16_is_what_numpy_stores():
    values = samples().astype(np.float32)[None]
    with np.errstate(over="ignore", invalid="ignore"):
        expected = values.astype(np.float16).astype(np.float32)
    round_to("float16", values.T)
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(np.signbit(values), np.signbit(expected))


def test_bfloat16_is_the_nearest_with_ties_to_even():
    values = samples().astype(np.float32)[None]
    before = values.copy()
    round_to("bfloat16", values.T)
    words = values.view(np.uint32)
    finite = np.isfinite(values) & np.isfinite(before)
    assert not (words[finite] & 0xFFFF).any()
    with np.errstate(invalid="ignore"):
        step = np.float64((words + np.uint32(0x10000)).view(np.float32)) - np.float64(values)
        error = np.abs(np.float64(before) - np.float64(values)) / np.abs(step)
    inside = finite & np.isfinite(step)
    assert (error[inside] <= 0.5).all()
    ties = inside & (error == 0.5)
    assert ties.any()
    assert not (words[ties] >> 16 & 1).any()
    assert np.isnan(values[np.isnan(before)]).all()


@pytest.mark.parametrize("storage", ["float16", "bfloat16"])
def test_unit_roundoff(storage):
    values = np.linspace(1, 2, 9999, dtype=np.float32)[None]
    before = values.copy()
    round_to(storage, values.T)
    error = np.abs(values - before).max()
    assert 0.9 * UNIT_ROUNDOFF[storage] < error <= UNIT_ROUNDOFF[storage]


def test_float32_stays_and_slices_are_rounded_alone():
    values = np.full((6, 8), np.float32(1 / 3))
    round_to("float32", values)
    assert (values == np.float32(1 / 3)).all()
    round_to("float16", values[1:3, 2:5].T)
    assert (values != np.float32(1 / 3)).sum() == 6
    round_to("float16", values[2:2].T)
