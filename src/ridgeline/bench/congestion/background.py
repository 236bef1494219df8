"""Background traffic that congests a network: patterns of GPCNeT that a lane of ranks repeats until a test is over.

Every message has SIZE bytes. An incast goes to rank 0 of the lane, and a broadcast comes from it. A pattern is
created with the communicator of the lane and the `names` of its ranks, their ranks in the job, which distinguish
messages.
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
CYCLE = 64  # messages of a rank between two checks whether the test is over
_TAG = 7


class BackgroundPattern(ABC):
    """One pattern. `step` does it once and allocates nothing; `bytes` is what this rank sends or gets in a step."""

    bytes: int
    step: Callable[[], None]

    def __init__(self, comm: MPI.Comm, names: Sequence[int], memory: Memory = "host") -> None:
        self.comm, self.names, self.me, self.memory = comm, names, names[comm.rank], memory

    @abstractmethod
    def open(self) -> None:
        """Clear the memory where data arrive, and allow steps. Collective over the lane."""

    @abstractmethod
    def close(self) -> None:
        """End the steps. Collective over the lane."""

    @abstractmethod
    def verify(self) -> None:
        """Raise VerificationError unless the data that arrived in the last step are what was sent."""

    @abstractmethod
    def free(self) -> None:
        """Free what MPI holds. Collective over the lane."""


class _TwoSidedTraffic(BackgroundPattern):
    """Base of the patterns of sends and receives: blocks of SIZE bytes from `sources` and to `targets`.

    On a GPU whose memory MPI does not accept, all blocks are copied to the host before a step and back after it.
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
        # Chosen once, so that a step only sends.
        self.step = self._exchange_copies if self._sent.staged else self._exchange

    def open(self) -> None:
        self._received.write(np.zeros(self._received.n_bytes, np.uint8))

    @abstractmethod
    def _exchange(self) -> None:
        """Send and receive all blocks."""

    def _exchange_copies(self) -> None:
        self._sent.stage_out(self._sent.n_bytes)
        self._exchange()
        self._received.stage_in(self._received.n_bytes)

    def close(self) -> None:
        pass

    def verify(self) -> None:
        arrived = self._received.read(self._received.n_bytes).reshape(-1, SIZE)
        for block, source in zip(arrived, self._sources):
            check(block, self.names[source], self.me)

    def free(self) -> None:
        pass


class AllToAllTraffic(_TwoSidedTraffic):
    """Every rank exchanges with every other one, pair by pair; partners by xor if their number is a power of two."""

    def __init__(self, comm: MPI.Comm, names: Sequence[int], memory: Memory = "host") -> None:
        size, rank = comm.size, comm.rank
        power = size & (size - 1) == 0
        # A single rank exchanges with itself.
        turns = range(1, size) if size > 1 else range(1)
        pairs = [(rank ^ i, rank ^ i) if power else ((rank - i) % size, (rank + i) % size) for i in turns]
        super().__init__(comm, names, memory, *map(list, zip(*pairs)))
        self._turns = list(zip(self.departures, self.arrivals))

    def _exchange(self) -> None:
        exchange = self.comm.Sendrecv
        for (sent, target), (received, source) in self._turns:
            exchange(sent, target, _TAG, received, source, _TAG)


class IncastTraffic(_TwoSidedTraffic):
    """Every rank sends to rank 0."""

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
    """Rank 0 sends a separate message to every rank."""

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
    """Base of the one-sided patterns: a window of rank 0, open to all ranks in passive mode during the steps.

    The other ranks put there, or get from it, what lies in `local`; both are in `memory`. On a GPU whose memory MPI
    does not accept, the window is host memory. Data that are put are then copied from the GPU before each step, and
    data that are fetched to the GPU after it. Rank 0 copies its window only once: before the steps what others will
    get, and after the steps what others have put, because it does not know earlier that this has arrived.
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
        """Set the memory of this rank before any data arrive."""

    @abstractmethod
    def _access(self) -> None:
        """Put or get, and wait until that is done."""

    @abstractmethod
    def _access_copies(self) -> None:
        """Do the same, and copy the data between the GPU and the host."""

    def _rest(self) -> None:
        """Do nothing in a step, as the owner of the window."""

    def open(self) -> None:
        self._clear()
        self.comm.Barrier()
        self.window.Lock(0, MPI.LOCK_SHARED)

    def close(self) -> None:
        # From now on the data that were put lie in the memory of rank 0.
        self.window.Unlock(0)
        self.comm.Barrier()
        self.exposed.stage_in()

    def free(self) -> None:
        self.exposed.free()


class PutIncastTraffic(_OneSidedTraffic):
    """Every rank puts into the window of rank 0, each at a separate place."""

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
        blocks = self.exposed.read(self.exposed.n_bytes).reshape(-1, SIZE)
        for block, source in zip(blocks[1:], self.names[1:]):
            check(block, source, self.me)


class GetIncastTraffic(_OneSidedTraffic):
    """Every rank gets the same block from the window of rank 0 (GPCNeT's get broadcast)."""

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
        root = self.names[0]
        wrong = np.count_nonzero(self.local.read(SIZE) != content(SIZE, root, root)) if self.comm.rank else 0
        if wrong:
            raise VerificationError(
                f"rank {self.me} read {SIZE} B from the window of rank {root}, {wrong} of them wrong. The "
                "network or the memory of one of the two nodes corrupts data."
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
    """The steps that one rank did during a test, the bytes that it sent or got, and the seconds that this took."""

    steps: int
    bytes: int
    seconds: float


def send_until_over(signals: MPI.Comm, lane: MPI.Comm, pattern: BackgroundPattern) -> Traffic:
    """Repeat a pattern from before a test begins until it is over.

    Collective over `lane` and over `signals`, whose other ranks call `Ibarrier` twice: they begin the test when the
    first is complete, and have ended it when they start the second.
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
        # A rank must not stop alone, because the others would wait for its messages. They vote during a cycle.
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
