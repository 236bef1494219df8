"""The GPU sweep: it compiles without spills and to the bits of the CPU; the simulator and a GPU run it."""

from pathlib import Path

import numba
import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "numba-cuda[cu13]"')

from mpi4py import MPI
from numba import types
from numba.cuda.dispatcher import _Kernel

from cuda_tools import compile_without_spills, run_simulated, skip_without_device
from ridgeline.blocks.cartesian import decompose
from ridgeline.jit.cuda_random import device_key
from ridgeline.jit.random import PHILOX_7, PHILOX_10
from ridgeline.models.gray_scott.device.kernels_cuda import Shape, device_coefficients, make_sweep
from ridgeline.models.gray_scott.engine_cpu import CpuEngine
from ridgeline.models.gray_scott.physics import coefficients
from ridgeline.runtime.context import Context

pytestmark = pytest.mark.gpu

ROW_PITCH = 528
ROWS = 4  # cells of one thread and plane
FMA_PER_CELL = {False: 6, True: 7}
VARIANTS = [(dtype, noisy) for dtype in (np.float64, np.float32) for noisy in (False, True)]


def signature(dtype, noisy):
    real = types.float64 if dtype == np.float64 else types.float32
    fields, integer, several = real[::1], types.int64, types.UniTuple
    key = several(types.uint32, 2) if noisy else types.Tuple(())
    layout, box, three = several(integer, 2), several(integer, 6), several(integer, 3)
    return fields, fields, layout, box, integer, three, three, integer, key, several(real, 6), fields, fields


class ArgumentPasser:
    """The part of a compiled kernel that turns arguments into what the driver takes."""

    extensions = ()
    _prepare_args = _Kernel._prepare_args


@pytest.mark.parametrize("generator", [PHILOX_7, PHILOX_10], ids=["7 rounds", "10 rounds"])
@pytest.mark.parametrize(("dtype", "noisy"), VARIANTS)
def test_spills_nothing_and_rounds_as_the_cpu(dtype, noisy, generator) -> None:
    ptx = compile_without_spills(make_sweep(dtype, ROW_PITCH, None, generator), signature(dtype, noisy))
    kind = "f64" if dtype == np.float64 else "f32"
    # One more or less would be a contraction, which rounds differently. No simulator shows it.
    assert ptx.count(f"fma.rn.{kind}") == ROWS * FMA_PER_CELL[noisy]
    assert (".f64" in ptx) == (dtype == np.float64)
    assert ".ftz" not in ptx, "tiny numbers must not become zero on one machine only"


@pytest.mark.parametrize(("dtype", "noisy"), VARIANTS)
def test_arguments_are_of_the_types_that_are_compiled_here(dtype, noisy) -> None:
    """And of kinds that numba-cuda can pass to a kernel, which it only finds out when there is a device."""
    c = device_coefficients(coefficients(0.2, 0.1, 0.02, 0.048, 0.1, 1.0, dtype))
    key = device_key(2**63) if noisy else ()
    box, three = (0, 4, 0, 4, 0, 4), (0, 0, 0)
    arguments = (0, 1), box, 4, three, three, 7, key, c
    found = tuple(numba.typeof(argument) for argument in arguments)
    assert found == signature(dtype, noisy)[2:-2]
    passed: list[object] = []
    for kind, argument in zip(found, arguments):
        ArgumentPasser()._prepare_args(kind, argument, 0, [], passed)
    assert len(passed) == 2 + 6 + 1 + 3 + 3 + 1 + (2 if noisy else 0) + 6


def test_streaming_stores_are_an_option() -> None:
    for streaming in (False, True):
        sweep = make_sweep(np.float64, ROW_PITCH, Shape(512, 1, streaming=streaming))
        ptx = compile_without_spills(sweep, signature(np.float64, False))
        assert ("st.global.cs.f64" in ptx) == streaming


def test_in_the_simulator() -> None:
    run_simulated(Path(__file__).with_name("simulated_cuda.py"))


@pytest.mark.cuda
@pytest.mark.parametrize(("dtype", "noisy"), VARIANTS)
@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("shape", [(37, 20, 51), (64, 64, 64), (5, 131, 260)])
def test_on_a_gpu_equals_the_cpu_bit_for_bit(shape, periodic, dtype, noisy) -> None:
    skip_without_device()
    from ridgeline.models.gray_scott.device.engine_cuda import CudaEngine

    cartesian, block = decompose(MPI.COMM_SELF, shape, "auto", (periodic,) * 3)
    c = coefficients(0.2, 0.1, 0.02, 0.048, 0.01 if noisy else 0.0, 1.0, dtype)
    rng = np.random.default_rng(5)
    start = [rng.random(shape).astype(dtype) for _ in range(2)]
    results = []
    for kind in (CudaEngine, CpuEngine):
        engine = kind(block, cartesian, c, (PHILOX_7, 42), dtype, Context(MPI.COMM_SELF))
        engine.compile()
        for field, value in zip(engine.host(), start):
            field[:] = value
        engine.commit()
        for step in range(50):
            assert engine.advance(step, 1) == 1
        results.append([field.copy() for field in engine.host()])
    np.testing.assert_array_equal(results[0], results[1])
