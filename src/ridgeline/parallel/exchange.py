"""Counted exchanges: each rank sends any number of values to every other, which learn how many come."""

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
    """Send counts[r] of the values to each rank r; return what came, in the order of ranks, and how much.

    values: 1-D, of one dtype on all ranks. Collective.
    """
    counts = np.ascontiguousarray(counts, np.int64)
    come = np.empty(comm.size, np.int64)
    comm.Alltoall(counts, come)
    result = np.empty(int(come.sum()), values.dtype)
    comm.Alltoallv([np.ascontiguousarray(values), counts], [result, come])
    return result, come
