"""The compiled code of the tasking benchmark: a channel, the filling of an array, and routines of POSIX threads.

The channel is a ring of numbers for one thread that puts and one that takes. Neither waits for a lock: the producer
alone moves the tail, and the consumer alone moves the head. Each reads the other's end by acquire and writes its own
by release (Lamport, "Specifying concurrent program modules", TOPLAS 5, 1983). The value is read on every path,
because Numba would count references to the arrays at every call if it were read in a branch, at five times the cost.
`ends` is int64 [ENDS]: how many numbers were ever taken (HEAD) and put (TAIL), on separate cache lines. `items`
is int64 [capacity], a power of two. All functions of the ring are compiled without the GIL and may wait for the other
thread in compiled code only.

`mark` and `take_turns` are start routines that need no interpreter and no GIL; their `address` is the third argument
of pthread_create.
"""

from typing import Any

import numpy as np
from numba import carray, cfunc, float64, int64, prange, types
from numpy.typing import NDArray

from ridgeline.jit.atomics import load_acquire, store_release
from ridgeline.jit.kernel import kernel

HEAD = 0
TAIL = 16  # 128 bytes after HEAD, because pairs of cache lines are fetched together
ENDS = 32
# Elements of the int64 [3] that two threads which take turns share.
WHOSE, TOTAL, TAKEN = range(3)

_pointer = types.CPointer(types.int64)
_sched_yield = types.ExternalFunction("sched_yield", types.int32())


def _with_number() -> tuple[Any, ...]:
    """Return the types of the ring and of one number."""
    return int64[::1], int64[::1], int64


def _with_range() -> tuple[Any, ...]:
    """Return the types of the ring, of the first item and of the number of items."""
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
    item = items[head & (items.size - 1)]  # not used if the ring is empty
    store_release(ends, HEAD, head + there)
    return item if there else nothing


@kernel(_with_number, nogil=True)
def peek(ends, items, nothing):
    """Return the first item without removing it, or `nothing` if the ring is empty; for the thread that takes."""
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


@kernel(lambda: (float64[::1], float64), parallel=True)
def fill(array, value):
    """Set array = value, divided among the threads of Numba. array: float64, 1-D."""
    for i in prange(array.size):
        array[i] = value


@cfunc(_pointer(_pointer))
def mark(slot):
    """Add one to the int64 that the argument points to."""
    carray(slot, 1)[0] += 1
    return slot


@cfunc(_pointer(_pointer))
def take_turns(argument):
    """Take turns[TOTAL] turns: wait until turns[WHOSE] is 1, count the turn in turns[TAKEN], and set it back to 0."""
    turns = carray(argument, 3)
    while turns[TAKEN] < turns[TOTAL]:
        while load_acquire(turns, WHOSE) != 1:
            _sched_yield()
        turns[TAKEN] += 1
        store_release(turns, WHOSE, 0)
    return argument


@kernel(lambda: (int64[::1], int64), nogil=True)
def give_turns(turns, n):
    """Give the turn to the other thread n times, and yield the core until it comes back."""
    for _ in range(n):
        store_release(turns, WHOSE, 1)
        while load_acquire(turns, WHOSE) != 0:
            _sched_yield()
