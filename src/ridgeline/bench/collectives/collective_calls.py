"""Collective operations on preallocated buffers whose contents are known before and after each call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from mpi4py import MPI

from ridgeline.parallel.payload import BYTES, Buffer, MessageForm, content
from ridgeline.runtime.errors import VerificationError

if TYPE_CHECKING:
    from numpy.typing import NDArray

Call = tuple[Callable[..., Any], tuple[Any, ...]]


class Collective(ABC):
    """One operation of a communicator on messages of up to `largest` bytes, of this form.

    With `in_place` it uses MPI.IN_PLACE. The caller copies staged buffers with `stage_out` and `stage_in`.
    """

    name: ClassVar[str]
    pattern: ClassVar[str]
    multiple: ClassVar[int] = 1  # sizes are multiples of this many bytes
    has_in_place: ClassVar[bool] = True
    one_buffer: ClassVar[bool] = False  # whether messages are sent from where others are received
    root = 0

    def __init__(
        self, comm: MPI.Comm, largest: int, in_place: bool = False, form: MessageForm = BYTES
    ) -> None:
        self.comm = comm
        self.in_place = in_place
        sent, received = self.blocks_here()
        self.receive = form.buffer(received * largest)
        self.send = self.receive if in_place or self.one_buffer else form.buffer(sent * largest)

    def blocks_here(self) -> tuple[int, int]:
        """Return how many messages the send buffer and the receive buffer of this rank hold."""
        return self.blocks(self.comm.size)

    @classmethod
    @abstractmethod
    def blocks(cls, ranks: int) -> tuple[int, int]:
        """Return how many messages the send buffer and the receive buffer of a rank hold at most."""

    @classmethod
    def bytes_per_rank(cls, ranks: int, largest: int, in_place: bool) -> int:
        """Return the bytes of the buffers of one rank."""
        send, receive = cls.blocks(ranks)
        return largest * (receive if in_place or cls.one_buffer else send + receive)

    @abstractmethod
    def call(self, size: int) -> Call:
        """Return the function and arguments of the operation on messages of `size` bytes, to be looked up once."""

    def begin(self, size: int) -> Call:
        """Return the non-blocking form of `call`, such as MPI_Iallreduce, which returns a request."""
        function, arguments = self.call(size)
        owner: Any = getattr(function, "__self__", self.comm)
        return getattr(owner, f"I{function.__name__.lower()}"), arguments

    def free(self) -> None:  # noqa: B027
        """Free what MPI holds beside the communicator. Collective."""

    @abstractmethod
    def prepare(self, size: int, sequence: int) -> None:
        """Write messages number `sequence`, and zeros where messages will arrive."""

    @abstractmethod
    def verify(self, size: int, sequence: int) -> None:
        """Raise VerificationError unless this rank holds the result of one call after `prepare`."""

    def calm(self, size: int) -> None:
        """Write data that many calls in place keep finite."""
        self.prepare(size, 0)

    def stage_out(self, size: int) -> None:
        """Copy the messages that are sent from the GPU to the host."""
        self.send.stage_out(self.blocks_here()[0] * size)

    def stage_in(self, size: int) -> None:
        """Copy the messages that were received from the host to the GPU."""
        self.receive.stage_in(self.blocks_here()[1] * size)

    def _compare(self, arrived: NDArray[np.uint8], expected: NDArray[np.uint8], whose: str) -> None:
        wrong = np.flatnonzero(arrived != expected)
        if wrong.size:
            raise VerificationError(
                f"{self.name} of {expected.size} B: rank {self.comm.rank} holds {wrong.size} wrong bytes in "
                f"{whose}, the first at byte {wrong[0]}. The network or the memory of a node corrupts data."
            )


class AlltoallCalls(Collective):
    """Every rank sends a separate message to every rank."""

    name = "alltoall"
    pattern = "every rank sends a different message to every other rank (MPI_Alltoall)"

    @classmethod
    def blocks(cls, ranks: int) -> tuple[int, int]:
        return ranks, ranks

    def call(self, size: int) -> Call:
        sent = MPI.IN_PLACE if self.in_place else self.send.message(size)
        # MPI counts the block of one rank.
        return self.comm.Alltoall, (sent, self.receive.message(size))

    def prepare(self, size: int, sequence: int) -> None:
        rank, ranks = self.comm.rank, self.comm.size
        self.receive.write(np.zeros(ranks * size, np.uint8))
        messages = [content(size, rank, target, sequence) for target in range(ranks)]
        self.send.write(np.concatenate(messages))

    def verify(self, size: int, sequence: int) -> None:
        arrived = self.receive.read(self.comm.size * size).reshape(self.comm.size, size)
        for source, block in enumerate(arrived):
            expected = content(size, source, self.comm.rank, sequence)
            self._compare(block, expected, f"the message from rank {source}")


class AllgatherCalls(Collective):
    """Every rank sends one message to all ranks."""

    name = "allgather"
    pattern = "every rank sends the same message to every other rank (MPI_Allgather)"

    @classmethod
    def blocks(cls, ranks: int) -> tuple[int, int]:
        return 1, ranks

    def call(self, size: int) -> Call:
        sent = MPI.IN_PLACE if self.in_place else self.send.message(size)
        return self.comm.Allgather, (sent, self.receive.message(size))

    def prepare(self, size: int, sequence: int) -> None:
        rank = self.comm.rank
        message = content(size, rank, rank, sequence)
        received = np.zeros(self.comm.size * size, np.uint8)
        if self.in_place:
            received[rank * size : (rank + 1) * size] = message
        self.receive.write(received)
        if not self.in_place:
            self.send.write(message)

    def stage_out(self, size: int) -> None:
        # In place, the message is one block of the receive buffer, which is copied whole.
        self.send.stage_out((self.comm.size if self.in_place else 1) * size)

    def verify(self, size: int, sequence: int) -> None:
        arrived = self.receive.read(self.comm.size * size).reshape(self.comm.size, size)
        for source, block in enumerate(arrived):
            self._compare(block, content(size, source, source, sequence), f"the message from rank {source}")


class BroadcastCalls(Collective):
    """One rank sends a message to all ranks."""

    name = "bcast"
    pattern = "rank 0 sends one message to every other rank (MPI_Bcast)"
    has_in_place = False
    one_buffer = True

    @classmethod
    def blocks(cls, ranks: int) -> tuple[int, int]:
        return 1, 1

    def call(self, size: int) -> Call:
        return self.comm.Bcast, (self.receive.message(size), self.root)

    def prepare(self, size: int, sequence: int) -> None:
        message = content(size, self.root, self.root, sequence)
        self.receive.write(message if self.comm.rank == self.root else np.zeros(size, np.uint8))

    def stage_out(self, size: int) -> None:
        if self.comm.rank == self.root:
            self.receive.stage_out(size)

    def stage_in(self, size: int) -> None:
        if self.comm.rank != self.root:
            self.receive.stage_in(size)

    def verify(self, size: int, sequence: int) -> None:
        expected = content(size, self.root, self.root, sequence)
        self._compare(self.receive.read(size), expected, f"the message from rank {self.root}")


class AllreduceCalls(Collective):
    """Sums of float32 over all ranks. Terms are whole numbers, so that sums are exact in any order."""

    name = "allreduce"
    pattern = "float32 numbers are summed over all ranks, for all ranks (MPI_Allreduce, MPI_FLOAT, MPI_SUM)"
    multiple = 4
    # Terms repeat with these periods over elements and ranks, so that sums of a million ranks stay below 2**24.
    _PERIOD, _TERMS = 13, 3

    @classmethod
    def blocks(cls, ranks: int) -> tuple[int, int]:
        return 1, 1

    def call(self, size: int) -> Call:

        def floats(buffer: Buffer) -> list[Any]:
            return [buffer.message(size)[0], size // self.multiple, MPI.FLOAT]

        sent = MPI.IN_PLACE if self.in_place else floats(self.send)
        return self.comm.Allreduce, (sent, floats(self.receive), MPI.SUM)

    def _elements(self, size: int, sequence: int) -> NDArray[np.int64]:
        return (np.arange(size // self.multiple) + sequence) % self._PERIOD

    def prepare(self, size: int, sequence: int) -> None:
        # A term is element number + rank, each modulo its period.
        self.receive.write(np.zeros(size, np.uint8))
        terms = self._elements(size, sequence) + 1 + self.comm.rank % self._TERMS
        self.send.write(terms.astype(np.float32).view(np.uint8))

    def verify(self, size: int, sequence: int) -> None:
        ranks = self.comm.size
        whole, rest = divmod(ranks, self._TERMS)
        of_ranks = whole * sum(range(self._TERMS)) + sum(range(rest))
        sums = ranks * (self._elements(size, sequence) + 1) + of_ranks
        self._compare(self.receive.read(size), sums.astype(np.float32).view(np.uint8), "the sums")

    def calm(self, size: int) -> None:
        # In place, sums of anything but zeros would grow to infinity.
        self.receive.write(np.zeros(size, np.uint8))


class ReduceCalls(AllreduceCalls):
    """Sums of float32 over all ranks, for one of them."""

    name = "reduce"
    pattern = "float32 numbers are summed over all ranks, for rank 0 (MPI_Reduce, MPI_FLOAT, MPI_SUM)"
    has_in_place = False

    def call(self, size: int) -> Call:
        _, (sent, received, operation) = super().call(size)
        return self.comm.Reduce, (
            sent,
            received if self.comm.rank == self.root else None,
            operation,
            self.root,
        )

    def verify(self, size: int, sequence: int) -> None:
        if self.comm.rank == self.root:
            super().verify(size, sequence)


class GatherCalls(Collective):
    """Every rank sends one message to one rank."""

    name = "gather"
    pattern = "every rank sends a message to rank 0 (MPI_Gather)"
    has_in_place = False

    @classmethod
    def blocks(cls, ranks: int) -> tuple[int, int]:
        return 1, ranks

    def blocks_here(self) -> tuple[int, int]:
        return 1, self.comm.size if self.comm.rank == self.root else 0

    def call(self, size: int) -> Call:
        received = self.receive.message(size) if self.comm.rank == self.root else None
        return self.comm.Gather, (self.send.message(size), received, self.root)

    def prepare(self, size: int, sequence: int) -> None:
        self.receive.write(np.zeros(self.blocks_here()[1] * size, np.uint8))
        self.send.write(content(size, self.comm.rank, self.root, sequence))

    def verify(self, size: int, sequence: int) -> None:
        if self.comm.rank == self.root:
            arrived = self.receive.read(self.comm.size * size).reshape(self.comm.size, size)
            for source, block in enumerate(arrived):
                self._compare(
                    block, content(size, source, self.root, sequence), f"the message from rank {source}"
                )


class ScatterCalls(Collective):
    """One rank sends a separate message to every rank."""

    name = "scatter"
    pattern = "rank 0 sends a different message to every rank (MPI_Scatter)"
    has_in_place = False

    @classmethod
    def blocks(cls, ranks: int) -> tuple[int, int]:
        return ranks, 1

    def blocks_here(self) -> tuple[int, int]:
        return self.comm.size if self.comm.rank == self.root else 0, 1

    def call(self, size: int) -> Call:
        sent = self.send.message(size) if self.comm.rank == self.root else None
        return self.comm.Scatter, (sent, self.receive.message(size), self.root)

    def prepare(self, size: int, sequence: int) -> None:
        self.receive.write(np.zeros(size, np.uint8))
        messages = [content(size, self.root, target, sequence) for target in range(self.blocks_here()[0])]
        self.send.write(np.concatenate(messages) if messages else np.empty(0, np.uint8))

    def verify(self, size: int, sequence: int) -> None:
        expected = content(size, self.root, self.comm.rank, sequence)
        self._compare(self.receive.read(size), expected, f"the message from rank {self.root}")


def brick_neighbours(ranks: int, rank: int) -> list[int]:
    """Return the up to six different neighbours of a rank in a periodic brick of all ranks (MPI_Dims_create)."""
    dims = MPI.Compute_dims(ranks, 3)
    here = np.unravel_index(rank, dims)
    found = set()
    for axis, step in product(range(3), (-1, 1)):
        there = [int(place) for place in here]
        there[axis] = (there[axis] + step) % dims[axis]
        found.add(int(np.ravel_multi_index(there, dims)))
    return sorted(found - {rank})


class NeighbourAlltoallCalls(Collective):
    """Every rank sends a separate message to each neighbour in a periodic brick of ranks.

    The neighbours are given as a graph without duplicates, because MPI leaves open in which order the messages of two
    ranks that are neighbours on both sides arrive.
    """

    name = "neighbour-alltoall"
    pattern = (
        "every rank sends a different message to each neighbour in a brick of ranks (MPI_Neighbor_alltoall)"
    )
    has_in_place = False

    def __init__(
        self, comm: MPI.Comm, largest: int, in_place: bool = False, form: MessageForm = BYTES
    ) -> None:
        super().__init__(comm, largest, in_place, form)
        self.neighbours = brick_neighbours(comm.size, comm.rank)
        self.graph = cast(MPI.Intracomm, comm).Create_dist_graph_adjacent(self.neighbours, self.neighbours)

    @classmethod
    def blocks(cls, ranks: int) -> tuple[int, int]:
        n = len(brick_neighbours(ranks, 0))
        return n, n

    def call(self, size: int) -> Call:
        return self.graph.Neighbor_alltoall, (self.send.message(size), self.receive.message(size))

    def free(self) -> None:
        self.graph.Free()

    def prepare(self, size: int, sequence: int) -> None:
        self.receive.write(np.zeros(len(self.neighbours) * size, np.uint8))
        self.send.write(
            np.concatenate([content(size, self.comm.rank, target, sequence) for target in self.neighbours])
        )

    def verify(self, size: int, sequence: int) -> None:
        arrived = self.receive.read(len(self.neighbours) * size).reshape(len(self.neighbours), size)
        for source, block in zip(self.neighbours, arrived):
            expected = content(size, source, self.comm.rank, sequence)
            self._compare(block, expected, f"the message from rank {source}")


class NeighbourAllgatherCalls(NeighbourAlltoallCalls):
    """Every rank sends one message to all its neighbours in a periodic brick of ranks."""

    name = "neighbour-allgather"
    pattern = (
        "every rank sends the same message to each neighbour in a brick of ranks (MPI_Neighbor_allgather)"
    )

    @classmethod
    def blocks(cls, ranks: int) -> tuple[int, int]:
        return 1, len(brick_neighbours(ranks, 0))

    def call(self, size: int) -> Call:
        return self.graph.Neighbor_allgather, (self.send.message(size), self.receive.message(size))

    def prepare(self, size: int, sequence: int) -> None:
        self.receive.write(np.zeros(len(self.neighbours) * size, np.uint8))
        self.send.write(content(size, self.comm.rank, self.comm.rank, sequence))

    def verify(self, size: int, sequence: int) -> None:
        arrived = self.receive.read(len(self.neighbours) * size).reshape(len(self.neighbours), size)
        for source, block in zip(self.neighbours, arrived):
            self._compare(block, content(size, source, source, sequence), f"the message from rank {source}")


class BarrierCalls(Collective):
    """Every rank waits for all ranks; no data is sent."""

    name = "barrier"
    pattern = "every rank waits for all others (MPI_Barrier)"
    has_in_place = False
    one_buffer = True

    @classmethod
    def blocks(cls, ranks: int) -> tuple[int, int]:
        return 0, 0

    def call(self, size: int) -> Call:
        return self.comm.Barrier, ()

    def prepare(self, size: int, sequence: int) -> None:
        pass

    def verify(self, size: int, sequence: int) -> None:
        pass


COLLECTIVES: dict[str, type[Collective]] = {
    kind.name: kind
    for kind in (
        AlltoallCalls,
        AllreduceCalls,
        ReduceCalls,
        BroadcastCalls,
        AllgatherCalls,
        GatherCalls,
        ScatterCalls,
        NeighbourAlltoallCalls,
        NeighbourAllgatherCalls,
        BarrierCalls,
    )
}
