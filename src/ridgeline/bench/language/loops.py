"""What the loops of every language have in common: their shape, their tags, the work of the ring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from ridgeline.runtime.errors import VerificationError

if TYPE_CHECKING:
    from mpi4py import MPI

    Bytes = NDArray[np.uint8]

TAG, ACKNOWLEDGE = 7, 8  # of messages and of what answers a window
REPLY = 4  # bytes that end a window


@dataclass(frozen=True)
class RingWork:
    """What a rank does in an iteration of the ring. reads, writes: of 8-byte words; flops; communications."""

    reads: int
    writes: int
    flops: int
    communications: int

    def as_array(self) -> NDArray[np.int64]:
        """Return the four numbers, int64 [4]."""
        return np.array([self.reads, self.writes, self.flops, self.communications], np.int64)


class Loops(Protocol):
    """The timed loops in one language on one communicator. Buffers are uint8 arrays, all of a message's bytes.

    Every loop raises VerificationError if MPI reports an error.
    """

    name: str

    def on(self, comm: MPI.Comm) -> Loops:
        """Return these loops on another communicator."""

    def ping_pong(self, partner: int, first: bool, outbox: Bytes, inbox: Bytes, batch: int) -> float:
        """Return the seconds of `batch` round trips. Collective over the two ranks, one of which is first."""

    def windows(self, partner: int, sends: bool, buffer: Bytes, window: int, batch: int) -> float:
        """Return the seconds of `batch` windows of messages from who sends to who does not, 4 bytes back after each.

        Collective over the two ranks.
        """

    def ring(
        self,
        work: RingWork,
        words: NDArray[np.uint64],
        outbox: Bytes,
        inbox: Bytes,
        seconds: NDArray[np.float64],
    ) -> tuple[int, float]:
        """Run len(seconds) iterations: read, write, compute, send forward and receive from behind.

        words: a power of two of them; seconds [iterations, 4]: set to those in reads, writes, flops and
        communications. Returns the sum of what was read modulo 2**32 and the last number computed. Collective.
        """


def check_mpi(name: str, failed: bool) -> None:
    """Raise VerificationError if MPI reported an error in a loop of this language."""
    if failed:
        raise VerificationError(
            f"MPI reported an error in a loop in {name}: the network or a rank is at fault"
        )


def ring_partners(comm: MPI.Comm) -> tuple[int, int]:
    """Return (the rank to send to, the rank to receive from) on the ring of all ranks."""
    return (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
