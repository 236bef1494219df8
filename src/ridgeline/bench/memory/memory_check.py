"""Is this memory sound: patterns written over n bytes and read back, by this process alone."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ridgeline.bench.memory import memory_pattern
from ridgeline.bench.memory.memory_pattern import ADDRESS, ALL_ONES, FIXED, NOTHING, WALKING
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.machine import memory_available

# In order of what they find per second of a short check: address lines, stuck bits, coupled bits.
_PATTERNS = (
    ("address", ADDRESS, 1),
    ("alternating bits", FIXED, 0x5555555555555555),
    ("walking bit", WALKING, 0),
    ("all zeros", FIXED, 0),
)


@dataclass(frozen=True)
class MemoryResult:
    """What was found. bytes: that were tested; passes: patterns written and read back, each with its complement.

    n_errors: 64-bit words that were not what was written, each time that one was read; first_offset: bytes from the
    start of the memory to the first of them that was noticed, None if all is well; detail: it in one sentence.
    """

    bytes: int
    passes: int
    n_errors: int
    first_offset: int | None
    detail: str


def check_memory(n_bytes: int, seconds: float | None = None) -> MemoryResult:
    """Write patterns to n_bytes of fresh memory and read them back; this process alone, one thread.

    Each pattern (address, alternating bits, walking bit, all zeros) is written, then read and inverted page by page
    upwards, read and inverted downwards, and read. So every bit is 0 and 1 at every place. Bytes beyond the last
    whole 8 are left out. n_bytes should exceed the caches, or it is them that are tested.

    seconds: stop before the first pattern that begins after this time (at least one is tried). While there is time,
    all patterns are repeated with other keys; None: once through all. A pattern moves 6 n_bytes. Raises ConfigError
    if there are not so many bytes, or fewer than 8 are asked for.
    """
    if n_bytes < 8:
        raise ConfigError(f"a memory check of {n_bytes} bytes: at least 8 are needed")
    if seconds is not None and seconds < 0:
        raise ConfigError(f"a memory check of {seconds} s: the time cannot be negative")
    available = memory_available()
    if n_bytes > available:
        raise ConfigError(
            f"a memory check of {n_bytes / 2**20:.0f} MiB: only {available / 2**20:.0f} MiB are free on this node; "
            f"ask for less"
        )
    words = np.empty(n_bytes // 8, np.uint64)
    end = None if seconds is None else time.monotonic() + seconds
    passes = n_errors = 0
    first_offset, detail = None, ""
    while True:
        if passes and (passes >= len(_PATTERNS) if end is None else time.monotonic() >= end):
            break
        turn, which = divmod(passes, len(_PATTERNS))
        name, kind, key = _PATTERNS[which]
        if kind != FIXED:
            key += turn * 7919
        found, offset, text = _run_pattern(words, kind, key)
        if found and first_offset is None:
            first_offset, detail = offset, f"{text} (pattern: {name})"
        n_errors += found
        passes += 1
    if not n_errors:
        detail = f"{words.nbytes} bytes hold what was written to them, {passes} patterns"
    return MemoryResult(words.nbytes, passes, n_errors, first_offset, detail)


def _run_pattern(words: NDArray[np.uint64], kind: int, key: int) -> tuple[int, int, str]:
    """Return (errors of one pattern, offset in bytes of the first, it in one sentence)."""
    number = np.uint64(key)
    memory_pattern.fill(words, kind, number, NOTHING)
    n_errors, offset, text = 0, 0, ""
    steps = ((NOTHING, False), (ALL_ONES, True), (NOTHING, None))
    for mask, downwards in steps:
        if downwards is None:
            wrong, first, found = memory_pattern.verify(words, kind, number, mask)
        else:
            wrong, first, found = memory_pattern.verify_and_invert(words, kind, number, mask, downwards)
        if wrong and not n_errors:
            expected = memory_pattern.word_of(kind, key, int(first), int(mask))
            offset = 8 * int(first)
            text = (
                f"the 8 bytes at offset {offset} of {words.nbytes} read {int(found):#018x} instead of "
                f"{expected:#018x}: bits {int(found) ^ expected:#x} are wrong"
            )
        n_errors += int(wrong)
    return n_errors, offset, text
