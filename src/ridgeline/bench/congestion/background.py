"""Traffic that congests a network: patterns of GPCNeT that a set of ranks repeats until the tests are over.

Every message is SIZE bytes; rank 0 of the set's communicator is where an incast goes to and a broadcast comes from.
Patterns are made with that communicator and the names of its ranks in the job, which tell messages apart.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from mpi4py import MPI

from ridgeline.bench.exposed_memory import ExposedMemory
from ridgeline.parallel.payload import Buffer, Memory, check, content
from ridgeline.runtime.errors import VerificationError

SIZE = 4096  # bytes
CYCLE = 64  # messages of a rank between two looks whether the tests are over
_TAG = 7


class BackgroundPattern(ABC):
    """One pattern. step: does it once and allocates nothing; bytes: what this rank sends, or gets, in a step."""

    bytes: int
    step: Callable[[], None]

    def __init__(self, comm: MPI.Comm, names: Sequence[int], memory: Memory = "host") -> None:
        self.comm, self.names, self.me, self.memory = comm, names, names[comm.rank], memory

    @abstractmethod
    def open(self) -> None:
        """Get ready for steps: clear what may arrive. Collective over the set."""

    @abstractmethod
    def close(self) -> None:
        """End the steps. Collective over the set."""

    @abstractmethod
    def verify(self) -> None:
        """Raise VerificationError unless what arrived in the last step is what was sent."""

    @abstractmethod
    def free(self) -> None:
        """Free what MPI holds. Collective over the set."""


class _TwoSidedTraffic(BackgroundPattern):
    """What the patterns of sends and receives share: blocks of SIZE bytes in `memory`, and when they are copied.

    sources, targets: ranks of the set from which blocks come, and to which they go, one after the other. On a GPU
    whose memory MPI does not take, all blocks are copied to the host before a step and back after it.
    """

    def __init__(
        self,
        comm: MPI.Comm,
        names: Sequence[int],
        memory: Memory,
        sources: Sequence[int],
        targets: Sequence[int],
    ) -> None:
        super().__init__(comm, names, memory)
        self.bytes = SIZE * len(targets)
        self._sources, self._received = sources, Buffer(SIZE * len(sources), memory)
        self._sent = Buffer(self.bytes, memory)
        if targets:
            self._sent.write(np.concatenate([content(SIZE, self.me, names[target]) for target in targets]))
        self.arrivals = [(self._received.message(SIZE, SIZE * i), source) for i, source in enumerate(sources)]
        self.departures = [(self._sent.message(SIZE, SIZE * i), target) for i, target in enumerate(targets)]
        # Chosen once: a step is to send, not to ask where messages lie.
        self.step = self._exchange_copies if self._sent.staged else self._exchange

    def open(self) -> None:
        """Clear what may arrive."""
        self._received.write(np.zeros(self._received.n_bytes, np.uint8))

    @abstractmethod
    def _exchange(self) -> None:
        """Send and receive all blocks."""

    def _exchange_copies(self) -> None:
        self._sent.stage_out(self._sent.n_bytes)
        self._exchange()
        self._received.stage_in(self._received.n_bytes)

    def close(self) -> None:
        """Nothing is left open between steps."""

    def verify(self) -> None:
        """Raise VerificationError unless the last step brought what was sent."""
        arrived = self._received.read(self._received.n_bytes).reshape(-1, SIZE)
        for block, source in zip(arrived, self._sources):
            check(block, self.names[source], self.me)

    def free(self) -> None:
        """Nothing but memory."""


class AllToAllTraffic(_TwoSidedTraffic):
    """Everyone with everyone, pair by pair: partners by exclusive or if the set's size is a power of two."""

    def __init__(self, comm: MPI.Comm, names: Sequence[int], memory: Memory = "host") -> None:
        size, rank = comm.size, comm.rank
        power = size & (size - 1) == 0
        turns = range(1, size) if size > 1 else range(1)  # alone: with itself
        pairs = [(rank ^ i, rank ^ i) if power else ((rank - i) % size, (rank + i) % size) for i in turns]
        super().__init__(comm, names, memory, *map(list, zip(*pairs)))
        self._turns = list(zip(self.departures, self.arrivals))

    def _exchange(self) -> None:
        exchange = self.comm.Sendrecv
        for (sent, target), (received, source) in self._turns:
            exchange(sent, target, _TAG, received, source, _TAG)


class IncastTraffic(_TwoSidedTraffic):
    """Everyone sends to rank 0."""

    def __init__(self, comm: MPI.Comm, names: Sequence[int], memory: Memory = "host") -> None:
        first = comm.rank == 0
        super().__init__(comm, names, memory, range(1, comm.size) if first else (), () if first else (0,))

    def _exchange(self) -> None:
        if self.comm.rank:
            self.comm.Send(*self.departures[0], _TAG)
        else:
            receive = self.comm.Irecv
            MPI.Request.Waitall([receive(block, source, _TAG) for block, source in self.arrivals])


class BroadcastTraffic(_TwoSidedTraffic):
    """Rank 0 sends to everyone, one message each."""

    def __init__(self, comm: MPI.Comm, names: Sequence[int], memory: Memory = "host") -> None:
        first = comm.rank == 0
        super().__init__(comm, names, memory, () if first else (0,), range(1, comm.size) if first else ())

    def _exchange(self) -> None:
        if self.comm.rank:
            self.comm.Recv(*self.arrivals[0], _TAG)
        else:
            send = self.comm.Isend
            MPI.Request.Waitall([send(block, target, _TAG) for block, target in self.departures])


class _OneSidedTraffic(BackgroundPattern):
    """What the one-sided patterns share: a window, open for all in passive mode while steps are taken.

    It is rank 0's, and the others put there or fetch from it what lies in `local`; both are in `memory`. On a GPU
    whose memory MPI does not take, the window is host memory. Then what is put is copied from the GPU before each
    step, and what is fetched to the GPU after it. Rank 0 copies its window once: before the steps what others will
    fetch, at their end what others put. It does not know any earlier that this has arrived.
    """

    def __init__(self, comm: MPI.Comm, names: Sequence[int], memory: Memory, window_bytes: int) -> None:
        super().__init__(comm, names, memory)
        self.exposed = ExposedMemory(comm, 0 if comm.rank else window_bytes, memory)
        self.window, self.local = self.exposed.win, Buffer(SIZE, memory)
        self.message = self.local.message(SIZE)
        self.bytes = SIZE if comm.rank else 0
        access = self._access_copies if self.local.staged else self._access
        self.step = access if comm.rank else self._rest

    @abstractmethod
    def _clear(self) -> None:
        """Set what lies here before anything arrives."""

    @abstractmethod
    def _access(self) -> None:
        """Put or get, and wait until it is done."""

    @abstractmethod
    def _access_copies(self) -> None:
        """Do so, and copy what is put or fetched between the GPU and the host."""

    def _rest(self) -> None:
        """Take no part in a step: the owner of the window."""

    def open(self) -> None:
        """Clear what may arrive."""
        self._clear()
        self.comm.Barrier()
        self.window.Lock(0, MPI.LOCK_SHARED)

    def close(self) -> None:
        """End the steps; what was put lies in the memory of rank 0 then."""
        self.window.Unlock(0)
        self.comm.Barrier()
        self.exposed.stage_in()

    def free(self) -> None:
        """Free the window."""
        self.exposed.free()


class PutIncastTraffic(_OneSidedTraffic):
    """Everyone puts into the window of rank 0, each at a place of its own."""

    def __init__(self, comm: MPI.Comm, names: Sequence[int], memory: Memory = "host") -> None:
        super().__init__(comm, names, memory, SIZE * comm.size)
        self.local.write(content(SIZE, self.me, names[0]))
        self.place = [SIZE * comm.rank, SIZE, MPI.BYTE]

    def _clear(self) -> None:
        self.exposed.write(np.zeros(self.exposed.n_bytes, np.uint8))

    def _access(self) -> None:
        self.window.Put(self.message, 0, self.place)
        self.window.Flush(0)

    def _access_copies(self) -> None:
        self.local.stage_out(SIZE)
        self._access()

    def verify(self) -> None:
        """Raise VerificationError unless the last step brought what was sent."""
        blocks = self.exposed.read(self.exposed.n_bytes).reshape(-1, SIZE)
        for block, source in zip(blocks[1:], self.names[1:]):
            check(block, source, self.me)


class GetIncastTraffic(_OneSidedTraffic):
    """Everyone gets the same block from the window of rank 0 (GPCNeT's get broadcast)."""

    def __init__(self, comm: MPI.Comm, names: Sequence[int], memory: Memory = "host") -> None:
        super().__init__(comm, names, memory, SIZE)
        self.place = [0, SIZE, MPI.BYTE]

    def _clear(self) -> None:
        self.local.write(np.zeros(SIZE, np.uint8))
        self.exposed.write(content(self.exposed.n_bytes, self.me, self.me))

    def _access(self) -> None:
        self.window.Get(self.message, 0, self.place)
        self.window.Flush(0)

    def _access_copies(self) -> None:
        self._access()
        self.local.stage_in(SIZE)

    def verify(self) -> None:
        """Raise VerificationError unless the last step brought what was sent."""
        root = self.names[0]
        wrong = np.count_nonzero(self.local.read(SIZE) != content(SIZE, root, root)) if self.comm.rank else 0
        if wrong:
            raise VerificationError(
                f"rank {self.me} got {SIZE} B from the window of rank {root}, {wrong} of them wrong: the network or "
                "the memory of one of the two nodes corrupts data"
            )


PATTERNS: dict[str, type[BackgroundPattern]] = {
    "all-to-all": AllToAllTraffic,
    "incast": IncastTraffic,
    "put-incast": PutIncastTraffic,
    "get-incast": GetIncastTraffic,
    "broadcast": BroadcastTraffic,
}
ONE_SIDED = ("put-incast", "get-incast")


@dataclass(frozen=True)
class Traffic:
    """What one rank did while a test ran. steps: of its pattern; bytes: that it sent or got; seconds: how long."""

    steps: int
    bytes: int
    seconds: float


def send_until_over(signals: MPI.Comm, lane: MPI.Comm, pattern: BackgroundPattern) -> Traffic:
    """Repeat a pattern from before a test begins until it is over.

    Collective over lane, the set that takes part, and over signals, whose other ranks call `Ibarrier` twice: they may
    begin when the first is complete. They are done when they start the second.
    """
    cycle = range(max(1, CYCLE // lane.size))
    step = pattern.step
    pattern.open()
    for _ in cycle:
        step()
    begun, over = signals.Ibarrier(), signals.Ibarrier()
    mine, anyone = np.zeros(1, np.uint8), np.zeros(1, np.uint8)
    vote: MPI.Request | None = None
    cycles = 0
    start = time.perf_counter()
    while True:
        for _ in cycle:
            step()
        cycles += 1
        # A rank alone must not stop: the others would wait for its messages. The vote is on its way during a cycle.
        if vote is not None:
            vote.Wait()
            if anyone[0]:
                break
        mine[0] = over.Test()
        vote = lane.Iallreduce(mine, anyone, MPI.MAX)
    seconds = time.perf_counter() - start
    MPI.Request.Waitall([begun, over])
    pattern.close()
    steps = cycles * len(cycle)
    return Traffic(steps, steps * pattern.bytes, seconds)
