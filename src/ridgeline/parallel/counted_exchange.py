"""Counted exchanges: each rank sends any number of values to every other rank, which learns how many to expect."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
Value = TypeVar("Value", bound=np.generic)


def exchange_counted(
    comm: MPI.Comm, values: NDArray[Value], counts: NDArray[Any]
) -> tuple[NDArray[Value], Numbers]:
    """Send counts[r] of the values to each rank r. Collective: an alltoall of the counts, then an alltoallv.

    Parameters
    ----------
    values : 1-D, in the order of the ranks that they go to; of one dtype on all ranks
    counts : numbers of values for each rank, (comm.size,)

    Returns
    -------
    tuple
        The values received, in the order of the ranks that sent them, and how many each sent, int64 (comm.size,).
    """
    counts = np.ascontiguousarray(counts, np.int64)
    received_counts = np.empty(comm.size, np.int64)
    comm.Alltoall(counts, received_counts)
    received = np.empty(int(received_counts.sum()), values.dtype)
    comm.Alltoallv([np.ascontiguousarray(values), counts], [received, received_counts])
    return received, received_counts
