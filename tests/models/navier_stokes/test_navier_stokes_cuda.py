"""Navier-Stokes on GPUs: kernels at sides compile without spills, and the simulator runs steps and a case."""

from pathlib import Path

import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "numba-cuda[cu13]"')

from numba import types

from cuda_tools import compile_without_spills, run_simulated
from ridgeline.models.navier_stokes.device.boundary_cuda import add_elements, take_elements, write_points

pytestmark = pytest.mark.gpu

FIELD, ELEMENTS, WHOLE = types.float64[::1], types.int32[::1], types.int64
KERNELS = {
    write_points: (types.int64[::1], FIELD, FIELD),
    take_elements: (ELEMENTS, WHOLE, WHOLE, FIELD, FIELD),
    add_elements: (ELEMENTS, WHOLE, WHOLE, types.float64, FIELD, FIELD),
}


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.py_func.__name__)
def test_kernels_at_sides_spill_nothing(kernel) -> None:
    compile_without_spills(kernel, KERNELS[kernel])


def test_in_the_simulator() -> None:
    here = Path(__file__)
    run_simulated(
        here.with_name("simulated_navier_stokes.py"), here.with_name("simulated_ns_regions_cuda.py")
    )
