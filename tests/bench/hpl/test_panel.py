"""A panel on one process: its factors give its rows, also where the inverse of a pivot would overflow."""

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.bench.hpl.blas import blas_addresses
from ridgeline.bench.hpl.panel import BLOCK, ColumnPanel, PanelFactoriser


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
