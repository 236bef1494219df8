"""A channel in compiled code: a ring of numbers for one thread that puts and one that takes.

Neither waits for a lock. The producer alone moves the tail, and the consumer alone moves the head. Each reads the
other's by acquire and writes its own by release (Lamport, "Specifying concurrent program modules", TOPLAS 5, 1983).
The value is read on every path. If it were read in a branch, Numba would count references to the arrays at every
call, at five times the cost.

ends: int64 [ENDS], how many were ever taken (HEAD) and put (TAIL), on cache lines of their own; items: int64
[capacity], a power of two. All are compiled without the GIL and may wait for the other thread in compiled code only.
"""

from typing import Any

import numpy as np
from numba import int64
from numpy.typing import NDArray

from ridgeline.jit.atomics import load_acquire, store_release
from ridgeline.jit.kernel import kernel

HEAD = 0
TAIL = 16  # 128 bytes on: pairs of lines are fetched together
ENDS = 32


def _with_number() -> tuple[Any, ...]:
    """Return the types of the ring and of one number: an item, or what stands for none."""
    return int64[::1], int64[::1], int64


def _with_range() -> tuple[Any, ...]:
    """Return the types of the ring, of the first item and of how many."""
    return *_with_number(), int64


def make_ring(capacity: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return (ends, items) of an empty ring for at least `capacity` numbers."""
    return np.zeros(ENDS, np.int64), np.zeros(1 << max(capacity - 1, 0).bit_length(), np.int64)


@kernel(_with_number, nogil=True)
def put(ends, items, item):
    """Append item; return False if the ring is full."""
    tail = ends[TAIL]
    room = tail - load_acquire(ends, HEAD) < items.size
    if room:
        items[tail & (items.size - 1)] = item
        store_release(ends, TAIL, tail + 1)
    return room


@kernel(_with_number, nogil=True)
def take(ends, items, nothing):
    """Remove the first item and return it, or `nothing` if the ring is empty."""
    head = ends[HEAD]
    there = load_acquire(ends, TAIL) != head
    item = items[head & (items.size - 1)]  # of an empty ring: read and thrown away
    store_release(ends, HEAD, head + there)
    return item if there else nothing


@kernel(_with_number, nogil=True)
def peek(ends, items, nothing):
    """Return the first item, which stays, or `nothing` if the ring is empty. For the thread that takes."""
    head = ends[HEAD]
    there = load_acquire(ends, TAIL) != head
    item = items[head & (items.size - 1)]
    return item if there else nothing


@kernel(_with_range, nogil=True)
def put_range(ends, items, first, n):
    """Put first, first + 1, ... until n are put or the ring is full; return how many were put."""
    for i in range(n):
        if not put(ends, items, first + i):
            return i
    return n


@kernel(_with_range, nogil=True)
def take_range(ends, items, first, n):
    """Take n numbers and return how many are not first, first + 1, ...; -1 stands for an empty ring."""
    wrong = 0
    for i in range(n):
        wrong += take(ends, items, -1) != first + i
    return wrong


@kernel(_with_range, nogil=True)
def peek_often(ends, items, first, n):
    """Look at the first number n times and return how often it is not `first`."""
    wrong = 0
    for _ in range(n):
        wrong += peek(ends, items, -1) != first
    return wrong
