"""The bandwidth of the caches that a run's ranks and threads share: STREAM's kernels on arrays that fit.

All ranks and threads go over arrays of their own again and again, with ordinary stores, since streaming ones pass the
caches by. Bytes are counted as STREAM counts them. The first level is left out: calls of loops take too long for it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from numpy.typing import DTypeLike

from ridgeline.jit.numba_threads import numba_threads
from ridgeline.limits.stream import KERNELS, StreamArrays, compile_stream, over_node
from ridgeline.parallel.allreduce import errors_on_all_ranks
from ridgeline.parallel.communicator import in_turn_per_node
from ridgeline.parallel.layout import place_on_node
from ridgeline.runtime.machine import caches_by_level, own_cpus

if TYPE_CHECKING:
    from mpi4py import MPI

_FIRST_LEVEL = 2
_FILLED = 0.5  # share of a cache that the arrays take: the rest is left to whatever else is in it
_MOVED = 64 * 2**20  # bytes that a thread moves between two looks at the clock: some milliseconds
_LEAST = 16 * 2**10  # bytes of a thread's arrays: fewer are of the first level
_REPEATS = 5


@dataclass(frozen=True)
class CacheRate:
    """One cache level. capacity: bytes of all caches of all nodes; rate: B/s of all ranks, the best kernel's."""

    level: int
    capacity: int
    rate: float


def measure_caches(comm: MPI.Comm, n_threads: int, dtype: DTypeLike) -> list[CacheRate]:
    """Measure the cache levels from the second on, all ranks at the same time. Collective, the same on all ranks.

    dtype: float64 or float32. Levels that the system does not tell, or that leave a thread too little, are left out.
    Raises ConfigError for more threads than Numba has, RuntimeError if the results are wrong; all ranks together.
    """
    in_turn_per_node(comm, lambda: compile_stream(dtype))
    mine = caches_by_level(own_cpus())
    first_of_node = place_on_node(comm).local_rank == 0
    found = []
    for level in sorted(set().union(*comm.allgather(set(mine)))):
        caches, ranks_per_node = over_node(comm, mine.get(level, {}))
        of_node = sum(caches.values())
        n_bytes = int(_FILLED * min(comm.allgather(of_node)) / ranks_per_node)
        if level < _FIRST_LEVEL or n_bytes < _LEAST * n_threads:
            continue
        capacity = sum(comm.allgather(of_node if first_of_node else 0))
        found.append(CacheRate(level, capacity, _best_rate(comm, n_bytes, n_threads, dtype)))
    return found


def _best_rate(comm: MPI.Comm, n_bytes: int, n_threads: int, dtype: DTypeLike) -> float:
    """Return the highest rate of the kernels in B/s, of all ranks on arrays of n_bytes a rank. Collective."""
    rounds = max(1, _MOVED * n_threads // n_bytes)
    best = 0.0
    with numba_threads(n_threads):
        arrays = StreamArrays(n_bytes // 3, n_threads, dtype)
        for kernel in KERNELS:
            seconds = min(_seconds(comm, arrays, kernel, rounds) for _ in range(_REPEATS + 1))
            best = max(best, comm.size * rounds * arrays.bytes_moved(kernel) / seconds)
    with errors_on_all_ranks(comm):
        arrays.check()
    return best


def _seconds(comm: MPI.Comm, arrays: StreamArrays, kernel: str, rounds: int) -> float:
    comm.Barrier()
    start = time.perf_counter()
    arrays.run(kernel, rounds=rounds)
    comm.Barrier()  # inside the time: a rank that started late counts in full
    slowest: float = max(comm.allgather(time.perf_counter() - start))
    return slowest
