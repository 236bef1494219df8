"""Put, peek and take of channels (Fig. 4 of the Julia paper): a queue in one task, never full nor empty.

In every trial, numbers that no other trial has are put, the first is looked at as often, and all are taken and
compared. Seconds of each operation are those of all over their number.
"""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ridgeline.bench.tasking.c_tasks import call, need_library
from ridgeline.bench.tasking.futures import process_context
from ridgeline.bench.tasking.trials import Series, Trials
from ridgeline.runtime.errors import VerificationError

if TYPE_CHECKING:
    from ridgeline.bench.c_library import Library

ITEM = "channel"
OPERATIONS = 500  # of a kind in a trial; this many numbers fit the pipe of a process's queue

Put = Callable[[int], Any]
Get = Callable[[], int]


def measure_channels(trials: Trials, c: Library | None, reason: str) -> list[Series]:
    """Return the seconds of put, peek and take of every channel; one without peek has no such series."""
    found = _queue_in_c(trials, c, reason)
    found += _compiled_ring(trials)
    found += use_channel("compiled ring, called from Python", trials, *_ring())
    items: deque[int] = deque()
    found += use_channel("collections.deque", trials, items.append, items.popleft, lambda: items[0])
    found += use_channel("queue.Queue", trials, *_queue())
    simple: queue.SimpleQueue[int] = queue.SimpleQueue()
    found += use_channel("queue.SimpleQueue", trials, simple.put, simple.get)
    context = process_context()
    pipe = context.SimpleQueue()
    found += use_channel("multiprocessing.SimpleQueue", trials, pipe.put, pipe.get)
    pipe.close()
    buffered: Any = context.Queue()
    # Its thread moves items into the pipe meanwhile: takes may wait for it.
    found += use_channel("multiprocessing.Queue", trials, buffered.put, buffered.get)
    buffered.close()
    buffered.join_thread()
    return found


def use_channel(primitive: str, trials: Trials, put: Put, take: Get, peek: Get | None = None) -> list[Series]:
    """Return put, peek (if there is one) and take of a channel. Raises VerificationError on a wrong number."""
    seconds: dict[str, list[float]] = {"put": [], "peek": [], "take": []}
    clock = time.perf_counter
    for trial in range(trials.total):
        numbers = range(trial * OPERATIONS, (trial + 1) * OPERATIONS)
        start = clock()
        for number in numbers:
            put(number)
        seconds["put"].append((clock() - start) / OPERATIONS)
        seen: list[int] = []
        if peek is not None:
            keep = seen.append
            start = clock()
            for _ in numbers:
                keep(peek())
            seconds["peek"].append((clock() - start) / OPERATIONS)
        taken: list[int] = []
        keep = taken.append
        start = clock()
        for _ in numbers:
            keep(take())
        seconds["take"].append((clock() - start) / OPERATIONS)
        if taken != list(numbers) or set(seen) - {numbers[0]}:
            raise VerificationError(f"{primitive}: what was taken is not what was put")
    return [
        Series(ITEM, primitive, operation).with_seconds(trials.kept(values))
        for operation, values in seconds.items()
        if values
    ]


def _queue() -> tuple[Put, Get, Get]:
    items: queue.Queue[int] = queue.Queue()

    def peek() -> int:
        with items.mutex:
            first: int = items.queue[0]
        return first

    return items.put, items.get, peek


def _ring() -> tuple[Put, Get, Get]:
    from ridgeline.bench.tasking import ring_buffer

    ends, items = ring_buffer.make_ring(OPERATIONS)
    put, take, peek = ring_buffer.put, ring_buffer.take, ring_buffer.peek
    return lambda item: put(ends, items, item), lambda: take(ends, items, -1), lambda: peek(ends, items, -1)


def _compiled_ring(trials: Trials) -> list[Series]:
    from ridgeline.bench.tasking.ring_buffer import make_ring, peek_often, put_range, take_range

    ends, items = make_ring(OPERATIONS)
    for n in (0, OPERATIONS):  # compile, and bring the ring into the cache
        put_range(ends, items, 0, n)
        peek_often(ends, items, 0, n)
        take_range(ends, items, 0, n)
    marks = []
    for trial in range(trials.total):
        first = trial * OPERATIONS
        mark = [time.perf_counter()]
        room = put_range(ends, items, first, OPERATIONS)
        mark.append(time.perf_counter())
        wrong = peek_often(ends, items, first, OPERATIONS)
        mark.append(time.perf_counter())
        wrong += take_range(ends, items, first, OPERATIONS)
        mark.append(time.perf_counter())
        if room != OPERATIONS or wrong:
            raise VerificationError("compiled ring: what was taken is not what was put")
        marks.append(mark)
    spent = np.diff(np.array(marks), axis=1) / OPERATIONS
    return [
        Series(ITEM, "compiled ring", operation).with_seconds(trials.kept(spent[:, i]))
        for i, operation in enumerate(("put", "peek", "take"))
    ]


def _queue_in_c(trials: Trials, c: Library | None, reason: str) -> list[Series]:
    base = Series(ITEM, "C, queue under a mutex", "", baseline=True, reason=need_library(c, reason))
    seconds = np.zeros((3, trials.total))
    if c is not None:
        call(c, "use_queue", OPERATIONS, trials.total, *(row.ctypes.data for row in seconds))
    return [
        replace(base, operation=operation).with_seconds(trials.kept(row) if c is not None else ())
        for operation, row in zip(("put", "peek", "take"), seconds)
    ]
