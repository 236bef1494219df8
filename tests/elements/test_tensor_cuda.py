"""The stiffness operator on GPUs: it compiles without spills for all sizes; the simulator and a GPU run it."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "numba-cuda[cu13]"')

from numba import types

from cuda_tools import compile_without_spills, run_simulated, skip_without_device, uses_atomics
from ridgeline.elements.device.gather_scatter_cuda import (
    combine_fields,
    combine_groups,
    gather_shared,
    pack_shared,
    scatter_fields,
    scatter_shared,
)
from ridgeline.elements.device.tensor_cuda import (
    LEAST_POINTS,
    MOST_POINTS,
    derivative_tables,
    layout_of,
    make_stiffness_kernel,
)
from ridgeline.elements.quadrature import gll_derivative
from ridgeline.elements.reference import factors_of, helmholtz

pytestmark = pytest.mark.gpu

SIZES = range(LEAST_POINTS, MOST_POINTS + 1)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", SIZES)
def test_columns_are_registers(n, dtype) -> None:
    field = (types.float64 if dtype == np.float64 else types.float32)[::1]
    ptx = compile_without_spills(make_stiffness_kernel(n, dtype), (field, field, field, types.int64, field))
    if dtype == np.float32:
        assert ".f64" not in ptx
        assert ".ftz" not in ptx, "tiny numbers must not become zero on one machine only"


def test_sums_of_copies_are_without_atomics() -> None:
    lists, values, singles, whole = types.int32[::1], types.float64[::1], types.float32[::1], types.int64
    four = types.UniTuple(whole, 4)
    for kernel, signature in (
        (combine_groups, (lists, four, values, values, whole, whole)),
        (combine_fields, (lists, four, whole, values)),
        (combine_fields, (lists, four, whole, singles)),
        (gather_shared, (lists, lists, whole, values, values)),
        (gather_shared, (lists, lists, whole, singles, singles)),
        (pack_shared, (lists, whole, values, values)),
        (scatter_shared, (lists, lists, lists, lists, values, values, values, values, whole, whole)),
        (scatter_fields, (lists, lists, lists, lists, values, values, whole, values)),
        (scatter_fields, (lists, lists, lists, lists, singles, singles, whole, singles)),
    ):
        ptx = compile_without_spills(kernel, signature)
        assert not uses_atomics(ptx)
        assert ".f64" not in ptx or singles not in signature, "single precision stays single"


def test_in_the_simulator() -> None:
    run_simulated(Path(__file__).with_name("simulated_tensor_cuda.py"))


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", SIZES)
def test_on_a_gpu_equals_the_reference(n, dtype) -> None:
    skip_without_device()
    from numba import cuda

    count = 37
    rng = np.random.default_rng(3)
    u = rng.standard_normal((count, n, n, n)).astype(dtype)
    metrics = rng.standard_normal((count, 9, n, n, n))
    factors = factors_of(metrics, np.ones_like(u)).astype(dtype)
    derivative = gll_derivative(n)
    expected = helmholtz(u.astype(float), 1.0, 0.0, factors.astype(float), np.zeros_like(u), derivative)
    layout, out = layout_of(n), cuda.device_array(u.size, dtype)
    make_stiffness_kernel(n, dtype)[layout.blocks(count), (n, n, layout.elements)](
        *map(cuda.to_device, (u.reshape(-1), factors.reshape(-1))),
        cuda.to_device(derivative_tables(derivative).astype(dtype).reshape(-1)),
        count,
        out,
    )
    found = out.copy_to_host().reshape(u.shape)
    tolerance = 1e-12 if dtype == np.float64 else 1e-4
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * abs(expected).max())
