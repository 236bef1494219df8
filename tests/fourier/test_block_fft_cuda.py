"""Fused transforms on GPUs: what the simulator computes, and what kernels compile to."""

from pathlib import Path

import numba
import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "numba-cuda[cu13]"')

from numba import types

from cuda_tools import compile_without_spills, run_simulated
from ridgeline.fourier.device import z_stage_cuda
from ridgeline.models.turbulence.device.fused_rows_cuda import make_row_products

pytestmark = pytest.mark.gpu

INTEGER = types.int64


def test_in_the_simulator() -> None:
    run_simulated(Path(__file__).with_name("simulated_fused.py"))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [64, 256, 512, 768])
def test_kernels_spill_nothing(n, dtype) -> None:
    real = numba.from_dtype(np.dtype(dtype))
    numbers, table = real[::1], (INTEGER[::1], INTEGER, INTEGER, INTEGER)
    sums = numbers, INTEGER, INTEGER, INTEGER, numbers, numbers, *table, numbers, numbers
    for kernel, signature in (
        (z_stage_cuda.make_spread(n, dtype), (numbers, *table, numbers, numbers)),
        (z_stage_cuda.make_collect(n, dtype), (numbers, *table, numbers, numbers)),
        (z_stage_cuda.make_collect_sum(n, dtype), sums),
    ):
        ptx = compile_without_spills(kernel, signature)
        assert (".f64" in ptx) == (dtype == np.float64)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [64, 512, 768, 1024])
def test_rows_spill_nothing(n, dtype) -> None:
    real = numba.from_dtype(np.dtype(dtype))
    numbers = real[::1]
    counts, per_cell = types.UniTuple(INTEGER, 2), types.UniTuple(real, 3)
    signature = counts, *[INTEGER] * 4, per_cell, numbers, types.int32[::1], numbers, numbers
    compile_without_spills(make_row_products(n, dtype, 0, True), signature)
