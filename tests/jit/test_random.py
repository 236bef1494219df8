"""Philox4x32 of 10 and of 7 rounds: Random123's known answers, and the statistics of a uniform."""

from itertools import product

import numpy as np
import pytest

from ridgeline.jit.random import PHILOX_7, PHILOX_10, WORDS, philox4x32, round_keys, uniform_reference

ONES = 0xFFFFFFFF
PI = ([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0])
BOTH = (PHILOX_7, PHILOX_10)


def words(counter, key, rounds):
    keys = round_keys(key[0] | key[1] << 32, rounds)
    block = philox4x32(*(np.array([c], dtype=np.uint64) for c in counter), keys)
    return [int(word[0]) & ONES for word in block]


def by_integers(counter, key, rounds):
    """Philox4x32 as the paper writes it, in Python's integers."""
    (left, right, second_left, second_right), (k0, k1) = counter, key
    for _ in range(rounds):
        first, second = 0xD2511F53 * left, 0xCD9E8D57 * second_left
        left, right, second_left, second_right = (
            second >> 32 ^ right ^ k0,
            second & ONES,
            first >> 32 ^ second_right ^ k1,
            first & ONES,
        )
        k0, k1 = (k0 + 0x9E3779B9) & ONES, (k1 + 0xBB67AE85) & ONES
    return [left, right, second_left, second_right]


# kat_vectors of Random123 1.14: rounds, counter, key, numbers
KNOWN_ANSWERS = [
    (7, [0] * 4, [0] * 2, [0x5F6FB709, 0x0D893F64, 0x4F121F81, 0x4F730A48]),
    (7, [ONES] * 4, [ONES] * 2, [0x5207DDC2, 0x45165E59, 0x4D8EE751, 0x8C52F662]),
    (7, *PI, [0x4DFCCABA, 0x190A87F0, 0xC47362BA, 0xB6B5242A]),
    (10, [0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    (10, [ONES] * 4, [ONES] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (10, *PI, [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]),
]


def test_known_answers():
    for rounds, counter, key, expected in KNOWN_ANSWERS:
        assert by_integers(counter, key, rounds) == expected, f"{rounds=}, {counter=}"
        assert words(counter, key, rounds) == expected, f"{rounds=}, {counter=}"


def test_a_number_is_a_part_of_the_word_of_its_row():
    for generator in BOTH:
        seed, step, z, x = 2**40 + 3, 6, 2**31 + 1, 2**32 - 1
        for y in range(5 * generator.rows, 6 * generator.rows):
            word = by_integers([x, 5, z, step], [seed & ONES, seed >> 32], generator.rounds)[y % WORDS]
            part, bits = y // WORDS % generator.parts, 32 // generator.parts
            value = word >> bits * part & (1 << bits) - 1
            signed = value - (value >> bits - 1 << bits)
            middle = 0.5 if generator.parts == 2 else 0.0
            found = uniform_reference(seed, step, z, y, x, generator=generator)
            assert found == (signed + middle) * 2.0 ** (1 - bits), f"{generator.name}, {y=}"


def test_numbers_of_older_runs_stay_as_they_were():
    y, x = np.ogrid[6:10, 2**20 : 2**20 + 2]
    recorded = [
        [242388200, 20854631],
        [975588396, 1307711857],
        [562515254, -92915802],
        [-382240825, 972421269],
    ]
    np.testing.assert_array_equal(uniform_reference(42, 1000, 3, y, x) * 2**31, recorded)


@pytest.fixture(scope="module", params=BOTH, ids=lambda generator: generator.name)
def sample(request):
    """Two steps of a 32 x 64 x 64 grid: shape (2, 32, 64, 64)."""
    cells = np.indices((32, 64, 64))
    return np.stack([uniform_reference(2024, step, *cells, generator=request.param) for step in (7, 8)])


def test_mean_variance_and_range(sample):
    n = sample.size
    assert sample.min() >= -1
    assert sample.max() < 1
    assert abs(sample.mean()) < 5 * np.sqrt(1 / 3 / n)
    assert abs(sample.var() - 1 / 3) < 5 * np.sqrt(4 / 45 / n)


def test_uniform_in_every_bin(sample):
    for bins in (256, 4096):
        counts, _ = np.histogram(sample, bins=bins, range=(-1, 1))
        assert_chi_squared(counts, f"{bins=}")


def assert_chi_squared(counts, case):
    """Assert that counts of equal expectation are within five standard deviations of chance."""
    expected = counts.sum() / counts.size
    chi_squared = np.sum((counts - expected) ** 2) / expected
    freedom = counts.size - 1
    assert abs(chi_squared - freedom) < 5 * np.sqrt(2 * freedom), case


def test_neither_steps_nor_cells_correlate(sample):
    for axis, lag in [(0, 1), *product([1, 2, 3], [1, 2, 3, 4, 8])]:  # the sample has two steps
        n = sample.shape[axis]
        a, b = np.take(sample, range(lag, n), axis), np.take(sample, range(n - lag), axis)
        assert abs(np.mean(a * b)) < 5 / 3 / np.sqrt(a.size), f"{axis=}, {lag=}"
        # All pairs of 32 x 32 bins are as frequent, which sees what a product averages out.
        pairs = [((values + 1) * 16).astype(int).ravel() for values in (a, b)]
        assert_chi_squared(np.bincount(32 * pairs[0] + pairs[1], minlength=1024), f"{axis=}, {lag=}")


def test_the_spectrum_is_flat(sample):
    """White noise has a power of n / 3 in the mean of every shell; waves along the axes among them."""
    power = np.abs(np.fft.rfftn(sample[0])) ** 2 / (sample[0].size / 3)
    axes = power[1:16, 0, 0], power[0, 1:32, 0], power[0, 0, 1:32]
    for waves in (power[1:16], power[:, 1:32], power[..., 1:32], *axes):
        assert abs(waves.mean() - 1) < 5 * waves.size**-0.5


def check_bits(rounds):
    rng = np.random.default_rng(5)
    start = rng.integers(0, 2**32, (6, 2000), dtype=np.uint64)

    def block(state):
        steps = np.array([0x9E3779B9, 0xBB67AE85], dtype=np.uint64)[:, np.newaxis]
        keys = [state[4:] + np.uint64(i) * steps & np.uint64(ONES) for i in range(rounds)]
        return np.stack(philox4x32(*state[:4], keys)).astype(np.uint32)

    base = block(start)
    for place in range(6):
        for bit in range(32):
            turned = start.copy()
            turned[place] ^= np.uint64(1 << bit)
            share = np.unpackbits((block(turned) ^ base).view(np.uint8)).mean()
            assert abs(share - 0.5) < 5 * 0.5 / np.sqrt(128 * 2000)


def test_each_bit_of_counter_and_key_turns_half_of_the_block():
    for rounds in (7, 10):
        check_bits(rounds)


def check_key(generator):
    cells = np.indices((4, 8, 8))

    def numbers(seed, step):
        return uniform_reference(seed, step, *cells, generator=generator)

    base = numbers(1, 2)
    for other in (numbers(2, 2), numbers(1 + 2**32, 2), numbers(1, 3)):
        assert not np.any(other == base)
    assert np.unique(base).size == base.size


def test_every_part_of_the_key_matters():
    for generator in BOTH:
        check_key(generator)


def test_float32_is_float64_rounded_down_to_24_bits():
    cells = np.indices((4, 8, 8))
    fine, coarse = (uniform_reference(3, 4, *cells, dtype=t) for t in (np.float64, np.float32))
    assert coarse.dtype == np.float32
    np.testing.assert_array_equal(coarse, np.floor(fine * 2.0**23) * 2.0**-23)


def test_numbers_of_16_bits_are_the_same_in_both_precisions_and_have_no_bias():
    cells = np.indices((4, 8, 8))
    fine, coarse = (uniform_reference(3, 4, *cells, t, PHILOX_7) for t in (np.float64, np.float32))
    assert coarse.dtype == np.float32
    np.testing.assert_array_equal(coarse, fine)
    assert np.all(fine * 2**16 % 2 == 1)  # odd multiples of 2^-16: as many above 0 as below, and none at it
