"""Advection on GPUs: what its kernels compile to for all sizes, what the simulator gives."""

import re
from pathlib import Path

import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "ridgeline[cuda]"')

from numba import types

from cuda_tools import assemble, run_simulated
from ridgeline.elements.device.advection_cuda import require_dealiasing
from ridgeline.elements.device.advection_kernels_cuda import (
    MOST_FINE,
    make_advect,
    make_advect_collocated,
    make_to_fine,
    make_turn,
)
from ridgeline.elements.device.memory import CARRIER_BYTES, advection_bytes
from ridgeline.elements.device.tensor_cuda import LEAST_POINTS, MOST_POINTS
from ridgeline.runtime.errors import DeviceError

FIELD, ORDER, WHOLE = types.float64[::1], types.int32[::1], types.int64
ELEMENTS = ORDER, WHOLE, WHOLE
TO_FINE = (*ELEMENTS, WHOLE, *[FIELD] * 6)
TURN = (*ELEMENTS, FIELD, FIELD)
ADVECT = (*ELEMENTS, WHOLE, WHOLE, *[FIELD] * 4)
COLLOCATED = (*ELEMENTS, WHOLE, *[FIELD] * 7)
SHARED = 48 * 1024  # bytes that a thread block may have without asking


def cases(pairs, quick):
    return [pair if pair in quick else pytest.param(pair, marks=pytest.mark.full) for pair in pairs]


# The 3/2 rule for all sizes; as many points as before, and the most that there are.
PAIRS = [(n, -(-3 * n // 2)) for n in range(LEAST_POINTS, MOST_POINTS + 1)]
PAIRS += [(2, 2), (2, MOST_FINE), (8, 8), (8, 16), (8, MOST_FINE), (13, MOST_FINE), (16, 16)]


def has_its_registers(kernel, signature) -> None:
    result = assemble(kernel, signature)
    threads, blocks = kernel.targetoptions["launch_bounds"]
    assert result.registers * threads * blocks <= 65536
    assert result.spilled == 0
    assert not re.search(r"\b(ld|st)\.local", result.ptx)
    assert not re.search(r"\bld\.f64", result.ptx), "what is shared memory is known to be"
    sizes = re.findall(r"^\.shared \.align \d+ \.b8 \S+\[(\d+)\]", result.ptx, re.MULTILINE)
    assert sum(map(int, sizes)) <= SHARED


@pytest.mark.parametrize("pair", cases(PAIRS, [(8, 12)]), ids=str)
def test_dealiasing_spills_nothing(pair) -> None:
    has_its_registers(make_advect(*pair), ADVECT)
    for aligned in (True, False):
        has_its_registers(make_to_fine(*pair, aligned), TO_FINE)


@pytest.mark.parametrize("m", cases(range(LEAST_POINTS, MOST_FINE + 1), [12]))
def test_turning_spills_nothing(m) -> None:
    has_its_registers(make_turn(m), TURN)


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("n", cases(range(LEAST_POINTS, MOST_POINTS + 1), [8]))
def test_collocated_advection_spills_nothing(n, aligned) -> None:
    has_its_registers(make_advect_collocated(n, aligned), COLLOCATED)


def test_what_fits_and_what_it_takes() -> None:
    for n, m in [*PAIRS, (16, 0)]:
        require_dealiasing(n, m)
    for n, m in [(8, 7), (8, MOST_FINE + 1)]:
        with pytest.raises(DeviceError, match=f"dealiasing of {n} points on {m} Gauss points"):
            require_dealiasing(n, m)
    assert advection_bytes(8, 0, 1000, axis_aligned=False) == 0
    assert advection_bytes(8, 12, 10, axis_aligned=True) == 8 * 3 * 10 * 12**3
    assert advection_bytes(8, 12, 10, axis_aligned=False) == 8 * 12 * 10 * 12**3
    assert 0.99 < advection_bytes(8, 12, 10**6, axis_aligned=True) / CARRIER_BYTES <= 1


@pytest.mark.full
def test_in_the_simulator() -> None:
    assert " passed" in run_simulated(Path(__file__).with_name("simulated_advection_cuda.py"))
