"""A barrier between the threads of one parallel region, for compiled code that would otherwise start a region a step.

    counts = make_barrier(n_threads)                       # once
    for thread in prange(n_threads):
        ...
        wait_for_team(counts, thread)

A thread that waits long yields its core, because ranks and threads may outnumber the cores. The threads must run at
the same time: `threads_meet` says whether they do.
"""

from __future__ import annotations

import time

import numba
import numpy as np
from numba import int64, prange, types
from numpy.typing import NDArray

from ridgeline.jit.atomics import load_acquire, store_release
from ridgeline.jit.kernel import kernel, subroutine

_LINE = 8  # int64 in a cache line; every thread's count has its own line
_CLOCK = 1  # where the line of the first thread holds what it reads from the clock, two numbers
SPARE = 3  # from where on that line is free for the users of a barrier
_SPINS = 2000  # reads of another thread's count before the core is yielded
_FOREVER = np.iinfo(np.int64).max
_MEETING_YIELDS = 1_000_000  # yields after which threads count as not running at the same time

_MONOTONIC = np.int32(time.CLOCK_MONOTONIC)

_sched_yield = types.ExternalFunction("sched_yield", types.int32())
_clock_gettime = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.intp))

COUNTS = int64[:, ::1]


def make_barrier(n_threads: int) -> NDArray[np.int64]:
    """Return the barriers that each thread has reached, int64 [n_threads, 8]."""
    return np.zeros((n_threads, _LINE), np.int64)


@subroutine
def monotonic_seconds(counts):
    """Return the time of `time.monotonic`. Only the first thread of a barrier may ask."""
    _clock_gettime(_MONOTONIC, counts[0, _CLOCK:].ctypes.data)
    return counts[0, _CLOCK] + 1e-9 * counts[0, _CLOCK + 1]


@subroutine
def wait_for_team(counts, thread, max_yields=_FOREVER):
    """Wait until every thread has reached this barrier; return False if one has not after `max_yields` yields."""
    flat = counts.reshape(-1)
    reached = flat[thread * _LINE] + 1
    store_release(flat, thread * _LINE, reached)
    for other in range(counts.shape[0]):
        spins = 0
        while load_acquire(flat, other * _LINE) < reached:
            spins += 1
            if spins > _SPINS:
                _sched_yield()
                if spins - _SPINS > max_yields:
                    return False
    return True


@kernel(lambda: (COUNTS,), parallel=True, nogil=True)
def meet(counts):
    """Return whether all threads of a barrier were in a parallel region at the same time."""
    met = np.zeros(counts.shape[0], np.bool_)
    for thread in prange(counts.shape[0]):
        met[thread] = wait_for_team(counts, thread, _MEETING_YIELDS)
    return met.all()


def threads_meet(n_threads: int) -> bool:
    """Return whether Numba runs so many threads at the same time.

    It does not if fewer are set (`numba.set_num_threads`), or if its threading layer runs the parts of a loop one
    after the other.
    """
    return bool(n_threads == 1 or (numba.get_num_threads() >= n_threads and meet(make_barrier(n_threads))))
