"""Memory that other ranks may read and write: a window of one-sided communication, on the host or on a GPU."""

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
    """A window of n_bytes on this rank. Making and freeing it is collective over comm.

    memory: "host": allocated by MPI (MPI_Win_allocate), which may share it among the ranks of a node or register
    it with the network; "cuda": made of a GPU's memory (MPI_Win_create); "cuda-staged": made of page-locked host
    memory for bytes of a GPU, which `write` copies there too and `stage_in` brings back after others put.
    disp_unit: bytes that displacements count.
    """

    def __init__(self, comm: MPI.Comm, n_bytes: int, memory: Memory = "host", disp_unit: int = 1) -> None:
        self.n_bytes = n_bytes
        self._rank = comm.rank
        self._buffer: Buffer | None = None
        group = cast(MPI.Intracomm, comm)
        least = max(n_bytes, 8)  # an empty window has no memory to look at
        if memory == "host":
            self.win = MPI.Win.Allocate(least, disp_unit, MPI.INFO_NULL, group)
            self._bytes = np.asarray(self.win.tomemory(), np.uint8)
        else:
            self._buffer = Buffer(least, memory)
            self.win = MPI.Win.Create(self._buffer.message(least)[0], disp_unit, MPI.INFO_NULL, group)

    def write(self, data: NDArray[np.uint8]) -> None:
        """Set the first bytes from this rank's side. No epoch may be open."""
        self.win.Lock(self._rank, MPI.LOCK_EXCLUSIVE)
        if self._buffer is None:
            self._bytes[: data.size] = data
        else:
            self._buffer.write(data)
        self.win.Unlock(self._rank)

    def stage_in(self) -> None:
        """Copy what others put to the GPU, if their puts went to host memory. No epoch may be open."""
        if self._buffer is not None and self._buffer.staged:
            self.win.Lock(self._rank, MPI.LOCK_EXCLUSIVE)
            self._buffer.stage_in(self.n_bytes)
            self.win.Unlock(self._rank)

    def read(self, n_bytes: int) -> NDArray[np.uint8]:
        """Return a copy of the first bytes from this rank's side, of a GPU's memory if there is one.

        No epoch may be open.
        """
        self.win.Lock(self._rank, MPI.LOCK_EXCLUSIVE)
        data = (self._bytes if self._buffer is None else self._buffer.read(self._buffer.n_bytes))[
            :n_bytes
        ].copy()
        self.win.Unlock(self._rank)
        return data

    @contextmanager
    def freed_at_end(self) -> Iterator[None]:
        """Free the memory after a block, and where it ends by a VerificationError, which must be raised on all ranks.

        After other errors, which one rank may have alone, nothing collective is possible.
        """
        try:
            yield
        except VerificationError:
            self.free()
            raise
        self.free()

    def free(self) -> None:
        """Give the memory back. Collective."""
        self.win.Free()


def check_sums(arrived: NDArray[Any], expected: NDArray[Any], rank: int, other: int | str) -> None:
    """Raise VerificationError, naming the first wrong number, unless what a window holds is as expected."""
    wrong = np.flatnonzero(arrived != expected)
    if wrong.size:
        raise VerificationError(
            f"the window of rank {rank} holds {wrong.size} of {arrived.size} wrong numbers after operations of rank "
            f"{other}, the first at {wrong[0]}: {arrived[wrong[0]]} instead of {expected[wrong[0]]}; the network or "
            f"the memory of one of the nodes corrupts data"
        )
