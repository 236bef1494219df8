"""Arrays in memory that the ranks of a node share: what one rank writes, another reads in place."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from mpi4py import MPI

from ridgeline.parallel.communicator import node_communicator

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

PAGE = 4096  # bytes: parts of ranks share none, so that each lies near the rank that touches it first
ROOM = Path("/dev/shm")  # where Linux keeps the shared memory of MPI libraries, often less than a node has


def can_share(comm: MPI.Comm, everyone: MPI.Comm, n_bytes: int) -> bool:
    """Return whether the ranks of every `comm` are on one node that has room for n_bytes of each. Collective.

    everyone: the ranks that make such communicators and agree. A page beyond the room is found only when it is
    touched, and ends the job without a word: therefore the question.
    """
    with node_communicator(everyone) as node:
        needed = node.allreduce(n_bytes + 2 * PAGE)
        room = node.bcast(shutil.disk_usage(ROOM).free if ROOM.is_dir() else needed)
    with node_communicator(comm) as near:
        together = near.size == comm.size
    return bool(everyone.allreduce(together and needed <= room, MPI.LAND))


class SharedArray:
    """A 1-D array of zeros that all ranks of a communicator on one node share. Built collectively.

    Parameters
    ----------
    comm : the ranks
    n : numbers of this rank's part; parts follow one another, in the order of ranks, each from a page on
    dtype : of the numbers

    Attributes: whole: all parts, at other addresses on each rank; begin: where each rank's part begins in it;
    own: this rank's part, n numbers.
    """

    def __init__(self, comm: MPI.Comm, n: int, dtype: DTypeLike) -> None:
        kind = np.dtype(dtype)
        self._comm = comm
        n_bytes = max(1, -(-n * kind.itemsize // PAGE)) * PAGE
        ends = np.cumsum(comm.allgather(n_bytes)).tolist()
        self.begin = tuple(end // kind.itemsize for end in [0, *ends[:-1]])
        self._window = MPI.Win.Allocate_shared(n_bytes, kind.itemsize, comm=comm)  # type: ignore[arg-type]
        self._window.Lock_all(MPI.MODE_NOCHECK)  # until `free`: loads and stores are allowed at any time
        first, _ = self._window.Shared_query(0)
        self.whole: NDArray[Any] = np.frombuffer(
            cast(Any, MPI.memory.fromaddress(first.address, ends[-1])), kind
        )
        self.own = self.whole[self.begin[comm.rank] :][:n]
        self.own[...] = 0
        self.wait()

    def wait(self) -> None:
        """Wait until all ranks are here: what each wrote before, all may read after. Collective."""
        self._window.Sync()
        self._comm.Barrier()
        self._window.Sync()

    def free(self) -> None:
        """Give the memory back: `whole` and all views of it may no longer be used. Collective."""
        del self.whole, self.own
        self._window.Unlock_all()
        self._window.Free()
