"""The Helmholtz operator on GPUs: what its kernels compile to, what the simulator gives."""

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "ridgeline[cuda]"')

from numba import types

from cuda_tools import assemble, run_simulated
from ridgeline.elements.device.helmholtz_cuda import (
    invert_diagonal,
    make_helmholtz,
    make_helmholtz_of_boxes,
    zero_points,
)
from ridgeline.elements.device.tensor_cuda import LEAST_POINTS, MOST_POINTS, launch_bounds

FIELD, ORDER, WHOLE, REAL = types.float64[::1], types.int32[::1], types.int64, types.float64
SIZES = [
    n if n in (2, 8, 16) else pytest.param(n, marks=pytest.mark.full)
    for n in range(LEAST_POINTS, MOST_POINTS + 1)
]
SIGNATURE = (ORDER, WHOLE, WHOLE, WHOLE, WHOLE, FIELD, REAL, REAL, FIELD, FIELD, FIELD, FIELD)


@pytest.mark.parametrize("make", [make_helmholtz, make_helmholtz_of_boxes])
@pytest.mark.parametrize("n", SIZES)
def test_columns_are_registers(n, make) -> None:
    """No column in local memory, no spills, and registers for the planned thread blocks on a multiprocessor."""
    result = assemble(make(n), SIGNATURE)
    threads, blocks = launch_bounds(n, np.float64)
    assert result.registers * threads * blocks <= 65536
    assert result.spilled == 0
    assert not re.search(r"\b(ld|st)\.local", result.ptx)
    assert not re.search(r"\bld\.f64", result.ptx), "what is shared memory is known to be"


def test_boxes_pass_one_barrier_and_read_no_array_of_points_but_u() -> None:
    n = 8
    result = assemble(make_helmholtz_of_boxes(n), SIGNATURE)
    assert result.count("bar.sync") == 1
    of_tables = result.ptx.count("ld.global.f64") - n - 4  # u; scale and volume
    assert 1 <= of_tables <= 8, "copied some at a time"


def test_passes_over_points_leave_room_for_all_threads() -> None:
    for kernel, signature in (
        (zero_points, (types.int64[::1], FIELD)),
        (invert_diagonal, (REAL, REAL, FIELD, FIELD, FIELD)),
    ):
        result = assemble(kernel, signature)
        assert result.registers <= 32
        assert result.spilled == 0


@pytest.mark.full
def test_in_the_simulator() -> None:
    assert " passed" in run_simulated(Path(__file__).with_name("simulated_operator_cuda.py"))
