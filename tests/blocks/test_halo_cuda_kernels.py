"""GPU building blocks without a GPU: they compile without spills, and the simulator runs them."""

from pathlib import Path

import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "numba-cuda[cu13]"')

from numba import types

from cuda_tools import compile_without_spills, run_simulated
from ridgeline.blocks.fields_cuda import count_nonfinite
from ridgeline.blocks.halo_cuda import copy_boxes

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("real", [types.float64, types.float32], ids=str)
def test_kernels_spill_nothing(real) -> None:
    fields, three = real[::1], types.UniTuple(types.int64, 3)
    compile_without_spills(copy_boxes, (fields, fields, types.uint64[:, ::1]))
    compile_without_spills(count_nonfinite, (fields, three, three, types.int64[::1]))


def test_in_the_simulator() -> None:
    run_simulated(Path(__file__).with_name("simulated_cuda_kernels.py"))
