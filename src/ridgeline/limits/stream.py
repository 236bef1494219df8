"""STREAM: the sustainable bandwidth of memory and of the caches, on the ranks and threads of the run.

Kernels copy (c = a), scale (b = s c), add (c = a + b), triad (a = b + s c), each with ordinary and with
streaming (non-temporal) stores, and a read-only dot product. Bytes are counted as STREAM counts them: 2 words an
element for copy, scale and dot, 3 for add and triad. The line that an ordinary store reads before it overwrites it is
not counted, so streaming stores show a higher rate for the same traffic.

All ranks run a kernel at the same time, between barriers. A rate is the bytes of all ranks over the time of the
slowest one. The best of all repeats counts, because a disturbance can only slow a kernel down.

`measure_caches` runs the same kernels again and again on arrays that fit into a cache, with ordinary stores, because
streaming stores bypass the caches. The first level is left out: calls of loops take too long for it.

The modules of parallel are imported on demand, because they start MPI, which `measure_stream` of one process does not
need.

Source: McCalpin, "Memory bandwidth and machine balance in current high performance computers", IEEE TCCA
Newsletter, 1995. The run rules are those of STREAM (arrays of at least four times the caches).
"""

from __future__ import annotations

import math
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ridgeline.jit import stream_kernels
from ridgeline.jit.kernel import check_threads, compile_kernels, numba_threads
from ridgeline.runtime.aligned import aligned_empty
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.machine import (
    caches_by_level,
    node_memory_available,
    process_memory_available,
    usable_cores,
)
from ridgeline.runtime.units import counted

if TYPE_CHECKING:
    from mpi4py import MPI


KERNELS = ("copy", "scale", "add", "triad")
WORDS = {"copy": 2, "scale": 2, "add": 3, "triad": 3, "read": 2}  # moved per element
_OPERATIONS = {
    "copy": stream_kernels.COPY,
    "scale": stream_kernels.SCALE,
    "add": stream_kernels.ADD,
    "triad": stream_kernels.TRIAD,
}
_CACHES = 4  # an array is this many times as large as the last-level caches
_MIN_ARRAY = 16 * 2**20  # least bytes of an array over the ranks of a node, for small caches
_UNKNOWN_CACHE = 64 * 2**20  # bytes taken for the caches where the system does not say
_CASES = [(name, streaming) for streaming in (False, True) for name in KERNELS] + [("read", False)]
_SECONDS = 1.0  # that all repeats may take
_REPEATS = (5, 30)  # bounds on repeats, if they are chosen by time
# With s = sqrt(2) - 1 a round copy, scale, add, triad restores a: b = s a, c = (1 + s) a, a' = (2 s + s^2) a = a.
_SCALAR = math.sqrt(2.0) - 1.0
_FIRST_LEVEL = 2  # of the caches that are measured
_CACHE_SHARE = 0.5  # of a cache that the arrays fill; the rest is left to whatever else is in it
_CACHE_MOVED = 64 * 2**20  # bytes that a thread moves between two looks at the clock: some milliseconds
_LEAST_IN_CACHE = 16 * 2**10  # bytes of a thread's arrays; smaller ones are in the first level
_CACHE_REPEATS = 5


@dataclass(frozen=True)
class StreamRates:
    """Rates of the four kernels in B/s, summed over ranks."""

    copy: float
    scale: float
    add: float
    triad: float

    @property
    def best(self) -> tuple[float, str]:
        """Return the highest rate and the kernel's name."""
        return max((getattr(self, name), name) for name in KERNELS)


@dataclass(frozen=True)
class StreamLimits:
    """What memory can deliver to this run: rates in B/s summed over ranks, the best of `repeats`.

    ordinary, streaming: by kind of store. read: of the dot product. bytes_per_array: size of one of the three arrays
    on one rank. caches_per_node: bytes of the last-level caches that a node's ranks may use.
    """

    ordinary: StreamRates
    streaming: StreamRates
    read: float
    ranks: int
    threads: int
    dtype: str
    bytes_per_array: int
    ranks_per_node: int
    caches_per_node: int
    repeats: int

    @property
    def best(self) -> float:
        """Highest rate of copy, scale, add and triad, ordinary and streaming, in B/s."""
        return max(self.ordinary.best[0], self.streaming.best[0])

    @property
    def best_name(self) -> str:
        """The kernel and kind of store of `best`, e.g. 'copy, streaming stores'."""
        kind = max(("ordinary", "streaming"), key=lambda kind: getattr(self, kind).best)
        return f"{getattr(self, kind).best[1]}, {kind} stores"

    def share(self, bandwidth: float) -> float:
        """Return a bandwidth in B/s as a share of STREAM: divided by `best`, as in every report."""
        return bandwidth / self.best

    @property
    def times_caches(self) -> float:
        """Size of one array, over the ranks of a node, in units of the last-level caches (STREAM wants 4)."""
        return self.bytes_per_array * self.ranks_per_node / self.caches_per_node

    def to_dict(self) -> dict[str, Any]:
        """Return all fields and `best`, `best_name`, `times_caches`, for JSON."""
        derived = {"best": self.best, "best_name": self.best_name, "times_caches": self.times_caches}
        return derived | asdict(self) | {"unit": "B/s", "statistic": "best of repeats"}


class StreamArrays:
    """Three arrays on this rank and the kernels on them; also used to interleave STREAM with other kernels.

    Each thread touches its own part first. Raises ConfigError if Numba has fewer threads than n_threads.
    """

    def __init__(self, n_bytes: int, n_threads: int, dtype: DTypeLike = np.float64) -> None:
        self.n_threads = n_threads
        self.dtype = np.dtype(dtype)
        n = n_bytes // self.dtype.itemsize
        self.a, self.b, self.c = (self._allocate(n, value) for value in (1.0, _SCALAR, 1.0 + _SCALAR))

    def _allocate(self, n: int, value: float) -> NDArray[Any]:
        array = aligned_empty(n, self.dtype)
        stream_kernels.fill(value, array, self.n_threads)
        return array

    def run(self, kernel: str, streaming: bool = False, rounds: int = 1) -> None:
        """Run 'copy', 'scale', 'add' or 'triad' `rounds` times, or 'read' once."""
        a, b, c = self.a, self.b, self.c
        if kernel == "read":
            stream_kernels.dot(a, b, self.n_threads)
            return
        x, y, out = {"copy": (a, a, c), "scale": (c, c, b), "add": (a, b, c), "triad": (b, c, a)}[kernel]
        stream_kernels.apply(_OPERATIONS[kernel], x, y, _SCALAR, out, self.n_threads, streaming, rounds)

    def bytes_moved(self, kernel: str) -> int:
        """Return the bytes that STREAM counts for one run of `kernel` on this rank."""
        return WORDS[kernel] * self.a.nbytes

    def check(self) -> None:
        """Raise RuntimeError unless the arrays hold what whole rounds of the four kernels leave in them."""
        tolerance = 1e3 * np.finfo(self.dtype).eps
        for name, array, value in (("a", self.a, 1.0), ("b", self.b, _SCALAR), ("c", self.c, 1.0 + _SCALAR)):
            for index in (0, array.size // 2, array.size - 1):
                if abs(array[index] - value) > tolerance:
                    raise RuntimeError(
                        f"STREAM computed a wrong result: {name}[{index}] is {array[index]} instead of {value}. The "
                        f"memory or the compiled kernels of this machine cannot be trusted."
                    )


def last_level_caches(cpus: set[int]) -> dict[str, int]:
    """Return the distinct last-level caches of these CPUs: {the CPUs that share it: bytes}; {} if unknown."""
    by_level = caches_by_level(cpus)
    return by_level[max(by_level)] if by_level else {}


def compile_stream(dtype: DTypeLike = np.float64) -> None:
    """Compile the kernels for `dtype`, or load them from the cache."""
    compile_kernels(stream_kernels.kernels(dtype))


def over_node(comm: MPI.Comm, caches: dict[str, int]) -> tuple[dict[str, int], int]:
    """Return the distinct caches of all ranks of this rank's node, and the most ranks on any node. Collective."""
    from ridgeline.parallel.communicator import node_communicator

    with node_communicator(comm) as node:
        of_node: dict[str, int] = {}
        for of_rank in node.allgather(caches):
            of_node |= of_rank
        return of_node, max(comm.allgather(node.size))


def _time(arrays: StreamArrays, comm: MPI.Comm | None, repeats: int | None) -> NDArray[np.float64]:
    """Return seconds[case, repeat] of the slowest rank, cases as in _CASES."""

    def one_round() -> list[float]:
        seconds = []
        for kernel, streaming in _CASES:
            if comm is not None:
                comm.Barrier()
            start = time.perf_counter()
            arrays.run(kernel, streaming)
            if comm is not None:
                comm.Barrier()  # inside the time: a rank that started late counts in full
            seconds.append(time.perf_counter() - start)
        return seconds

    start = time.perf_counter()
    one_round()  # warm up
    estimate = time.perf_counter() - start
    if comm is not None:
        estimate = max(comm.allgather(estimate))
    if repeats is None:
        repeats = min(max(int(_SECONDS / estimate), _REPEATS[0]), _REPEATS[1])
    seconds = np.array([one_round() for _ in range(repeats)]).T
    if comm is not None:
        seconds = np.max(comm.allgather(seconds), axis=0)
    return seconds


def _errors_on_all_ranks(comm: MPI.Comm | None) -> AbstractContextManager[None]:
    if comm is None:
        return nullcontext()
    from ridgeline.parallel.allreduce import errors_on_all_ranks

    return errors_on_all_ranks(comm)


def measure_stream(
    comm: MPI.Comm | None,
    n_threads: int,
    dtype: DTypeLike = np.float64,
    bytes_per_rank: int | None = None,
    repeats: int | None = None,
) -> StreamLimits:
    """Measure the memory bandwidth of all ranks of `comm` at the same time, with n_threads threads each.

    Parameters
    ----------
    comm : the ranks; None measures this process alone
    dtype : float64 or float32
    bytes_per_rank : size of the three arrays of a rank. By default each array is four times the last-level caches of
        a node, divided over its ranks, or less if a third of the node's free memory, or of what the process may take,
        is not enough for that
    repeats : by default as many as take about a second

    Raises ConfigError if an argument is out of range, RuntimeError if the results are wrong, MemoryError; on all
    ranks.

    Notes
    -----
    Collective: barriers around every kernel, and one reduction.
    """
    if np.dtype(dtype) not in stream_kernels.DTYPES:
        raise ConfigError(f"STREAM has no kernels for dtype {np.dtype(dtype)}. Use float64 or float32.")
    check_threads(n_threads, f"STREAM on {n_threads} threads")
    least = 3 * stream_kernels.LINE * n_threads
    if bytes_per_rank is not None and bytes_per_rank < least:
        raise ConfigError(
            f"STREAM cannot run on {bytes_per_rank} bytes per rank, because {counted(n_threads, 'thread')} must have "
            f"at least {least}. Its results are meaningful only well above the size of the caches."
        )
    if repeats is not None and repeats < 1:
        raise ConfigError(f"the number of repeats of STREAM is {repeats}, but it must be at least 1.")

    caches = last_level_caches(usable_cores())
    ranks_per_node = 1
    if comm is None:
        compile_stream(dtype)
    else:
        from ridgeline.parallel.communicator import compile_on_nodes

        caches, ranks_per_node = over_node(comm, caches)
        compile_on_nodes(comm, lambda: compile_stream(dtype))
    cache_bytes = sum(caches.values()) or _UNKNOWN_CACHE
    if bytes_per_rank is None:
        per_node = max(_CACHES * cache_bytes, _MIN_ARRAY)
        per_node = min(per_node, node_memory_available() // 9)
        bytes_per_rank = min(3 * per_node // ranks_per_node, process_memory_available() // 3)
        if comm is not None:
            bytes_per_rank = min(comm.allgather(bytes_per_rank))  # free memory differs from node to node
    with numba_threads(n_threads):
        with _errors_on_all_ranks(comm):
            arrays = StreamArrays(bytes_per_rank // 3, n_threads, dtype)
        seconds = _time(arrays, comm, repeats)
    with _errors_on_all_ranks(comm):
        arrays.check()
    ranks = comm.size if comm is not None else 1
    best = {
        case: ranks * arrays.bytes_moved(case[0]) / times for case, times in zip(_CASES, seconds.min(axis=1))
    }
    return StreamLimits(
        ordinary=StreamRates(**{name: float(best[name, False]) for name in KERNELS}),
        streaming=StreamRates(**{name: float(best[name, True]) for name in KERNELS}),
        read=float(best["read", False]),
        ranks=ranks,
        threads=n_threads,
        dtype=str(np.dtype(dtype)),
        bytes_per_array=arrays.a.nbytes,
        ranks_per_node=ranks_per_node,
        caches_per_node=cache_bytes,
        repeats=seconds.shape[1],
    )


_FIRST_LEVEL = 2
_CACHE_SHARE = 0.5  # share of a cache that the arrays take: the rest is left to whatever else is in it
_CACHE_MOVED = 64 * 2**20  # bytes that a thread moves between two looks at the clock: some milliseconds
_LEAST_IN_CACHE = 16 * 2**10  # bytes of a thread's arrays: fewer are of the first level
_CACHE_REPEATS = 5


@dataclass(frozen=True)
class CacheRate:
    """One cache level. capacity: bytes of all caches of all nodes. rate: B/s of all ranks, of the best kernel."""

    level: int
    capacity: int
    rate: float


def measure_caches(comm: MPI.Comm, n_threads: int, dtype: DTypeLike) -> list[CacheRate]:
    """Measure the cache levels from the second on, all ranks at the same time. Collective, the same on all ranks.

    dtype: float64 or float32. Levels that the system does not report, or that are too small for the number of
    threads, are left out. Raises ConfigError for more threads than Numba has, RuntimeError if the results are wrong;
    on all ranks.
    """
    from ridgeline.parallel.communicator import compile_on_nodes
    from ridgeline.parallel.layout import place_on_node

    compile_on_nodes(comm, lambda: compile_stream(dtype))
    mine = caches_by_level(usable_cores())
    first_of_node = place_on_node(comm).local_rank == 0
    rates = []
    for level in sorted(set().union(*comm.allgather(set(mine)))):
        caches, ranks_per_node = over_node(comm, mine.get(level, {}))
        of_node = sum(caches.values())
        n_bytes = int(_CACHE_SHARE * min(comm.allgather(of_node)) / ranks_per_node)
        if level < _FIRST_LEVEL or n_bytes < _LEAST_IN_CACHE * n_threads:
            continue
        capacity = sum(comm.allgather(of_node if first_of_node else 0))
        rates.append(CacheRate(level, capacity, _best_cache_rate(comm, n_bytes, n_threads, dtype)))
    return rates


def _best_cache_rate(comm: MPI.Comm, n_bytes: int, n_threads: int, dtype: DTypeLike) -> float:
    """Return the highest rate of the kernels in B/s, of all ranks with arrays of n_bytes on each. Collective."""
    rounds = max(1, _CACHE_MOVED * n_threads // n_bytes)
    best = 0.0
    with numba_threads(n_threads):
        arrays = StreamArrays(n_bytes // 3, n_threads, dtype)
        for kernel in KERNELS:
            for _ in range(_CACHE_REPEATS + 1):
                comm.Barrier()
                start = time.perf_counter()
                arrays.run(kernel, rounds=rounds)
                comm.Barrier()  # inside the time: a rank that started late counts in full
                slowest = max(comm.allgather(time.perf_counter() - start))
                best = max(best, comm.size * rounds * arrays.bytes_moved(kernel) / slowest)
    with _errors_on_all_ranks(comm):
        arrays.check()
    return best
