"""What a POSIX thread runs that Python created: compiled start routines, which need no interpreter and no GIL.

`mark.address` and `take_turns.address` are what pthread_create takes as its third argument.
"""

from numba import carray, cfunc, int64, types

from ridgeline.jit.atomics import load_acquire, store_release
from ridgeline.jit.kernel import kernel

WHOSE, TOTAL, TAKEN = range(3)  # elements of the int64 [3] that two threads in turn share

_pointer = types.CPointer(types.int64)
_sched_yield = types.ExternalFunction("sched_yield", types.int32())


@cfunc(_pointer(_pointer))
def mark(slot):
    """Add one to the int64 that the argument points to."""
    carray(slot, 1)[0] += 1
    return slot


@cfunc(_pointer(_pointer))
def take_turns(argument):
    """Take turns[TOTAL] turns, each when turns[WHOSE] is 1, and hand it back as 0; count in turns[TAKEN]."""
    turns = carray(argument, 3)
    while turns[TAKEN] < turns[TOTAL]:
        while load_acquire(turns, WHOSE) != 1:
            _sched_yield()
        turns[TAKEN] += 1
        store_release(turns, WHOSE, 0)
    return argument


@kernel(lambda: (int64[::1], int64), nogil=True)
def give_turns(turns, n):
    """Hand the turn over to the other thread n times, yielding the core until it comes back."""
    for _ in range(n):
        store_release(turns, WHOSE, 1)
        while load_acquire(turns, WHOSE) != 0:
            _sched_yield()
