"""The rate of matrix products on all GPUs at the same time: what other rates on them are a share of."""

from __future__ import annotations

from time import perf_counter
from typing import Literal

import numpy as np
from mpi4py import MPI
from numba import cuda
from numpy.typing import NDArray

from ridgeline.bench.hpl.device.blas_cuda import DeviceBlock, Narrow, make_blas
from ridgeline.bench.hpl.products import REPEATS
from ridgeline.jit.cuda_device import SIMULATED, make_stream
from ridgeline.parallel.devices import require_device_memory, select_device
from ridgeline.parallel.reduce import global_max, together
from ridgeline.runtime.device_errors import explained

ORDER = 64 if SIMULATED else 8192  # a product takes some ten milliseconds, a launch some microseconds
_TOGETHER = 1 if SIMULATED else 4  # products that are timed together


def device_product_rate(
    comm: MPI.Comm,
    width: int | None = None,
    numbers: Literal["float64", "float32", "float16", "bfloat16"] = "float64",
) -> float:
    """Return the FLOP/s of all ranks together, the best of the repeats. Collective over comm, the same on all ranks.

    Each device subtracts products of [ORDER, width] by [width, ORDER] from a matrix; width: ORDER if not given, which
    is the rate of DGEMM. numbers: of the factors; products of less than 64 bits add up in float32. A repeat takes as
    long as its slowest rank. Raises DeviceError as `DeviceSystem` does.
    """
    width = width or ORDER
    device = select_device(comm)
    with together(comm):
        blas = make_blas()
    narrow: Narrow | None = numbers if numbers in ("float16", "bfloat16") else None
    values = np.random.default_rng(0).random(ORDER * width)
    factor = values.astype(numbers) if narrow is None else _bits(values, narrow)
    zeros = np.zeros(ORDER * ORDER, np.float64 if numbers == "float64" else np.float32)
    parts = {"matrices of products": float(zeros.nbytes + 2 * factor.nbytes)}
    require_device_memory(comm, device, parts, "free some of its memory")
    best = np.inf
    with explained():
        stream = make_stream()
        left, right = (cuda.to_device(factor, stream=stream) for _ in range(2))
        out = cuda.to_device(zeros, stream=stream)
        factors = (
            DeviceBlock(left, 0, ORDER, ORDER, width, narrow),
            DeviceBlock(right, 0, width, width, ORDER, narrow),
        )
        for _ in range(REPEATS):
            comm.Barrier()
            start = perf_counter()
            for _ in range(_TOGETHER):
                blas.subtract_product(*factors, DeviceBlock(out, 0, ORDER, ORDER, ORDER), stream)
            stream.synchronize()
            best = min(best, float(global_max(comm, perf_counter() - start)))
        blas.free()
    return 2.0 * _TOGETHER * ORDER * ORDER * width * comm.size / best


def _bits(values: NDArray[np.float64], narrow: Narrow) -> NDArray[np.uint16]:
    """Return the bits of numbers of a narrow format, which may be rounded in any way here."""
    if narrow == "float16":
        return values.astype(np.float16).view(np.uint16)
    return (values.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
