"""The step lengths of one-pass conjugate gradients in GPU memory: the twin of `krylov.cg.HostStepLengths`.

The device adds up the sums that thread blocks leave and computes alpha and beta. On one rank the host waits for
nothing before the last iteration. Several ranks need one Allreduce of four numbers, which goes through the host.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import cuda

from ridgeline.jit.cuda_device import (
    SIMULATED,
    DeviceArray,
    device_function,
    kernel,
    load,
    store,
    sum_threads,
)
from ridgeline.krylov.cg import SUMS, step_lengths

if TYPE_CHECKING:
    from mpi4py import MPI

FOLD_THREADS = 8 if SIMULATED else 256
FOLD_ROWS = 8 * FOLD_THREADS  # of sums that a thread block adds up
_FOLD_SUMS = SUMS * FOLD_THREADS

_step_lengths = device_function(step_lengths)


class CudaStepLengths:
    """Step lengths in device memory, from sums flat [rows, 4], a row for each thread block that leaves sums.

    values: float64 device array, alpha and beta first; what follows them belongs to the operator. rows: the most rows
    of a pass. The operator's passes run on `stream`, or wait for the event `known`, which is recorded when alpha and
    beta are set.
    """

    def __init__(self, comm: MPI.Comm, values: DeviceArray, rows: int, stream: Any) -> None:
        self._comm, self._values, self._stream = comm, values, stream
        self.sums = cuda.to_device(np.zeros(rows * SUMS))
        self.known = cuda.event()
        self._no_sums, self._no_steps = np.zeros(rows * SUMS), np.zeros(2)
        self._folds: list[DeviceArray] = []
        while rows > 1 or not self._folds:
            rows = -(-rows // FOLD_ROWS)
            self._folds.append(cuda.device_array(rows * SUMS, np.float64))
        self._mine, self._all = (cuda.pinned_array(SUMS, np.float64) for _ in range(2))
        self._residuals, self._count = cuda.device_array(1, np.float64), 0

    def reset(self, iterations: int) -> None:
        if self._residuals.size < iterations + 1:
            self._residuals = cuda.device_array(iterations + 1, np.float64)
        self._count = 0
        self.sums.copy_to_device(self._no_sums)
        self._values[:2].copy_to_device(self._no_steps)

    def allreduce(self, sums: DeviceArray) -> None:
        """Queue on the stream what sets alpha and beta from the sums of all ranks.

        Collective: one Allreduce of four numbers on several ranks, for which the host waits.
        """
        source, rows = sums, sums.size // SUMS
        for target in self._folds:
            fold_rows[target.size // SUMS, FOLD_THREADS, self._stream](source, rows, target)
            source, rows = target, target.size // SUMS
        if self._comm.size > 1:
            source.copy_to_host(self._mine, stream=self._stream)
            self._stream.synchronize()
            self._comm.Allreduce(self._mine, self._all)
            source.copy_to_device(self._all, stream=self._stream)
        set_steps[1, 1, self._stream](source, self._count, self._values, self._residuals)
        self._count += 1
        self.known.record(self._stream)

    def residuals(self) -> list[float]:
        self._stream.synchronize()
        residuals: list[float] = self._residuals.copy_to_host()[: self._count].tolist()
        return residuals


@kernel(FOLD_THREADS)
def fold_rows(sums, rows, out):
    """Row b of out = the sum of rows b FOLD_ROWS ... (b + 1) FOLD_ROWS of sums, flat [rows, 4] device arrays.

    Launch ceil(rows / FOLD_ROWS) x FOLD_THREADS.
    """
    scratch = cuda.shared.array(_FOLD_SUMS, np.float64)
    thread = cuda.threadIdx.x
    a = b = c = d = 0.0
    begin = cuda.blockIdx.x * FOLD_ROWS
    for row in range(begin + thread, min(begin + FOLD_ROWS, rows), FOLD_THREADS):
        a += load(sums, 4 * row)
        b += load(sums, 4 * row + 1)
        c += load(sums, 4 * row + 2)
        d += load(sums, 4 * row + 3)
    store(scratch, thread, a)
    store(scratch, FOLD_THREADS + thread, b)
    store(scratch, 2 * FOLD_THREADS + thread, c)
    store(scratch, 3 * FOLD_THREADS + thread, d)
    sum_threads(scratch, SUMS, thread, FOLD_THREADS)
    if thread < SUMS:
        store(out, cuda.blockIdx.x * SUMS + thread, load(scratch, thread * FOLD_THREADS))


@kernel(1)
def set_steps(sums, step, values, residuals):
    """Set alpha and beta from the four sums of all ranks, and residuals[step] = sqrt(r.r); launch one thread."""
    rr = load(sums, 0)
    alpha, beta = _step_lengths(rr, load(sums, 1), load(sums, 2), load(sums, 3))
    store(values, 0, alpha)
    store(values, 1, beta)
    store(residuals, step, math.sqrt(rr))
