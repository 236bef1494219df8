"""Communication between tasks: notification of an event, and channels (Figs. 3 and 4 of the Julia paper).

Notification is timed from just before the signal until the waiting task runs. The task that waits says so first, and
the signal comes when it has left its core. The paper's clock starts just after the signal; ours starts just before
it, so that the cost of signalling is counted.

A channel is a queue in one task that is never full nor empty. In every trial, numbers that no other trial has are
put, the first is peeked at as often, and all are taken and compared. The seconds of an operation are those of all of
its kind divided by their number.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

import numpy as np

from ridgeline.bench.tasking.futures import process_context
from ridgeline.bench.tasking.trials import Series, Trials, call, need_library
from ridgeline.bench.tasking.worker_functions import ANSWER_TIMEOUT, await_condition, await_event
from ridgeline.runtime.errors import RidgelineError, VerificationError

if TYPE_CHECKING:
    from ridgeline.bench.c_library import Library

ASLEEP = 5e-5  # seconds in which the waiting task leaves its core, as in C
OPERATIONS = 500  # of a kind in a trial; this many numbers fit the pipe of a process's queue

Put = Callable[[int], Any]
Get = Callable[[], int]


def measure_notification(trials: Trials, c: Library | None, reason: str) -> list[Series]:
    """Measure the seconds of one notification with every primitive."""

    def series(primitive: str, seconds: list[float], **fields: Any) -> Series:
        return Series("notification", primitive, "notify", **fields).with_seconds(seconds)

    return [
        series("C, pthread_cond", _notify_in_c(trials, c), baseline=True, reason=need_library(c, reason)),
        series("threading.Condition", _notify_thread(trials, "condition")),
        series("threading.Event", _notify_thread(trials, "event")),
        series("multiprocessing.Condition", _notify_process(trials, "condition")),
        series("multiprocessing.Event", _notify_process(trials, "event")),
        series("asyncio.Event", asyncio.run(_notify_task(trials))),
    ]


def _notify_in_c(trials: Trials, c: Library | None) -> list[float]:
    if c is None:
        return []
    seconds = np.zeros(trials.total)
    call(c, "notify_thread", trials.total, seconds.ctypes.data)
    return trials.kept(seconds)


def _notify_thread(trials: Trials, kind: str) -> list[float]:
    ours, theirs = Pipe()
    primitive = threading.Condition() if kind == "condition" else threading.Event()
    target: Callable[..., None] = await_condition if kind == "condition" else await_event
    thread = threading.Thread(target=target, args=(primitive, theirs, trials.total), daemon=True)
    thread.start()
    with ours, theirs:
        seconds = _signal(primitive, kind, ours, trials)
        thread.join()
    return seconds


def _notify_process(trials: Trials, kind: str) -> list[float]:
    context = process_context()
    ours, theirs = context.Pipe()
    primitive: Any = context.Condition() if kind == "condition" else context.Event()
    target: Callable[..., None] = await_condition if kind == "condition" else await_event
    process = context.Process(  # type: ignore[attr-defined]
        target=target, args=(primitive, theirs, trials.total), daemon=True
    )
    process.start()
    theirs.close()
    with ours:
        seconds = _signal(primitive, kind, ours, trials)
    process.join()
    return seconds


def _signal(primitive: Any, kind: str, pipe: Connection, trials: Trials) -> list[float]:
    """Signal `primitive` whenever the task at the other end of the pipe waits; return the seconds until it runs."""

    def trial() -> float:
        _receive(pipe)
        time.sleep(ASLEEP)
        if kind == "condition":
            # The waiting task locks it from before its message until it waits, so no signal is missed.
            with primitive:
                start = time.perf_counter()
                primitive.notify()
        else:
            start = time.perf_counter()
            primitive.set()
        seen: float = _receive(pipe)
        return seen - start

    return trials.run(trial)


def _receive(pipe: Connection) -> Any:
    try:
        if pipe.poll(ANSWER_TIMEOUT):
            return pipe.recv()
        problem = f"did not answer within {ANSWER_TIMEOUT:.0f} s"
    except (EOFError, OSError):
        problem = "ended too early"
    raise RidgelineError(f"the task that waits for a notification {problem}. Its message is above.")


async def _notify_task(trials: Trials) -> list[float]:
    event = asyncio.Event()
    waiting = asyncio.Event()
    seen: list[float] = []

    async def wait() -> None:
        for _ in range(trials.total):
            waiting.set()
            await event.wait()
            seen.append(time.perf_counter())
            event.clear()

    task = asyncio.create_task(wait())
    seconds = []
    for _ in range(trials.total):
        await waiting.wait()
        waiting.clear()
        start = time.perf_counter()
        event.set()
        while not seen:
            await asyncio.sleep(0)
        seconds.append(seen.pop() - start)
    await task
    return trials.kept(seconds)


def measure_channels(trials: Trials, c: Library | None, reason: str) -> list[Series]:
    """Measure the seconds of put, peek and take of every channel. A channel without peek has no such series."""
    series = _queue_in_c(trials, c, reason)
    series += _compiled_ring(trials)
    series += use_channel("compiled ring, called from Python", trials, *_ring())
    items: deque[int] = deque()
    series += use_channel("collections.deque", trials, items.append, items.popleft, lambda: items[0])
    series += use_channel("queue.Queue", trials, *_queue())
    simple: queue.SimpleQueue[int] = queue.SimpleQueue()
    series += use_channel("queue.SimpleQueue", trials, simple.put, simple.get)
    context = process_context()
    pipe = context.SimpleQueue()
    series += use_channel("multiprocessing.SimpleQueue", trials, pipe.put, pipe.get)
    pipe.close()
    buffered: Any = context.Queue()
    # At the same time a thread of the queue moves items into the pipe, and a take may have to wait for it.
    series += use_channel("multiprocessing.Queue", trials, buffered.put, buffered.get)
    buffered.close()
    buffered.join_thread()
    return series


def use_channel(primitive: str, trials: Trials, put: Put, take: Get, peek: Get | None = None) -> list[Series]:
    """Measure put, peek (if there is one) and take of a channel. Raises VerificationError on a wrong number."""
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
            raise VerificationError(
                f"{primitive}: the numbers that were taken are not those that were put. Memory or processor is "
                "faulty."
            )
    return [
        Series("channel", primitive, operation).with_seconds(trials.kept(values))
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
    from ridgeline.bench.tasking import kernels

    ends, items = kernels.make_ring(OPERATIONS)
    put, take, peek = kernels.put, kernels.take, kernels.peek
    return lambda item: put(ends, items, item), lambda: take(ends, items, -1), lambda: peek(ends, items, -1)


def _compiled_ring(trials: Trials) -> list[Series]:
    from ridgeline.bench.tasking.kernels import make_ring, peek_often, put_range, take_range

    ends, items = make_ring(OPERATIONS)
    # Compile, and bring the ring into the cache.
    for n in (0, OPERATIONS):
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
            raise VerificationError(
                "compiled ring: the numbers that were taken are not those that were put. Memory or processor is "
                "faulty."
            )
        marks.append(mark)
    spent = np.diff(np.array(marks), axis=1) / OPERATIONS
    return [
        Series("channel", "compiled ring", operation).with_seconds(trials.kept(spent[:, i]))
        for i, operation in enumerate(("put", "peek", "take"))
    ]


def _queue_in_c(trials: Trials, c: Library | None, reason: str) -> list[Series]:
    base = Series("channel", "C, queue under a mutex", "", baseline=True, reason=need_library(c, reason))
    seconds = np.zeros((3, trials.total))
    if c is not None:
        call(c, "use_queue", OPERATIONS, trials.total, *(row.ctypes.data for row in seconds))
    return [
        replace(base, operation=operation).with_seconds(trials.kept(row) if c is not None else ())
        for operation, row in zip(("put", "peek", "take"), seconds)
    ]
