"""Latency and bandwidth of one-sided communication between two ranks: get, put, accumulate.

The origin, which is the first rank of the pair, reads or writes the window of the target (MPI_Win_allocate), as in
the OSU micro-benchmarks 7.4 (osu_get_latency, osu_put_latency, osu_acc_latency, osu_get_bw, osu_put_bw):

- latency: n times one operation and its completion. With flush (the default), flush_local or lock it is t / n. With
  fence and pscw (post, start, complete, wait) origin and target operate in turn, and it is t / (2 n).
- bandwidth: n times a window of operations at different places, then one completion: bytes x window x n / t.
- bibandwidth: both ranks do so at the same time (osu_put_bibw): 2 x bytes x window x n / t, t of the slower rank.

Every size is verified: the data that a get returned, and the data that puts and accumulates (sums of bytes modulo
256) left. The timed loops, one for each kind of synchronization, are plain functions of an `Access`; everything that
they call is looked up before they begin. Loops of the target's side take the same arguments.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.bench.exposed_memory import ExposedMemory, check_sums
from ridgeline.bench.iteration_figures import (
    ITERATION_COLUMNS,
    buffer_note,
    iteration_figures,
    python_call_note,
    python_call_seconds,
)
from ridgeline.bench.one_sided.irregular_access import measure_irregular
from ridgeline.bench.one_sided.one_sided_options import AccessTest, Completion, OneSidedOptions, Operation
from ridgeline.bench.result import MICROSECONDS, SIZE, Column, Plot, Result
from ridgeline.bench.shared_options import MAX_SIZE, Family, Repetitions, message_sizes
from ridgeline.parallel.allreduce import errors_on_all_ranks
from ridgeline.parallel.communicator import sleeping_barrier
from ridgeline.parallel.layout import find_layout
from ridgeline.parallel.payload import Buffer, Memory, MessageForm, check, content
from ridgeline.runtime.errors import ConfigError

ORIGIN, TARGET = 0, 1
_IN_FLIGHT = 64 * 2**20  # bytes, at which a window of operations is cut


def latency(seconds: float, iterations: int, sync: Completion) -> float:
    """Return the seconds of one operation. With fence and pscw an iteration has one of each side."""
    return seconds / iterations / (2 if sync in ("fence", "pscw") else 1)


def bandwidth(size: int, window: int, iterations: int, seconds: float, directions: int = 1) -> float:
    """Return the B/s of `iterations` windows of operations of `size` bytes in each direction."""
    return size * window * iterations * directions / seconds


def operations_in_flight(size: int, window: int) -> int:
    """Return the operations of one window: fewer than `window` if they exceed 64 MiB."""
    return max(1, min(window, _IN_FLIGHT // max(size, 1)))


@dataclass
class _AccessSide:
    """One rank of the pair: their communicator, this rank's window and buffer, and the other rank as a group."""

    comm: MPI.Comm
    exposed: ExposedMemory
    local: Buffer
    peer: MPI.Group

    @property
    def other(self) -> int:
        return TARGET if self.comm.rank == ORIGIN else ORIGIN


def measure_one_sided(comm: MPI.Comm, options: OneSidedOptions, memory: Memory = "host") -> Result:
    """Measure get, put or accumulate between two ranks, or of all ranks at irregular places. Collective.

    Ranks that are not in the pair (origin, target) sleep. With memory "cuda-staged", the origin's buffer is on its
    GPU and is copied through page-locked memory, the window is host memory, and only the synchronization "flush" is
    possible. Raises ConfigError if an option is out of range, and VerificationError if wrong data arrived.
    """
    if options.pattern == "fmm":
        return measure_irregular(comm, options, memory)
    pair, sync = options.pair, options.sync
    if comm.size < 2:
        raise ConfigError("one-sided requires at least 2 ranks, but there is 1. Start them with -n 2.")
    if len(set(pair)) != 2 or not all(0 <= rank < comm.size for rank in pair):
        raise ConfigError(
            f"--pair {pair[0]} {pair[1]}: the pair must be two different ranks from 0 to {comm.size - 1}."
        )
    foreign = f"--sync {sync}" if sync != "flush" else "--test bibandwidth"
    if memory == "cuda-staged" and (sync != "flush" or "bibandwidth" in options.tests):
        raise ConfigError(
            f"{foreign} with --device cuda requires an MPI library that accepts GPU memory. Use --sync flush and the "
            "tests latency and bandwidth, or --device cpu."
        )
    form = MessageForm(memory, options.pages)
    sizes = message_sizes(*(options.sizes or (1, MAX_SIZE)))
    layout = find_layout(comm)
    half = comm.Split(
        0 if comm.rank in pair else MPI.UNDEFINED, pair.index(comm.rank) if comm.rank in pair else 0
    )
    measured = _PairFigures()
    if half != MPI.COMM_NULL:
        measured = _measure_all(half, options, sizes, form)
        half.Free()
    sleeping_barrier(comm)
    return _result(comm.size, comm.bcast(measured, pair[0]), layout.n_nodes, options, form)


@dataclass
class _PairFigures:
    """The rows of all tests, the cost of a call from Python, and the share of huge pages in the origin's buffer."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    call_seconds: float = 0.0
    huge_pages: float | None = None


def _measure_all(
    half: MPI.Comm, options: OneSidedOptions, sizes: list[int], form: MessageForm
) -> _PairFigures:
    """Return the figures of all tests, operations and sizes. Collective over the two ranks."""
    sync, rows = options.sync, []
    most = max(size * operations_in_flight(size, options.window) for size in sizes)
    side = _make_side(half, most, form)
    with side.exposed.freed_at_end():
        for test, operation, size in product(options.tests, options.operations or ("get", "put"), sizes):
            family: Family = "latency" if test == "latency" else "bandwidth"
            counts = Repetitions(family, options.iterations, options.warm_up).of(size)
            n = 1 if test == "latency" else operations_in_flight(size, options.window)
            single = np.zeros(counts[0]) if options.percentiles else None
            seconds = _measure(side, test, operation, sync, size, n, *counts, single)
            row: dict[str, Any] = {"test": test, "operation": operation, "sync": sync, "size": size}
            if test == "latency":
                row |= {"seconds": latency(seconds, counts[0], sync)}
            else:
                directions = 2 if test == "bibandwidth" else 1
                rate = bandwidth(size, n, counts[0], seconds, directions)
                row |= {"window": n, "rate": rate, "messages": directions * n * counts[0] / seconds}
            if single is not None:
                row |= iteration_figures([latency(1.0, 1, sync) * single if test == "latency" else single])
            rows.append(row)
    side.peer.Free()
    call_seconds = python_call_seconds(side.local.message(0))
    return _PairFigures(rows, call_seconds, side.local.huge_pages())


def _make_side(comm: MPI.Comm, n_bytes: int, form: MessageForm) -> _AccessSide:
    exposed = ExposedMemory(comm, n_bytes, "host" if form.memory == "cuda-staged" else form.memory)
    local = form.buffer(n_bytes)
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
    single: NDArray[np.float64] | None = None,
) -> float:
    """Return the seconds of the timed iterations, after warming up and verifying. Collective.

    They are the origin's, or those of the slower rank where both are origins. The origin's seconds of each iteration
    go to `single`.
    """
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
        target=side.other,
        staged=side.local if side.local.staged else None,
        n_bytes=n_bytes,
        reads=reads,
    )
    loops = (staged_flush, idle) if side.local.staged else LOOPS[test, sync]
    loop = loops[rank]
    both_ways = test == "bibandwidth"
    locks = sync.startswith("flush") and (rank == ORIGIN or both_ways)
    side.comm.Barrier()
    if locks:
        win.Lock(side.other, MPI.LOCK_SHARED)
    if sync == "fence":
        win.Fence()
    loop(access, warm_up)
    start = time.perf_counter()
    if single is None:
        loop(access, iterations)
    else:
        for i in range(iterations):
            begin = time.perf_counter()
            loop(access, 1)
            single[i] = time.perf_counter() - begin
    seconds = time.perf_counter() - start
    if locks:
        win.Unlock(side.other)
    if sync == "fence":
        win.Fence(MPI.MODE_NOSUCCEED)
    # The target waits here and so makes progress, as in OSU's: many networks need its help.
    side.comm.Barrier()
    both = both_ways or (test == "latency" and sync in ("fence", "pscw"))
    with errors_on_all_ranks(side.comm):
        _verify(side, operation, n_bytes, size, warm_up + iterations, both)
    return float(side.comm.allreduce(seconds, MPI.MAX) if both_ways else side.comm.bcast(seconds, ORIGIN))


def _verify(side: _AccessSide, operation: Operation, n_bytes: int, size: int, times: int, both: bool) -> None:
    """Compare the data of this rank with what the other sent; with `both`, the target operated like the origin."""
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
    ranks: int, measured: _PairFigures, nodes: int, options: OneSidedOptions, form: MessageForm
) -> Result:
    pair, sync = options.pair, options.sync
    formula = f"us = t / {'(2 n), because both ranks access in turn' if sync in ('fence', 'pscw') else 'n'}; "
    formula += "MB/s = size x window x n / t / 1e6"
    if "bibandwidth" in options.tests:
        formula += ", twice that for bibandwidth, in which both ranks access at the same time"
    statistic = "mean over the n iterations of each size"
    if options.percentiles:
        statistic += (
            "; fastest, percentiles and slowest over iterations, which are windows in tests of bandwidth"
        )
    notes = [python_call_note(measured.call_seconds)]
    notes.append(buffer_note(options.pages, measured.huge_pages, "bytes"))
    if form.memory == "host":
        notes.append(
            "These are the origin's buffers; MPI chooses the pages of the window (MPI_Win_allocate)."
        )
    if form.memory == "cuda-staged":
        notes.append("The origin's buffer is in GPU memory and is copied through host memory.")
    return Result(
        benchmark="one-sided",
        pattern=f"rank {pair[0]} accesses the window of rank {pair[1]}, completion by {sync}",
        formula=formula,
        statistic=statistic,
        ranks=ranks,
        nodes=nodes,
        columns=[
            Column("test", "test"),
            Column("operation", "operation"),
            SIZE,
            MICROSECONDS,
            Column("window", "window"),
            Column("rate", "MB/s", 1e6),
            Column("messages", "messages/s", 1.0, ".0f"),
            *(ITERATION_COLUMNS if options.percentiles else ()),
        ],
        rows=measured.rows,
        left_out=[rank for rank in range(ranks) if rank not in pair],
        settings={
            "sync": sync,
            "pair": list(pair),
            "window": options.window,
            "call_seconds": measured.call_seconds,
            **form.settings(measured.huge_pages),
        },
        notes=notes,
        plot=_plot(measured.rows),
    )


def _plot(rows: list[dict[str, Any]]) -> Plot:
    """Return the curves of bandwidth, or of latency if nothing else was measured."""
    if any("rate" in row for row in rows):
        return Plot(
            x="size",
            y=("rate",),
            by=("test", "operation"),
            x_label="message size in B",
            y_label="MB/s",
            y_scale=1e6,
        )
    return Plot(
        x="size", y=("seconds",), by=("operation",), x_label="message size in B", y_label="us", y_scale=1e-6
    )


@dataclass(frozen=True)
class Access:
    """Everything that a timed loop needs for operations of one kind and size.

    Attributes
    ----------
    operate
        Win.Get, Put or Accumulate.
    flush
        Win.Flush or Flush_local.
    operations
        The message of the origin and its place in the target's window, for each operation of a window.
    peer
        The other rank as a group, for post, start, complete and wait.
    target
        The other rank, whose window this one accesses.
    staged
        The origin's buffer, if it is on a GPU whose memory MPI does not accept; with the n_bytes to copy.
    reads
        Whether the operation reads the window.
    """

    win: MPI.Win
    operate: Callable[..., None]
    flush: Callable[[int], None]
    operations: list[tuple[list[Any], list[Any]]]
    peer: MPI.Group
    target: int = TARGET
    staged: Buffer | None = None
    n_bytes: int = 0
    reads: bool = True


Loop = Callable[[Access, int], None]


def idle(access: Access, n: int) -> None:
    """Do nothing: the target of locks and flushes does not participate."""


def flush_latency(access: Access, n: int) -> None:
    """Do operation, flush, n times."""
    target = access.target
    operate, flush = access.operate, access.flush
    message, place = access.operations[0]
    for _ in range(n):
        operate(message, target, place)
        flush(target)


def lock_latency(access: Access, n: int) -> None:
    """Do lock, operation, unlock, n times."""
    target = access.target
    operate, lock, unlock = access.operate, access.win.Lock, access.win.Unlock
    message, place = access.operations[0]
    shared = MPI.LOCK_SHARED
    for _ in range(n):
        lock(target, shared)
        operate(message, target, place)
        unlock(target)


def fence_latency_origin(access: Access, n: int) -> None:
    """Do operation, fence, then fence once more while the target operates on this rank's window, n times."""
    target = access.target
    operate, fence = access.operate, access.win.Fence
    message, place = access.operations[0]
    for _ in range(n):
        operate(message, target, place)
        fence()
        fence()


def fence_latency_target(access: Access, n: int) -> None:
    """Mirror the loop of the origin, n times."""
    target = access.target
    operate, fence = access.operate, access.win.Fence
    message, place = access.operations[0]
    for _ in range(n):
        fence()
        operate(message, target, place)
        fence()


def pscw_latency_origin(access: Access, n: int) -> None:
    """Do start, operation, complete; post, wait, n times."""
    target = access.target
    win, operate, peer = access.win, access.operate, access.peer
    start, complete, post, wait = win.Start, win.Complete, win.Post, win.Wait
    message, place = access.operations[0]
    for _ in range(n):
        start(peer)
        operate(message, target, place)
        complete()
        post(peer)
        wait()


def pscw_latency_target(access: Access, n: int) -> None:
    """Mirror the loop of the origin, n times."""
    target = access.target
    win, operate, peer = access.win, access.operate, access.peer
    start, complete, post, wait = win.Start, win.Complete, win.Post, win.Wait
    message, place = access.operations[0]
    for _ in range(n):
        post(peer)
        wait()
        start(peer)
        operate(message, target, place)
        complete()


def flush_bandwidth(access: Access, n: int) -> None:
    """Do a window of operations, flush, n times."""
    target = access.target
    operate, operations, flush = access.operate, access.operations, access.flush
    for _ in range(n):
        for message, place in operations:
            operate(message, target, place)
        flush(target)


def lock_bandwidth(access: Access, n: int) -> None:
    """Do lock, a window of operations, unlock, n times."""
    target = access.target
    operate, operations = access.operate, access.operations
    lock, unlock, shared = access.win.Lock, access.win.Unlock, MPI.LOCK_SHARED
    for _ in range(n):
        lock(target, shared)
        for message, place in operations:
            operate(message, target, place)
        unlock(target)


def fence_bandwidth_origin(access: Access, n: int) -> None:
    """Do a window of operations, fence, n times."""
    target = access.target
    operate, operations, fence = access.operate, access.operations, access.win.Fence
    for _ in range(n):
        for message, place in operations:
            operate(message, target, place)
        fence()


def fence_bandwidth_target(access: Access, n: int) -> None:
    """Fence n times."""
    fence = access.win.Fence
    for _ in range(n):
        fence()


def pscw_bandwidth_origin(access: Access, n: int) -> None:
    """Do start, a window of operations, complete, n times."""
    target = access.target
    operate, operations, peer = access.operate, access.operations, access.peer
    start, complete = access.win.Start, access.win.Complete
    for _ in range(n):
        start(peer)
        for message, place in operations:
            operate(message, target, place)
        complete()


def pscw_bandwidth_target(access: Access, n: int) -> None:
    """Do post, wait, n times."""
    post, wait, peer = access.win.Post, access.win.Wait, access.peer
    for _ in range(n):
        post(peer)
        wait()


def pscw_bandwidth_both(access: Access, n: int) -> None:
    """Do post, start, a window of operations, complete, wait on both ranks, n times."""
    target = access.target
    operate, operations, peer, win = access.operate, access.operations, access.peer, access.win
    post, start, complete, wait = win.Post, win.Start, win.Complete, win.Wait
    for _ in range(n):
        post(peer)
        start(peer)
        for message, place in operations:
            operate(message, target, place)
        complete()
        wait()


def staged_flush(access: Access, n: int) -> None:
    """Do copy from the GPU, operations, flush (or, to read: operations, flush, copy to the GPU), n times."""
    target = access.target
    operate, operations, flush = access.operate, access.operations, access.flush
    assert access.staged is not None
    n_bytes, reads = access.n_bytes, access.reads
    stage_out, stage_in = access.staged.stage_out, access.staged.stage_in
    for _ in range(n):
        if not reads:
            stage_out(n_bytes)
        for message, place in operations:
            operate(message, target, place)
        flush(target)
        if reads:
            stage_in(n_bytes)


# (test, synchronization) -> loops of origin and target
LOOPS: dict[tuple[str, str], tuple[Loop, Loop]] = {
    ("latency", "flush"): (flush_latency, idle),
    ("latency", "flush_local"): (flush_latency, idle),
    ("latency", "lock"): (lock_latency, idle),
    ("latency", "fence"): (fence_latency_origin, fence_latency_target),
    ("latency", "pscw"): (pscw_latency_origin, pscw_latency_target),
    ("bandwidth", "flush"): (flush_bandwidth, idle),
    ("bandwidth", "flush_local"): (flush_bandwidth, idle),
    ("bandwidth", "lock"): (lock_bandwidth, idle),
    ("bandwidth", "fence"): (fence_bandwidth_origin, fence_bandwidth_target),
    ("bandwidth", "pscw"): (pscw_bandwidth_origin, pscw_bandwidth_target),
    ("bibandwidth", "flush"): (flush_bandwidth, flush_bandwidth),
    ("bibandwidth", "flush_local"): (flush_bandwidth, flush_bandwidth),
    ("bibandwidth", "lock"): (lock_bandwidth, lock_bandwidth),
    ("bibandwidth", "fence"): (fence_bandwidth_origin, fence_bandwidth_origin),
    ("bibandwidth", "pscw"): (pscw_bandwidth_both, pscw_bandwidth_both),
}
