"""Diagnostics on GPUs: their kernels compile without spills, and the simulator runs them."""

from pathlib import Path

import numba
import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "numba-cuda[cu13]"')

from numba import types

from cuda_tools import compile_without_spills, run_simulated, uses_atomics
from ridgeline.models.turbulence.device import kernels_diagnostics_cuda as of_modes
from ridgeline.models.turbulence.device import kernels_diagnostics_cuda as of_points

pytestmark = pytest.mark.gpu

DTYPES = [np.float64, np.float32]
INTEGER, SMALL, NUMBER = types.int64, types.int32, types.float64
NUMBERS, COUNTS = NUMBER[::1], INTEGER[::1]
SIZES, UNITS = types.UniTuple(INTEGER, 5), types.UniTuple(NUMBER, 3)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_over_modes_spill_nothing(dtype) -> None:
    field = numba.from_dtype(np.dtype(dtype))[::1]
    waves = SIZES, UNITS, SMALL[::1]
    compile_without_spills(of_modes.sum_flow_lines, (*waves, field, field, field, NUMBERS))
    compile_without_spills(of_modes.sum_scalar_lines, (*waves, *[field] * 4, NUMBERS))
    shells = compile_without_spills(of_modes.sum_shells, (*waves, NUMBER, INTEGER, *[field] * 3, NUMBERS))
    assert not uses_atomics(shells)


@pytest.mark.parametrize("dtype", DTYPES)
def test_derivatives_and_stresses_stay_in_the_precision_of_fields(dtype) -> None:
    real = numba.from_dtype(np.dtype(dtype))
    field, three = real[::1], types.UniTuple(real, 3)
    lines = SIZES, SMALL[::1], field, field, field
    stress = field, *lines, INTEGER, three, three, real, real, INTEGER, *[field] * 4
    for kernel, signature in (
        (of_modes.combine_derivatives, (field, field, three, three, *lines, field)),
        (of_modes.make_add_stress(dtype, False), stress),
        (of_modes.make_add_stress(dtype, True), stress),
    ):
        assert (".f64" in compile_without_spills(kernel, signature)) == (dtype == np.float64)


@pytest.mark.parametrize("dtype", DTYPES)
def test_passes_over_points_spill_nothing(dtype) -> None:
    real = numba.from_dtype(np.dtype(dtype))
    field, rows = real[::1], [INTEGER] * 3
    for kernel, signature in (
        (of_points.sum_powers, (field, INTEGER, INTEGER, NUMBERS)),
        (of_points.sum_increments, (field, *rows, COUNTS, NUMBERS)),
        (of_points.largest_rate, (field, field, field, types.UniTuple(real, 3), *rows, NUMBERS)),
        (of_points.count_octaves, (field, *rows, NUMBER, INTEGER, INTEGER, INTEGER, COUNTS)),
        (of_points.count_evenly, (field, *rows, NUMBER, INTEGER, COUNTS)),
    ):
        compile_without_spills(kernel, signature)
    for kernel, signature in (
        (of_points.add_squares, (field, real, INTEGER, INTEGER, field)),
        (of_points.multiply_points, (field, field, INTEGER, field)),
    ):
        assert (".f64" in compile_without_spills(kernel, signature)) == (dtype == np.float64)


def test_in_the_simulator() -> None:
    run_simulated(Path(__file__).with_name("simulated_diagnostics.py"))
