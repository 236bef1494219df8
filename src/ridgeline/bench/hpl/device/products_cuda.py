"""The rate of matrix products on all GPUs at the same time: what other rates on them are a share of."""

from __future__ import annotations

from time import perf_counter

import numpy as np
from mpi4py import MPI
from numba import cuda

from ridgeline.bench.hpl.device.blas_cuda import DeviceBlock, make_blas
from ridgeline.bench.hpl.products import REPEATS
from ridgeline.jit.cuda_device import SIMULATED, make_stream
from ridgeline.parallel.devices import require_device_memory, select_device
from ridgeline.parallel.reduce import global_max, together
from ridgeline.runtime.device_errors import explained

ORDER = 64 if SIMULATED else 8192  # a product takes some ten milliseconds, a launch some microseconds
_TOGETHER = 1 if SIMULATED else 4  # products that are timed together


def device_product_rate(comm: MPI.Comm, width: int | None = None) -> float:
    """Return the FLOP/s of all ranks together, the best of the repeats. Collective over comm, the same on all ranks.

    Each device subtracts products of [ORDER, width] by [width, ORDER] from a matrix; width: ORDER if not given, which
    is the rate of DGEMM. A repeat takes as long as its slowest rank. Raises DeviceError as `DeviceSystem` does.
    """
    width = width or ORDER
    device = select_device(comm)
    with together(comm):
        blas = make_blas()
    parts = {"matrices of products": 8.0 * ORDER * (ORDER + 2 * width)}
    require_device_memory(comm, device, parts, "free some of its memory")
    best = np.inf
    with explained():
        stream = make_stream()
        values = np.random.default_rng(0).random(ORDER * width)
        left, right = (cuda.to_device(values, stream=stream) for _ in range(2))
        out = cuda.to_device(np.zeros(ORDER * ORDER), stream=stream)
        factors = DeviceBlock(left, 0, ORDER, ORDER, width), DeviceBlock(right, 0, width, width, ORDER)
        for _ in range(REPEATS):
            comm.Barrier()
            start = perf_counter()
            for _ in range(_TOGETHER):
                blas.subtract_product(*factors, DeviceBlock(out, 0, ORDER, ORDER, ORDER), stream)
            stream.synchronize()
            best = min(best, float(global_max(comm, perf_counter() - start)))
        blas.free()
    return 2.0 * _TOGETHER * ORDER * ORDER * width * comm.size / best
