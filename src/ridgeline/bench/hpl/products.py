"""The rate of matrix products on all ranks and threads at the same time, and which library makes them."""

from __future__ import annotations

from time import perf_counter

import numpy as np
from mpi4py import MPI
from numpy.typing import DTypeLike

from ridgeline.bench.hpl.python_blas import subtract_product
from ridgeline.bench.hpl.team import TileTeam
from ridgeline.bench.payload import Memory
from ridgeline.parallel.devices import select_device
from ridgeline.parallel.reduce import global_max
from ridgeline.runtime.blas import blas_libraries

ORDER = 2048  # of the matrices of each thread: a product takes tenths of a second in float64
REPEATS = 5


def product_rate(
    comm: MPI.Comm, dtype: DTypeLike, threads: int, width: int = ORDER, order: int = ORDER
) -> float:
    """Return the FLOP/s of all ranks together, the best of the repeats. Collective over comm, the same on all ranks.

    Each thread subtracts products of [order, width] by [width, order] from a matrix of its own. A repeat takes as
    long as its slowest rank. With the default, and in float64, that is the rate of DGEMM.
    """
    random = np.random.default_rng(0).random((order, width)).astype(dtype)
    left, right = np.asfortranarray(random), np.asfortranarray(random.T)
    out = [np.zeros((order, order), dtype, order="F") for _ in range(threads)]

    def product(start: int, stop: int) -> None:
        for matrix in out[start:stop]:
            subtract_product(left, right, matrix)

    best = np.inf
    with TileTeam(threads) as team:
        for _ in range(REPEATS):
            comm.Barrier()
            start = perf_counter()
            team.start(product, [(thread, thread + 1) for thread in range(threads)])
            team.finish()
            best = min(best, float(global_max(comm, perf_counter() - start)))
    return 2.0 * order * order * width * threads * comm.size / best


def name_library(comm: MPI.Comm, memory: Memory, on_host: str) -> str:
    """Say which library computes. Collective over comm. on_host: what hosts factor where GPUs multiply."""
    host = str(blas_libraries()[0])
    if memory == "host":
        return f"BLAS: {host}, called by one thread each"
    device = comm.bcast(str(select_device(comm)))
    aware = ", although MPI takes device memory" if memory == "cuda" else ""
    return (
        f"a GPU for each rank, {device}, multiplies by cuBLAS; {on_host} are factored by hosts, with {host}; "
        f"messages go through host memory{aware}"
    )
