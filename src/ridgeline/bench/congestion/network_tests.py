"""The tests of GPCNeT's network load test: rings (latency, bandwidth), random or natural, and many allreduces."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.parallel.payload import Buffer, Memory, check, content
from ridgeline.runtime.errors import VerificationError

Times = NDArray[np.float64]

MOST_SAMPLES = 2**22  # of a rank in one test
# Tags, so that two ranks which are neighbours on both sides do not mix up messages.
_ONWARD, _BACK = 1, 2
_WARM_UP_SHARE = 0.1  # of the time of a test


@dataclass(frozen=True)
class NetworkTest:
    """What a test measures: messages of `size` bytes, `outstanding` ones to each neighbour at a time.

    `iterations` and `warm_up` are those of one ring. `unit` is the unit of the printed figures, in SI units, and
    `title` is the name that GPCNeT prints. `natural`: whether rings are in the order of the ranks.
    """

    key: str
    title: str
    unit_name: str
    unit: float
    higher_is_better: bool
    size: int
    outstanding: int
    iterations: int
    warm_up: int
    natural: bool = False

    def figures(self, seconds: Times) -> Times:
        """Return the figures for the times of single repetitions: latencies in s or bandwidths in B/s."""
        if self.is_bandwidth:
            return ring_bandwidth(self.size, self.outstanding, seconds)
        return seconds if self.key == "allreduce" else ring_latency(seconds)

    @property
    def is_bandwidth(self) -> bool:
        """Whether a barrier ends every repetition, and the figure is a bandwidth."""
        return self.key.endswith("bandwidth")


TESTS = (
    NetworkTest("ring-latency", "RR two-sided lat (8 B)", "us", 1e-6, False, 8, 1, 200, 200),
    NetworkTest(
        "ring-bandwidth", "RR two-sided BW+sync (131072 B)", "MiB/s/rank", 2.0**20, True, 131072, 8, 8, 1
    ),
    NetworkTest("allreduce", "Multiple allreduce (8 B)", "us", 1e-6, False, 8, 1, 200, 1),
)
# The same rings in the order of the ranks, which Sec. 3.8.2 names beside the random ones. The titles are ours.
NATURAL = tuple(
    replace(test, key=f"natural-{test.key}", title=test.title.replace("RR", "NR"), natural=True)
    for test in TESTS[:2]
)


def chosen_tests(natural_ring: bool) -> tuple[NetworkTest, ...]:
    """Return the tests of a run: GPCNeT's three, and those of natural rings if they are wanted."""
    return TESTS + NATURAL if natural_ring else TESTS


class LanePattern(Protocol):
    """A test as one rank of a lane does it."""

    def prepare(self, ring: int) -> None:
        """Prepare ring number `ring`, without communication."""

    def repeat(self, times: Times) -> None:
        """Fill `times` with the seconds of one repetition each. Collective over the lane."""

    def verify(self) -> None:
        """Raise VerificationError unless the data that arrived last are what was sent."""

    def free(self) -> None:
        """Free what MPI holds."""


class NeighbourRing:
    """Ranks in a ring exchange messages with both neighbours by persistent requests.

    The lane has at least 2 ranks, and `names` are their ranks in the job. Rings are random, the same for equal seeds,
    or in the order of the ranks. In the test of bandwidth a barrier ends every repetition.
    """

    def __init__(
        self,
        lane: MPI.Comm,
        names: list[int],
        test: NetworkTest,
        seed: tuple[int, ...],
        memory: Memory,
    ) -> None:
        self.lane, self.names, self.seed, self.size = lane, names, seed, test.size
        self.natural = test.natural
        self.meet: Callable[[], None] | None = lane.Barrier if test.is_bandwidth else None
        self.sent = [Buffer(test.size, memory) for _ in range(2)]
        self.received = [[Buffer(test.size, memory) for _ in range(test.outstanding)] for _ in range(2)]
        self.arrivals = [buffer for buffers in self.received for buffer in buffers]
        self.requests: list[MPI.Prequest] = []
        self.left = self.right = 0

    def prepare(self, ring: int) -> None:
        self.free()
        lane, n, me = self.lane, self.size, self.names[self.lane.rank]
        order = list(range(lane.size)) if self.natural else ring_order((*self.seed, ring), lane.size)
        place = order.index(lane.rank)
        self.left, self.right = order[place - 1], order[(place + 1) % lane.size]
        self.sent[0].write(content(n, me, self.names[self.right], _ONWARD))
        self.sent[1].write(content(n, me, self.names[self.left], _BACK))
        empty = np.zeros(n, np.uint8)
        for buffer in self.arrivals:
            buffer.write(empty)
        outstanding = range(len(self.received[0]))
        self.requests = [
            *(lane.Recv_init(self.received[0][i].message(n), self.left, _ONWARD) for i in outstanding),
            *(lane.Recv_init(self.received[1][i].message(n), self.right, _BACK) for i in outstanding),
            *(lane.Send_init(self.sent[0].message(n), self.right, _ONWARD) for _ in outstanding),
            *(lane.Send_init(self.sent[1].message(n), self.left, _BACK) for _ in outstanding),
        ]

    def repeat(self, times: Times) -> None:
        if self.sent[0].staged:
            _exchange_staged(self.requests, self.sent, self.arrivals, self.size, self.meet, times)
        elif self.meet is not None:
            _exchange_and_meet(self.requests, self.meet, times)
        else:
            _exchange(self.requests, times)

    def verify(self) -> None:
        me = self.names[self.lane.rank]
        for buffers, source, tag in zip(self.received, (self.left, self.right), (_ONWARD, _BACK)):
            for buffer in buffers:
                check(buffer.read(self.size), self.names[source], me, tag)

    def free(self) -> None:
        for request in self.requests:
            request.Free()
        self.requests = []


class Allreduces:
    """The ranks of every lane sum one float64, all lanes at the same time."""

    def __init__(self, lane: MPI.Comm, names: list[int], memory: Memory) -> None:
        self.lane = lane
        self.sent, self.sum = Buffer(8, memory), Buffer(8, memory)
        self.sent.write(np.array([names[lane.rank] + 1.0]).view(np.uint8))
        self.expected = float(sum(names) + lane.size)

    def prepare(self, ring: int) -> None:
        self.sum.write(np.zeros(8, np.uint8))

    def repeat(self, times: Times) -> None:
        sent, result = ([buffer.message(8)[0], 1, MPI.DOUBLE] for buffer in (self.sent, self.sum))
        if self.sent.staged:
            _reduce_staged(self.lane, sent, result, self.sent, self.sum, times)
        else:
            _reduce(self.lane, sent, result, times)

    def verify(self) -> None:
        result = float(self.sum.read(8).view(np.float64)[0])
        if result != self.expected:
            raise VerificationError(
                f"an allreduce over {self.lane.size} ranks returned {result!r}, but the sum is {self.expected!r}. "
                "The network or the memory of a node corrupts data."
            )

    def free(self) -> None:
        pass


def ring_latency(seconds: Times) -> Times:
    """Return the one-way latency in s of exchanges with both neighbours: half the time of an exchange."""
    return seconds / 2


def ring_bandwidth(size: int, outstanding: int, seconds: Times) -> Times:
    """Return the B/s that a rank sends: `outstanding` messages of `size` bytes to each of two neighbours."""
    return 2 * outstanding * size / seconds


def ring_order(seed: tuple[int, ...], n: int) -> list[int]:
    """Return a random order of n ranks around a ring, the same on all ranks for equal seeds."""
    order: list[int] = np.random.default_rng(seed).permutation(n).tolist()
    return order


def _exchange(requests: list[MPI.Prequest], times: Times) -> None:
    clock, start, wait = time.perf_counter, MPI.Prequest.Startall, MPI.Request.Waitall
    for i in range(times.size):
        begin = clock()
        start(requests)
        wait(requests)
        times[i] = clock() - begin


def _exchange_and_meet(requests: list[MPI.Prequest], meet: Callable[[], None], times: Times) -> None:
    clock, start, wait = time.perf_counter, MPI.Prequest.Startall, MPI.Request.Waitall
    for i in range(times.size):
        begin = clock()
        start(requests)
        wait(requests)
        meet()
        times[i] = clock() - begin


def _exchange_staged(
    requests: list[MPI.Prequest],
    sent: list[Buffer],
    received: list[Buffer],
    size: int,
    meet: Callable[[], None] | None,
    times: Times,
) -> None:
    clock, start, wait = time.perf_counter, MPI.Prequest.Startall, MPI.Request.Waitall
    for i in range(times.size):
        begin = clock()
        for buffer in sent:
            buffer.stage_out(size)
        start(requests)
        wait(requests)
        for buffer in received:
            buffer.stage_in(size)
        if meet is not None:
            meet()
        times[i] = clock() - begin


def _reduce(lane: MPI.Comm, sent: list[Any], result: list[Any], times: Times) -> None:
    clock, reduce = time.perf_counter, lane.Allreduce
    for i in range(times.size):
        begin = clock()
        reduce(sent, result)
        times[i] = clock() - begin


def _reduce_staged(
    lane: MPI.Comm, sent: list[Any], result: list[Any], source: Buffer, target: Buffer, times: Times
) -> None:
    clock, reduce = time.perf_counter, lane.Allreduce
    for i in range(times.size):
        begin = clock()
        source.stage_out(8)
        reduce(sent, result)
        target.stage_in(8)
        times[i] = clock() - begin


def run_test(
    everyone: MPI.Comm,
    pattern: LanePattern,
    iterations: int,
    warm_up: int,
    seconds: float,
    rings: int | None,
) -> tuple[list[Times], VerificationError | None]:
    """Repeat a test, a new ring each time, until `seconds` have passed or `rings` are done.

    Collective over everyone, all ranks of all lanes. The clock of rank 0 decides for all ranks how many repetitions a
    slow network allows, so that a test ends in time. Returns the times in s of the repetitions of every ring, as many
    on all ranks, and the first error in the data that this rank received.
    """
    clock = time.perf_counter
    limit = clock() + seconds
    problem: VerificationError | None = None
    rounds: list[Times] = []
    taken = 0
    while True:
        pattern.prepare(len(rounds))
        everyone.Barrier()
        pace = _warm_up(everyone, pattern, warm_up, limit)
        n = everyone.bcast(max(1, min(iterations, int((limit - clock()) / pace))))
        # The first repetition after a pause is unlike the others and does not count.
        times = np.empty(n + 1)
        pattern.repeat(times)
        rounds.append(times[1:])
        taken += n
        try:
            pattern.verify()
        except VerificationError as error:
            problem = problem or error
        full = len(rounds) == rings or taken >= MOST_SAMPLES
        if everyone.bcast(full or clock() >= limit):
            break
    pattern.free()
    return rounds, problem


def _warm_up(everyone: MPI.Comm, pattern: LanePattern, warm_up: int, limit: float) -> float:
    """Repeat up to warm_up times, fewer on a slow network; return the seconds of one of the last repetitions."""
    clock = time.perf_counter
    begin = clock()
    most = _WARM_UP_SHARE * max(limit - begin, 0.0)
    done, batch = 0, 1
    while True:
        times = np.empty(batch)
        pattern.repeat(times)
        done += batch
        batch = min(2 * batch, warm_up - done)
        if everyone.bcast(batch <= 0 or clock() - begin > most):
            return max(float(times.mean()), 1e-9)
