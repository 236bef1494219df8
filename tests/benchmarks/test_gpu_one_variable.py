"""The one-variable kernel of the GPU benchmark: it compiles without spills, and the simulator runs it."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "numba-cuda[cu13]"')

from numba import types

from cuda_tools import compile_without_spills, run_simulated
from gpu_one_variable import make_diffusion

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_compiles_without_spills(dtype) -> None:
    real, integer, several = (
        types.float64 if dtype == np.float64 else types.float32,
        types.int64,
        types.UniTuple,
    )
    field = real[::1]
    signature = field, several(integer, 2), several(integer, 3), integer, real, field
    ptx = compile_without_spills(make_diffusion(dtype, 528), signature)
    assert (".f64" in ptx) == (dtype == np.float64)


def test_in_the_simulator() -> None:
    run_simulated(Path(__file__).with_name("simulated_one_variable.py"))
