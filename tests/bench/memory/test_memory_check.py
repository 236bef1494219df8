"""Memory patterns: sound memory passes, a bit that flips at any moment is found and placed."""

from itertools import product

import numpy as np
import pytest

from ridgeline.bench.memory import memory_check
from ridgeline.bench.memory.memory_check import (
    ADDRESS,
    ALL_ONES,
    FIXED,
    NOTHING,
    WALKING,
    check_memory,
    word_of,
)
from ridgeline.runtime.errors import ConfigError

PATTERNS = [(FIXED, 0x5555555555555555), (WALKING, 3), (ADDRESS, 7919)]
WORDS = 3 * memory_check.PAGE + 5


def test_written_words_are_those_of_python():
    for (kind, key), mask in product(PATTERNS, [NOTHING, ALL_ONES]):
        case = f"{kind=}, {key=}, {mask=}"
        words = np.empty(WORDS, np.uint64)
        memory_check.fill(words, kind, np.uint64(key), mask)
        assert [int(w) for w in words] == [word_of(kind, key, i, int(mask)) for i in range(WORDS)], case
        for downwards in (False, True):
            before = words.copy()
            assert memory_check.verify(words, kind, np.uint64(key), mask)[:2] == (0, -1), case
            assert memory_check.verify_and_invert(words, kind, np.uint64(key), mask, downwards)[:2] == (
                0,
                -1,
            ), case
            np.testing.assert_array_equal(words, ~before, err_msg=case)
            mask = ~mask


def test_addresses_are_distinct():
    words = np.empty(1 << 12, np.uint64)
    memory_check.fill(words, ADDRESS, np.uint64(1), NOTHING)
    assert np.unique(words).size == words.size


def test_flipped_bits_are_counted_and_the_lowest_is_named():
    all_places = [[0], [WORDS - 1], [memory_check.PAGE + 1, 2 * memory_check.PAGE, 700]]
    for (kind, key), downwards, places in product(PATTERNS, [False, True], all_places):
        case = f"{kind=}, {key=}, {downwards=}, {places=}"
        words = np.empty(WORDS, np.uint64)
        memory_check.fill(words, kind, np.uint64(key), ALL_ONES)
        words[places] ^= np.uint64(1 << 63)
        expected = (len(places), min(places), int(words[min(places)]))
        assert memory_check.verify(words, kind, np.uint64(key), ALL_ONES) == expected, case
        assert memory_check.verify_and_invert(words, kind, np.uint64(key), ALL_ONES, downwards) == expected, (
            case
        )
        assert memory_check.verify(words, kind, np.uint64(key), NOTHING)[0] == 0, case


def test_sound_memory_passes():
    result = check_memory(100_003)
    assert (result.bytes, result.passes, result.n_errors, result.first_offset) == (100_000, 4, 0, None)
    assert "hold what was written" in result.detail
    assert check_memory(8, seconds=0.0).passes == 1
    assert check_memory(64, seconds=0.02).passes > 4


def test_a_stuck_bit_is_reported_with_its_place_and_bits(monkeypatch):
    """Bit 5 of word 1000 holds 0 for good: wrong in every pattern, whether written or inverted."""
    broken = np.uint64(~(1 << 5) & (2**64 - 1))

    def stuck(kernel):
        def run(words, *arguments):
            found = kernel(words, *arguments)
            words[1000] &= broken
            return found

        return run

    for name in ("fill", "verify_and_invert"):
        monkeypatch.setattr(memory_check, name, stuck(getattr(memory_check, name)))
    result = check_memory(1 << 14)
    assert result.n_errors >= 4  # each pattern has 1 there, or its complement has
    assert result.first_offset == 8000
    assert "offset 8000 of 16384" in result.detail
    assert "bits 0x20 are wrong" in result.detail
    assert "pattern: address" in result.detail


def check_refusal(arguments, words):
    with pytest.raises(ConfigError, match=words):
        memory_check.check_memory(*arguments)


def test_bad_sizes_are_refused():
    check_refusal((7,), "7 bytes")
    check_refusal((2**60,), "are free on this node")
    check_refusal((64, -1.0), "must not be negative")
