"""The ways in which a transpose's messages travel. Each is an Exchange over the arena of a TransposePlan."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.comm.transpose_plan import TransposePlan


class Exchange(Protocol):
    """Moves chunks. forward: from the rows regions to the columns regions, else back; n: variables."""

    def start(self, forward: bool, chunk: int, n: int) -> None:
        """Send a chunk."""

    def progress(self) -> None:
        """Let MPI move on what was started."""

    def finish(self, forward: bool, n: int) -> None:
        """Wait for all chunks, sent and received."""

    def bytes_sent(self, forward: bool, n: int) -> int:
        """Return the bytes to other ranks in one exchange."""

    def messages(self, forward: bool, n: int) -> int:
        """Return the messages to other ranks in one exchange."""


class Alltoallv:
    """One MPI_Alltoallv per batch, exact counts, blocking."""

    def __init__(self, comm: MPI.Comm, plan: TransposePlan, arena: NDArray[Any]) -> None:
        self._comm = comm
        self._plan = plan
        self._arena = arena
        self._type = MPI._typedict[arena.dtype.char]
        self._calls: dict[tuple[bool, int], list[Any]] = {}

    def _messages(self, forward: bool, n: int) -> list[Any]:
        if (forward, n) not in self._calls:
            self._calls[forward, n] = [self._call(forward, b, n) for b in range(-(-n // self._plan.batch))]
        return self._calls[forward, n]

    def _call(self, forward: bool, batch: int, n: int) -> Any:
        plan, me = self._plan, self._plan.rank
        width = plan.batch_width(batch, n)
        sides = []
        for row_side in (forward, not forward):
            blocks = [plan.block(me, peer) if row_side else plan.block(peer, me) for peer in range(plan.size)]
            counts = np.array([0 if peer == me else width * block for peer, block in enumerate(blocks)])
            places = np.array([plan.place(batch, peer, row_side) for peer in range(plan.size)])
            sides.append([self._arena, counts, places, self._type])
        return sides

    def start(self, forward: bool, chunk: int, n: int) -> None:
        """Exchange all batches."""
        if self._plan.size > 1:
            for send, receive in self._messages(forward, n):
                self._comm.Alltoallv(send, receive)

    def progress(self) -> None:
        """Nothing is under way."""

    def finish(self, forward: bool, n: int) -> None:
        """Nothing is under way."""

    def bytes_sent(self, forward: bool, n: int) -> int:
        """Return the bytes to other ranks in one exchange."""
        return sum(int(send[1].sum()) for send, _ in self._messages(forward, n)) * self._plan.itemsize

    def messages(self, forward: bool, n: int) -> int:
        """Return the messages to other ranks in one exchange."""
        return sum(int((send[1] > 0).sum()) for send, _ in self._messages(forward, n))


def make_exchange(method: str, comm: MPI.Comm, plan: TransposePlan, arena: NDArray[Any]) -> Exchange:
    """Return the exchange of a method."""
    return Alltoallv(comm, plan, arena)
