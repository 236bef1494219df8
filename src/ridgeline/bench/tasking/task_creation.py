"""Creation of tasks, and the switch between two tasks (Figs. 1a and 1b of the Julia paper).

Creation is timed from the first to the last call that makes tasks ready to run, and divided by their number; running
and joining them is not timed. For the switch two tasks give the turn to each other, and the seconds are divided by
the number of turns. Kernel threads are bound to one core for this, so that every turn is a switch.
"""

from __future__ import annotations

import asyncio
import ctypes
import itertools
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ridgeline.bench.tasking.trials import Series, Trials, call, need_library
from ridgeline.runtime.errors import VerificationError

if TYPE_CHECKING:
    from ridgeline.bench.c_library import Library

TASKS = 1000  # tasks of the language that a trial creates
THREADS = 20  # kernel threads that a trial creates
TURNS = 1000  # turns there and back in a trial


def measure_creation(trials: Trials, c: Library | None, reason: str) -> list[Series]:
    """Measure the creation of a task: C, pthread_create, threads, asyncio and generators."""

    def series(primitive: str, **fields: Any) -> Series:
        return Series("creation", primitive, "create", **fields)

    return [
        series("C, pthread_create", baseline=True, reason=need_library(c, reason)).with_seconds(
            _create_in_c(trials, c)
        ),
        series("pthread_create through ctypes, compiled start routine").with_seconds(_create_posix(trials)),
        series("threading.Thread").with_seconds(trials.run(_create_threads)),
        series("asyncio task").with_seconds(asyncio.run(_create_asyncio(trials))),
        series("generator on a run queue").with_seconds(trials.run(_create_generators)),
    ]


def measure_switch(trials: Trials, c: Library | None, reason: str) -> list[Series]:
    """Measure one switch between two tasks, for the same primitives."""

    def series(primitive: str, **fields: Any) -> Series:
        return Series("switch", primitive, "switch", **fields)

    with one_core():
        rows = [
            series("C, two pthreads", baseline=True, reason=need_library(c, reason)).with_seconds(
                _switch_in_c(trials, c)
            ),
            series("pthread through ctypes, compiled").with_seconds(_switch_posix(trials)),
            series("threading.Thread").with_seconds(_switch_threads(trials)),
        ]
    return [
        *rows,
        series("asyncio task").with_seconds(asyncio.run(_switch_asyncio(trials))),
        series("generators").with_seconds(trials.run(_switch_generators)),
    ]


@contextmanager
def one_core() -> Iterator[None]:
    """Bind this thread and those that it starts to one of its cores, if the system can."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def _verify_count(marks: int, expected: int, what: str) -> None:
    """Raise VerificationError unless every task left its mark."""
    if marks != expected:
        raise VerificationError(
            f"{what}: {marks} tasks ran instead of {expected}. Memory or processor is faulty."
        )


def _create_in_c(trials: Trials, c: Library | None) -> list[float]:
    if c is None:
        return []
    marks, seconds = np.zeros(THREADS, np.int64), np.zeros(trials.total)
    call(c, "create_threads", THREADS, trials.total, marks.ctypes.data, seconds.ctypes.data)
    _verify_count(int(marks.sum()), THREADS * trials.total, "pthread_create in C")
    return trials.kept(seconds)


class _Posix:
    """pthread_create and pthread_join of this process, called through ctypes."""

    def __init__(self) -> None:
        process = ctypes.CDLL(None)
        self.create: Callable[..., int] = process.pthread_create
        self.join: Callable[..., int] = process.pthread_join
        process.pthread_create.argtypes = [ctypes.c_void_p] * 4
        # pthread_t is a word or a pointer.
        process.pthread_join.argtypes = [ctypes.c_void_p, ctypes.c_void_p]


def _create_posix(trials: Trials) -> list[float]:
    from ridgeline.bench.tasking.kernels import mark

    posix = _Posix()
    create, routine = posix.create, mark.address
    handles, marks = np.zeros(THREADS, np.uintp), np.zeros(THREADS, np.int64)
    arguments = [(int(handles.ctypes.data) + 8 * i, int(marks.ctypes.data) + 8 * i) for i in range(THREADS)]

    def trial() -> float:
        failed = 0
        start = time.perf_counter()
        for handle, slot in arguments:
            failed |= create(handle, None, routine, slot)
        seconds = time.perf_counter() - start
        if failed:
            raise OSError(failed, "pthread_create failed")
        for i in range(THREADS):
            posix.join(int(handles[i]), None)
        return seconds / THREADS

    seconds = trials.run(trial)
    _verify_count(int(marks.sum()), THREADS * trials.total, "pthread_create through ctypes")
    return seconds


def _create_threads() -> float:
    marks: list[int] = []
    mark = marks.append
    threads = []
    start = time.perf_counter()
    for i in range(THREADS):
        thread = threading.Thread(target=mark, args=(i,))
        thread.start()
        threads.append(thread)
    seconds = time.perf_counter() - start
    for thread in threads:
        thread.join()
    _verify_count(len(marks), THREADS, "threading.Thread")
    return seconds / THREADS


async def _create_asyncio(trials: Trials) -> list[float]:
    loop = asyncio.get_running_loop()
    marks: list[int] = []

    async def task(i: int) -> None:
        marks.append(i)

    seconds = []
    for _ in range(trials.total):
        tasks = []
        start = time.perf_counter()
        for i in range(TASKS):
            tasks.append(loop.create_task(task(i)))
        seconds.append((time.perf_counter() - start) / TASKS)
        await asyncio.gather(*tasks)
    _verify_count(len(marks), TASKS * trials.total, "asyncio")
    return trials.kept(seconds)


def _create_generators() -> float:
    marks: list[int] = []

    def task(i: int) -> Iterator[None]:
        marks.append(i)
        yield

    ready: deque[Iterator[None]] = deque()
    schedule = ready.append
    start = time.perf_counter()
    for i in range(TASKS):
        schedule(task(i))
    seconds = time.perf_counter() - start
    for generator in ready:
        next(generator)
    _verify_count(len(marks), TASKS, "generators")
    return seconds / TASKS


def _switch_in_c(trials: Trials, c: Library | None) -> list[float]:
    if c is None:
        return []
    seconds = np.zeros(trials.total)
    call(c, "switch_threads", TURNS, trials.total, seconds.ctypes.data)
    return trials.kept(seconds)


def _switch_posix(trials: Trials) -> list[float]:
    from ridgeline.bench.tasking.kernels import TAKEN, TOTAL, give_turns, take_turns

    posix = _Posix()
    turns, handle = np.zeros(3, np.int64), np.zeros(1, np.uintp)
    # Compile before the other thread waits.
    give_turns(turns, 0)
    turns[TOTAL] = TURNS * trials.total
    if failed := posix.create(handle.ctypes.data, None, take_turns.address, turns.ctypes.data):
        raise OSError(failed, "pthread_create failed")

    def trial() -> float:
        start = time.perf_counter()
        give_turns(turns, TURNS)
        return (time.perf_counter() - start) / (2 * TURNS)

    seconds = trials.run(trial)
    posix.join(int(handle[0]), None)
    _verify_count(int(turns[TAKEN]), int(turns[TOTAL]), "turns of a pthread")
    return seconds


def _switch_threads(trials: Trials) -> list[float]:
    """Switch as C does: a thread yields its core, and with it the interpreter, until it is its turn."""
    relax = getattr(os, "sched_yield", lambda: time.sleep(0))
    turn, taken = [0], [0]
    # Fewer turns, because the interpreter's lock changes hands at each.
    n = TURNS // 10

    def partner() -> None:
        for _ in range(n * trials.total):
            while turn[0] != 1:
                relax()
            taken[0] += 1
            turn[0] = 0

    def trial() -> float:
        start = time.perf_counter()
        for _ in range(n):
            turn[0] = 1
            while turn[0]:
                relax()
        return (time.perf_counter() - start) / (2 * n)

    thread = threading.Thread(target=partner, daemon=True)
    thread.start()
    seconds = trials.run(trial)
    thread.join()
    _verify_count(taken[0], n * trials.total, "turns of a threading.Thread")
    return seconds


async def _switch_asyncio(trials: Trials) -> list[float]:
    order: list[int] = []

    async def task(me: int) -> None:
        for _ in range(TURNS):
            order.append(me)
            await asyncio.sleep(0)

    seconds = []
    for _ in range(trials.total):
        order.clear()
        start = time.perf_counter()
        await asyncio.gather(task(0), task(1))
        seconds.append((time.perf_counter() - start) / (2 * TURNS))
        _verify_count(sum(a != b for a, b in itertools.pairwise(order)), 2 * TURNS - 1, "switches of asyncio")
    return trials.kept(seconds)


def _switch_generators() -> float:
    taken = [0, 0]

    def task(me: int) -> Iterator[None]:
        while True:
            taken[me] += 1
            yield

    first, second = task(0), task(1)
    start = time.perf_counter()
    for _ in range(TURNS):
        next(first)
        next(second)
    seconds = time.perf_counter() - start
    _verify_count(sum(taken), 2 * TURNS, "switches of generators")
    return seconds / (2 * TURNS)
