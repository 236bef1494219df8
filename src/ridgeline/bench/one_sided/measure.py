"""Latency and bandwidth of one-sided communication between two ranks: get, put, accumulate.

The origin (first rank of the pair) reads or writes the window of the target, which is made by MPI_Win_allocate. As in
the OSU micro-benchmarks 7.4 (osu_get_latency, osu_put_latency, osu_acc_latency, osu_get_bw, osu_put_bw):

- latency, n times one operation and its completion: with flush (default), flush_local or lock, t / n; with fence and
  pscw (post, start, complete, wait) origin and target operate in turn, t / (2 n)
- bandwidth: n times a window of operations at different places, then one completion: bytes x window x n / t

Every size is verified: what a get brought, and what puts and accumulates (sums of bytes modulo 256) left.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.bench.one_sided import access_loops
from ridgeline.bench.one_sided.access_loops import LOOPS, ORIGIN, TARGET, Access, Operation, Sync
from ridgeline.bench.one_sided.exposed_memory import ExposedMemory
from ridgeline.bench.payload import Buffer, Memory, check, content
from ridgeline.bench.repetitions import MAX_SIZE, WINDOW, Repetitions, message_sizes
from ridgeline.bench.result import MICROSECONDS, SIZE, Column, Plot, Result
from ridgeline.bench.sleeping_wait import patient_barrier
from ridgeline.parallel.layout import find_layout
from ridgeline.parallel.reduce import together
from ridgeline.runtime.errors import ConfigError, VerificationError

Test = Literal["latency", "bandwidth"]
OPERATIONS: tuple[Operation, ...] = ("get", "put", "accumulate")
TESTS: tuple[Test, ...] = ("latency", "bandwidth")
SYNCS: tuple[Sync, ...] = ("flush", "flush_local", "lock", "fence", "pscw")
_IN_FLIGHT = 64 * 2**20  # bytes of a window of operations, beyond which it is cut


def latency(seconds: float, iterations: int, sync: Sync) -> float:
    """Return the seconds of one operation: with fence and pscw an iteration is one of each side."""
    return seconds / iterations / (2 if sync in ("fence", "pscw") else 1)


def bandwidth(size: int, window: int, iterations: int, seconds: float) -> float:
    """Return B/s of so many windows of operations of `size` bytes."""
    return size * window * iterations / seconds


def operations_in_flight(size: int, window: int) -> int:
    """Return the operations of one window: fewer than asked for where they would not fit into 64 MiB."""
    return max(1, min(window, _IN_FLIGHT // max(size, 1)))


@dataclass
class _Side:
    """This rank of the pair: the pair's communicator, its window, its own buffer, the other rank as a group."""

    comm: MPI.Comm
    exposed: ExposedMemory
    local: Buffer
    peer: MPI.Group

    @property
    def other(self) -> int:
        return TARGET if self.comm.rank == ORIGIN else ORIGIN


def measure_one_sided(
    comm: MPI.Comm,
    operations: Sequence[Operation] = ("get", "put"),
    tests: Sequence[Test] = TESTS,
    sync: Sync = "flush",
    sizes: tuple[int, int] | None = None,
    window: int = WINDOW,
    iterations: int | None = None,
    warm_up: int | None = None,
    pair: tuple[int, int] = (0, 1),
    memory: Memory = "host",
) -> Result:
    """Measure get, put or accumulate between two ranks, pair = (origin, target). Collective; the others sleep.

    sizes: first and last in bytes (default 1 B to 4 MiB); window: operations before one completion, in tests of
    bandwidth (cut at 64 MiB); iterations, warm_up: as OSU's unless given. memory "cuda-staged": the origin's buffer
    is on its GPU and copied through page-locked memory, the window is host memory, sync "flush" alone.
    Raises ConfigError if an argument is out of range, VerificationError if wrong data arrived.
    """
    if comm.size < 2:
        raise ConfigError("one rank has nobody to access; start at least 2 ranks, as with -n 2")
    if len(set(pair)) != 2 or not all(0 <= rank < comm.size for rank in pair):
        raise ConfigError(
            f"a pair of ranks {pair[0]} and {pair[1]}: two different ranks from 0 to {comm.size - 1}"
        )
    if window < 1:
        raise ConfigError(f"a window of {window} operations: it must be at least 1")
    if memory == "cuda-staged" and sync != "flush":
        raise ConfigError(f"sync {sync!r} with GPU memory that MPI does not take: only 'flush' is possible")
    every_size = message_sizes(*(sizes or (1, MAX_SIZE)))
    repetitions: dict[str, Repetitions] = {
        test: Repetitions("latency" if test == "latency" else "bandwidth", iterations, warm_up)
        for test in tests
    }
    layout = find_layout(comm)
    half = comm.Split(
        0 if comm.rank in pair else MPI.UNDEFINED, pair.index(comm.rank) if comm.rank in pair else 0
    )
    rows: list[dict[str, Any]] = []
    if half != MPI.COMM_NULL:
        side = _make_side(half, max(s * operations_in_flight(s, window) for s in every_size), memory)
        with side.exposed.freed_at_end():
            for test in tests:
                for operation in operations:
                    for size in every_size:
                        n = operations_in_flight(size, window) if test == "bandwidth" else 1
                        counts = repetitions[test].of(size)
                        seconds = _measure(side, test, operation, sync, size, n, *counts)
                        row = {"test": test, "operation": operation, "sync": sync, "size": size}
                        if test == "latency":
                            rows.append(row | {"seconds": latency(seconds, counts[0], sync)})
                        else:
                            rate = bandwidth(size, n, counts[0], seconds)
                            rows.append(
                                row | {"window": n, "rate": rate, "messages": n * counts[0] / seconds}
                            )
        side.peer.Free()
        half.Free()
    patient_barrier(comm)
    return _result(comm, comm.bcast(rows, pair[0]), pair, layout.n_nodes, sync, memory, window)


def _make_side(comm: MPI.Comm, n_bytes: int, memory: Memory) -> _Side:
    exposed = ExposedMemory(comm, n_bytes, "host" if memory == "cuda-staged" else memory)
    local = Buffer(n_bytes, memory)
    everyone = comm.Get_group()
    peer = everyone.Incl([1 - comm.rank])
    everyone.Free()
    return _Side(comm, exposed, local, peer)


def _measure(
    side: _Side,
    test: Test,
    operation: Operation,
    sync: Sync,
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
    with together(side.comm):
        _verify(side, operation, n_bytes, size, warm_up + iterations, both)
    return float(side.comm.bcast(seconds, ORIGIN))


def _verify(side: _Side, operation: Operation, n_bytes: int, size: int, times: int, both: bool) -> None:
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


def check_sums(arrived: NDArray[Any], expected: NDArray[Any], rank: int, other: int | str) -> None:
    """Raise VerificationError, naming the first wrong number, unless what a window holds is as expected."""
    wrong = np.flatnonzero(arrived != expected)
    if wrong.size:
        raise VerificationError(
            f"the window of rank {rank} holds {wrong.size} of {arrived.size} wrong numbers after operations of rank "
            f"{other}, the first at {wrong[0]}: {arrived[wrong[0]]} instead of {expected[wrong[0]]}; the network or "
            f"the memory of one of the nodes corrupts data"
        )


def _result(
    comm: MPI.Comm,
    rows: list[dict[str, Any]],
    pair: tuple[int, int],
    nodes: int,
    sync: Sync,
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
