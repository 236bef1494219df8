"""The GPU sweep of formulas: it compiles without spills and without fused operations; the simulator runs it."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "numba-cuda[cu13]"')

from numba import types

from cuda_tools import compile_without_spills, run_simulated
from reaction_diffusion_cases import BRUSSELATOR, EVERYTHING, make_case
from ridgeline.models.reaction_diffusion.device.kernels_cuda import make_sweep, set_sides
from ridgeline.models.reaction_diffusion.engine_cpu import axes_of
from ridgeline.models.reaction_diffusion.kernels import program_of

pytestmark = pytest.mark.gpu


def signature(dtype, noisy):
    real = types.float64 if dtype == np.float64 else types.float32
    fields, integer, several = real[::1], types.int64, types.UniTuple
    keys = several(types.uint32, 2 * noisy) if noisy else types.Tuple(())
    three = several(integer, 3)
    return fields, fields, three, three, three, integer, real, keys, fields


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_nothing_is_spilled_or_fused(dtype):
    """A fused product and sum would round differently from the CPU. No simulator shows it."""
    noisy = [{**each, "noise": 0.3} for each in BRUSSELATOR]
    for species, count in ((BRUSSELATOR, 0), (noisy, 2)):
        case = make_case(species, (8, 8, 8))
        program = program_of(case.species, case.model.parameters, case.grid.spacing(), axes_of(case))
        ptx = compile_without_spills(make_sweep(program, dtype, 528), signature(dtype, count))
        assert "fma.rn" not in ptx
        assert (".f64" in ptx) == (dtype == np.float64)
        assert ".ftz" not in ptx, "tiny numbers must not become zero on one machine only"


def test_all_functions_and_sides_compile():
    case = make_case(EVERYTHING, (8, 8, 8))
    for dtype in (np.float64, np.float32):
        program = program_of(case.species, case.model.parameters, case.grid.spacing(), axes_of(case))
        compile_without_spills(make_sweep(program, dtype, 528), signature(dtype, 2), sines=True)
    real, integers = types.float64[::1], types.int64[::1]
    three = types.UniTuple(types.int64, 3)
    compile_without_spills(set_sides, (real, three, types.int64, three, real, integers, real))


def test_in_the_simulator():
    run_simulated(Path(__file__).with_name("simulated_reaction_cuda.py"))
