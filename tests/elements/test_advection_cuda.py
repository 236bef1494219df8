"""Advection on GPUs: its kernels compile without spills for all sizes, and the simulator runs it."""

from pathlib import Path

import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "numba-cuda[cu13]"')

from numba import types

from cuda_tools import compile_without_spills, run_simulated
from ridgeline.elements.device.advection_cuda import (
    MOST_FINE,
    make_advect,
    make_advect_collocated,
    make_to_fine,
    make_turn,
)
from ridgeline.elements.device.tensor_cuda import LEAST_POINTS, MOST_POINTS

pytestmark = pytest.mark.gpu

FIELD, ORDER, WHOLE = types.float64[::1], types.int32[::1], types.int64
ELEMENTS = ORDER, WHOLE, WHOLE
TO_FINE = (*ELEMENTS, WHOLE, *[FIELD] * 6)
TURN = (*ELEMENTS, FIELD, FIELD)
ADVECT = (*ELEMENTS, WHOLE, WHOLE, *[FIELD] * 4)
COLLOCATED = (*ELEMENTS, WHOLE, *[FIELD] * 7)
# The 3/2 rule for all sizes; as many points as before, and the most that there are.
PAIRS = [(n, -(-3 * n // 2)) for n in range(LEAST_POINTS, MOST_POINTS + 1)]
PAIRS += [(2, 2), (2, MOST_FINE), (8, 8), (8, 16), (8, MOST_FINE), (13, MOST_FINE), (16, 16)]


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_dealiasing_spills_nothing(pair) -> None:
    compile_without_spills(make_advect(*pair), ADVECT)
    for aligned in (True, False):
        compile_without_spills(make_to_fine(*pair, aligned), TO_FINE)


@pytest.mark.parametrize("m", range(LEAST_POINTS, MOST_FINE + 1))
def test_turning_spills_nothing(m) -> None:
    compile_without_spills(make_turn(m), TURN)


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("n", range(LEAST_POINTS, MOST_POINTS + 1))
def test_collocated_advection_spills_nothing(n, aligned) -> None:
    compile_without_spills(make_advect_collocated(n, aligned), COLLOCATED)


def test_in_the_simulator() -> None:
    run_simulated(Path(__file__).with_name("simulated_advection_cuda.py"))
