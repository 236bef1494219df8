"""Navier-Stokes on GPUs: what kernels at sides compile to, what is refused, what the simulator gives."""

from pathlib import Path

import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "ridgeline[cuda]"')

from numba import types

from cuda_tools import assemble, run_simulated
from navier_stokes_devices import FLOWS
from ridgeline.models.navier_stokes.device.boundary_kernels_cuda import (
    THREADS,
    add_elements,
    take_elements,
    write_points,
)

FIELD, ELEMENTS, WHOLE = types.float64[::1], types.int32[::1], types.int64
KERNELS = {
    write_points: (types.int64[::1], FIELD, FIELD),
    take_elements: (ELEMENTS, WHOLE, WHOLE, FIELD, FIELD),
    add_elements: (ELEMENTS, WHOLE, WHOLE, types.float64, FIELD, FIELD),
}


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.py_func.__name__)
def test_kernels_at_sides_spill_nothing(kernel) -> None:
    result = assemble(kernel, KERNELS[kernel])
    assert result.registers * THREADS <= 65536
    assert result.spilled == 0


@pytest.mark.full
@pytest.mark.parametrize(
    "test", [*(f"test_steps_of[{name}]" for name in FLOWS), "test_a_run", "test_refusals"]
)
def test_in_the_simulator(test: str) -> None:
    """Each in a process of its own: they take a minute."""
    assert "1 passed" in run_simulated(Path(__file__).with_name(f"simulated_navier_stokes.py::{test}"))


@pytest.mark.full
def test_regions_in_the_simulator() -> None:
    assert "1 passed" in run_simulated(Path(__file__).with_name("simulated_ns_regions_cuda.py"))
