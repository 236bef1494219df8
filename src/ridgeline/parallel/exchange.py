"""Counted exchanges: each rank sends any number of values to every other, which learn how many come."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


def exchange_counted(comm: MPI.Comm, values: Numbers, counts: Numbers) -> tuple[Numbers, Numbers]:
    """Send counts[r] of the values to each rank r; return what came, in the order of ranks, and how much."""
    counts = np.ascontiguousarray(counts, np.int64)
    come = np.empty(comm.size, np.int64)
    comm.Alltoall(counts, come)
    result = np.empty(int(come.sum()), np.int64)
    comm.Alltoallv([np.ascontiguousarray(values, np.int64), counts], [result, come])
    return result, come
