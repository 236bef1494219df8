import itertools

import numpy as np
import pytest

from ridgeline.fourier.decomposition import PencilGrid
from ridgeline.fourier.modes import Modes
from spectral_toys import mode_keys

SHAPE, LENGTHS = (20, 24, 32), (6.0, 3.0, 2.0)


@pytest.mark.parametrize("dealias", ["phase-shift", "two-thirds", "none"])
def test_modes_of_all_ranks_with_conjugates_are_the_ball_around_zero(dealias):
    found = []
    for rank in range(4):
        modes = Modes.of(PencilGrid(SHAPE, dealias, (2, 2), rank), LENGTHS)
        found.append(mode_keys(modes))
        assert modes.weight().sum() == (mode_keys(modes)[:, 2] == 0).sum() + 2 * (found[-1][:, 2] > 0).sum()
    keys = {tuple(key) for key in np.concatenate(found).tolist()}
    assert len(keys) == sum(map(len, found))
    for jz, jy, jx in keys:
        assert jx > 0 or (-jz, -jy, 0) in keys


def test_wavenumbers_belong_to_the_box():
    modes = Modes.of(PencilGrid(SHAPE, "none", (1, 1), 0), LENGTHS)
    kz, ky, kx = modes.expand()
    jz, jy, jx = mode_keys(modes).T
    np.testing.assert_allclose(kz, 2 * np.pi / 6.0 * jz, rtol=1e-15)
    np.testing.assert_allclose(ky, 2 * np.pi / 3.0 * jy, rtol=1e-15)
    np.testing.assert_allclose(kx, 2 * np.pi / 2.0 * jx, rtol=1e-15)
    counts = np.diff(modes.lines.start)
    np.testing.assert_array_equal(np.repeat(modes.kx, counts), kx)
    np.testing.assert_array_equal(np.repeat(modes.kz, counts), kz)


@pytest.mark.parametrize("n_modes", [1, 100, 10**9])
def test_blocks_tile_the_lines(n_modes):
    modes = Modes.of(PencilGrid(SHAPE, "phase-shift", (1, 1), 0), LENGTHS)
    blocks = modes.blocks(n_modes)
    assert blocks[0][0] == 0
    assert blocks[-1][1] == modes.lines.n_lines
    assert all(first < end for first, end in blocks)
    assert all(a[1] == b[0] for a, b in itertools.pairwise(blocks))
