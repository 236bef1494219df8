"""The functions that worker processes run. This imports neither MPI nor Numba, so that they start fast."""

from __future__ import annotations

import os
import time
from functools import cache
from multiprocessing.shared_memory import SharedMemory
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

MAX_FIBONACCI = 93  # the numbers 0 to 92 fit 63 bits, as in C
ANSWER_TIMEOUT = 60.0  # seconds to wait for an answer of a process


def nothing() -> None:
    """Do nothing: only the cost of the task remains."""


def fibonacci(n: int) -> list[int]:
    """Return the first n Fibonacci numbers, 0, 1, 1, 2, ..., computed one after the other."""
    numbers: list[int] = []
    for i in range(n):
        numbers.append(i if i < 2 else numbers[i - 1] + numbers[i - 2])
    return numbers


def identify(seconds: float) -> int:
    """Sleep, so that other workers get a task too, and return the id of this process."""
    time.sleep(seconds)
    return os.getpid()


@cache
def shared_memory(name: str) -> SharedMemory:
    """Return a block of shared memory, which each process maps once."""
    return SharedMemory(name)


def fill_shared(name: str, low: int, high: int, value: float) -> None:
    """Set elements low to high of the float64 array in a block of shared memory."""
    np.ndarray(high - low, np.float64, shared_memory(name).buf, 8 * low).fill(value)


def await_event(event: Any, pipe: Connection, n: int) -> None:
    """Wait n times for a multiprocessing.Event; send the time.perf_counter() at which each was seen."""
    for _ in range(n):
        event.clear()
        pipe.send(None)
        if not event.wait(ANSWER_TIMEOUT):
            return
        pipe.send(time.perf_counter())


def await_condition(condition: Any, pipe: Connection, n: int) -> None:
    """Wait n times for a multiprocessing.Condition; send the time.perf_counter() at which each was seen."""
    for _ in range(n):
        with condition:
            pipe.send(None)
            if not condition.wait(ANSWER_TIMEOUT):
                return
            seen = time.perf_counter()
        pipe.send(seen)
