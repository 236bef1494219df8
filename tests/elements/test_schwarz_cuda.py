"""Schwarz multigrid on GPUs: what its kernels compile to, what the simulator gives, what is refused."""

import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "ridgeline[cuda]"')

from numba import types

from cuda_tools import assemble, run_simulated
from ridgeline.elements.device.lines_cuda import shared_box
from ridgeline.elements.device.multigrid_kernels_cuda import (
    make_prolong,
    make_residual,
    make_residual_of_boxes,
    make_restrict,
)
from ridgeline.elements.device.schwarz_cuda import require_kernels
from ridgeline.elements.device.schwarz_kernels_cuda import (
    STATIC_SHARED,
    THREADS,
    make_collect,
    make_sweep,
    pack_faces,
    scale_points,
    sweep_layout,
)
from ridgeline.elements.device.tensor_cuda import tables_of
from ridgeline.elements.quadrature import gll_derivative
from ridgeline.runtime.errors import DeviceError

DOUBLE, SINGLE, WHOLE = types.float64[::1], types.float32[::1], types.int64[::1]
REAL = np.dtype(np.float32)
QUICK = (8, 8, 8)  # each takes seconds
LONGER = [(4, 4, 4), (12, 12, 12), (6, 4, 8), (16, 16, 16), (2, 2, 2), (16, 2, 9)]
SHAPES = [QUICK, *(pytest.param(shape, marks=pytest.mark.full) for shape in LONGER)]


def shared_bytes(ptx):
    """Return the bytes of shared memory that a thread block of a kernel takes."""
    return sum(int(size) for size in re.findall(r"\.shared \.align \d+ \.b8 \w+\[(\d+)\];", ptx))


def fits(kernel, signature, threads):
    """Check registers, spills and shared memory of a kernel."""
    result = assemble(kernel, signature)
    bound, blocks = kernel.targetoptions["launch_bounds"]
    assert 0 <= bound - threads < 32
    assert result.registers * bound * blocks <= 65536
    assert result.spilled == 0
    assert shared_bytes(result.ptx) <= STATIC_SHARED
    assert not re.search(r"\b(ld|st)\.local", result.ptx)
    assert not re.search(r"\bld\.f(64|32)", result.ptx), "what is shared memory is known to be"
    return result


def check(kernel, signature, threads):
    """Check what `fits` does, and the precision of a kernel of float32."""
    result = fits(kernel, signature, threads)
    assert not re.search(r"\b(add|sub|mul|fma|div|neg|setp)\S*\.f64", result.ptx), "float64 is but rounded"
    assert (".f64" in result.ptx) == (DOUBLE in signature)
    assert "atom" not in result.ptx
    return result


@pytest.mark.parametrize("r", [DOUBLE, pytest.param(SINGLE, marks=pytest.mark.full)])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_sweep_is_products_of_lines_in_registers(shape, r) -> None:
    layout = sweep_layout(shape, REAL)
    signature = (r, WHOLE, SINGLE, SINGLE, WHOLE, SINGLE, SINGLE, SINGLE, SINGLE)
    result = check(make_sweep(shape, REAL), signature, layout.box.threads)
    assert result.count("bar.sync") == 5
    assert shared_bytes(result.ptx) == layout.bytes
    assert layout.tables == sum((n + 2) * (n + 3) for n in shape)


@pytest.mark.parametrize(
    ("shape", "tables", "pitch"),
    [
        ((16, 16, 16), False, 18),
        pytest.param((15, 15, 15), True, 17, marks=pytest.mark.full),
        pytest.param((15, 16, 16), False, 19, marks=pytest.mark.full),
    ],
)
def test_large_elements_of_float64_leave_eigenvectors_in_global_memory(shape, tables, pitch) -> None:
    layout = sweep_layout(shape, np.float64)
    assert (bool(layout.tables), layout.box.pitch) == (tables, pitch)
    signature = (DOUBLE, WHOLE, DOUBLE, DOUBLE, WHOLE, *[DOUBLE] * 4)
    result = fits(make_sweep(shape, np.dtype(np.float64)), signature, layout.box.threads)
    assert shared_bytes(result.ptx) == layout.bytes
    assert result.count("bar.sync") == 5


@pytest.mark.full
def test_other_kernels_of_large_elements_of_float64_fit() -> None:
    shape, real = (16, 16, 16), np.dtype(np.float64)
    _, starts = tables_of([gll_derivative(n) for n in shape])
    for kernel in (make_residual_of_boxes(shape, real), make_residual(shape, starts, real)):
        fits(kernel, (DOUBLE,) * 7, 256)
    for make in (make_restrict, make_prolong):
        fits(make(shape, (15, 15, 15), real), (DOUBLE,) * 3, shared_box(shape).threads)


@pytest.mark.parametrize("shape", SHAPES)
def test_residuals_keep_columns_in_registers(shape) -> None:
    _, ny, nx = shape
    signature = (DOUBLE, *[SINGLE] * 6)
    _, starts = tables_of([gll_derivative(n) for n in shape])
    boxes = check(make_residual_of_boxes(shape, REAL), signature, ny * nx)
    curved = check(make_residual(shape, starts, REAL), signature, ny * nx)
    assert boxes.count("bar.sync") == 1
    assert boxes.count("st.global.f32") >= 2
    assert curved.count("bar.sync") >= 2


@pytest.mark.parametrize("make", [make_restrict, make_prolong])
@pytest.mark.parametrize("shape", SHAPES)
def test_transfers_pass_three_barriers(shape, make) -> None:
    kernel = make(shape, tuple(max(2, n // 2) for n in shape), REAL)
    assert check(kernel, (SINGLE, SINGLE, SINGLE), shared_box(shape).threads).count("bar.sync") == 3


def test_passes_over_points_leave_room_for_all_threads() -> None:
    for kernel, signature in (
        (make_collect((8, 8, 8)), (WHOLE, SINGLE, SINGLE, SINGLE, SINGLE)),
        (pack_faces, (WHOLE, DOUBLE, SINGLE, SINGLE)),
        (pack_faces, (WHOLE, SINGLE, SINGLE, SINGLE)),
        (scale_points, (SINGLE, SINGLE)),
    ):
        assert check(kernel, signature, THREADS).registers <= 32


def test_lines_meet_different_banks_and_warps_are_full() -> None:
    for n in range(4, 19):
        box = shared_box((n, n, n))
        assert box.pitch % 2 == 1
        assert box.threads % 32 == 0
        assert n * n <= 2 * box.threads < n * n + 64


def test_what_no_kernel_takes_is_refused() -> None:
    for shape in product((2, 9, 14, 15, 16), repeat=3):
        require_kernels(shape)
        for dtype in ("float32", "float64"):
            assert sweep_layout(shape, dtype).bytes <= STATIC_SHARED
    for shape in ((17, 8, 8), (8, 1, 8)):
        with pytest.raises(DeviceError, match=rf'{shape[0]}, {shape[1]}, .*from 1 to 15.*device = "cpu"'):
            require_kernels(shape)


@pytest.mark.full
@pytest.mark.parametrize(
    "test",
    [
        "test_a_cycle_is_the_host_s",
        "test_eigenvectors_may_stay_in_global_memory",
        "test_elements_of_order_15_in_float64",
    ],
)
def test_in_the_simulator(test: str) -> None:
    """Each in a process of its own: they take minutes."""
    assert " passed" in run_simulated(Path(__file__).with_name(f"simulated_schwarz_cuda.py::{test}"))
