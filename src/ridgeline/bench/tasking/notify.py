"""Notification of an event (Fig. 3 of the Julia paper): from just before the signal until the waiting task runs.

Whoever waits says so first, and the signal comes when it has left its core. The paper's clock starts just after
the signal; ours just before, so that the cost of signalling is counted.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

import numpy as np

from ridgeline.bench.tasking.c_tasks import call, need_library
from ridgeline.bench.tasking.futures import process_context
from ridgeline.bench.tasking.trials import Series, Trials
from ridgeline.bench.tasking.work import ANSWER_TIMEOUT, await_condition, await_event
from ridgeline.runtime.errors import RidgelineError

if TYPE_CHECKING:
    from ridgeline.bench.c_library import Library

ASLEEP = 5e-5  # seconds until the waiting task has left its core, as in C


def measure_notification(trials: Trials, c: Library | None, reason: str) -> list[Series]:
    """Return the seconds of one notification through every primitive."""

    def series(primitive: str, seconds: list[float], **more: Any) -> Series:
        return Series("notification", primitive, "notify", **more).with_seconds(seconds)

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
    """Signal `primitive` whenever the other end of the pipe waits; return the seconds until it ran."""

    def trial() -> float:
        _receive(pipe)
        time.sleep(ASLEEP)
        if kind == "condition":
            # Held by the waiting task from before its message until it waits, so it cannot be missed.
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
        problem = "ended before its time"
    raise RidgelineError(f"the task that waits for a notification {problem}; see its message above")


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
