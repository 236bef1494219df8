"""The timed loops in compiled Python, which calls MPI through numba-mpi.

numba-mpi is licensed under GPL-3.0-only and is not a dependency of this package. Only this module imports it, and
languages.py imports this module only for a benchmark of this language.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba_mpi
import numpy as np
from mpi4py import MPI
from numba import njit
from numpy.typing import NDArray

from ridgeline.bench.language.loops import (
    ACKNOWLEDGE,
    REPLY,
    TAG,
    RingWork,
    check_mpi,
    compute,
    read_words,
    ring_partners,
    write_words,
)
from ridgeline.runtime.errors import ConfigError

if TYPE_CHECKING:
    Bytes = NDArray[np.uint8]

_REQUEST = numba_mpi.RequestType


def numba_mpi_version() -> str:
    """Return numba-mpi's version."""
    return str(numba_mpi.__version__)


def _ping_pong(partner: int, first: bool, outbox: Bytes, inbox: Bytes, batch: int) -> tuple[int, float]:
    failed = 0
    start = numba_mpi.wtime()
    if first:
        for _ in range(batch):
            failed |= numba_mpi.send(outbox, partner, TAG)
            failed |= numba_mpi.recv(inbox, partner, TAG)
    else:
        for _ in range(batch):
            failed |= numba_mpi.recv(inbox, partner, TAG)
            failed |= numba_mpi.send(outbox, partner, TAG)
    return failed, numba_mpi.wtime() - start


def _send_windows(partner: int, buffer: Bytes, reply: Bytes, window: int, batch: int) -> tuple[int, float]:
    failed = 0
    requests = np.empty(window, _REQUEST)
    start = numba_mpi.wtime()
    for _ in range(batch):
        for k in range(window):
            status, request = numba_mpi.isend(buffer, partner, TAG)
            failed |= status
            requests[k] = request[0]
        failed |= numba_mpi.waitall(requests)
        failed |= numba_mpi.recv(reply, partner, ACKNOWLEDGE)
    return failed, numba_mpi.wtime() - start


def _receive_windows(partner: int, buffer: Bytes, reply: Bytes, window: int, batch: int) -> tuple[int, float]:
    failed = 0
    requests = np.empty(window, _REQUEST)
    start = numba_mpi.wtime()
    for _ in range(batch):
        for k in range(window):
            status, request = numba_mpi.irecv(buffer, partner, TAG)
            failed |= status
            requests[k] = request[0]
        failed |= numba_mpi.waitall(requests)
        failed |= numba_mpi.send(reply, partner, ACKNOWLEDGE)
    return failed, numba_mpi.wtime() - start


def _ring(
    forward: int,
    backward: int,
    words: NDArray[np.uint64],
    work: NDArray[np.int64],
    outbox: Bytes,
    inbox: Bytes,
    seconds: NDArray[np.float64],
) -> tuple[int, np.uint64, float]:
    failed, mask, seen, x = 0, words.size - 1, np.uint64(0), 1.0
    for i in range(len(seconds)):
        start = numba_mpi.wtime()
        seen += read_words(words, mask, work[0])
        after_reads = numba_mpi.wtime()
        write_words(words, mask, work[1], np.uint64(i))
        after_writes = numba_mpi.wtime()
        x = compute(x + 1.0, work[2])
        after_flops = numba_mpi.wtime()
        for _ in range(work[3]):
            status, request = numba_mpi.isend(outbox, forward, TAG)
            failed |= status
            failed |= numba_mpi.recv(inbox, backward, TAG)
            failed |= numba_mpi.wait(request)
        end = numba_mpi.wtime()
        seconds[i, 0] = after_reads - start
        seconds[i, 1] = after_writes - after_reads
        seconds[i, 2] = after_flops - after_writes
        seconds[i, 3] = end - after_flops
    return failed, seen, x


# Compiled at the first call and never cached, because they contain addresses of MPI that differ in each process.
_compiled_ping_pong: Any = njit(_ping_pong)
_compiled_send_windows: Any = njit(_send_windows)
_compiled_receive_windows: Any = njit(_receive_windows)
_compiled_ring: Any = njit(_ring)


class CompiledLoops:
    """The loops in compiled Python. numba-mpi knows only the communicator of the world."""

    name = "numba-mpi"

    def __init__(self, comm: MPI.Comm) -> None:
        self.comm = comm
        group, everyone = comm.Get_group(), MPI.COMM_WORLD.Get_group()
        self.world_rank = MPI.Group.Translate_ranks(group, list(range(comm.size)), everyone)
        group.Free()
        everyone.Free()
        if MPI.UNDEFINED in self.world_rank:
            raise ConfigError("it supports only ranks of MPI_COMM_WORLD, but this communicator has others")
        self.reply = np.zeros(REPLY, np.uint8)

    def on(self, comm: MPI.Comm) -> CompiledLoops:
        return CompiledLoops(comm)

    def ping_pong(self, partner: int, first: bool, outbox: Bytes, inbox: Bytes, batch: int) -> float:
        failed, seconds = _compiled_ping_pong(self.world_rank[partner], first, outbox, inbox, batch)
        check_mpi(self.name, failed != 0)
        return float(seconds)

    def windows(self, partner: int, sends: bool, buffer: Bytes, window: int, batch: int) -> float:
        run = _compiled_send_windows if sends else _compiled_receive_windows
        failed, seconds = run(self.world_rank[partner], buffer, self.reply, window, batch)
        check_mpi(self.name, failed != 0)
        return float(seconds)

    def ring(
        self,
        work: RingWork,
        words: NDArray[np.uint64],
        outbox: Bytes,
        inbox: Bytes,
        seconds: NDArray[np.float64],
    ) -> tuple[int, float]:
        forward, backward = (self.world_rank[partner] for partner in ring_partners(self.comm))
        failed, seen, x = _compiled_ring(forward, backward, words, work.as_array(), outbox, inbox, seconds)
        check_mpi(self.name, failed != 0)
        return int(seen) & 0xFFFFFFFF, float(x)
