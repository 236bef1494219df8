"""Latency and bandwidth of one-sided communication between two ranks: get, put, accumulate.

The origin (first rank of the pair) reads or writes the window of the target, which is made by MPI_Win_allocate. As in
the OSU micro-benchmarks 7.4 (osu_get_latency, osu_put_latency, osu_acc_latency, osu_get_bw, osu_put_bw):

- latency: n times one operation and its completion. With flush (default), flush_local or lock it is t / n. With fence
  and pscw (post, start, complete, wait) origin and target operate in turn, and it is t / (2 n)
- bandwidth: n times a window of operations at different places, then one completion: bytes x window x n / t

Every size is verified: what a get brought, and what puts and accumulates (sums of bytes modulo 256) left.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from mpi4py import MPI

from ridgeline.bench.exposed_memory import ExposedMemory, check_sums
from ridgeline.bench.one_sided import access_loops
from ridgeline.bench.one_sided.access_loops import LOOPS, ORIGIN, TARGET, Access
from ridgeline.bench.one_sided.irregular import measure_irregular
from ridgeline.bench.one_sided.one_sided_options import AccessTest, Completion, OneSidedOptions, Operation
from ridgeline.bench.repetitions import MAX_SIZE, Repetitions, message_sizes
from ridgeline.bench.result import MICROSECONDS, SIZE, Column, Plot, Result
from ridgeline.parallel.allreduce import errors_on_all_ranks
from ridgeline.parallel.communicator import sleeping_barrier
from ridgeline.parallel.layout import find_layout
from ridgeline.parallel.payload import Buffer, Memory, check, content
from ridgeline.runtime.errors import ConfigError

_IN_FLIGHT = 64 * 2**20  # bytes of a window of operations, beyond which it is cut


def latency(seconds: float, iterations: int, sync: Completion) -> float:
    """Return the seconds of one operation: with fence and pscw an iteration is one of each side."""
    return seconds / iterations / (2 if sync in ("fence", "pscw") else 1)


def bandwidth(size: int, window: int, iterations: int, seconds: float) -> float:
    """Return B/s of so many windows of operations of `size` bytes."""
    return size * window * iterations / seconds


def operations_in_flight(size: int, window: int) -> int:
    """Return the operations of one window: fewer than asked for where they would not fit into 64 MiB."""
    return max(1, min(window, _IN_FLIGHT // max(size, 1)))


@dataclass
class _AccessSide:
    """This rank of the pair: the pair's communicator, its window, its own buffer, the other rank as a group."""

    comm: MPI.Comm
    exposed: ExposedMemory
    local: Buffer
    peer: MPI.Group

    @property
    def other(self) -> int:
        return TARGET if self.comm.rank == ORIGIN else ORIGIN


def measure_one_sided(comm: MPI.Comm, options: OneSidedOptions, memory: Memory = "host") -> Result:
    """Measure get, put or accumulate: between two ranks, or of all ranks at irregular places. Collective.

    The two are pair = (origin, target), and the others sleep; a window of operations is cut at 64 MiB. memory
    "cuda-staged": the origin's buffer is on its GPU and copied through page-locked memory, the window is host memory,
    sync "flush" alone.
    Raises ConfigError if an argument is out of range, VerificationError if wrong data arrived.
    """
    if options.pattern == "fmm":
        return measure_irregular(comm, options, memory)
    pair, sync = options.pair, options.sync
    if comm.size < 2:
        raise ConfigError("one rank has nobody to access; start at least 2 ranks, as with -n 2")
    if len(set(pair)) != 2 or not all(0 <= rank < comm.size for rank in pair):
        raise ConfigError(
            f"a pair of ranks {pair[0]} and {pair[1]}: two different ranks from 0 to {comm.size - 1}"
        )
    if memory == "cuda-staged" and sync != "flush":
        raise ConfigError(f"sync {sync!r} with GPU memory that MPI does not take: only 'flush' is possible")
    sizes = message_sizes(*(options.sizes or (1, MAX_SIZE)))
    layout = find_layout(comm)
    half = comm.Split(
        0 if comm.rank in pair else MPI.UNDEFINED, pair.index(comm.rank) if comm.rank in pair else 0
    )
    rows: list[dict[str, Any]] = []
    if half != MPI.COMM_NULL:
        rows = _measure_all(half, options, sizes, memory)
        half.Free()
    sleeping_barrier(comm)
    return _result(comm, comm.bcast(rows, pair[0]), pair, layout.n_nodes, sync, memory, options.window)


def _measure_all(
    half: MPI.Comm, options: OneSidedOptions, sizes: list[int], memory: Memory
) -> list[dict[str, Any]]:
    """Return the rows of all tests, operations and sizes. Collective over the two ranks."""
    sync, rows = options.sync, []
    most = max(size * operations_in_flight(size, options.window) for size in sizes)
    side = _make_side(half, most, memory)
    with side.exposed.freed_at_end():
        for test, operation, size in product(options.tests, options.operations or ("get", "put"), sizes):
            counts = Repetitions(test, options.iterations, options.warm_up).of(size)
            n = operations_in_flight(size, options.window) if test == "bandwidth" else 1
            seconds = _measure(side, test, operation, sync, size, n, *counts)
            row: dict[str, Any] = {"test": test, "operation": operation, "sync": sync, "size": size}
            if test == "latency":
                rows.append(row | {"seconds": latency(seconds, counts[0], sync)})
            else:
                rate = bandwidth(size, n, counts[0], seconds)
                rows.append(row | {"window": n, "rate": rate, "messages": n * counts[0] / seconds})
    side.peer.Free()
    return rows


def _make_side(comm: MPI.Comm, n_bytes: int, memory: Memory) -> _AccessSide:
    exposed = ExposedMemory(comm, n_bytes, "host" if memory == "cuda-staged" else memory)
    local = Buffer(n_bytes, memory)
    everyone = comm.Get_group()
    peer = everyone.Incl([1 - comm.rank])
    everyone.Free()
    return _AccessSide(comm, exposed, local, peer)


def _measure(
    side: _AccessSide,
    test: AccessTest,
    operation: Operation,
    sync: Completion,
    size: int,
    n: int,
    iterations: int,
    warm_up: int,
) -> float:
    """Return the origin's seconds of the timed iterations, after warming up and verifying. Collective."""
    win, rank, n_bytes = side.exposed.win, side.comm.rank, n * size
    reads = operation == "get"
    zeros = np.zeros(n_bytes, np.uint8)
    side.exposed.write(content(n_bytes, rank, rank, size) if reads else zeros)
    side.local.write(zeros if reads else content(n_bytes, rank, side.other, size))
    array = side.local.message(n_bytes)[0]
    places = range(0, n_bytes, size) if size else [0] * n
    access = Access(
        win=win,
        operate={"get": win.Get, "put": win.Put, "accumulate": win.Accumulate}[operation],
        flush=win.Flush_local if sync == "flush_local" else win.Flush,
        # Bytes as numbers: the sums of accumulate wrap around.
        operations=[([array, size, at, MPI.UINT8_T], [at, size, MPI.UINT8_T]) for at in places],
        peer=side.peer,
        staged=side.local if side.local.staged else None,
        n_bytes=n_bytes,
        reads=reads,
    )
    loops = (access_loops.staged_flush, access_loops.idle) if side.local.staged else LOOPS[test, sync]
    loop = loops[rank]
    locks = sync.startswith("flush") and rank == ORIGIN
    side.comm.Barrier()
    if locks:
        win.Lock(TARGET, MPI.LOCK_SHARED)
    if sync == "fence":
        win.Fence()
    loop(access, warm_up)
    start = time.perf_counter()
    loop(access, iterations)
    seconds = time.perf_counter() - start
    if locks:
        win.Unlock(TARGET)
    if sync == "fence":
        win.Fence(MPI.MODE_NOSUCCEED)
    side.comm.Barrier()  # the target answers from here, as OSU's: many networks need its help
    both = test == "latency" and sync in ("fence", "pscw")
    with errors_on_all_ranks(side.comm):
        _verify(side, operation, n_bytes, size, warm_up + iterations, both)
    return float(side.comm.bcast(seconds, ORIGIN))


def _verify(side: _AccessSide, operation: Operation, n_bytes: int, size: int, times: int, both: bool) -> None:
    """Compare what this rank has with what the other sent. both: the target operated as well as the origin."""
    rank, other = side.comm.rank, side.other
    if operation == "get":
        if both or rank == ORIGIN:
            check(side.local.read(n_bytes), other, other, size)
        return
    if not (both or rank == TARGET):
        return
    arrived = side.exposed.read(n_bytes)
    if operation == "put":
        check(arrived, other, rank, size)
        return
    check_sums(arrived, content(n_bytes, other, rank, size) * np.uint8(times % 256), rank, other)


def _result(
    comm: MPI.Comm,
    rows: list[dict[str, Any]],
    pair: tuple[int, int],
    nodes: int,
    sync: Completion,
    memory: Memory,
    window: int,
) -> Result:
    return Result(
        benchmark="one-sided",
        pattern=f"rank {pair[0]} accesses the window of rank {pair[1]}, completion by {sync}",
        formula=(
            f"us = t / {'(2 n), both in turn' if sync in ('fence', 'pscw') else 'n'}; "
            "MB/s = size x window x n / t / 1e6"
        ),
        statistic="mean over the n iterations of a size",
        ranks=comm.size,
        nodes=nodes,
        columns=[
            Column("test", "test"),
            Column("operation", "operation"),
            SIZE,
            MICROSECONDS,
            Column("window", "window"),
            Column("rate", "MB/s", 1e6),
            Column("messages", "messages/s", 1.0, ".0f"),
        ],
        rows=rows,
        left_out=[rank for rank in range(comm.size) if rank not in pair],
        settings={"sync": sync, "pair": list(pair), "window": window, "memory": memory},
        notes=["GPU memory: the origin's buffer, copied through host memory"] * (memory == "cuda-staged"),
        plot=_plot(rows),
    )


def _plot(rows: list[dict[str, Any]]) -> Plot:
    """Return the curves of bandwidth, or of latency if nothing else was measured."""
    if any("rate" in row for row in rows):
        return Plot(x="size", y=("rate",), by=("operation",), x_label="B", y_label="MB/s", y_scale=1e6)
    return Plot(x="size", y=("seconds",), by=("operation",), x_label="B", y_label="us", y_scale=1e-6)
