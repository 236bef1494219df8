"""Spawning and fetching futures with different numbers of workers (Fig. 2 of the Julia paper).

One task at a time goes to a pool of idle workers: a null task, or the first n Fibonacci numbers. "spawn" is timed
until the future exists, "spawn + fetch" until its result has returned.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.context import BaseContext
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ridgeline.bench.tasking.trials import Series, Trials, call, need_library
from ridgeline.bench.tasking.worker_functions import (
    ANSWER_TIMEOUT,
    MAX_FIBONACCI,
    fibonacci,
    identify,
    nothing,
)
from ridgeline.parallel.allreduce import raise_on_all_ranks
from ridgeline.runtime.errors import ConfigError, RidgelineError, VerificationError

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.bench.c_library import Library

ITEM = "futures"


class Pool(Protocol):
    """An executor of concurrent.futures or one with the same method."""

    def submit(self, fn: Any, /, *args: Any) -> Any:
        """Return the future of fn(*args)."""


def process_context() -> BaseContext:
    """Return how processes are started: never by forking this one, which has MPI and threads."""
    methods = multiprocessing.get_all_start_methods()
    return multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")


def check_work(work: Sequence[int]) -> list[int]:
    """Return 0 for the null task, then the sorted counts of Fibonacci numbers. Raises ConfigError outside 1 to 93."""
    for n in work:
        if not 1 <= n <= MAX_FIBONACCI:
            raise ConfigError(
                f"--fibonacci {n}: a task can compute the first 1 to {MAX_FIBONACCI} Fibonacci numbers, which fit "
                "into 64 bits."
            )
    return [0, *sorted(set(work))]


def _name(n: int) -> str:
    return f"fib {n}" if n else "null"


@contextmanager
def process_pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Yield a pool of processes that have all started. Raises RidgelineError if that takes more than a minute."""
    with ProcessPoolExecutor(workers, process_context()) as pool:
        deadline = time.monotonic() + ANSWER_TIMEOUT
        started: set[int] = set()
        while len(started) < workers:
            started |= {task.result() for task in [pool.submit(identify, 0.01) for _ in range(workers)]}
            if time.monotonic() > deadline:
                raise RidgelineError(
                    f"only {len(started)} of {workers} processes started. Use fewer --workers."
                )
        yield pool


def measure_futures(
    trials: Trials, workers: Sequence[int], work: Sequence[int], c: Library | None, reason: str
) -> list[Series]:
    """Measure futures of C threads, threads and processes for every number of workers and every task."""
    series: list[Series] = []
    for count in workers:
        for n in check_work(work):
            base = Series(ITEM, "C, pool of pthreads", "", workers=count, work=_name(n), baseline=True)
            series += _spawn_in_c(base, trials, n, c, reason)
        with ThreadPoolExecutor(count) as threads:
            series += spawn_and_fetch(threads, "ThreadPoolExecutor", count, trials, work)
        with process_pool(count) as processes:
            series += spawn_and_fetch(processes, "ProcessPoolExecutor", count, trials, work)
    return series


def measure_mpi_futures(
    comm: MPI.Comm, trials: Trials, workers: Sequence[int], work: Sequence[int]
) -> list[Series]:
    """Measure mpi4py.futures with the other ranks of the job as workers of rank 0. Collective over comm.

    Numbers of workers that exceed these ranks are left out. The list is empty on all ranks but rank 0.
    """
    from mpi4py.futures import MPICommExecutor

    from ridgeline.parallel.communicator import sleeping_barrier

    series: list[Series] = []
    for count in (count for count in workers if count < comm.size):
        for primitive, backoff in (("mpi4py.futures", None), ("mpi4py.futures, polling", 0.0)):
            part: Any = comm.Split(0 if comm.rank <= count else 1, comm.rank)
            problem: Exception | None = None
            if comm.rank <= count:
                options: dict[str, Any] = {} if backoff is None else {"backoff": backoff}
                executor: Any = MPICommExecutor(part, 0, **options)
                with executor as pool:
                    if pool is not None:
                        try:
                            series += spawn_and_fetch(pool, primitive, count, trials, work)
                        # The workers end with the pool; then the error is raised on all ranks.
                        except Exception as error:
                            problem = error
            part.Free()
            sleeping_barrier(comm)
            raise_on_all_ranks(comm, problem)
    return series


def measure_spawned_futures(trials: Trials, workers: Sequence[int], work: Sequence[int]) -> list[Series]:
    """Measure mpi4py.futures with workers that MPI_Comm_spawn starts. An MPI that cannot do so may abort the job."""
    from mpi4py.futures import MPIPoolExecutor

    series: list[Series] = []
    for count in workers:
        with MPIPoolExecutor(count) as pool:
            pool.bootup(wait=True)
            series += spawn_and_fetch(pool, "mpi4py.futures, spawned", count, trials, work)
    return series


def spawn_and_fetch(
    pool: Pool, primitive: str, workers: int, trials: Trials, work: Sequence[int]
) -> list[Series]:
    """Measure "spawn" and "spawn + fetch" of every task with one pool. Raises VerificationError on a wrong result."""
    series: list[Series] = []
    for n in check_work(work):
        expected: Any = fibonacci(n) if n else None
        task: tuple[Any, ...] = (fibonacci, n) if n else (nothing,)
        spawn: list[float] = []
        both: list[float] = []
        for _ in range(trials.total):
            start = time.perf_counter()
            future = pool.submit(*task)
            spawn.append(time.perf_counter() - start)
            result = future.result()
            both.append(time.perf_counter() - start)
            if result != expected:
                raise VerificationError(
                    f"{primitive}: a task returned {result} instead of {expected}. Memory or processor is faulty."
                )
        base = Series(ITEM, primitive, "spawn", workers=workers, work=_name(n))
        series.append(base.with_seconds(trials.kept(spawn)))
        base = Series(ITEM, primitive, "spawn + fetch", workers=workers, work=_name(n))
        series.append(base.with_seconds(trials.kept(both)))
    return series


def _spawn_in_c(base: Series, trials: Trials, n: int, c: Library | None, reason: str) -> list[Series]:
    spawn, both = np.zeros(trials.total), np.zeros(trials.total)
    if c is not None:
        numbers = np.zeros(MAX_FIBONACCI, np.int64)
        pointers = (array.ctypes.data for array in (numbers, spawn, both))
        call(c, "spawn_tasks", base.workers, n, trials.total, *pointers)
        if numbers[:n].tolist() != fibonacci(n):
            raise VerificationError(
                f"a task in C computed {numbers[:n]} instead of {fibonacci(n)}. Memory or processor is faulty."
            )
    why = need_library(c, reason)
    return [
        replace(base, operation=operation, reason=why).with_seconds(
            trials.kept(seconds) if c is not None else ()
        )
        for operation, seconds in (("spawn", spawn), ("spawn + fetch", both))
    ]
