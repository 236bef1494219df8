"""Philox4x32-10: Random123's known answers, and the statistics of a uniform."""

import numpy as np
import pytest

from ridgeline.jit.random import philox4x32, round_keys, uniform_reference

ONES = 0xFFFFFFFF


def words(counter, key):
    keys = round_keys(key[0] | key[1] << 32)
    block = philox4x32(*(np.array([c], dtype=np.uint64) for c in counter), keys)
    return [int(word[0]) & ONES for word in block]


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [  # kat_vectors of Random123 1.14
        ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([ONES] * 4, [ONES] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ],
)
def test_known_answers(counter, key, expected):
    assert words(counter, key) == expected


@pytest.fixture(scope="module")
def sample():
    """Two steps of a 32 x 64 x 64 grid: shape (2, 32, 64, 64)."""
    cells = np.indices((32, 64, 64))
    return np.stack([uniform_reference(2024, step, *cells) for step in (7, 8)])


def test_mean_variance_and_range(sample):
    n = sample.size
    assert sample.min() >= -1
    assert sample.max() < 1
    assert abs(sample.mean()) < 5 * np.sqrt(1 / 3 / n)
    assert abs(sample.var() - 1 / 3) < 5 * np.sqrt(4 / 45 / n)


def test_uniform_in_every_bin(sample):
    counts, _ = np.histogram(sample, bins=256, range=(-1, 1))
    expected = sample.size / 256
    chi_squared = np.sum((counts - expected) ** 2) / expected
    assert abs(chi_squared - 255) < 5 * np.sqrt(2 * 255)


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
@pytest.mark.parametrize("lag", [1, 2, 3, 4])
def test_neither_steps_nor_cells_correlate(sample, axis, lag):
    if axis == 0 and lag > 1:
        pytest.skip("the sample has two steps")
    n = sample.shape[axis]
    a, b = np.take(sample, range(lag, n), axis), np.take(sample, range(n - lag), axis)
    assert abs(np.mean(a * b)) < 5 / 3 / np.sqrt(a.size)


def test_every_part_of_the_key_matters():
    cells = np.indices((4, 8, 8))
    base = uniform_reference(1, 2, *cells)
    for other in (uniform_reference(2, 2, *cells), uniform_reference(1 + 2**32, 2, *cells)):
        assert not np.any(other == base)
    assert not np.any(uniform_reference(1, 3, *cells) == base)
    assert np.unique(base).size == base.size


def test_float32_is_float64_rounded_down_to_24_bits():
    cells = np.indices((4, 8, 8))
    fine, coarse = (uniform_reference(3, 4, *cells, dtype=t) for t in (np.float64, np.float32))
    assert coarse.dtype == np.float32
    np.testing.assert_array_equal(coarse, np.floor(fine * 2.0**23) * 2.0**-23)
