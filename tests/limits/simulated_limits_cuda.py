"""Tests of the limits of GPUs in numba-cuda's simulator; test_limits_cuda.py runs this file."""

import math

import numpy as np
import pytest
from mpi4py import MPI
from numba import cuda

from ridgeline.bench.memory.limit_tables import measure_peak, measure_rates
from ridgeline.bench.memory.memory_options import PeakOptions, StreamOptions
from ridgeline.jit.cuda_device import SIMULATED
from ridgeline.limits import limits_cuda
from ridgeline.limits.limits_cuda import (
    PEAK_ROUNDS,
    SIMULATED_PEAK_ROUNDS,
    DeviceMultiplyAdds,
    measure_device_copy,
)
from ridgeline.runtime.errors import VerificationError
from simulator import ON_GPU

assert SIMULATED != ON_GPU, "run with NUMBA_ENABLE_CUDASIM=1"


@pytest.mark.parametrize("n", [1, 31, 32, 33, 100])
def test_copy_takes_every_item(n) -> None:
    source, target = cuda.to_device(np.arange(1.0, n + 1)), cuda.to_device(np.zeros(n + 1))
    limits_cuda.copy[limits_cuda.grid_of(n), limits_cuda.COPY_THREADS](source, target)
    np.testing.assert_array_equal(target.copy_to_host(), [*range(1, n + 1), 0])


def test_copy_bandwidth_is_a_number() -> None:
    assert 0 < measure_device_copy() < math.inf


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_multiply_adds_count_their_steps(dtype) -> None:
    work = DeviceMultiplyAdds(dtype)
    work.check()
    steps = (PEAK_ROUNDS if ON_GPU else SIMULATED_PEAK_ROUNDS) * limits_cuda.UNROLL
    sums = work._out.copy_to_host()
    assert sums[1] == sum(1 + chain + steps for chain in range(limits_cuda.CHAINS))
    assert work.operations == 2 * limits_cuda.CHAINS * steps * sums.size
    work._out[0] = sums[0] + 1
    with pytest.raises(VerificationError, match=f"1 of {sums.size} threads of the GPU"):
        work.check()


def test_stream_and_peak_of_a_gpu() -> None:
    rates = measure_rates(MPI.COMM_SELF, StreamOptions(), memory="cuda-staged")
    assert [row["kernel"] for row in rates.rows] == ["copy"]
    found = measure_peak(
        MPI.COMM_SELF, PeakOptions(dtype="float64", seconds=1e-3, repeats=2), memory="cuda-staged"
    )
    assert 0 < found.rows[0]["least"] <= found.rows[0]["total"]
