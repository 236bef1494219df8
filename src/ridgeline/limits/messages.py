"""Messages between pairs of ranks, all pairs at the same time: timed loops, and the bandwidth of all ranks.

The loops are those of the OSU micro-benchmarks (7.4). Only the two ranks of a pair enter a loop. Nothing is
allocated, looked up or checked inside: the buffer's message and the bound methods are created before. `verify` and
`verify_left` compare what has arrived with what was sent, before and after a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat
from time import perf_counter
from typing import TYPE_CHECKING, Literal, cast

import numpy as np
from mpi4py import MPI

from ridgeline.parallel.allreduce import errors_on_all_ranks
from ridgeline.parallel.communicator import sleeping_barrier
from ridgeline.parallel.payload import Buffer, Memory, MessageForm, check, content
from ridgeline.runtime.errors import VerificationError

if TYPE_CHECKING:
    from numpy.typing import NDArray

Loop = Literal["ping-pong", "windows", "both ways"]

_PING, _DATA, _BACK, _REPLY = 1, 2, 3, 4  # tags
_REPLY_SIZE = 4  # bytes that end a window
BEFORE, AFTER = 0, 1  # sequence numbers of the messages that are verified, on which their content depends
_WINDOW = 16  # messages in flight in `measure_message_bandwidth`
_MOST_MOVED = 64 * 2**20  # bytes each way between two ranks
_MOST_WINDOWS = 50
_SAMPLES, _FEWEST = 2**22, 101  # single iterations of a size that rank 0 gathers, and of a pair at least


def measure_message_bandwidth(comm: MPI.Comm, size: int, memory: Memory) -> float:
    """Return the B/s that all ranks send while all pairs of them send to each other at the same time. Collective.

    Parameters
    ----------
    comm : 2 ranks or more; if their number is odd, the rate of the last one is taken to be that of the others
    size : bytes of a message, more than 0
    memory : where the messages lie

    Raises VerificationError on all ranks if a message is damaged.
    """
    windows = max(1, min(_MOST_WINDOWS, _MOST_MOVED // (_WINDOW * size)))
    half = comm.size // 2
    pairs = [(rank, rank + half) for rank in range(half)]
    times = time_pairs(comm, pairs, [(size, windows, 1)], MessageForm(memory), "both ways", _WINDOW)
    seconds = sum(of_pair[0] for of_pair in times.seconds) / half
    rate = bandwidth(size, windows * _WINDOW, seconds, half, 2)
    return rate * comm.size / (2 * half)


@dataclass(frozen=True)
class PairTimes:
    """What the first rank of each pair measured.

    Attributes
    ----------
    seconds
        One way of a ping-pong, or all windows, [pairs][sizes].
    samples
        On rank 0 the seconds of each iteration, which is one way of a round trip or one window, [pairs][sizes] of
        float64 [iterations]. Where many pairs have very many, evenly spaced ones of each pair's, in order of length.
        Empty elsewhere, and unless single iterations were timed.
    huge_pages
        The share of the buffers that lies in huge pages, the least of all ranks; None if it is not known.
    """

    seconds: list[list[float]]
    samples: list[list[NDArray[np.float64]]]
    huge_pages: float | None = None


def time_pairs(
    comm: MPI.Comm,
    pairs: Sequence[tuple[int, int]],
    rounds: Sequence[tuple[int, int, int]],
    form: MessageForm,
    loop: Loop,
    window: int,
    synchronous: bool = False,
    each: bool = False,
) -> PairTimes:
    """Run a loop for every size on all pairs at the same time. Collective; ranks without a partner sleep.

    Parameters
    ----------
    pairs : disjoint pairs of ranks
    rounds : (bytes, iterations, warm-up) of each size, the largest last
    form : where the messages lie, and how
    window : messages in flight
    synchronous : whether windows are sent by synchronous sends, without replies
    each : whether every iteration is timed by itself, which costs two readings of the clock

    Returns
    -------
    PairTimes
        The seconds of the first rank of each pair, the same on all ranks.

    Raises VerificationError on all ranks if a message is damaged.
    """
    mine = next((pair for pair in pairs if comm.rank in pair), None)
    active = comm.Split(MPI.UNDEFINED if mine is None else 0, comm.rank)
    seconds: list[float] = []
    samples: list[NDArray[np.float64]] = []
    huge: float | None = None
    failure: VerificationError | None = None
    if mine is not None:
        rank_of_pair = _PairedRank(comm, active, mine, rounds[-1][0], form, loop, window, synchronous)
        for size, iterations, warm_up in rounds:
            single = np.zeros(iterations) if each else None
            seconds.append(rank_of_pair.measure(size, iterations, warm_up, single))
            samples += [] if single is None else [_thinned(single, max(_FEWEST, _SAMPLES // len(pairs)))]
        failure, huge = rank_of_pair.failure, rank_of_pair.buffer.huge_pages()
        active.Free()
    sleeping_barrier(comm)
    with errors_on_all_ranks(comm):
        if failure is not None:
            raise failure
    gathered = comm.allgather((seconds, huge))
    shares = [share for _, share in gathered if share is not None]
    singles = comm.gather(samples if mine is not None and comm.rank == mine[0] else []) if each else None
    return PairTimes(
        [gathered[first][0] for first, _ in pairs],
        [singles[first] for first, _ in pairs] if singles is not None else [],
        min(shares, default=None),
    )


def _thinned(seconds: NDArray[np.float64], most: int) -> NDArray[np.float64]:
    """Return the seconds, or `most` evenly spaced ones of them in order of length, the first and last included."""
    if seconds.size <= most:
        return seconds
    return np.sort(seconds)[np.linspace(0, seconds.size - 1, most).round().astype(np.int64)]


class _PairedRank:
    """One rank of a pair with its buffers. failure: the first damaged message, after which the loops continue."""

    def __init__(
        self,
        comm: MPI.Comm,
        active: MPI.Comm,
        pair: tuple[int, int],
        largest: int,
        form: MessageForm,
        loop: Loop,
        window: int,
        synchronous: bool,
    ) -> None:
        self.comm, self.active, self.pair = comm, active, pair
        self.loop, self.window, self.synchronous = loop, window, synchronous
        self.first = comm.rank == pair[0]
        self.partner = pair[self.first]
        self.buffer = form.buffer(largest)
        self.incoming = form.buffer(largest) if loop == "both ways" else self.buffer
        self.failure: VerificationError | None = None

    def measure(
        self, size: int, iterations: int, warm_up: int, single: NDArray[np.float64] | None = None
    ) -> float:
        """Return the seconds of one size, and fill `single` with those of each iteration. Pairs begin together."""
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
        seconds = self._run(size, iterations, single)
        try:
            verify_left(self.incoming, size, source, target)
        except VerificationError as error:
            self.failure = self.failure or error
        return seconds

    def _run(self, size: int, count: int, single: NDArray[np.float64] | None = None) -> float:
        if count == 0:
            return 0.0
        comm, partner, first = self.comm, self.partner, self.first
        if self.loop == "ping-pong":
            return ping_pong(comm, partner, first, self.buffer, size, count, 0, single)
        if self.loop == "both ways":
            return both_ways(
                comm, partner, first, self.buffer, self.incoming, size, self.window, count, 0, single
            )
        return windowed(
            comm, partner, first, self.buffer, size, self.window, count, 0, self.synchronous, single
        )


def one_way(seconds: float, iterations: int) -> float:
    """Return the latency in s of one message: half of a round trip, t / (2 iterations)."""
    return seconds / (2 * iterations)


def bandwidth(size: int, messages: int, seconds: float, pairs: int = 1, directions: int = 1) -> float:
    """Return B/s: bytes of a message x messages of one sender x pairs x directions over the seconds."""
    return size * messages * pairs * directions / seconds


def message_rate(messages: int, seconds: float, pairs: int = 1, directions: int = 1) -> float:
    """Return messages/s of all senders."""
    return messages * pairs * directions / seconds


def _timed(
    loop: Callable[[int], None], iterations: int, warm_up: int, single: NDArray[np.float64] | None = None
) -> float:
    """Return the seconds of loop(iterations), which runs after loop(warm_up).

    With `single`, the seconds of loop(1) are measured as often, and stored there.
    """
    begin = 0.0
    if single is not None:
        loop(warm_up)
        for i in range(iterations):
            begin = perf_counter()
            loop(1)
            single[i] = perf_counter() - begin
        return float(single.sum())
    for count in (warm_up, iterations):
        begin = perf_counter()
        loop(count)
    return perf_counter() - begin


def ping_pong(
    comm: MPI.Comm,
    partner: int,
    first: bool,
    buffer: Buffer,
    size: int,
    iterations: int,
    warm_up: int,
    single: NDArray[np.float64] | None = None,
) -> float:
    """Return the seconds that a message of `size` bytes takes one way: half of the mean round trip (osu_latency).

    Collective over the two ranks, one of which is `first`. The message travels there and back in `buffer` (MPI_Send,
    MPI_Recv). Both ranks return a time; that of the first is the one to report. A staged buffer is copied from the
    GPU before each send and to the GPU after each receive. single: where the seconds of each message go.
    """
    send, receive, message = comm.Send, comm.Recv, buffer.message(size)

    def round_trips(count: int) -> None:
        if first:
            for _ in repeat(None, count):
                send(message, partner, _PING)
                receive(message, partner, _PING)
        else:
            for _ in repeat(None, count):
                receive(message, partner, _PING)
                send(message, partner, _PING)

    def staged_round_trips(count: int) -> None:
        for _ in repeat(None, count):
            if first:
                buffer.stage_out(size)
                send(message, partner, _PING)
            receive(message, partner, _PING)
            buffer.stage_in(size)
            if not first:
                buffer.stage_out(size)
                send(message, partner, _PING)

    loop = staged_round_trips if buffer.staged else round_trips
    seconds = one_way(_timed(loop, iterations, warm_up, single), iterations)
    if single is not None:
        single /= 2
    return seconds


def windowed(
    comm: MPI.Comm,
    partner: int,
    sender: bool,
    buffer: Buffer,
    size: int,
    window: int,
    iterations: int,
    warm_up: int,
    synchronous: bool = False,
    single: NDArray[np.float64] | None = None,
) -> float:
    """Return the seconds that `iterations` windows of messages from the sender take (osu_bw, osu_mbw_mr).

    Collective over the two ranks. A window is `window` messages of `size` bytes in flight at the same time, answered
    by a reply of 4 bytes. Requests are persistent (MPI_Send_init, MPI_Startall), so that starting one costs no more
    in Python than in C. Both ranks return a time; that of the sender is the one to report.

    synchronous: use MPI_Ssend_init, with which a message is complete when its receive has begun, without replies.
    A staged buffer holds one message at a time: each is copied, sent, received and copied in turn.
    single: where the seconds of each window go.
    """
    message, reply = buffer.message(size), not synchronous
    answer = [np.zeros(_REPLY_SIZE, np.uint8), _REPLY_SIZE, MPI.BYTE]
    conclude = comm.Recv if sender else comm.Send
    requests: list[MPI.Prequest] = []
    if not buffer.staged:
        make = (comm.Ssend_init if synchronous else comm.Send_init) if sender else comm.Recv_init
        requests = cast("list[MPI.Prequest]", [make(message, partner, _DATA) for _ in range(window)])
    start, wait = MPI.Prequest.Startall, MPI.Request.Waitall

    def windows(count: int) -> None:
        if reply:
            for _ in repeat(None, count):
                start(requests)
                wait(requests)
                conclude(answer, partner, _REPLY)
        else:
            for _ in repeat(None, count):
                start(requests)
                wait(requests)

    def staged_windows(count: int) -> None:
        send = comm.Ssend if synchronous else comm.Send
        for _ in repeat(None, count):
            for _ in repeat(None, window):
                if sender:
                    buffer.stage_out(size)
                    send(message, partner, _DATA)
                else:
                    comm.Recv(message, partner, _DATA)
                    buffer.stage_in(size)
            if reply:
                conclude(answer, partner, _REPLY)

    seconds = _timed(staged_windows if buffer.staged else windows, iterations, warm_up, single)
    for request in requests:
        request.Free()
    return seconds


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
    single: NDArray[np.float64] | None = None,
) -> float:
    """Return the seconds of `iterations` windows that both ranks send at the same time (osu_bibw).

    Collective over the two ranks. Receives are started before sends, and there is no reply. Messages of staged
    buffers are exchanged one at a time (MPI_Sendrecv) between their copies.
    """
    there, back = (_DATA, _BACK) if first else (_BACK, _DATA)
    out, into = outgoing.message(size), incoming.message(size)
    requests: list[MPI.Prequest] = []
    if not outgoing.staged:
        requests += [comm.Recv_init(into, partner, back) for _ in range(window)]
        requests += [comm.Send_init(out, partner, there) for _ in range(window)]
    start, wait = MPI.Prequest.Startall, MPI.Request.Waitall

    def windows(count: int) -> None:
        for _ in repeat(None, count):
            start(requests)
            wait(requests)

    def staged_windows(count: int) -> None:
        for _ in repeat(None, count * window):
            outgoing.stage_out(size)
            comm.Sendrecv(out, partner, there, into, partner, back)
            incoming.stage_in(size)

    seconds = _timed(staged_windows if outgoing.staged else windows, iterations, warm_up, single)
    for request in requests:
        request.Free()
    return seconds


def verify(comm: MPI.Comm, partner: int, first: bool, buffer: Buffer, size: int, sequence: int) -> None:
    """Send one message each way and raise VerificationError on the rank where it differs from what was sent.

    Collective over the two ranks, which both complete the exchange before either raises.
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
    """Fill the buffer of a loop: on the source with the message, elsewhere with bytes that all differ from it."""
    message = content(size, source, target, AFTER)
    buffer.write(message if me == source else ~message)


def verify_left(buffer: Buffer, size: int, source: int, target: int) -> None:
    """Raise VerificationError unless this rank's buffer holds the message of `prepare` after the loop."""
    check(buffer.read(size), source, target, AFTER)
