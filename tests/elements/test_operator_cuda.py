"""The Helmholtz operator on GPUs: its kernels compile without spills for all sizes, and the simulator runs it."""

from pathlib import Path

import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "numba-cuda[cu13]"')

from numba import types

from cuda_tools import compile_without_spills, run_simulated
from ridgeline.elements.device.helmholtz_cuda import (
    invert_diagonal,
    make_helmholtz,
    make_helmholtz_of_boxes,
    zero_points,
)
from ridgeline.elements.device.tensor_cuda import LEAST_POINTS, MOST_POINTS

pytestmark = pytest.mark.gpu

FIELD, ORDER, WHOLE, REAL = types.float64[::1], types.int32[::1], types.int64, types.float64
SIGNATURE = (ORDER, WHOLE, WHOLE, WHOLE, WHOLE, FIELD, REAL, REAL, FIELD, FIELD, FIELD, FIELD)


@pytest.mark.parametrize("make", [make_helmholtz, make_helmholtz_of_boxes])
@pytest.mark.parametrize("n", range(LEAST_POINTS, MOST_POINTS + 1))
def test_columns_are_registers(n, make) -> None:
    compile_without_spills(make(n), SIGNATURE)


def test_passes_over_points_spill_nothing() -> None:
    compile_without_spills(zero_points, (types.int64[::1], FIELD))
    compile_without_spills(invert_diagonal, (REAL, REAL, FIELD, FIELD, FIELD))


def test_in_the_simulator() -> None:
    run_simulated(Path(__file__).with_name("simulated_operator_cuda.py"))
