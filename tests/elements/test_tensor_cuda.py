"""The stiffness operator on GPUs: what it compiles to for all sizes, how it is launched, what the simulator gives."""

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "ridgeline[cuda]"')

from numba import types

from cuda_tools import assemble, run_simulated, skip_without_device
from ridgeline.elements.device.gather_scatter_kernels_cuda import (
    combine_fields,
    combine_groups,
    gather_shared,
    pack_shared,
    scatter_fields,
    scatter_shared,
)
from ridgeline.elements.device.tensor_cuda import (
    LEAST_POINTS,
    MOST_AHEAD,
    MOST_POINTS,
    derivative_tables,
    launch_bounds,
    layout_of,
    make_stiffness_kernel,
)
from ridgeline.elements.quadrature import gll_derivative
from ridgeline.elements.reference import factors_of, helmholtz

SIZES = range(LEAST_POINTS, MOST_POINTS + 1)
QUICK = (2, 7, 8, 16)  # the others take the longest together


def sizes(quick):
    return [n if n in quick else pytest.param(n, marks=pytest.mark.full) for n in SIZES]


def assembled(n, dtype):
    real = types.float64 if dtype == np.float64 else types.float32
    field = real[::1]
    return assemble(make_stiffness_kernel(n, dtype), (field, field, field, types.int64, field))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", sizes(QUICK))
def test_columns_are_registers(n, dtype) -> None:
    """No column in local memory, no spills, and registers for the planned thread blocks on a multiprocessor."""
    result = assembled(n, dtype)
    threads, blocks = launch_bounds(n, dtype)
    assert result.registers * threads * blocks <= 65536
    assert result.spilled == 0
    assert not re.search(r"\b(ld|st)\.local", result.ptx)
    assert not re.search(r"\bld\.f(64|32)", result.ptx), "what is shared memory is known to be"


@pytest.mark.parametrize(("n", "dtype"), [(8, np.float64), (8, np.float32), (16, np.float64)])
def test_a_layer_takes_the_products_of_the_formula(n, dtype) -> None:
    """The march in k stays a loop: 6 n + 6 multiply-adds of a layer, each factor loaded once."""
    result = assembled(n, dtype)
    kind = "f64" if dtype == np.float64 else "f32"
    assert result.count(f"fma.rn.{kind}") == 6 * n + 6
    assert result.count("bar.sync") == 2
    loads = result.ptx.count(f"ld.global.{kind}")
    of_factors = 6 * (2 if n <= MOST_AHEAD else 1)  # a layer ahead: before the loop, and in it
    of_tables = loads - n - of_factors  # copied some at a time
    assert 1 <= of_tables <= 8
    assert result.ptx.count(f"st.global.{kind}") == n


def test_single_precision_stays_single() -> None:
    ptx = assembled(8, np.float32).ptx
    assert ".f64" not in ptx
    assert ".ftz" not in ptx


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
        result = assemble(kernel, signature)
        assert ".f64" not in result.ptx or singles not in signature, "single precision stays single"
        assert not re.search(r"^\s*(atom|red)\.", result.ptx, re.MULTILINE)
        assert result.spilled == 0
        assert result.registers <= 32, "2048 threads on a multiprocessor"


@pytest.mark.parametrize("n", SIZES)
def test_thread_blocks_are_full_warps_or_nearly(n) -> None:
    layout = layout_of(n)
    assert 32 <= layout.threads <= 256
    assert layout.threads / (-(-layout.threads // 32) * 32) > 0.85
    assert layout.blocks(7 * layout.elements) == 7
    assert layout.blocks(7 * layout.elements + 1) == 8
    assert layout.pitch % 2 == 1


@pytest.mark.parametrize("n", [LEAST_POINTS - 1, MOST_POINTS + 1])
def test_other_sizes_are_refused(n) -> None:
    with pytest.raises(ValueError, match=f"n = {n} .* {LEAST_POINTS} to {MOST_POINTS}"):
        layout_of(n)


@pytest.mark.full
def test_in_the_simulator() -> None:
    assert " passed" in run_simulated(Path(__file__).with_name("simulated_tensor_cuda.py"))


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
