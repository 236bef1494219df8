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

PAGE = 4096  # bytes; the parts of two ranks share none, so that each lies near the rank that touches it first
# Where Linux keeps the shared memory of MPI libraries. It is often smaller than the memory of the node.
SHARED_MEMORY = Path("/dev/shm")


def can_share(comm: MPI.Comm, all_ranks: MPI.Comm, n_bytes: int) -> bool:
    """Return whether the ranks of every `comm` are on one node with enough shared memory for n_bytes of each rank.

    Collective over all_ranks, which are divided into such communicators; the answer is the same on all of them. It
    must be known beforehand, because a page that exceeds the shared memory ends the job without a message, and not
    before it is touched.
    """
    with node_communicator(all_ranks) as node:
        needed = node.allreduce(n_bytes + 2 * PAGE)
        free = node.bcast(shutil.disk_usage(SHARED_MEMORY).free if SHARED_MEMORY.is_dir() else needed)
    with node_communicator(comm) as on_this_node:
        on_one_node = on_this_node.size == comm.size
    return bool(all_ranks.allreduce(on_one_node and needed <= free, MPI.LAND))


class SharedArray:
    """A 1-D array of zeros that all ranks of a communicator on one node share. Built collectively.

    Parameters
    ----------
    comm : the ranks
    n : numbers of this rank's part; parts follow each other in the order of ranks, each beginning at a page
    dtype : of the numbers

    Attributes
    ----------
    whole : all parts; their addresses differ between ranks
    begin : where each rank's part begins in `whole`
    own : this rank's part, n numbers
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
        """Wait for all ranks. What each rank wrote before, all may read afterwards. Collective."""
        self._window.Sync()
        self._comm.Barrier()
        self._window.Sync()

    def free(self) -> None:
        """Free the memory; `whole` and all views of it must no longer be used. Collective."""
        del self.whole, self.own
        self._window.Unlock_all()
        self._window.Free()
