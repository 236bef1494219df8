"""Schwarz multigrid on GPUs: its kernels compile without spills, and the simulator runs it."""

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "numba-cuda[cu13]"')

from numba import types

from cuda_tools import compile_without_spills, run_simulated, uses_atomics
from ridgeline.elements.device.schwarz_kernels_cuda import (
    make_collect,
    make_prolong,
    make_residual,
    make_residual_of_boxes,
    make_restrict,
    make_sweep,
    pack_faces,
    scale_points,
)
from ridgeline.elements.device.tensor_cuda import tables_of
from ridgeline.elements.quadrature import gll_derivative

pytestmark = pytest.mark.gpu

DOUBLE, SINGLE, WHOLE = types.float64[::1], types.float32[::1], types.int64[::1]
REAL, LONG = np.dtype(np.float32), np.dtype(np.float64)
SHAPES = [(8, 8, 8), (4, 4, 4), (12, 12, 12), (6, 4, 8), (16, 16, 16), (2, 2, 2), (16, 2, 9)]


def check(kernel, signature) -> None:
    """Compile a kernel of float32, which computes in it alone, in a fixed order."""
    ptx = compile_without_spills(kernel, signature)
    assert not re.search(r"\b(add|sub|mul|fma|div|neg|setp)\S*\.f64", ptx), "float64 is only rounded"
    assert not uses_atomics(ptx)


@pytest.mark.parametrize("r", [DOUBLE, SINGLE])
@pytest.mark.parametrize("shape", SHAPES)
def test_sweeps_spill_nothing(shape, r) -> None:
    check(make_sweep(shape, REAL), (r, WHOLE, SINGLE, SINGLE, WHOLE, SINGLE, SINGLE, SINGLE, SINGLE))


@pytest.mark.parametrize("shape", [(16, 16, 16), (15, 15, 15), (15, 16, 16)])
def test_sweeps_of_large_elements_of_float64_spill_nothing(shape) -> None:
    signature = (DOUBLE, WHOLE, DOUBLE, DOUBLE, WHOLE, *[DOUBLE] * 4)
    compile_without_spills(make_sweep(shape, LONG), signature)


def test_other_kernels_of_large_elements_of_float64_spill_nothing() -> None:
    shape = (16, 16, 16)
    _, starts = tables_of([gll_derivative(n) for n in shape])
    for kernel in (make_residual_of_boxes(shape, LONG), make_residual(shape, starts, LONG)):
        compile_without_spills(kernel, (DOUBLE,) * 7)
    for make in (make_restrict, make_prolong):
        compile_without_spills(make(shape, (15, 15, 15), LONG), (DOUBLE,) * 3)


@pytest.mark.parametrize("shape", SHAPES)
def test_residuals_and_transfers_spill_nothing(shape) -> None:
    signature = (DOUBLE, *[SINGLE] * 6)
    _, starts = tables_of([gll_derivative(n) for n in shape])
    check(make_residual_of_boxes(shape, REAL), signature)
    check(make_residual(shape, starts, REAL), signature)
    for make in (make_restrict, make_prolong):
        check(make(shape, tuple(max(2, n // 2) for n in shape), REAL), (SINGLE,) * 3)


def test_passes_over_points_spill_nothing() -> None:
    for kernel, signature in (
        (make_collect((8, 8, 8)), (WHOLE, SINGLE, SINGLE, SINGLE, SINGLE)),
        (pack_faces, (WHOLE, DOUBLE, SINGLE, SINGLE)),
        (pack_faces, (WHOLE, SINGLE, SINGLE, SINGLE)),
        (scale_points, (SINGLE, SINGLE)),
    ):
        check(kernel, signature)


def test_in_the_simulator() -> None:
    run_simulated(Path(__file__).with_name("simulated_schwarz_cuda.py"))
