"""Transforms within thread blocks in numba-cuda's simulator, beside NumPy; test_block_fft_cuda.py runs this file."""

import numpy as np
import pytest
from numba import cuda

from ridgeline.fourier.device import block_fft_cuda as block
from ridgeline.fourier.device.block_plans import block_transform
from ridgeline.jit.cuda_device import SIMULATED, device_function, load_pair, store_pair
from simulator import ON_GPU

assert SIMULATED != ON_GPU, "run with NUMBA_ENABLE_CUDASIM=1"
COLUMNS = 2
TOLERANCE = {np.float64: 2e-15, np.float32: 1e-6}


def fetch_of(plan):
    threads = plan.threads

    def one(m):
        return device_function(lambda x, t, c: (load_pair(x, (t + m * threads) * COLUMNS + c),))

    return block.join([one(m) for m in range(plan.held)])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("sign", [block.FORWARD, block.INVERSE])
@pytest.mark.parametrize("n", [8, 12, 16, 24, 32, 64, 96, 128])
def test_equals_numpy(n, sign, dtype) -> None:
    plan = block_transform(n)
    room, held, threads = plan.room, plan.held, plan.threads
    real = np.dtype(dtype)  # a class is no type of a closure of Numba
    fft, fetch = block.make_block_fft(n, dtype, sign, COLUMNS), fetch_of(plan)

    @cuda.jit
    def transform(x, table, out):
        shared = cuda.shared.array(room * COLUMNS, real)
        c, t = cuda.threadIdx.x % COLUMNS, cuda.threadIdx.x // COLUMNS
        y = fft(fetch(x, t, c), t, c, table, shared)
        for m in range(held):
            store_pair(out, (t + m * threads) * COLUMNS + c, y[m][0], y[m][1])

    x = np.random.default_rng(1).standard_normal((n, COLUMNS, 2)).astype(dtype)
    out = cuda.to_device(np.zeros(x.size, dtype))
    table = cuda.to_device(block.twiddle_factors(n, dtype))
    transform[1, threads * COLUMNS](cuda.to_device(x.ravel()), table, out)
    found = out.copy_to_host().reshape(x.shape)
    whole = x[..., 0].astype(np.float64) + 1j * x[..., 1]
    expected = np.fft.fft(whole, axis=0) if sign < 0 else np.fft.ifft(whole, axis=0) * n
    difference = np.abs(found[..., 0] + 1j * found[..., 1] - expected).max()
    assert difference <= TOLERANCE[dtype] * np.abs(expected).max()
