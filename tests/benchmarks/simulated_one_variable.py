"""The one-variable kernel in numba-cuda's simulator; test_gpu_one_variable.py runs this file."""

import numpy as np
import pytest

from gpu_one_variable import DIFFUSION, OneVariable, start_of
from ridgeline.blocks.block import Block
from ridgeline.jit.cuda_device import SIMULATED
from simulator import ON_GPU

assert SIMULATED != ON_GPU, "run with NUMBA_ENABLE_CUDASIM=1"


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(5, 6, 7), (3, 9, 35), (1, 1, 2)])
def test_two_steps_equal_numpy_s(shape, dtype) -> None:
    block = Block.of_rank(shape, (1, 1, 1), 0, (False, False, False))
    start = start_of(block, dtype)
    u = start.ghosted.astype(np.float64)
    field = OneVariable(block, dtype, start, 2)
    for _ in range(2):
        field.advance()
        around = u[2:, 1:-1, 1:-1] + u[:-2, 1:-1, 1:-1] + u[1:-1, 2:, 1:-1] + u[1:-1, :-2, 1:-1]
        around = around + u[1:-1, 1:-1, 2:] + u[1:-1, 1:-1, :-2]
        u[1:-1, 1:-1, 1:-1] += DIFFUSION * (around - 6 * u[1:-1, 1:-1, 1:-1])
    tolerance = 1e-14 if dtype == np.float64 else 1e-6
    np.testing.assert_allclose(field.owned(), u[1:-1, 1:-1, 1:-1], atol=tolerance, rtol=0)
