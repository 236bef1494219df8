"""Passes of Krylov solvers on GPUs: what they compile to, what the simulator gives."""

import re
from pathlib import Path

import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "ridgeline[cuda]"')

from numba import types

from cuda_tools import assemble, run_simulated
from ridgeline.krylov.device import kernels_cuda as kernels

FIELD, WHOLE = types.float64[::1], types.int64
REALS, FLAGS = types.UniTuple(types.float64, 3), types.UniTuple(types.boolean, 3)
PASSES = {
    "set_zero": (FIELD,),
    "subtract": (FIELD,) * 3,
    "add_scaled": (REALS, WHOLE, FIELD, FIELD),
    "cg_direction": (REALS, FLAGS, WHOLE, *[FIELD] * 3),
    "weighted_dots": (WHOLE, WHOLE, *[FIELD] * 4),
    "cg_sums": (WHOLE, WHOLE, *[FIELD] * 5),
    "cg_update": (REALS, FLAGS, WHOLE, *[FIELD] * 8),
    "fold_sums": (FIELD, WHOLE, FIELD),
}


@pytest.mark.parametrize("name", PASSES)
def test_passes_spill_nothing_and_use_no_atomics(name) -> None:
    result = assemble(getattr(kernels, name), PASSES[name])
    assert result.spilled == 0
    assert result.registers * kernels.THREADS * kernels.BLOCKS <= 65536
    assert not re.search(r"^\s*(atom|red)\.", result.ptx, re.MULTILINE)


@pytest.mark.full
def test_in_the_simulator() -> None:
    assert " passed" in run_simulated(Path(__file__).with_name("simulated_cg_cuda.py"))
