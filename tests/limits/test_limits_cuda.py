"""The limits of GPUs without a GPU: kernels compile without spills, and the simulator runs them."""

from pathlib import Path

import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "numba-cuda[cu13]"')

from numba import types

from cuda_tools import compile_without_spills, run_simulated
from ridgeline.limits.limits_cuda import copy, multiply_add

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("real", [types.float64, types.float32], ids=str)
def test_kernels_spill_nothing(real) -> None:
    compile_without_spills(copy, (real[::1], real[::1]))
    compile_without_spills(multiply_add, (real[::1], real, real, types.int64, real[::1]))


def test_in_the_simulator() -> None:
    run_simulated(Path(__file__).with_name("simulated_limits_cuda.py"))
