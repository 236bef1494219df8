"""Which pieces of which rank's window an irregular one-sided pattern touches: drawn from a seed, known to both sides.

Every rank has as many pieces with each other rank as the next, give or take one. Their lengths are random, their
places in the target's window irregular, and their order shuffled. The target, which knows all accesses to it, places
the pieces and sends the places to the origins. That is two exchanges of a few integers a piece, before the clock
starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.bench.one_sided.one_sided_options import Distribution
from ridgeline.parallel.payload import words_at
from ridgeline.runtime.errors import ConfigError

WORD = 8  # bytes: pieces are whole words
Integers = NDArray[np.int64]
Words = NDArray[np.uint64]


@dataclass(frozen=True)
class Pieces:
    """Lengths of pieces: from `smallest` to `largest` bytes, multiples of 8, uniform or uniform in the logarithm.

    Raises ConfigError if they are not.
    """

    smallest: int = 8
    largest: int = 4096
    distribution: Distribution = "log-uniform"

    def __post_init__(self) -> None:
        """Check the numbers."""
        if (
            self.smallest < WORD
            or self.largest < self.smallest
            or self.smallest % WORD
            or self.largest % WORD
        ):
            raise ConfigError(
                f"pieces of {self.smallest} to {self.largest} B: both must be multiples of {WORD}, the first at "
                f"least {WORD}, the last not below it"
            )

    def draw(self, rng: np.random.Generator, n: int) -> Integers:
        """Return the lengths of n pieces in words."""
        low, high = self.smallest // WORD, self.largest // WORD
        if self.distribution == "uniform":
            return rng.integers(low, high + 1, n)
        exponents = rng.uniform(np.log(low), np.log(high + 1), n)
        return np.clip(np.exp(exponents).astype(np.int64), low, high)

    def mean_bytes(self) -> float:
        """Return the expected length in bytes, roughly."""
        low, high = self.smallest, self.largest + WORD
        if self.distribution == "uniform":
            return (self.smallest + self.largest) / 2
        return (high - low) / float(np.log(high / low)) - WORD / 2


@dataclass(frozen=True)
class AccessPlan:
    """The pieces of one rank as an origin and as a target. Lengths, starts and places are in words.

    target, length, start, place: of every piece that this rank accesses, sorted by target. The start is where it
    begins in this rank's own buffer (local_words long, without gaps). The place is where it begins in the target's
    window. order: in which this rank accesses them.
    arrival_origin, arrival_length, arrival_place: of every piece that others access here, sorted by origin and in the
    origin's order; window_words: length of the window here.
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
        """Words of all pieces together."""
        return int(self.length.sum())

    def outgoing(self) -> Words:
        """Return what this rank puts or accumulates: a message of its own to every target, cut into pieces."""
        words = np.empty(self.local_words, np.uint64)
        first = 0
        for target, n in zip(*_totals(self.target, self.length)):
            words[first : first + n] = words_at(np.arange(n, dtype=np.uint64), self.rank, target)
            first += n
        return words

    def window_left(self) -> Words:
        """Return what a window of zeros holds after all pieces arrived: sums modulo 2^64 where they overlap."""
        words = np.zeros(self.window_words, np.uint64)
        sent = [
            words_at(np.arange(n, dtype=np.uint64), origin, self.rank)
            for origin, n in zip(*_totals(self.arrival_origin, self.arrival_length))
        ]
        if sent:
            np.add.at(words, _spread(self.arrival_place, self.arrival_length), np.concatenate(sent))
        return words

    def readable(self) -> Words:
        """Return what the window here holds when others read it."""
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
    found, first = np.unique(ranks, return_index=True)
    return found.tolist(), np.add.reduceat(lengths, first).tolist()


def _starts(lengths: Integers) -> Integers:
    starts: Integers = np.cumsum(lengths) - lengths
    return starts


def _spread(places: Integers, lengths: Integers) -> Integers:
    """Return the place of every word of pieces that begin at `places`, one piece after another."""
    words: Integers = np.repeat(places - _starts(lengths), lengths) + np.arange(lengths.sum())
    return words


def plan_accesses(comm: MPI.Comm, messages: int, pieces: Pieces, overlap: bool, seed: int) -> AccessPlan:
    """Draw the pieces of all ranks and agree on their places. Collective over comm, of at least 2 ranks.

    messages: of every rank as an origin. overlap: places are drawn without regard to each other, in a window half as
    long as the pieces (for sums). Else no two pieces share a word, and gaps as long as the pieces lie between them.
    """
    size, rank = comm.size, comm.rank
    rng = np.random.default_rng([seed, size, rank])
    share, more = divmod(messages, size - 1)
    counts = np.zeros(size, np.int64)
    for turn in range(1, size):
        counts[(rank + turn) % size] = share + (turn <= more)
    length = pieces.draw(rng, messages)
    arrivals = np.empty_like(counts)
    comm.Alltoall(counts, arrivals)
    arrival_length = _exchange(comm, length, counts, arrivals)
    arrival_place, window_words = _lay_out(rng, arrival_length, overlap)
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


def _lay_out(rng: np.random.Generator, lengths: Integers, overlap: bool) -> tuple[Integers, int]:
    """Return the places of pieces in a window, and its length, in words."""
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
    """Return the integers that all ranks have for this one, in their order."""
    arrived: Any = np.empty(int(received.sum()), np.int64)
    comm.Alltoallv([values, sent, MPI.INT64_T], [arrived, received, MPI.INT64_T])
    result: Integers = arrived
    return result
