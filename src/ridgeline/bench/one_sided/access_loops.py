"""The timed loops of one-sided access between an origin (rank 0) and a target (rank 1), by kind of synchronization.

Every loop is a plain function of an `Access` made before it: what it calls is looked up before it begins. Loops of
the target's side take the same arguments. Patterns as osu_get_latency, osu_put_latency, osu_get_bw, osu_put_bw 7.4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mpi4py import MPI

from ridgeline.parallel.payload import Buffer

ORIGIN, TARGET = 0, 1


@dataclass(frozen=True)
class Access:
    """One operation of one size. operations: (origin's message, place in the target's window), all different.

    operate: Win.Get, Put or Accumulate; flush: Win.Flush or Flush_local; peer: the other rank as a group, for post,
    start, complete, wait; staged: the origin's buffer if it lies on a GPU whose memory MPI does not take, with its
    bytes and whether it is read.
    """

    win: MPI.Win
    operate: Callable[..., None]
    flush: Callable[[int], None]
    operations: list[tuple[list[Any], list[Any]]]
    peer: MPI.Group
    staged: Buffer | None = None
    n_bytes: int = 0
    reads: bool = True


Loop = Callable[[Access, int], None]


def idle(access: Access, n: int) -> None:
    """Do nothing: the target of locks and flushes takes no part."""


def flush_latency(access: Access, n: int) -> None:
    """Do operation, flush, n times."""
    operate, flush = access.operate, access.flush
    message, place = access.operations[0]
    for _ in range(n):
        operate(message, TARGET, place)
        flush(TARGET)


def lock_latency(access: Access, n: int) -> None:
    """Do lock, operation, unlock, n times."""
    operate, lock, unlock = access.operate, access.win.Lock, access.win.Unlock
    message, place = access.operations[0]
    shared = MPI.LOCK_SHARED
    for _ in range(n):
        lock(TARGET, shared)
        operate(message, TARGET, place)
        unlock(TARGET)


def fence_latency_origin(access: Access, n: int) -> None:
    """Do operation, fence, then fence once more while the target operates on this rank's window, n times."""
    operate, fence = access.operate, access.win.Fence
    message, place = access.operations[0]
    for _ in range(n):
        operate(message, TARGET, place)
        fence()
        fence()


def fence_latency_target(access: Access, n: int) -> None:
    """Mirror of the origin's loop."""
    operate, fence = access.operate, access.win.Fence
    message, place = access.operations[0]
    for _ in range(n):
        fence()
        operate(message, ORIGIN, place)
        fence()


def pscw_latency_origin(access: Access, n: int) -> None:
    """Do start, operation, complete; post, wait, n times."""
    win, operate, peer = access.win, access.operate, access.peer
    start, complete, post, wait = win.Start, win.Complete, win.Post, win.Wait
    message, place = access.operations[0]
    for _ in range(n):
        start(peer)
        operate(message, TARGET, place)
        complete()
        post(peer)
        wait()


def pscw_latency_target(access: Access, n: int) -> None:
    """Mirror of the origin's loop."""
    win, operate, peer = access.win, access.operate, access.peer
    start, complete, post, wait = win.Start, win.Complete, win.Post, win.Wait
    message, place = access.operations[0]
    for _ in range(n):
        post(peer)
        wait()
        start(peer)
        operate(message, ORIGIN, place)
        complete()


def flush_bandwidth(access: Access, n: int) -> None:
    """Do a window of operations, flush, n times."""
    operate, operations, flush = access.operate, access.operations, access.flush
    for _ in range(n):
        for message, place in operations:
            operate(message, TARGET, place)
        flush(TARGET)


def lock_bandwidth(access: Access, n: int) -> None:
    """Do lock, a window of operations, unlock, n times."""
    operate, operations = access.operate, access.operations
    lock, unlock, shared = access.win.Lock, access.win.Unlock, MPI.LOCK_SHARED
    for _ in range(n):
        lock(TARGET, shared)
        for message, place in operations:
            operate(message, TARGET, place)
        unlock(TARGET)


def fence_bandwidth_origin(access: Access, n: int) -> None:
    """Do a window of operations, fence, n times."""
    operate, operations, fence = access.operate, access.operations, access.win.Fence
    for _ in range(n):
        for message, place in operations:
            operate(message, TARGET, place)
        fence()


def fence_bandwidth_target(access: Access, n: int) -> None:
    """Fence n times."""
    fence = access.win.Fence
    for _ in range(n):
        fence()


def pscw_bandwidth_origin(access: Access, n: int) -> None:
    """Do start, a window of operations, complete, n times."""
    operate, operations, peer = access.operate, access.operations, access.peer
    start, complete = access.win.Start, access.win.Complete
    for _ in range(n):
        start(peer)
        for message, place in operations:
            operate(message, TARGET, place)
        complete()


def pscw_bandwidth_target(access: Access, n: int) -> None:
    """Do post, wait, n times."""
    post, wait, peer = access.win.Post, access.win.Wait, access.peer
    for _ in range(n):
        post(peer)
        wait()


def staged_flush(access: Access, n: int) -> None:
    """Do copy from the GPU, the operations, flush, or the operations, flush, copy to the GPU, n times."""
    operate, operations, flush = access.operate, access.operations, access.flush
    assert access.staged is not None
    n_bytes, reads = access.n_bytes, access.reads
    stage_out, stage_in = access.staged.stage_out, access.staged.stage_in
    for _ in range(n):
        if not reads:
            stage_out(n_bytes)
        for message, place in operations:
            operate(message, TARGET, place)
        flush(TARGET)
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
}
