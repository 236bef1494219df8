"""One-sided access at irregular places: the communication of the fast multipole method.

Every rank gets (or puts, or accumulates) very many small pieces at irregular places of the windows of all other
ranks, in its own order. A completion follows every `every` operations, and no rank waits for another. All ranks use
one window, or each of several sub-communicators has its own.

The pieces are drawn from a seed, so that both sides know them. Every rank has as many pieces with each other rank as
with the next, plus or minus one. Their lengths are random, their places in the target's window irregular, and their
order shuffled. The target, which knows all accesses to it, places the pieces and sends the places to the origins:
two exchanges of a few integers for each piece, before the clock starts.

messages/s = pieces of all ranks / t, MB/s = their bytes / t / 1e6, with t from a barrier to the completion on the
slowest rank. All data are verified: every piece that a get returned, and after puts (to disjoint places) and
accumulates (sums of 64-bit integers where places overlap) every word of every window, written or not.

Source: the one-sided tests of the FMM code on Aurora, Sec. 5.3.5, Tables 4 to 6. They have a completion every 2000
or 100 operations, 1.6 to 19 million messages, and one communicator or nine.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.bench.exposed_memory import ExposedMemory, check_sums
from ridgeline.bench.node_memory import require_memory
from ridgeline.bench.one_sided.one_sided_options import Completion, Distribution, OneSidedOptions, Operation
from ridgeline.bench.result import Column, Plot, Result
from ridgeline.parallel.allreduce import errors_on_all_ranks
from ridgeline.parallel.layout import find_layout
from ridgeline.parallel.payload import Memory, MessageForm, words_at
from ridgeline.runtime.errors import ConfigError, DeviceError

WORD = 8  # bytes; pieces are whole words
# Copies of its pieces that a rank holds while it verifies: buffer, window with gaps, expected data.
_COPIES = 4
Integers = NDArray[np.int64]
Words = NDArray[np.uint64]


@dataclass(frozen=True)
class Pieces:
    """The lengths of pieces: from `smallest` to `largest` bytes, uniform or uniform in the logarithm.

    Both are multiples of 8; otherwise ConfigError is raised.
    """

    smallest: int = 8
    largest: int = 4096
    distribution: Distribution = "log-uniform"

    def __post_init__(self) -> None:
        if (
            self.smallest < WORD
            or self.largest < self.smallest
            or self.smallest % WORD
            or self.largest % WORD
        ):
            raise ConfigError(
                f"--pieces {self.smallest} {self.largest}: both sizes must be multiples of {WORD} B, the first at "
                f"least {WORD}, and the second not smaller than the first."
            )

    def draw(self, rng: np.random.Generator, n: int) -> Integers:
        """Return the lengths of n pieces in words."""
        low, high = self.smallest // WORD, self.largest // WORD
        if self.distribution == "uniform":
            return rng.integers(low, high + 1, n)
        exponents = rng.uniform(np.log(low), np.log(high + 1), n)
        return np.clip(np.exp(exponents).astype(np.int64), low, high)

    def mean_bytes(self) -> float:
        """Return the approximate mean length in bytes."""
        low, high = self.smallest, self.largest + WORD
        if self.distribution == "uniform":
            return (self.smallest + self.largest) / 2
        return (high - low) / float(np.log(high / low)) - WORD / 2


@dataclass(frozen=True)
class AccessPlan:
    """The pieces of one rank, both as an origin and as a target. Lengths, starts and places are in words.

    Attributes
    ----------
    target, length, start, place
        For every piece that this rank accesses, sorted by target: the target, the length, where the piece begins in
        this rank's buffer (which has no gaps), and where it begins in the target's window.
    order
        The order in which this rank accesses the pieces.
    arrival_origin, arrival_length, arrival_place
        For every piece that other ranks access here, sorted by origin and then in the origin's order.
    window_words
        The length of this rank's window.
    """

    rank: int
    target: Integers
    length: Integers
    start: Integers
    place: Integers
    order: Integers
    arrival_origin: Integers
    arrival_length: Integers
    arrival_place: Integers
    window_words: int

    @property
    def local_words(self) -> int:
        """The words of all pieces that this rank accesses."""
        return int(self.length.sum())

    def outgoing(self) -> Words:
        """Return what this rank puts or accumulates: for each target a separate message, divided into pieces."""
        words = np.empty(self.local_words, np.uint64)
        first = 0
        for target, n in zip(*_totals(self.target, self.length)):
            words[first : first + n] = words_at(np.arange(n, dtype=np.uint64), self.rank, target)
            first += n
        return words

    def window_left(self) -> Words:
        """Return what a window of zeros holds after all pieces have arrived: sums modulo 2^64 where they overlap."""
        words = np.zeros(self.window_words, np.uint64)
        sent = [
            words_at(np.arange(n, dtype=np.uint64), origin, self.rank)
            for origin, n in zip(*_totals(self.arrival_origin, self.arrival_length))
        ]
        if sent:
            np.add.at(words, _spread(self.arrival_place, self.arrival_length), np.concatenate(sent))
        return words

    def readable(self) -> Words:
        """Return what this rank's window holds for others to read."""
        return words_at(np.arange(self.window_words, dtype=np.uint64), self.rank, self.rank)

    def fetched(self) -> Words:
        """Return what this rank's buffer holds after all its gets."""
        places = _spread(self.place, self.length).astype(np.uint64)
        words = np.empty(self.local_words, np.uint64)
        first = 0
        for target, n in zip(*_totals(self.target, self.length)):
            words[first : first + n] = words_at(places[first : first + n], target, target)
            first += n
        return words


def _totals(ranks: Integers, lengths: Integers) -> tuple[list[int], list[int]]:
    """Return the ranks that occur in a sorted list, and the sum of the lengths of each."""
    if not ranks.size:
        return [], []
    distinct, first = np.unique(ranks, return_index=True)
    return distinct.tolist(), np.add.reduceat(lengths, first).tolist()


def _starts(lengths: Integers) -> Integers:
    starts: Integers = np.cumsum(lengths) - lengths
    return starts


def _spread(places: Integers, lengths: Integers) -> Integers:
    """Return the place of every word of the pieces that begin at `places`, one piece after another."""
    words: Integers = np.repeat(places - _starts(lengths), lengths) + np.arange(lengths.sum())
    return words


def plan_accesses(comm: MPI.Comm, messages: int, pieces: Pieces, overlap: bool, seed: int) -> AccessPlan:
    """Draw the pieces of all ranks and exchange their places. Collective over comm, which has 2 ranks or more.

    Every rank is the origin of `messages` pieces. With `overlap` (for sums) places are drawn independently, in a
    window half as long as the pieces. Otherwise no two pieces share a word, and gaps of about their length lie
    between them.
    """
    size, rank = comm.size, comm.rank
    rng = np.random.default_rng([seed, size, rank])
    share, remainder = divmod(messages, size - 1)
    counts = np.zeros(size, np.int64)
    for turn in range(1, size):
        counts[(rank + turn) % size] = share + (turn <= remainder)
    length = pieces.draw(rng, messages)
    arrivals = np.empty_like(counts)
    comm.Alltoall(counts, arrivals)
    arrival_length = _exchange(comm, length, counts, arrivals)
    arrival_place, window_words = _place_pieces(rng, arrival_length, overlap)
    return AccessPlan(
        rank=rank,
        target=np.repeat(np.arange(size), counts),
        length=length,
        start=_starts(length),
        place=_exchange(comm, arrival_place, arrivals, counts),
        order=rng.permutation(messages),
        arrival_origin=np.repeat(np.arange(size), arrivals),
        arrival_length=arrival_length,
        arrival_place=arrival_place,
        window_words=window_words,
    )


def _place_pieces(rng: np.random.Generator, lengths: Integers, overlap: bool) -> tuple[Integers, int]:
    """Return the places of the pieces in a window, and the length of the window, in words."""
    if not lengths.size:
        return lengths, 1
    if overlap:
        window_words = int(max(lengths.max(), lengths.sum() // 2))
        return rng.integers(0, window_words - lengths + 1), window_words
    gaps = rng.integers(0, 2 * int(lengths.mean()) + 1, lengths.size + 1)
    order = rng.permutation(lengths.size)
    place = np.empty_like(lengths)
    place[order] = np.cumsum(gaps[:-1]) + _starts(lengths[order])
    return place, int(lengths.sum() + gaps.sum())


def _exchange(comm: MPI.Comm, values: Integers, sent: Integers, received: Integers) -> Integers:
    """Return the integers that all ranks send to this one, in their order."""
    arrived: Any = np.empty(int(received.sum()), np.int64)
    comm.Alltoallv([values, sent, MPI.INT64_T], [arrived, received, MPI.INT64_T])
    result: Integers = arrived
    return result


def message_rate(messages: int, seconds: float) -> float:
    """Return messages/s."""
    return messages / seconds


def parts_of(ranks: int, communicators: int) -> list[range]:
    """Divide the ranks into sub-communicators of consecutive ranks, of sizes as equal as possible.

    Raises ConfigError unless each has two ranks or more.
    """
    if not 1 <= communicators <= ranks // 2:
        raise ConfigError(
            f"--communicators {communicators}: each communicator requires at least two ranks, and there "
            f"{'is 1' if ranks == 1 else f'are {ranks}'}. Start at least {max(2 * communicators, 2)}, as with "
            f"-n {max(2 * communicators, 2)}."
        )
    bounds = [ranks * part // communicators for part in range(communicators + 1)]
    return [range(a, b) for a, b in pairwise(bounds)]


def measure_irregular(comm: MPI.Comm, options: OneSidedOptions, memory: Memory = "host") -> Result:
    """Measure the pattern for each operation and number of sub-communicators, the same on all ranks. Collective.

    After every `options.every` operations of a rank, `options.sync` completes them: flush or flush_local of all
    targets, unlock and lock of all targets, or a fence of all ranks. One more repeat warms up.

    Raises ConfigError if an option is out of range or memory is too small, VerificationError if wrong data arrived,
    and DeviceError for GPU memory that MPI does not accept.
    """
    sync, every, messages, repeats = options.sync, options.every, options.messages, options.repeats
    if options.total_messages is not None:
        share, rest = divmod(options.total_messages, comm.size)
        messages = share + (comm.rank < rest)
    most = comm.allreduce(messages, MPI.MAX)
    total = comm.allreduce(messages)
    form = MessageForm(memory, options.pages)
    sizes = Pieces(*options.pieces, options.distribution)
    if memory == "cuda-staged":
        raise DeviceError(
            "--device cuda with --pattern fmm requires an MPI library that accepts GPU memory, because a window that "
            "others access cannot be staged. Use --device cpu or a CUDA-aware MPI."
        )
    parts = {n: parts_of(comm.size, n) for n in options.communicators}
    layout = find_layout(comm)
    needed = int(_COPIES * messages * sizes.mean_bytes())
    what = f"--messages {most} on each rank requires"
    if options.total_messages is not None:
        what = f"--total-messages {total}, {most} on each rank, requires"
    require_memory(comm, needed, what, "Use fewer --messages or smaller --pieces")
    rows = []
    for n, ranges in parts.items():
        mine = next(i for i, part in enumerate(ranges) if comm.rank in part)
        part = comm.Split(mine, comm.rank)
        for operation in options.operations or ("get",):
            plan = plan_accesses(part, messages, sizes, operation == "accumulate", options.seed)
            seconds = _measure_pieces(comm, part, plan, operation, sync, every, repeats, form)
            moved = comm.allreduce(plan.local_words * WORD)
            rows.append(_row(operation, n, total, moved, seconds))
        part.Free()
    return Result(
        benchmark="one-sided, irregular",
        pattern=(
            f"every rank accesses {most} pieces of {sizes.smallest} to {sizes.largest} B "
            f"({options.distribution}) at irregular places in the windows of all other ranks; "
            f"{sync} after every {every} operations"
        ),
        formula="messages/s = messages / t; MB/s = bytes / t / 1e6; t lasts until the slowest rank has finished",
        statistic=f"median and best of {repeats} repeats; first rank: the rank that finished first",
        ranks=comm.size,
        nodes=layout.n_nodes,
        columns=[
            Column("operation", "operation"),
            Column("communicators", "communicators"),
            Column("messages", "messages"),
            Column("bytes", "MB", 1e6),
            Column("seconds", "s", 1.0, ".4f"),
            Column("best_seconds", "best s", 1.0, ".4f"),
            Column("first_seconds", "first rank s", 1.0, ".4f"),
            Column("message_rate", "messages/s", 1.0, ".0f"),
            Column("rate", "MB/s", 1e6),
        ],
        rows=rows,
        settings={
            "sync": sync,
            "every": every,
            "messages_per_rank": most,
            "messages": total,
            "pieces": [sizes.smallest, sizes.largest],
            "distribution": options.distribution,
            "repeats": repeats,
            "seed": options.seed,
            **form.settings(None),
        },
        plot=Plot(
            kind="bars",
            x="operation",
            y=("message_rate",),
            by=("communicators",),
            y_label="1e6 messages/s",
            y_scale=1e6,
        ),
    )


def _row(
    operation: str, communicators: int, messages: int, n_bytes: int, seconds: np.ndarray
) -> dict[str, Any]:
    """Return a row of the table. The seconds are float64 [repeats, ranks]."""
    slowest = seconds.max(axis=1)
    typical = float(np.median(slowest))
    return {
        "operation": operation,
        "communicators": communicators,
        "messages": messages,
        "bytes": n_bytes,
        "seconds": typical,
        "best_seconds": float(slowest.min()),
        "first_seconds": float(np.median(seconds.min(axis=1))),
        "message_rate": message_rate(messages, typical),
        "rate": n_bytes / typical,
    }


def _measure_pieces(
    comm: MPI.Comm,
    part: MPI.Comm,
    plan: AccessPlan,
    operation: Operation,
    sync: Completion,
    every: int,
    repeats: int,
    form: MessageForm,
) -> np.ndarray:
    """Measure and verify every repeat; return the seconds of all ranks, float64 [repeats, ranks]. Collective."""
    exposed = ExposedMemory(part, plan.window_words * WORD, form.memory, disp_unit=WORD)
    local = form.buffer(plan.local_words * WORD)
    win, reads = exposed.win, operation == "get"
    before = plan.readable() if reads else np.zeros(plan.window_words, np.uint64)
    sent = np.zeros(plan.local_words, np.uint64) if reads else plan.outgoing()
    expected = plan.fetched() if reads else plan.window_left()
    array = local.message(0)[0]
    word = MPI.UINT64_T
    calls = []
    for i in plan.order:
        length, start, place = int(plan.length[i]), int(plan.start[i]), int(plan.place[i])
        calls.append(([array, length, start, word], int(plan.target[i]), [place, length, word]))
    epochs = [calls[first : first + every] for first in range(0, len(calls), every)]
    operate = {"get": win.Get, "put": win.Put, "accumulate": win.Accumulate}[operation]
    seconds = []
    with exposed.freed_at_end():
        for _ in range(repeats + 1):
            exposed.write(before.view(np.uint8))
            local.write(sent.view(np.uint8))
            comm.Barrier()
            began = time.perf_counter()
            _access(win, operate, epochs, sync)
            elapsed = time.perf_counter() - began
            comm.Barrier()
            with errors_on_all_ranks(comm):
                arrived = local.read(expected.nbytes) if reads else exposed.read(expected.nbytes)
                check_sums(arrived.view(np.uint64), expected, comm.rank, "others")
            seconds.append(comm.allgather(elapsed))
    return np.array(seconds[1:])


def _access(win: MPI.Win, operate: Any, epochs: list[list[Any]], sync: Completion) -> None:
    """Do all operations of this rank, with a completion after each epoch."""
    if sync == "fence":
        fence = win.Fence
        fence()
        for calls in epochs:
            for message, target, place in calls:
                operate(message, target, place)
            fence(MPI.MODE_NOSUCCEED if calls is epochs[-1] else 0)
        return
    if sync == "unlock":
        for calls in epochs:
            win.Lock_all()
            for message, target, place in calls:
                operate(message, target, place)
            win.Unlock_all()
        return
    win.Lock_all()
    complete = win.Flush_all if sync == "flush" else win.Flush_local_all
    for calls in epochs:
        for message, target, place in calls:
            operate(message, target, place)
        complete()
    win.Unlock_all()
