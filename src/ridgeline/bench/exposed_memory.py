"""Memory that other ranks may read and write: a window for one-sided communication, on the host or on a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.parallel.payload import Buffer, Memory
from ridgeline.runtime.errors import VerificationError


class ExposedMemory:
    """A window of n_bytes on this rank. Creating and freeing it is collective over comm.

    Parameters
    ----------
    memory
        "host": MPI allocates it (MPI_Win_allocate), and may share it among the ranks of a node or register it with
        the network. "cuda": it is a GPU's memory (MPI_Win_create). "cuda-staged": it is page-locked host memory that
        stands for a GPU's memory; `write` writes to both, and `stage_in` copies to the GPU what others have put.
    disp_unit
        The bytes that a displacement counts.
    """

    def __init__(self, comm: MPI.Comm, n_bytes: int, memory: Memory = "host", disp_unit: int = 1) -> None:
        self.n_bytes = n_bytes
        self._rank = comm.rank
        self._buffer: Buffer | None = None
        group = cast(MPI.Intracomm, comm)
        # An empty window would have no memory to read.
        allocated = max(n_bytes, 8)
        if memory == "host":
            self.win = MPI.Win.Allocate(allocated, disp_unit, MPI.INFO_NULL, group)
            self._bytes = np.asarray(self.win.tomemory(), np.uint8)
        else:
            self._buffer = Buffer(allocated, memory)
            self.win = MPI.Win.Create(self._buffer.message(allocated)[0], disp_unit, MPI.INFO_NULL, group)

    def write(self, data: NDArray[np.uint8]) -> None:
        """Set the first bytes from this rank. No epoch may be open."""
        self.win.Lock(self._rank, MPI.LOCK_EXCLUSIVE)
        if self._buffer is None:
            self._bytes[: data.size] = data
        else:
            self._buffer.write(data)
        self.win.Unlock(self._rank)

    def stage_in(self) -> None:
        """Copy what others have put to the GPU, if it arrived in host memory. No epoch may be open."""
        if self._buffer is not None and self._buffer.staged:
            self.win.Lock(self._rank, MPI.LOCK_EXCLUSIVE)
            self._buffer.stage_in(self.n_bytes)
            self.win.Unlock(self._rank)

    def read(self, n_bytes: int) -> NDArray[np.uint8]:
        """Return a copy of the first bytes, read from the GPU if there is one. No epoch may be open."""
        self.win.Lock(self._rank, MPI.LOCK_EXCLUSIVE)
        data = self._bytes if self._buffer is None else self._buffer.read(self._buffer.n_bytes)
        copy = data[:n_bytes].copy()
        self.win.Unlock(self._rank)
        return copy

    @contextmanager
    def freed_at_end(self) -> Iterator[None]:
        """Free the memory after a block, also if it ends with a VerificationError, which all ranks must raise.

        Any other error may be raised by one rank alone, and then nothing collective is possible.
        """
        try:
            yield
        except VerificationError:
            self.free()
            raise
        self.free()

    def free(self) -> None:
        """Free the window and its memory. Collective."""
        self.win.Free()


def check_sums(arrived: NDArray[Any], expected: NDArray[Any], rank: int, other: int | str) -> None:
    """Raise VerificationError, naming the first wrong number, unless a window holds what is expected."""
    wrong = np.flatnonzero(arrived != expected)
    if wrong.size:
        raise VerificationError(
            f"the window of rank {rank} holds {wrong.size} wrong numbers of {arrived.size} after operations of rank "
            f"{other}, the first at {wrong[0]}: {arrived[wrong[0]]} instead of {expected[wrong[0]]}. The network or "
            "the memory of one of the nodes corrupts data."
        )
