"""Patterns written to memory and read back: a bit that is stuck, coupled to another or badly addressed shows.

Word i of a pattern is a pure function of (kind, key, i), so nothing but the array itself is stored:

- FIXED: the key, in all words
- WALKING: the one bit (i + key) mod 64
- ADDRESS: i mixed with the key (a multiplication by an odd number, so that no two words are alike). So a word
  that lands in another's place is found

A pattern is written by `fill`; `verify_and_invert` reads a page and at once writes its complement, upwards or
downwards. In such a march every page changes while its neighbours hold either value. Cache lines reach memory whole,
so that single words need no turn of their own; `verify` only reads.

Source: van de Goor, "Using march tests to test SRAMs", IEEE Design & Test 10 (1), 1993.
"""

import numpy as np
from numba import boolean, int64, uint64

from ridgeline.jit.kernel import kernel, subroutine

FIXED, WALKING, ADDRESS = range(3)
ALL_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)
NOTHING = np.uint64(0)
PAGE = 512  # words that are read before they are written: a page
_ODD = np.uint64(0x9E3779B97F4A7C15)
_ONE = np.uint64(1)
_LAST = np.uint64(63)


@subroutine(inline="always")
def _word(kind, key, i):
    if kind == 0:  # FIXED
        return key
    if kind == 1:  # WALKING
        return _ONE << ((np.uint64(i) + key) & _LAST)
    return (np.uint64(i) + key) * _ODD


@subroutine
def _wrong(words, kind, key, mask, start):
    """Count the words that are not those from word `start` on; words begin there."""
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
    """Write the pattern, exclusive or mask, to words, uint64 [n]."""
    _write(words, kind, key, mask, 0)


@kernel(lambda: (uint64[::1], int64, uint64, uint64), nogil=True)
def verify(words, kind, key, mask):
    """Return (number of words that are not the pattern exclusive or mask, index of the first or -1, its value)."""
    wrong = _wrong(words, kind, key, mask, 0)
    first, found = _first(words, kind, key, mask, 0) if wrong else (-1, NOTHING)
    return wrong, first, found


@kernel(lambda: (uint64[::1], int64, uint64, uint64, boolean), nogil=True)
def verify_and_invert(words, kind, key, mask, downwards):
    """Read every page as `verify` does and write the complement of what it should be; return what was wrong.

    downwards: from the last page to the first. The first wrong word is the one with the lowest index.
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
    """Return what word i of a pattern, exclusive or mask, must be: the same in Python's integers."""
    value = (key, 1 << ((i + key) & 63), (i + key) * int(_ODD))[kind]
    return (value ^ mask) & int(ALL_ONES)
