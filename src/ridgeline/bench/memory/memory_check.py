"""Whether this memory is sound: patterns are written over n bytes and read back, by this process alone.

A bit that is stuck, coupled to another bit or badly addressed shows. Word i of a pattern is a pure function of (kind,
key, i), so only the array itself is stored:

- FIXED: the key, in all words
- WALKING: only bit (i + key) mod 64 is set
- ADDRESS: i mixed with the key by multiplication with an odd number, so that no two words are equal and a word that
  arrives in another's place is found

`fill` writes a pattern; `verify_and_invert` reads a page and at once writes its complement, upwards or downwards. In
such a march every page changes while its neighbours hold either value. Cache lines reach memory whole, so single
words need no separate treatment. `verify` only reads.

Source: van de Goor, "Using march tests to test SRAMs", IEEE Design & Test 10 (1), 1993.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numba import boolean, int64, uint64
from numpy.typing import NDArray

from ridgeline.jit.kernel import kernel, subroutine
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.machine import memory_available

FIXED, WALKING, ADDRESS = range(3)
ALL_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)
NOTHING = np.uint64(0)
PAGE = 512  # words that are read before they are written
ODD = np.uint64(0x9E3779B97F4A7C15)
ONE = np.uint64(1)
LAST = np.uint64(63)

# The order finds most in a short check: address lines, then stuck bits, then coupled bits.
PATTERNS = (
    ("address", ADDRESS, 1),
    ("alternating bits", FIXED, 0x5555555555555555),
    ("walking bit", WALKING, 0),
    ("all zeros", FIXED, 0),
)


@subroutine(inline="always")
def _word(kind, key, i):
    if kind == 0:  # FIXED
        return key
    if kind == 1:  # WALKING
        return ONE << ((np.uint64(i) + key) & LAST)
    return (np.uint64(i) + key) * ODD


@subroutine
def _wrong(words, kind, key, mask, start):
    """Count the wrong words of a part of the pattern that begins at word `start`."""
    wrong = 0
    for i in range(words.size):
        wrong += words[i] != _word(kind, key, start + i) ^ mask
    return wrong


@subroutine
def _first(words, kind, key, mask, start):
    for i in range(words.size):
        if words[i] != _word(kind, key, start + i) ^ mask:
            return start + i, words[i]
    return -1, NOTHING


@subroutine
def _write(words, kind, key, mask, start):
    for i in range(words.size):
        words[i] = _word(kind, key, start + i) ^ mask


@kernel(lambda: (uint64[::1], int64, uint64, uint64), nogil=True)
def fill(words, kind, key, mask):
    """Write the pattern, xor mask, to words, uint64 [n]."""
    _write(words, kind, key, mask, 0)


@kernel(lambda: (uint64[::1], int64, uint64, uint64), nogil=True)
def verify(words, kind, key, mask):
    """Return the number of words that are not the pattern xor mask, the index of the first or -1, and its value."""
    wrong = _wrong(words, kind, key, mask, 0)
    first, found = _first(words, kind, key, mask, 0) if wrong else (-1, NOTHING)
    return wrong, first, found


@kernel(lambda: (uint64[::1], int64, uint64, uint64, boolean), nogil=True)
def verify_and_invert(words, kind, key, mask, downwards):
    """Read every page as `verify` does, write the complement of what it should hold, and return what was wrong.

    With `downwards` the march goes from the last page to the first. The first wrong word has the lowest index.
    """
    wrong, first, found = 0, -1, NOTHING
    pages = -(-words.size // PAGE)
    for n in range(pages):
        start = (pages - 1 - n if downwards else n) * PAGE
        page = words[start : min(start + PAGE, words.size)]
        here = _wrong(page, kind, key, mask, start)
        if here:
            wrong += here
            if downwards or first < 0:
                first, found = _first(page, kind, key, mask, start)
        _write(page, kind, key, ~mask, start)
    return wrong, first, found


def word_of(kind: int, key: int, i: int, mask: int) -> int:
    """Return what word i of a pattern, xor mask, must be, computed with Python's integers."""
    value = (key, 1 << ((i + key) & 63), (i + key) * int(ODD))[kind]
    return (value ^ mask) & int(ALL_ONES)


@dataclass(frozen=True)
class MemoryResult:
    """The result of a check.

    Attributes
    ----------
    bytes
        The bytes that were tested.
    passes
        The patterns that were written and read back, each with its complement.
    n_errors
        How often a 64-bit word that was read was not what had been written.
    first_offset
        The offset in bytes of the first error that was noticed, or None.
    detail
        The result in one sentence.
    """

    bytes: int
    passes: int
    n_errors: int
    first_offset: int | None
    detail: str


def check_memory(n_bytes: int, seconds: float | None = None) -> MemoryResult:
    """Write patterns to new memory and read them back, in this process alone and with one thread.

    Each pattern (address, alternating bits, walking bit, all zeros) is written, then read and inverted page by page
    upwards, read and inverted downwards, and read, so that every bit is both 0 and 1 at every place. A pattern moves
    6 n_bytes.

    Parameters
    ----------
    n_bytes
        The bytes to test, cut to a multiple of 8. They should exceed the caches, which are tested otherwise.
    seconds
        Stop before the first pattern that would begin after this time, but try at least one. While time is left, the
        patterns are repeated with other keys. None tries each pattern once.

    Raises
    ------
    ConfigError
        If less memory is free, or if n_bytes is less than 8.
    """
    if n_bytes < 8:
        raise ConfigError(f"a memory check has {n_bytes} bytes, but it must have at least 8.")
    if seconds is not None and seconds < 0:
        raise ConfigError(f"the time of a memory check is {seconds} s, but it must not be negative.")
    available = memory_available()
    if n_bytes > available:
        raise ConfigError(
            f"a memory check of {n_bytes / 2**20:.0f} MiB is too large, because only {available / 2**20:.0f} MiB are "
            "free on this node. Check less memory."
        )
    words = np.empty(n_bytes // 8, np.uint64)
    end = None if seconds is None else time.monotonic() + seconds
    passes = n_errors = 0
    first_offset, detail = None, ""
    while True:
        if passes and (passes >= len(PATTERNS) if end is None else time.monotonic() >= end):
            break
        turn, which = divmod(passes, len(PATTERNS))
        name, kind, key = PATTERNS[which]
        if kind != FIXED:
            key += turn * 7919
        errors, offset, text = _run_pattern(words, kind, key)
        if errors and first_offset is None:
            first_offset, detail = offset, f"{text} (pattern: {name})"
        n_errors += errors
        passes += 1
    if not n_errors:
        detail = f"all {words.nbytes} bytes hold what was written to them in {passes} patterns"
    return MemoryResult(words.nbytes, passes, n_errors, first_offset, detail)


def _run_pattern(words: NDArray[np.uint64], kind: int, key: int) -> tuple[int, int, str]:
    """Return the errors of one pattern, the offset in bytes of the first, and a sentence about it."""
    number = np.uint64(key)
    fill(words, kind, number, NOTHING)
    n_errors, offset, text = 0, 0, ""
    steps = ((NOTHING, False), (ALL_ONES, True), (NOTHING, None))
    for mask, downwards in steps:
        if downwards is None:
            wrong, first, value = verify(words, kind, number, mask)
        else:
            wrong, first, value = verify_and_invert(words, kind, number, mask, downwards)
        if wrong and not n_errors:
            expected = word_of(kind, key, int(first), int(mask))
            offset = 8 * int(first)
            text = (
                f"the 8 bytes at offset {offset} of {words.nbytes} read {int(value):#018x} instead of "
                f"{expected:#018x}: bits {int(value) ^ expected:#x} are wrong"
            )
        n_errors += int(wrong)
    return n_errors, offset, text
