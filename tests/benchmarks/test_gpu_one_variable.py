"""The one-variable kernel of the GPU benchmark: what it compiles to, and what it computes in the simulator."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "ridgeline[cuda]"')

from numba import types

from cuda_tools import assemble, run_simulated
from gpu_one_variable import make_diffusion, shape_for


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_compiles_within_its_registers_to_the_instructions_of_the_formula(dtype) -> None:
    real = types.float64 if dtype == np.float64 else types.float32
    field, integer = real[::1], types.int64
    several = types.UniTuple
    found = assemble(
        make_diffusion(dtype, 528), (field, several(integer, 2), several(integer, 3), integer, real, field)
    )
    kind = "f64" if dtype == np.float64 else "f32"
    shape = shape_for(dtype)
    assert found.registers <= 65536 // (shape.threads * shape.blocks)
    assert found.spilled == 0
    # The compiler makes several loops, for threads at the last rows; a loop of four rows has two for each.
    assert found.count(f"fma.rn.{kind}") >= 4 * 2
    assert found.count(f"mul.rn.{kind}") == found.count(f"mul.{kind}") == 0
    if dtype == np.float32:
        assert ".f64" not in found.ptx


@pytest.mark.full
def test_in_the_simulator() -> None:
    assert " passed" in run_simulated(Path(__file__).with_name("simulated_one_variable.py"))
