"""Formulas as device functions in numba-cuda's simulator; test_formulas.py runs this file."""

import numpy as np
import pytest
from numba import cuda

from formulas import FORMULAS, SPECIAL
from ridgeline.config.expressions import VARIABLES, parse
from ridgeline.jit.cuda_device import SIMULATED
from ridgeline.jit.formulas import point_function
from ridgeline.jit.formulas_cuda import CUDA
from simulator import ON_GPU

assert SIMULATED != ON_GPU, "run with NUMBA_ENABLE_CUDASIM=1"


@pytest.mark.parametrize("text", FORMULAS)
def test_formulas_at_a_point(text) -> None:
    """They are what NumPy makes of them, also where they have no value."""
    x, y, z = np.random.default_rng(1).uniform(-2, 2, (3, 60))
    x[: len(SPECIAL)], y[: len(SPECIAL)] = SPECIAL, np.roll(SPECIAL, 1)
    formula = parse(text)
    expected, at_point = formula(x, y, z, 0.7), point_function(formula, VARIABLES, CUDA)

    @cuda.jit
    def fill(x, y, z, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = at_point(x[i], y[i], z[i], 0.7)

    found = cuda.device_array(x.size)
    with np.errstate(all="ignore"):
        fill[2, 32](*map(cuda.to_device, (x, y, z)), found)
    np.testing.assert_allclose(found.copy_to_host(), expected, rtol=1e-14, atol=0)
