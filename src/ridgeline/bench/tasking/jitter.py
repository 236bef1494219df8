"""How long equal work is delayed: by the system, by the collection of garbage, and by compilation.

Rizvi and Hale, Sec. V, name garbage collection and just-in-time compilation as sources of the variance of Julia's
runs. A trial does the same small piece of compiled work a thousand times and returns the longest delay: the slowest
piece less the fastest. Garbage is objects that refer to each other, which only the collector frees.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numba import njit

from ridgeline.bench.language.loops import compute
from ridgeline.bench.tasking.trials import Series, Trials
from ridgeline.runtime.errors import VerificationError

PIECES = 1000  # of work in a trial
FLOPS = 20_000  # of a piece, each of which waits for the one before: some tens of microseconds
GARBAGE = 20  # cycles of objects that a piece makes
MOST_COMPILATIONS = 5


def measure_jitter(trials: Trials) -> list[Series]:
    """Measure the longest delay of equal work in each surrounding, pauses of the collector, and compilation."""

    def delays(name: str, garbage: int, collecting: bool) -> Series:
        with collection(collecting):
            return Series("jitter", name, "longest delay").with_seconds(
                trials.run(lambda: _longest_delay(garbage))
            )

    few = Trials(min(trials.count, MOST_COMPILATIONS), 0)
    later = _later_call()
    return [
        delays("compiled work, collector off", 0, False),
        delays("compiled work, collector on", 0, True),
        delays("compiled work and garbage, collector off", GARBAGE, False),
        delays("compiled work and garbage, collector on", GARBAGE, True),
        Series("jitter", "longest automatic collection", "pause").with_seconds(trials.run(_longest_pause)),
        Series("jitter", "full collection (gc.collect)", "pause").with_seconds(trials.run(_full_collection)),
        Series("jitter", "Numba, first call compiles", "call").with_seconds(few.run(_first_call)),
        Series("jitter", "Numba, later call", "call").with_seconds(trials.run(later)),
    ]


@contextmanager
def collection(on: bool) -> Iterator[None]:
    """Turn the automatic collector on or off for the block, which begins without garbage."""
    before = gc.isenabled()
    gc.collect()
    (gc.enable if on else gc.disable)()
    try:
        yield
    finally:
        (gc.enable if before else gc.disable)()


def _make_garbage(cycles: int) -> None:
    for _ in range(cycles):
        one: list[Any] = []
        one.append([one])


def _longest_delay(garbage: int) -> float:
    """Return the seconds of the slowest piece of work less those of the fastest."""
    seconds = np.zeros(PIECES)
    compute(1.0, FLOPS)
    for i in range(PIECES):
        start = time.perf_counter()
        x = compute(1.0, FLOPS)
        _make_garbage(garbage)
        seconds[i] = time.perf_counter() - start
    if x != 2.0:
        raise VerificationError(
            f"a piece of work returned {x}, but 2 is right. Memory or processor is faulty."
        )
    return float(seconds.max() - seconds.min())


def _longest_pause() -> float:
    """Return the seconds of the longest automatic collection while garbage is made, enough to begin some."""
    longest, begun = 0.0, 0.0

    def note(phase: str, info: dict[str, int]) -> None:
        nonlocal longest, begun
        if phase == "start":
            begun = time.perf_counter()
        else:
            longest = max(longest, time.perf_counter() - begun)

    with collection(True):
        gc.callbacks.append(note)
        try:
            _make_garbage(max(PIECES * GARBAGE, 2 * gc.get_threshold()[0]))
        finally:
            gc.callbacks.remove(note)
    return longest


def _full_collection() -> float:
    start = time.perf_counter()
    gc.collect()
    return time.perf_counter() - start


def _small_function() -> Callable[[float], float]:
    """Return a new function for Numba, which has compiled none of it."""

    def polynomial(x: float) -> float:
        return 1.0 + x * (2.0 + x * (3.0 + x))

    compiled: Callable[[float], float] = njit(polynomial)
    return compiled


def _first_call() -> float:
    function = _small_function()
    start = time.perf_counter()
    function(1.0)
    return time.perf_counter() - start


def _later_call() -> Callable[[], float]:
    function = _small_function()
    function(1.0)

    def call() -> float:
        start = time.perf_counter()
        function(1.0)
        return time.perf_counter() - start

    return call
