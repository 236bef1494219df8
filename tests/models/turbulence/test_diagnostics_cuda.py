"""Diagnostics on GPUs: what the kernels compile to, and what the simulator computes."""

from pathlib import Path

import numba
import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "ridgeline[cuda]"')

from numba import types

from cuda_tools import assemble, run_simulated
from ridgeline.fourier.device.kernels_cuda import LINE_THREADS
from ridgeline.models.turbulence.device import mode_sums_cuda as of_modes
from ridgeline.models.turbulence.device import point_sums_cuda as of_points
from ridgeline.models.turbulence.device.point_sums_cuda import MOST_BINS
from ridgeline.models.turbulence.gradients import BIN_EDGES
from ridgeline.models.turbulence.pressure import DEVIATIONS

DTYPES = [np.float64, np.float32]
INTEGER, SMALL, NUMBER = types.int64, types.int32, types.float64
NUMBERS, COUNTS = NUMBER[::1], INTEGER[::1]
SIZES, UNITS = types.UniTuple(INTEGER, 5), types.UniTuple(NUMBER, 3)
REGISTERS = 65536  # of a multiprocessor


def check(found, threads, blocks) -> None:
    assert found.spilled == 0
    assert found.registers <= REGISTERS // (threads * blocks)


def pairs(found, what):
    return found.ptx.count(f"{what}.global.v2")


@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_over_modes_leave_room_for_many_threads(dtype) -> None:
    field = numba.from_dtype(np.dtype(dtype))[::1]
    waves = SIZES, UNITS, SMALL[::1]
    found = assemble(of_modes.sum_flow_lines, (*waves, field, field, field, NUMBERS))
    check(found, LINE_THREADS, 4)
    assert pairs(found, "ld") % 3 == 0
    check(assemble(of_modes.sum_scalar_lines, (*waves, *[field] * 4, NUMBERS)), LINE_THREADS, 4)
    shells = assemble(of_modes.sum_shells, (*waves, NUMBER, INTEGER, *[field] * 3, NUMBERS))
    check(shells, of_modes.SHELL_THREADS, 2)
    assert "atom." not in shells.ptx


@pytest.mark.parametrize("dtype", DTYPES)
def test_derivatives_and_stresses_stay_in_the_precision_of_fields(dtype) -> None:
    real = numba.from_dtype(np.dtype(dtype))
    field, three = real[::1], types.UniTuple(real, 3)
    lines = SIZES, SMALL[::1], field, field, field
    found = [(assemble(of_modes.combine_derivatives, (field, field, three, three, *lines, field)), 8)]
    arguments = field, *lines, INTEGER, three, three, real, real, INTEGER, *[field] * 4
    found += [(assemble(of_modes.make_add_stress(dtype, shifted), arguments), 4) for shifted in (False, True)]
    for each, blocks in found:
        check(each, LINE_THREADS, blocks)
        assert (".f64" in each.ptx) == (dtype == np.float64)


@pytest.mark.parametrize("dtype", DTYPES)
def test_passes_over_points_leave_room_for_many_threads(dtype) -> None:
    real = numba.from_dtype(np.dtype(dtype))
    field, rows = real[::1], [INTEGER] * 3
    kernels = [
        (of_points.sum_powers, (field, INTEGER, INTEGER, NUMBERS)),
        (of_points.sum_increments, (field, *rows, COUNTS, NUMBERS)),
        (of_points.add_squares, (field, real, INTEGER, INTEGER, field)),
        (of_points.multiply_points, (field, field, INTEGER, field)),
        (of_points.largest_rate, (field, field, field, types.UniTuple(real, 3), *rows, NUMBERS)),
        (of_points.count_octaves, (field, *rows, NUMBER, INTEGER, INTEGER, INTEGER, COUNTS)),
        (of_points.count_evenly, (field, *rows, NUMBER, INTEGER, COUNTS)),
    ]
    for kernel, signature in kernels:
        found = assemble(kernel, signature)
        check(found, of_points.THREADS, of_points.BLOCKS)
        in_doubles = kernel not in (of_points.add_squares, of_points.multiply_points)
        assert (".f64" in found.ptx) == (in_doubles or dtype == np.float64)


def test_all_bins_find_room_in_a_thread_block() -> None:
    assert max(len(BIN_EDGES) + 1, len(DEVIATIONS) + 2) <= MOST_BINS


@pytest.mark.full
def test_in_the_simulator() -> None:
    assert " passed" in run_simulated(Path(__file__).with_name("simulated_diagnostics.py"))
