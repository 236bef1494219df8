"""Passes of the Navier-Stokes step on GPUs: what they compile to for all sizes, what the simulator gives."""

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "ridgeline[cuda]"')

from numba import types

from cuda_tools import assemble, run_simulated
from formulas import FORMULAS
from ridgeline.config.expressions import parse
from ridgeline.elements.device.courant_cuda import largest, make_courant
from ridgeline.elements.device.tensor_cuda import LEAST_POINTS, MOST_POINTS
from ridgeline.models.navier_stokes.device.kernels_cuda import (
    make_filter,
    make_force_divergence,
    make_linear_sources,
    make_momentum,
    make_right_hand_side,
)
from ridgeline.models.navier_stokes.device.source_kernels_cuda import make_source

FIELD, ORDER, WHOLE, REAL = types.float64[::1], types.int32[::1], types.int64, types.float64
ELEMENTS = ORDER, WHOLE, WHOLE
THREE = types.UniTuple(REAL, 3)
SOURCE = (*ELEMENTS, *[FIELD] * 3, REAL, *[FIELD] * 3)
PASSES = {
    "momentum": (make_momentum, (*ELEMENTS, *[FIELD] * 8)),
    "force_divergence": (make_force_divergence, (*ELEMENTS, *[FIELD] * 7)),
    "right_hand_side": (
        make_right_hand_side,
        (*ELEMENTS, WHOLE, THREE, THREE, *[FIELD] * 10),
    ),
    "linear sources": (make_linear_sources, (*ELEMENTS, *[FIELD] * 6)),
    "courant": (make_courant, (*ELEMENTS, *[FIELD] * 4)),
}
SIZES = [
    n if n == 8 else pytest.param(n, marks=pytest.mark.full) for n in range(LEAST_POINTS, MOST_POINTS + 1)
]


def has_its_registers(kernel, signature) -> None:
    result = assemble(kernel, signature)
    threads, blocks = kernel.targetoptions["launch_bounds"]
    assert result.registers * threads * blocks <= 65536
    assert result.spilled == 0
    assert not re.search(r"\b(ld|st)\.local", result.ptx)
    assert not re.search(r"\bld\.f64", result.ptx), "what is shared memory is known to be"


@pytest.mark.parametrize("name", PASSES)
@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("n", SIZES)
def test_passes_spill_nothing(n, aligned, name) -> None:
    make, signature = PASSES[name]
    has_its_registers(make(n, aligned), signature)


@pytest.mark.parametrize("n", SIZES)
def test_the_filter_spills_nothing(n) -> None:
    has_its_registers(make_filter(n), (*ELEMENTS, WHOLE, FIELD, FIELD))


@pytest.mark.parametrize(
    "text", [FORMULAS[0], *(pytest.param(text, marks=pytest.mark.full) for text in FORMULAS[1:])]
)
def test_every_function_of_formulas_has_its_registers(text) -> None:
    result = assemble(make_source(8, False, parse(text)), SOURCE)
    assert result.registers <= 128
    assert result.spilled == 0


def test_a_source_reads_the_coordinates_that_it_has() -> None:
    ptx = [assemble(make_source(8, True, parse(text)), SOURCE).ptx for text in ("2*t", "y", "y + x", "x*y*z")]
    loads = [len(re.findall(r"\bld\.global(\.\w+)*\.f64", text)) for text in ptx]
    more = np.diff(loads)
    assert more[0] > 0
    assert (more == more[0]).all()


def test_the_largest_number_is_found_without_atomics() -> None:
    result = assemble(largest, (FIELD, WHOLE, FIELD))
    assert not re.search(r"^\s*(atom|red)\.", result.ptx, re.MULTILINE)
    assert result.spilled == 0


@pytest.mark.full
def test_in_the_simulator() -> None:
    assert " passed" in run_simulated(Path(__file__).with_name("simulated_ns_operators_cuda.py"))
