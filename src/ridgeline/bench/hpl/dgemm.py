"""The rate of DGEMM on all ranks and threads at the same time: what HPL's rate is a share of."""

from __future__ import annotations

from time import perf_counter

import numpy as np
from mpi4py import MPI

from ridgeline.bench.hpl import update_kernels
from ridgeline.bench.hpl.blas_calls import blas_addresses
from ridgeline.bench.hpl.team import TileTeam
from ridgeline.jit.kernel import compile_kernels, specialise
from ridgeline.parallel.communicator import in_turn_per_node
from ridgeline.parallel.reduce import global_max
from ridgeline.runtime.blas import blas_threads

ORDER = 2048  # of the matrices of each thread: 96 MiB, and a product of tenths of a second
REPEATS = 5


def measure_dgemm(comm: MPI.Comm, threads: int, order: int = ORDER, repeats: int = REPEATS) -> float:
    """Return the FLOP/s of all ranks together, the best of the repeats. Collective over comm, the same on all ranks.

    Each thread multiplies square matrices of its own: C <- C - A B. A repeat takes as long as its slowest rank.
    """
    in_turn_per_node(comm, lambda: compile_kernels(specialise([update_kernels.subtract_matrices])))
    gemm = blas_addresses(np.float64).gemm
    random = np.random.default_rng(0).random((order, order))
    left, right = np.asfortranarray(random), np.asfortranarray(random.T)
    out = [np.zeros((order, order), order="F") for _ in range(threads)]

    def product(start: int, stop: int) -> None:
        for matrix in out[start:stop]:
            update_kernels.subtract_matrices(gemm, left.T, right.T, matrix.T)

    best = np.inf
    with TileTeam(threads) as team, blas_threads(1):
        for _ in range(repeats):
            comm.Barrier()
            start = perf_counter()
            team.start(product, [(thread, thread + 1) for thread in range(threads)])
            team.finish()
            best = min(best, float(global_max(comm, perf_counter() - start)))
    return 2.0 * order**3 * threads * comm.size / best
