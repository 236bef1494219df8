"""What the timed loops of every language share: their interface, their message tags, and the work of the ring.

The kernels `read_words`, `write_words` and `compute` are the loops of bench/c/mpi_patterns.c, with the same results
to the last bit. They use integers, and products with 0.5, which are exact whether or not they are fused with the
addition.

Source: Rizvi and Hale, "A Look at Communication-Intensive Performance in Julia", Sec. IV.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numba import float64, int64, uint64
from numpy.typing import NDArray

from ridgeline.jit.kernel import kernel
from ridgeline.runtime.errors import VerificationError

if TYPE_CHECKING:
    from mpi4py import MPI

    Bytes = NDArray[np.uint8]


TAG, ACKNOWLEDGE = 7, 8  # the tags of messages and of the reply to a window
REPLY = 4  # bytes of the reply


@dataclass(frozen=True)
class RingWork:
    """The work of a rank in an iteration of the ring: 8-byte words read and written, operations, messages."""

    reads: int
    writes: int
    flops: int
    communications: int

    def as_array(self) -> NDArray[np.int64]:
        """Return the four numbers, int64 [4]."""
        return np.array([self.reads, self.writes, self.flops, self.communications], np.int64)


class Loops(Protocol):
    """The timed loops of one language on one communicator. A buffer is a uint8 array that holds one message.

    Every loop raises VerificationError if MPI reports an error.
    """

    name: str

    def on(self, comm: MPI.Comm) -> Loops:
        """Return these loops on another communicator."""

    def ping_pong(self, partner: int, first: bool, outbox: Bytes, inbox: Bytes, batch: int) -> float:
        """Return the seconds of `batch` round trips. Collective over the two ranks, one of which is first."""

    def windows(self, partner: int, sends: bool, buffer: Bytes, window: int, batch: int) -> float:
        """Return the seconds of `batch` windows of messages in one direction, each with a reply of 4 bytes.

        Collective over the two ranks, one of which sends.
        """

    def ring(
        self,
        work: RingWork,
        words: NDArray[np.uint64],
        outbox: Bytes,
        inbox: Bytes,
        seconds: NDArray[np.float64],
    ) -> tuple[int, float]:
        """Run len(seconds) iterations of the ring: read, write, compute, send forward and receive from behind.

        Collective.

        Parameters
        ----------
        words
            The array that is read and written, uint64 [a power of two].
        seconds
            Output, float64 [iterations, 4]: the seconds of reads, writes, operations and messages.

        Returns
        -------
        tuple
            The sum modulo 2**32 of what was read, and the last number that was computed.
        """


def check_mpi(name: str, failed: bool) -> None:
    """Raise VerificationError if MPI reported an error in a loop of this language."""
    if failed:
        raise VerificationError(
            f"MPI reported an error in the loop in {name}. The network or a rank is faulty."
        )


def ring_partners(comm: MPI.Comm) -> tuple[int, int]:
    """Return the rank to send to and the rank to receive from on the ring of all ranks."""
    return (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size


@kernel(lambda: (uint64[::1], int64, int64))
def read_words(words, mask, reads):
    """Return the sum modulo 2**64 of words[i & mask], i < reads. words: uint64 [mask + 1]."""
    seen = np.uint64(0)
    for i in range(reads):
        seen += words[i & mask]
    return seen


@kernel(lambda: (uint64[::1], int64, int64, uint64))
def write_words(words, mask, writes, value):
    """Set words[i & mask] = value + i, i < writes. value: uint64."""
    for i in range(writes):
        words[i & mask] = value + np.uint64(i)


@kernel(lambda: (float64, int64), fastmath={"contract"})
def compute(x, flops):
    """Return x after flops / 2 times x = x / 2 + 1, each of which waits for the one before."""
    for _ in range(flops // 2):
        x = 0.5 * x + 1.0
    return x
