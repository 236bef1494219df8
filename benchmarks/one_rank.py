"""One rank of a job of any size, without the others: a communicator that answers for them, and counts.

What one rank builds at set-up and asks of MPI in a step can so be counted at 10^5 ranks on a laptop. The substitute
answers every collective call as if all ranks said what this rank says: a sum is `size` times this rank's part, a
gathered list holds `size` copies, and this rank receives from every rank what it sends there. Messages go nowhere,
and what would arrive is zero. The values of a step are therefore meaningless; sizes, calls and bytes are not, as far
as all ranks do the same amount of work. Where ranks must differ, `answering` and `splits` say how.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mpi4py import MPI

RANKS_OF_NODE = 64


@dataclass
class Tally:
    """Calls by name and size of the communicator, bytes that this rank receives by them, and its messages."""

    calls: Counter[tuple[str, int]] = field(default_factory=Counter)
    received: Counter[tuple[str, int]] = field(default_factory=Counter)
    messages: int = 0
    message_bytes: int = 0

    def add(self, name: str, size: int, n_bytes: int) -> None:
        """Count one call."""
        self.calls[name, size] += 1
        self.received[name, size] += n_bytes

    def clear(self) -> None:
        """Count from zero."""
        self.calls.clear()
        self.received.clear()
        self.messages = self.message_bytes = 0

    def of(self, *names: str) -> int:
        """Return the calls of these names, in any case of letters, on communicators of more than one rank."""
        wanted = {name.lower() for name in names}
        return sum(n for (name, size), n in self.calls.items() if name.lower() in wanted and size > 1)

    def bytes_of(self, *names: str) -> int:
        """Return the bytes received by calls of these names."""
        wanted = {name.lower() for name in names}
        return sum(n for (name, _), n in self.received.items() if name.lower() in wanted)


def _array(spec: Any) -> np.ndarray | None:
    """Return the bytes of a buffer, or of the array of a specification; None for MPI.IN_PLACE or none."""
    while isinstance(spec, list | tuple) and len(spec):
        spec = spec[0]
    if spec is None or isinstance(spec, int | MPI.Datatype) or spec is MPI.IN_PLACE:
        return None
    array = np.asarray(spec)
    return array.reshape(-1).view(np.uint8) if array.flags.c_contiguous else None


class OneRank(MPI.Intracomm):
    """Rank `rank` of a communicator of `size` ranks, of which `node` consecutive ones are on a node.

    splits: what the next calls of `Split` answer, (size, rank) each.
    """

    def __new__(cls, size: int, rank: int | None = None, **options: Any) -> OneRank:
        """Return a communicator that MPI itself takes for MPI_COMM_SELF."""
        return super().__new__(cls, MPI.COMM_SELF)

    def __init__(
        self, size: int, rank: int | None = None, *, tally: Tally | None = None, node: int = RANKS_OF_NODE
    ) -> None:
        self.ranks, self.place, self.node = size, size // 2 if rank is None else rank, node
        self.tally = Tally() if tally is None else tally
        self.splits: list[tuple[int, int]] = []
        self._answer: Callable[[Any, int], Any] | None = None
        self.dims: list[int] = []
        self.periods: list[bool] = []
        self._neighbours: int = 0

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self.ranks

    @property
    def rank(self) -> int:
        """The number of this rank."""
        return self.place

    def Get_size(self) -> int:
        """Return the number of ranks."""
        return self.ranks

    def Get_rank(self) -> int:
        """Return the number of this rank."""
        return self.place

    @contextmanager
    def answering(self, answer: Callable[[Any, int], Any]) -> Iterator[None]:
        """Let answer(what this rank says, other rank) be what another says to allgather, Allgather and gather."""
        self._answer, before = answer, self._answer
        try:
            yield
        finally:
            self._answer = before

    def _other(self, size: int, rank: int) -> OneRank:
        return OneRank(size, rank, tally=self.tally, node=self.node)

    def Dup(self, info: Any = None) -> OneRank:
        """Return the same ranks."""
        self.tally.add("Dup", self.ranks, 0)
        return self._other(self.ranks, self.place)

    def Split(self, color: int = 0, key: int = 0) -> OneRank:
        """Return what `splits` says next."""
        self.tally.add("Split", self.ranks, 8 * self.ranks)
        return self._other(*self.splits.pop(0))

    def Split_type(self, split_type: int, key: int = 0, info: Any = None) -> OneRank:
        """Return the ranks of this node."""
        self.tally.add("Split_type", self.ranks, 8 * self.ranks)
        first = self.place - self.place % self.node
        return self._other(min(self.node, self.ranks - first), self.place - first)

    def Create_cart(self, dims: Sequence[int], periods: Any = None, reorder: bool = False) -> OneRank:
        """Return the same ranks in a grid."""
        self.tally.add("Create_cart", self.ranks, 0)
        cartesian = self._other(self.ranks, self.place)
        cartesian.dims, cartesian.periods = list(dims), list(periods or [False] * len(dims))
        return cartesian

    @property
    def coords(self) -> list[int]:
        """The place of this rank in the grid."""
        return self.Get_coords(self.place)

    def Get_coords(self, rank: int) -> list[int]:
        """Return the place of a rank in the grid."""
        return [int(c) for c in np.unravel_index(rank, self.dims)]

    def Get_cart_rank(self, coords: Sequence[int]) -> int:
        """Return the rank at a place in the grid."""
        return int(np.ravel_multi_index([c % n for c, n in zip(coords, self.dims)], self.dims))

    def Shift(self, direction: int, disp: int) -> tuple[int, int]:
        """Return the ranks before and after this one."""
        found = []
        for sign in (-1, 1):
            place = self.coords
            place[direction] += sign * disp
            inside = 0 <= place[direction] < self.dims[direction] or self.periods[direction]
            found.append(self.Get_cart_rank(place) if inside else MPI.PROC_NULL)
        return found[0], found[1]

    def Sub(self, remain_dims: Sequence[bool]) -> OneRank:
        """Return the ranks along some directions of the grid."""
        dims = [n for n, stays in zip(self.dims, remain_dims) if stays]
        place = [c for c, stays in zip(self.coords, remain_dims) if stays]
        sub = self._other(int(np.prod(dims)), int(np.ravel_multi_index(place, dims)) if dims else 0)
        sub.dims, sub.periods = dims, [p for p, stays in zip(self.periods, remain_dims) if stays]
        return sub

    def Create_dist_graph_adjacent(
        self, sources: Sequence[int], destinations: Sequence[int], *args: Any, **options: Any
    ) -> OneRank:
        """Return the same ranks, which know their neighbours."""
        graph = self._other(self.ranks, self.place)
        graph._neighbours = len(destinations)
        return graph

    def Free(self) -> None:
        """Do nothing."""

    # Messages to others.

    def _message(self, buffer: Any, dest: int) -> None:
        array = _array(buffer)
        if dest != MPI.PROC_NULL and dest != self.place:
            self.tally.messages += 1
            self.tally.message_bytes += 0 if array is None else array.size

    def Send_init(self, buf: Any, dest: int, tag: int = 0) -> MPI.Prequest:
        """Count a message, and send none."""
        self._message(buf, dest)
        return MPI.COMM_SELF.Send_init(buf, MPI.PROC_NULL, tag)

    def Recv_init(self, buf: Any, source: int = MPI.ANY_SOURCE, tag: int = MPI.ANY_TAG) -> MPI.Prequest:
        """Receive zeros."""
        self._zero(buf)
        return MPI.COMM_SELF.Recv_init(buf, MPI.PROC_NULL, 0)

    def Isend(self, buf: Any, dest: int, tag: int = 0) -> MPI.Request:
        """Count a message, and send none."""
        self._message(buf, dest)
        return MPI.COMM_SELF.Isend(buf, MPI.PROC_NULL, tag)

    def Irecv(self, buf: Any, source: int = MPI.ANY_SOURCE, tag: int = MPI.ANY_TAG) -> MPI.Request:
        """Receive zeros."""
        self._zero(buf)
        return MPI.COMM_SELF.Irecv(buf, MPI.PROC_NULL, 0)

    def Send(self, buf: Any, dest: int, tag: int = 0) -> None:
        """Count a message, and send none."""
        self._message(buf, dest)

    def Recv(
        self, buf: Any, source: int = MPI.ANY_SOURCE, tag: int = MPI.ANY_TAG, status: Any = None
    ) -> None:
        """Receive zeros."""
        self._zero(buf)

    def Sendrecv(
        self,
        sendbuf: Any,
        dest: int,
        sendtag: int = 0,
        recvbuf: Any = None,
        source: int = MPI.ANY_SOURCE,
        recvtag: int = MPI.ANY_TAG,
        status: Any = None,
    ) -> None:
        """Count a message, and receive what is sent."""
        self._message(sendbuf, dest)
        sent, received = _array(sendbuf), _array(recvbuf)
        if sent is not None and received is not None and source != MPI.PROC_NULL:
            n = min(sent.size, received.size)
            received[:n] = sent[:n]

    @staticmethod
    def _zero(buf: Any) -> None:
        array = _array(buf)
        if array is not None and not isinstance(buf, list | tuple):
            array[:] = 0

    # Collective calls of buffers.

    def Barrier(self) -> None:
        """Count it."""
        self.tally.add("Barrier", self.ranks, 0)

    def Ibarrier(self) -> MPI.Request:
        """Count it."""
        self.tally.add("Barrier", self.ranks, 0)
        return MPI.COMM_SELF.Ibarrier()

    def Bcast(self, buf: Any, root: int = 0) -> None:
        """Count it; the buffer stays as it is."""
        array = _array(buf)
        self.tally.add("Bcast", self.ranks, 0 if array is None else array.size)

    def Allreduce(self, sendbuf: Any, recvbuf: Any, op: MPI.Op = MPI.SUM) -> None:
        """Give the sum of `size` equal parts, or this rank's part to any other operation."""
        MPI.COMM_SELF.Allreduce(sendbuf, recvbuf, op)
        array = _array(recvbuf)
        self.tally.add("Allreduce", self.ranks, 0 if array is None else array.size)
        target = recvbuf[0] if isinstance(recvbuf, list | tuple) else recvbuf
        if op == MPI.SUM and isinstance(target, np.ndarray):
            with np.errstate(over="ignore"):
                target *= target.dtype.type(self.ranks)

    def Iallreduce(self, sendbuf: Any, recvbuf: Any, op: MPI.Op = MPI.SUM) -> MPI.Request:
        """Give the same at once."""
        self.Allreduce(sendbuf, recvbuf, op)
        return MPI.COMM_SELF.Ibarrier()

    def Exscan(self, sendbuf: Any, recvbuf: Any, op: MPI.Op = MPI.SUM) -> None:
        """Give the sum of `rank` equal parts."""
        self.tally.add("Exscan", self.ranks, _array(recvbuf).size)
        recvbuf[...] = np.asarray(sendbuf) * self.place

    def _fill(self, name: str, sendbuf: Any, recvbuf: Any) -> None:
        sent, received = _array(sendbuf), _array(recvbuf)
        if received is None:
            return
        self.tally.add(name, self.ranks, received.size)
        if sent is not None and sent.size:
            n = min(sent.size, received.size)
            received[:n] = sent[:n]
            received[n:] = 0
        elif sent is not None:
            received[:] = 0

    def Allgather(self, sendbuf: Any, recvbuf: Any) -> None:
        """Give copies of this rank's part."""
        sent, received = _array(sendbuf), _array(recvbuf)
        self.tally.add("Allgather", self.ranks, received.size)
        if self._answer is not None:
            for rank, target in enumerate(recvbuf.reshape(self.ranks, -1)):
                target[:] = np.asarray(self._answer(sendbuf, rank)).reshape(-1)
        elif sent is not None and sent.size:
            received[:] = np.resize(sent, received.size)

    Allgatherv = Allgather

    def Alltoall(self, sendbuf: Any, recvbuf: Any) -> None:
        """Receive from each rank what is sent there."""
        self._fill("Alltoall", sendbuf, recvbuf)

    def Alltoallv(self, sendbuf: Any, recvbuf: Any) -> None:
        """Receive from each rank what is sent there."""
        self._fill("Alltoallv", sendbuf, recvbuf)
        counts = sendbuf[1] if isinstance(sendbuf, list | tuple) else None
        if isinstance(counts, tuple | list) and len(counts) == 2:
            counts = counts[0]
        self.tally.messages += int(np.count_nonzero(counts)) if counts is not None else self.ranks - 1

    def Ialltoallv(self, sendbuf: Any, recvbuf: Any) -> MPI.Request:
        """Receive from each rank what is sent there."""
        self.Alltoallv(sendbuf, recvbuf)
        return MPI.COMM_SELF.Ibarrier()

    def Neighbor_alltoall(self, sendbuf: Any, recvbuf: Any) -> None:
        """Receive from each neighbour what is sent there."""
        self._fill("Neighbor_alltoall", sendbuf, recvbuf)
        self.tally.messages += self._neighbours

    def Neighbor_alltoallv(self, sendbuf: Any, recvbuf: Any) -> None:
        """Receive from each neighbour what is sent there."""
        self._fill("Neighbor_alltoallv", sendbuf, recvbuf)
        self.tally.messages += self._neighbours

    # Collective calls of objects.

    def _list(self, name: str, value: Any) -> list[Any]:
        data, received, found = pickle.dumps(value, -1), 0, []
        for rank in range(self.ranks):
            if self._answer is not None:
                data = pickle.dumps(self._answer(value, rank), -1)
            received += len(data)
            found.append(pickle.loads(data))
        self.tally.add(name, self.ranks, received)
        return found

    def barrier(self) -> None:
        """Count it."""
        self.Barrier()

    def bcast(self, obj: Any, root: int = 0) -> Any:
        """Return the value."""
        self.tally.add("bcast", self.ranks, 0)
        return obj

    def allreduce(self, sendobj: Any, op: MPI.Op = MPI.SUM) -> Any:
        """Return the sum of `size` equal values, or the value to any other operation."""
        self.tally.add("allreduce", self.ranks, len(pickle.dumps(sendobj, -1)))
        return sendobj * self.ranks if op == MPI.SUM else sendobj

    def exscan(self, sendobj: Any, op: MPI.Op = MPI.SUM) -> Any:
        """Return the sum of `rank` equal values."""
        self.tally.add("exscan", self.ranks, len(pickle.dumps(sendobj, -1)))
        return sendobj * self.place

    def allgather(self, sendobj: Any) -> list[Any]:
        """Return what all ranks say."""
        return self._list("allgather", sendobj)

    def gather(self, sendobj: Any, root: int = 0) -> list[Any] | None:
        """Return what all ranks say on the root, None elsewhere."""
        if self.place == root:
            return self._list("gather", sendobj)
        self.tally.add("gather", self.ranks, 0)
        return None

    def Gather(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """Give copies of this rank's part to the root."""
        if self.place == root:
            self.Allgather(sendbuf, recvbuf)

    def alltoall(self, sendobj: Sequence[Any]) -> list[Any]:
        """Receive from each rank what is sent there."""
        self.tally.add("alltoall", self.ranks, len(pickle.dumps(sendobj, -1)))
        return list(sendobj)
