"""Schwarz multigrid on GPUs: what its kernels compile to, what the simulator gives, what is refused."""

import re
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
from ridgeline.elements.device.schwarz_cuda import STATIC_SHARED, require_kernels
from ridgeline.elements.device.schwarz_kernels_cuda import (
    THREADS,
    make_collect,
    make_sweep,
    pack_faces,
    scale_points,
    sweep_bytes,
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


def check(kernel, signature, threads):
    """Check registers, spills, shared memory and precision of a kernel of float32."""
    result = assemble(kernel, signature)
    bound, blocks = kernel.targetoptions["launch_bounds"]
    assert 0 <= bound - threads < 32
    assert result.registers * bound * blocks <= 65536
    assert result.spilled == 0
    assert shared_bytes(result.ptx) <= STATIC_SHARED
    assert not re.search(r"\b(ld|st)\.local", result.ptx)
    assert not re.search(r"\bld\.f(64|32)", result.ptx), "what is shared memory is known to be"
    assert not re.search(r"\b(add|sub|mul|fma|div|neg|setp)\S*\.f64", result.ptx), "float64 is but rounded"
    assert (".f64" in result.ptx) == (DOUBLE in signature)
    assert "atom" not in result.ptx
    return result


@pytest.mark.parametrize("r", [DOUBLE, pytest.param(SINGLE, marks=pytest.mark.full)])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_sweep_is_products_of_lines_in_registers(shape, r) -> None:
    wide = tuple(n + 2 for n in shape)
    signature = (r, WHOLE, SINGLE, SINGLE, WHOLE, SINGLE, SINGLE, SINGLE, SINGLE)
    result = check(make_sweep(shape, REAL), signature, shared_box(wide).threads)
    assert result.count("bar.sync") == 5
    assert shared_bytes(result.ptx) == sweep_bytes(shape, REAL)


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
    require_kernels((16, 16, 16), "float32")
    require_kernels((2, 9, 15), "float64")
    for shape, dtype in (((17, 8, 8), "float32"), ((8, 1, 8), "float32"), ((16, 16, 16), "float64")):
        with pytest.raises(DeviceError, match=rf'{shape[0]}, {shape[1]}, .* of {dtype} .*device = "cpu"'):
            require_kernels(shape, dtype)


@pytest.mark.full
def test_in_the_simulator() -> None:
    assert " passed" in run_simulated(Path(__file__).with_name("simulated_schwarz_cuda.py"))
