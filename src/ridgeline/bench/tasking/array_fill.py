"""Parallel initialisation of an array (Fig. 5 of the Julia paper): a[i] = trial + 0.5, divided among the workers.

The array has been touched before, so only the stores and the start and end of the parallel part are timed. After the
last trial every element is compared.
"""

from __future__ import annotations

import errno
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.bench.tasking.futures import process_pool
from ridgeline.bench.tasking.trials import NO_OPENMP, Series, Trials, call, need_library
from ridgeline.bench.tasking.worker_functions import fill_shared
from ridgeline.parallel.allreduce import errors_on_all_ranks
from ridgeline.runtime.errors import VerificationError

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.bench.c_library import Library

Array = NDArray[np.float64]


def bounds(n: int, part: int, parts: int) -> tuple[int, int]:
    """Return the first element of part number `part` of n elements, and the first of the next part."""
    return n * part // parts, n * (part + 1) // parts


def measure_fill(
    trials: Trials, workers: Sequence[int], n_bytes: int, c: Library | None, reason: str
) -> list[Series]:
    """Measure how fast C, Numba and processes fill an array of n_bytes, for every number of workers."""
    array = np.zeros(n_bytes // 8)
    series: list[Series] = []
    for count in workers:

        def series_of(primitive: str, count: int = count, **fields: Any) -> Series:
            return Series("initialise", primitive, "fill", workers=count, **fields)

        base = series_of("C, OpenMP", baseline=True, reason=need_library(c, reason))
        series.append(_fill_openmp(base, array, trials, count, c))
        base = series_of("C, pthreads", reason=need_library(c, reason))
        if c is not None:
            seconds = np.zeros(trials.total)
            call(c, "fill_threads", array.ctypes.data, array.size, count, trials.total, seconds.ctypes.data)
            _check(array, trials, base.primitive)
            base = base.with_seconds(trials.kept(seconds))
        series.append(base)
        series.append(_fill_numba(series_of("Numba prange"), array, trials, count))
        series.append(_fill_processes(series_of("process pool, shared memory"), array.size, trials, count))
    return series


def measure_mpi_fill(comm: MPI.Comm, trials: Trials, workers: Sequence[int], n_bytes: int) -> list[Series]:
    """Measure how fast ranks fill an array, each its part, between two barriers. Collective over comm.

    Numbers of workers that exceed the ranks of comm are left out. The list is empty on all ranks but rank 0.
    """
    from ridgeline.parallel.communicator import sleeping_barrier

    series: list[Series] = []
    for count in (count for count in workers if count <= comm.size):
        part = comm.Split(0 if comm.rank < count else 1, comm.rank)
        seconds: list[float] = []
        low, high = bounds(n_bytes // 8, part.rank, count)
        mine = np.zeros(high - low if comm.rank < count else 0)
        if comm.rank < count:
            fill = partial(_fill_between_barriers, part, mine)
            seconds = trials.run(_counted(fill))
        part.Free()
        sleeping_barrier(comm)
        with errors_on_all_ranks(comm):
            _check(mine, trials, "MPI ranks")
        if comm.rank == 0:
            series.append(Series("initialise", "MPI ranks", "fill", workers=count).with_seconds(seconds))
    return series


def _fill_between_barriers(comm: MPI.Comm, array: Array, value: float) -> float:
    comm.Barrier()
    start = time.perf_counter()
    array.fill(value)
    comm.Barrier()
    return time.perf_counter() - start


def _counted(fill: Callable[[float], float]) -> Callable[[], float]:
    """Return a trial that fills with a new value each time: 0.5, 1.5, ..."""
    values = iter(range(10**9))
    return lambda: fill(next(values) + 0.5)


def _check(array: Array, trials: Trials, what: str) -> None:
    wrong = np.flatnonzero(array != trials.total - 0.5)
    if wrong.size:
        raise VerificationError(
            f"{what}: {wrong.size} of {array.size} elements were not set in the last trial, the first at {wrong[0]}. "
            "Memory or processor is faulty."
        )


def _fill_openmp(base: Series, array: Array, trials: Trials, workers: int, c: Library | None) -> Series:
    if c is None:
        return base
    seconds, used = np.zeros(trials.total), np.zeros(1, np.int32)
    code = call(
        c,
        "fill_openmp",
        array.ctypes.data,
        array.size,
        workers,
        trials.total,
        used.ctypes.data,
        seconds.ctypes.data,
    )
    if code == NO_OPENMP:
        return replace(base, reason="the C compiler does not support OpenMP")
    _check(array, trials, base.primitive)
    if used[0] != workers:
        return replace(base, reason=f"OpenMP started {used[0]} threads")
    return base.with_seconds(trials.kept(seconds))


def _fill_numba(base: Series, array: Array, trials: Trials, workers: int) -> Series:
    import numba

    from ridgeline.bench.tasking.kernels import fill

    if workers > numba.config.NUMBA_NUM_THREADS:
        return replace(
            base, reason=f"Numba has only {numba.config.NUMBA_NUM_THREADS} threads in this process"
        )
    # Compile before the clock runs.
    fill(array[:1], 0.0)

    def timed(value: float) -> float:
        start = time.perf_counter()
        fill(array, value)
        return time.perf_counter() - start

    before = numba.get_num_threads()
    numba.set_num_threads(workers)
    try:
        seconds = trials.run(_counted(timed))
    finally:
        numba.set_num_threads(before)
    _check(array, trials, base.primitive)
    return base.with_seconds(seconds)


def _fill_processes(base: Series, n: int, trials: Trials, workers: int) -> Series:
    shared = Path("/dev/shm")
    try:
        # Otherwise the first page without space would kill the process that touches it.
        if shared.is_dir() and shutil.disk_usage(shared).free < 8 * n:
            raise OSError(errno.ENOSPC, f"{shared} has less than {8 * n} B left")
        block = SharedMemory(create=True, size=max(8 * n, 1))
    except OSError as error:
        return replace(base, reason=f"no shared memory: {error.strerror}")
    try:
        parts = [bounds(n, part, workers) for part in range(workers)]
        with process_pool(workers) as pool:

            def timed(value: float) -> float:
                start = time.perf_counter()
                tasks = [pool.submit(fill_shared, block.name, low, high, value) for low, high in parts]
                for task in tasks:
                    task.result()
                return time.perf_counter() - start

            seconds = trials.run(_counted(timed))
        _check(np.ndarray(n, np.float64, block.buf), trials, base.primitive)
    finally:
        block.close()
        block.unlink()
    return base.with_seconds(seconds)
