"""Messages between pairs of ranks, all pairs at the same time: the timed loops, and what all ranks send together.

The loops are those of the OSU micro-benchmarks (7.4). One is entered by both ranks of a pair and by nobody else.
Nothing is allocated, looked up or checked inside: the buffer's message and the bound methods are made before. Content
is compared with what was sent by `verify` and `verify_left`, before and after a loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from time import perf_counter
from typing import TYPE_CHECKING, Literal, cast

import numpy as np
from mpi4py import MPI

from ridgeline.parallel.allreduce import errors_on_all_ranks
from ridgeline.parallel.payload import Buffer, Memory, check, content
from ridgeline.parallel.sleeping_wait import sleeping_barrier
from ridgeline.runtime.errors import VerificationError

if TYPE_CHECKING:
    from numpy.typing import NDArray

Loop = Literal["ping-pong", "windows", "both ways"]

_PING, _DATA, _BACK, _REPLY = 1, 2, 3, 4  # tags
_REPLY_SIZE = 4  # bytes that end a window
BEFORE, AFTER = 0, 1  # numbers of messages, by which their content differs
_WINDOW = 16  # messages in flight where all ranks send
_MOST_MOVED = 64 * 2**20  # bytes each way between two ranks
_MOST_WINDOWS = 50


def measure_message_bandwidth(comm: MPI.Comm, size: int, memory: Memory) -> float:
    """Return the B/s that all ranks send while all pairs of them send to each other at the same time. Collective.

    size: bytes of a message, more than 0; comm: of 2 ranks or more, of which an odd last one counts as the others.
    Raises VerificationError on all ranks if a message is damaged.
    """
    windows = max(1, min(_MOST_WINDOWS, _MOST_MOVED // (_WINDOW * size)))
    half = comm.size // 2
    pairs = [(rank, rank + half) for rank in range(half)]
    times = [
        seconds for (seconds,) in time_pairs(comm, pairs, [(size, windows, 1)], memory, "both ways", _WINDOW)
    ]
    rate = bandwidth(size, windows * _WINDOW, sum(times) / half, half, 2)
    return rate * comm.size / (2 * half)


def time_pairs(
    comm: MPI.Comm,
    pairs: Sequence[tuple[int, int]],
    rounds: Sequence[tuple[int, int, int]],
    memory: Memory,
    loop: Loop,
    window: int,
    synchronous: bool = False,
) -> list[list[float]]:
    """Run a loop for every size on all pairs at the same time. Collective; ranks without a partner sleep.

    pairs: disjoint; rounds: (bytes, iterations, warm-up) of each size, the largest last. Returns the seconds of the
    first rank of each pair, [pairs][sizes]: one way of a ping-pong, or of all windows. Raises VerificationError on
    all ranks if a message is damaged.
    """
    mine = next((pair for pair in pairs if comm.rank in pair), None)
    active = comm.Split(MPI.UNDEFINED if mine is None else 0, comm.rank)
    seconds: list[float] = []
    failure: VerificationError | None = None
    if mine is not None:
        station = _Station(comm, active, mine, rounds[-1][0], memory, loop, window, synchronous)
        for size, iterations, warm_up in rounds:
            seconds.append(station.measure(size, iterations, warm_up))
        failure = station.failure
        active.Free()
    sleeping_barrier(comm)
    with errors_on_all_ranks(comm):
        if failure is not None:
            raise failure
    gathered = comm.allgather(seconds)
    return [gathered[first] for first, _ in pairs]


class _Station:
    """One rank of a pair with its buffers. failure: the first damaged message; the loops go on to their end."""

    def __init__(
        self,
        comm: MPI.Comm,
        active: MPI.Comm,
        pair: tuple[int, int],
        largest: int,
        memory: Memory,
        loop: Loop,
        window: int,
        synchronous: bool,
    ) -> None:
        self.comm, self.active, self.pair = comm, active, pair
        self.loop, self.window, self.synchronous = loop, window, synchronous
        self.first = comm.rank == pair[0]
        self.partner = pair[self.first]
        self.buffer = Buffer(largest, memory)
        self.incoming = Buffer(largest, memory) if loop == "both ways" else self.buffer
        self.failure: VerificationError | None = None

    def measure(self, size: int, iterations: int, warm_up: int) -> float:
        """Return the seconds of one size; all pairs begin together, after their warm-up."""
        source, target = self.pair
        me, partner = self.comm.rank, self.partner
        try:
            verify(self.comm, partner, self.first, self.buffer, size, BEFORE)
        except VerificationError as error:
            self.failure = self.failure or error
        prepare(self.buffer, size, source, target, me)
        if self.loop == "both ways":
            source, target = partner, me
            prepare(self.buffer, size, me, partner, me)
            prepare(self.incoming, size, source, target, me)
        self._run(size, warm_up)
        self.active.Barrier()
        seconds = self._run(size, iterations)
        try:
            verify_left(self.incoming, size, source, target)
        except VerificationError as error:
            self.failure = self.failure or error
        return seconds

    def _run(self, size: int, count: int) -> float:
        if count == 0:
            return 0.0
        pair = (self.comm, self.partner, self.first)
        if self.loop == "ping-pong":
            return ping_pong(*pair, self.buffer, size, count, 0)
        if self.loop == "both ways":
            return both_ways(*pair, self.buffer, self.incoming, size, self.window, count, 0)
        alcf = self.synchronous
        return windowed(*pair, self.buffer, size, self.window, count, 0, reply=not alcf, synchronous=alcf)


def one_way(seconds: float, iterations: int) -> float:
    """Return the latency in s of one message: half of a round trip, t / (2 iterations)."""
    return seconds / (2 * iterations)


def bandwidth(size: int, messages: int, seconds: float, pairs: int = 1, directions: int = 1) -> float:
    """Return B/s: bytes of a message x messages of one sender x pairs x directions over the seconds."""
    return size * messages * pairs * directions / seconds


def message_rate(messages: int, seconds: float, pairs: int = 1, directions: int = 1) -> float:
    """Return messages/s, all senders together."""
    return messages * pairs * directions / seconds


def ping_pong(
    comm: MPI.Comm, partner: int, first: bool, buffer: Buffer, size: int, iterations: int, warm_up: int
) -> float:
    """Return the seconds that a message of `size` bytes takes one way: half of the mean round trip (osu_latency).

    Collective over the two ranks; one is `first`. The message travels there and back in `buffer` (MPI_Send,
    MPI_Recv). Both ranks return a figure; that of the first is the one to report. A staged buffer is copied from
    the GPU before each send and to it after each receive.
    """
    if buffer.staged:
        return _ping_pong_staged(comm, partner, first, buffer, size, iterations, warm_up)
    send, receive, message = comm.Send, comm.Recv, buffer.message(size)
    begin = 0.0
    for count in (warm_up, iterations):
        begin = perf_counter()
        if first:
            for _ in repeat(None, count):
                send(message, partner, _PING)
                receive(message, partner, _PING)
        else:
            for _ in repeat(None, count):
                receive(message, partner, _PING)
                send(message, partner, _PING)
    return one_way(perf_counter() - begin, iterations)


def _ping_pong_staged(
    comm: MPI.Comm, partner: int, first: bool, buffer: Buffer, size: int, iterations: int, warm_up: int
) -> float:
    send, receive, message = comm.Send, comm.Recv, buffer.message(size)
    begin = 0.0
    for count in (warm_up, iterations):
        begin = perf_counter()
        for _ in repeat(None, count):
            if first:
                buffer.stage_out(size)
                send(message, partner, _PING)
            receive(message, partner, _PING)
            buffer.stage_in(size)
            if not first:
                buffer.stage_out(size)
                send(message, partner, _PING)
    return one_way(perf_counter() - begin, iterations)


def windowed(
    comm: MPI.Comm,
    partner: int,
    sender: bool,
    buffer: Buffer,
    size: int,
    window: int,
    iterations: int,
    warm_up: int,
    reply: bool = True,
    synchronous: bool = False,
) -> float:
    """Return the seconds that `iterations` windows of messages from the sender take (osu_bw, osu_mbw_mr).

    Collective over the two ranks. A window is `window` messages of `size` bytes in flight at once, answered by a
    reply of 4 bytes. Requests are persistent (MPI_Send_init, MPI_Startall), so that starting one costs no more in
    Python than in C. Both ranks return their own seconds; those of the sender are the ones to report.

    reply: without it nothing comes back; synchronous: MPI_Ssend_init, a message is complete when its receive has
    begun. A staged buffer holds one message at a time: each is copied, sent, received and copied in turn.
    """
    if buffer.staged:
        return _windowed_staged(
            comm, partner, sender, buffer, size, window, iterations, warm_up, reply, synchronous
        )
    message = buffer.message(size)
    make = (comm.Ssend_init if synchronous else comm.Send_init) if sender else comm.Recv_init
    requests = cast("list[MPI.Prequest]", [make(message, partner, _DATA) for _ in range(window)])
    start, wait = MPI.Prequest.Startall, MPI.Request.Waitall
    answer = [np.zeros(_REPLY_SIZE, np.uint8), _REPLY_SIZE, MPI.BYTE]
    conclude = comm.Recv if sender else comm.Send
    begin = 0.0
    for count in (warm_up, iterations):
        begin = perf_counter()
        if reply:
            for _ in repeat(None, count):
                start(requests)
                wait(requests)
                conclude(answer, partner, _REPLY)
        else:
            for _ in repeat(None, count):
                start(requests)
                wait(requests)
    seconds = perf_counter() - begin
    _free(requests)
    return seconds


def _windowed_staged(
    comm: MPI.Comm,
    partner: int,
    sender: bool,
    buffer: Buffer,
    size: int,
    window: int,
    iterations: int,
    warm_up: int,
    reply: bool,
    synchronous: bool,
) -> float:
    send, message = comm.Ssend if synchronous else comm.Send, buffer.message(size)
    answer = [np.zeros(_REPLY_SIZE, np.uint8), _REPLY_SIZE, MPI.BYTE]
    begin = 0.0
    for count in (warm_up, iterations):
        begin = perf_counter()
        for _ in repeat(None, count):
            for _ in repeat(None, window):
                if sender:
                    buffer.stage_out(size)
                    send(message, partner, _DATA)
                else:
                    comm.Recv(message, partner, _DATA)
                    buffer.stage_in(size)
            if reply and sender:
                comm.Recv(answer, partner, _REPLY)
            elif reply:
                comm.Send(answer, partner, _REPLY)
    return perf_counter() - begin


def both_ways(
    comm: MPI.Comm,
    partner: int,
    first: bool,
    outgoing: Buffer,
    incoming: Buffer,
    size: int,
    window: int,
    iterations: int,
    warm_up: int,
) -> float:
    """Return the seconds of `iterations` windows that both ranks send at the same time (osu_bibw).

    Collective over the two ranks. Receives are started before sends; nothing else comes back. Of staged buffers
    each message is exchanged in turn (MPI_Sendrecv) between its copies.
    """
    if outgoing.staged:
        return _both_ways_staged(comm, partner, first, outgoing, incoming, size, window, iterations, warm_up)
    there, back = (_DATA, _BACK) if first else (_BACK, _DATA)
    out, into = outgoing.message(size), incoming.message(size)
    requests = [comm.Recv_init(into, partner, back) for _ in range(window)]
    requests += [comm.Send_init(out, partner, there) for _ in range(window)]
    start, wait = MPI.Prequest.Startall, MPI.Request.Waitall
    begin = 0.0
    for count in (warm_up, iterations):
        begin = perf_counter()
        for _ in repeat(None, count):
            start(requests)
            wait(requests)
    seconds = perf_counter() - begin
    _free(requests)
    return seconds


def _both_ways_staged(
    comm: MPI.Comm,
    partner: int,
    first: bool,
    outgoing: Buffer,
    incoming: Buffer,
    size: int,
    window: int,
    iterations: int,
    warm_up: int,
) -> float:
    there, back = (_DATA, _BACK) if first else (_BACK, _DATA)
    out, into = outgoing.message(size), incoming.message(size)
    begin = 0.0
    for count in (warm_up, iterations):
        begin = perf_counter()
        for _ in repeat(None, count * window):
            outgoing.stage_out(size)
            comm.Sendrecv(out, partner, there, into, partner, back)
            incoming.stage_in(size)
    return perf_counter() - begin


def _free(requests: list[MPI.Prequest]) -> None:
    for request in requests:
        request.Free()


def verify(comm: MPI.Comm, partner: int, first: bool, buffer: Buffer, size: int, sequence: int) -> None:
    """Send one message each way and raise VerificationError on the rank where it is not what was sent.

    Collective over the two ranks, which both end their part of the exchange before either complains.
    """
    me = comm.rank
    arrived: NDArray[np.uint8] | None = None
    for sending in (first, not first):
        if sending:
            buffer.write(content(size, me, partner, sequence))
            if buffer.staged:
                buffer.stage_out(size)
            comm.Send(buffer.message(size), partner, _PING)
        else:
            buffer.write(~content(size, partner, me, sequence))
            comm.Recv(buffer.message(size), partner, _PING)
            if buffer.staged:
                buffer.stage_in(size)
            arrived = buffer.read(size).copy()
    assert arrived is not None
    check(arrived, partner, me, sequence)


def prepare(buffer: Buffer, size: int, source: int, target: int, me: int) -> None:
    """Fill the buffer of a loop: the source with the message, anybody else with what differs in every byte."""
    message = content(size, source, target, AFTER)
    buffer.write(message if me == source else ~message)


def verify_left(buffer: Buffer, size: int, source: int, target: int) -> None:
    """Raise VerificationError unless the loop left the message of `prepare` in this rank's buffer."""
    check(buffer.read(size), source, target, AFTER)
