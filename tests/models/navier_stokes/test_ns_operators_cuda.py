"""Passes of the Navier-Stokes step on GPUs: they compile without spills, and the simulator runs them."""

from pathlib import Path

import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "numba-cuda[cu13]"')

from numba import types

from cuda_tools import compile_without_spills, run_simulated, uses_atomics
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
from ridgeline.models.navier_stokes.device.sources_cuda import make_source
from ridgeline.models.navier_stokes.sources import SourceTerm

pytestmark = pytest.mark.gpu

FIELD, ORDER, WHOLE, REAL = types.float64[::1], types.int32[::1], types.int64, types.float64
ELEMENTS = ORDER, WHOLE, WHOLE
THREE = types.UniTuple(REAL, 3)
SOURCE = (*ELEMENTS, *[FIELD] * 2, WHOLE, REAL, *[FIELD] * 3)
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
SIZES = range(LEAST_POINTS, MOST_POINTS + 1)


@pytest.mark.parametrize("name", PASSES)
@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("n", SIZES)
def test_passes_spill_nothing(n, aligned, name) -> None:
    make, signature = PASSES[name]
    compile_without_spills(make(n, aligned), signature)


@pytest.mark.parametrize("n", SIZES)
def test_the_filter_spills_nothing(n) -> None:
    compile_without_spills(make_filter(n), (*ELEMENTS, WHOLE, FIELD, FIELD))


@pytest.mark.parametrize("text", FORMULAS)
def test_every_function_of_formulas_spills_nothing(text) -> None:
    term = SourceTerm("", 3, parse(f"({text}) + 0*t"), parse("x") if text == "x/y" else None)
    compile_without_spills(make_source(8, False, term), SOURCE, sines=True)


def test_the_largest_number_is_found_without_atomics() -> None:
    assert not uses_atomics(compile_without_spills(largest, (FIELD, WHOLE, FIELD)))


def test_in_the_simulator() -> None:
    run_simulated(Path(__file__).with_name("simulated_ns_operators_cuda.py"))
