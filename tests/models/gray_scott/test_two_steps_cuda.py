"""Two steps of Gray-Scott in one launch: the kernel compiles without spills; the simulator and a GPU run it."""

from pathlib import Path

import numba
import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "numba-cuda[cu13]"')

from mpi4py import MPI
from numba import types

from cuda_tools import compile_without_spills, run_simulated, skip_without_device
from ridgeline.blocks.cartesian import decompose
from ridgeline.jit.cuda_random import device_key
from ridgeline.jit.random import PHILOX_7, PHILOX_10
from ridgeline.models.gray_scott.device.kernels_cuda import device_coefficients
from ridgeline.models.gray_scott.device.kernels_two_cuda import default_tile, make_two_step_sweep
from ridgeline.models.gray_scott.engine_cpu import CpuEngine
from ridgeline.models.gray_scott.physics import coefficients
from ridgeline.runtime.context import Context

pytestmark = pytest.mark.gpu

ROW_PITCH = 528
LARGE = (512, 512, 512)
ROWS = 4
FMA_PER_CELL = {False: 6, True: 7}
ALONE, ALL = (False, False, False), (True, True, True)  # directions that are cut between ranks
FACES = [(2, 512, 512), (508, 2, 512), (508, 508, 2)]  # boxes next to faces across z, y and x
VARIANTS = [(dtype, noisy) for dtype in (np.float64, np.float32) for noisy in (False, True)]


def signature(dtype, noisy, several_ranks=False):
    real = types.float64 if dtype == np.float64 else types.float32
    fields, integer, several = real[::1], types.int64, types.UniTuple
    key = several(types.uint32, 2) if noisy else types.Tuple(())
    three = several(integer, 3)
    place = several(integer, 9) if several_ranks else types.Tuple(())
    of_launch = several(integer, 2), three, place, integer, three, integer, key, several(real, 6)
    return fields, fields, *of_launch, fields, fields


def compiled(dtype, noisy, cut=ALONE, box=LARGE, generator=PHILOX_7):
    sweep = make_two_step_sweep(dtype, ROW_PITCH, default_tile(dtype, box), generator, cut)
    return compile_without_spills(sweep, signature(dtype, noisy, any(cut)))


@pytest.mark.parametrize(("dtype", "noisy"), VARIANTS)
@pytest.mark.parametrize("cut", [ALONE, ALL, (True, False, False), (True, True, False), (False, False, True)])
def test_spills_nothing_and_rounds_as_the_cpu(cut, dtype, noisy) -> None:
    ptx = compiled(dtype, noisy, cut)
    kind = "f64" if dtype == np.float64 else "f32"
    # One more or less would be a contraction, which rounds differently. No simulator shows it.
    assert ptx.count(f"fma.rn.{kind}") == 2 * ROWS * FMA_PER_CELL[noisy]
    assert (".f64" in ptx) == (dtype == np.float64)
    assert ".ftz" not in ptx


@pytest.mark.parametrize("box", FACES)
def test_boxes_next_to_faces_spill_nothing(box) -> None:
    compiled(np.float64, True, ALL, box)


def test_numbers_of_older_runs_spill_nothing() -> None:
    compiled(np.float64, True, generator=PHILOX_10)


@pytest.mark.parametrize(("dtype", "noisy"), VARIANTS)
def test_arguments_are_of_the_types_that_are_compiled_here(dtype, noisy) -> None:
    c = device_coefficients(coefficients(0.2, 0.1, 0.02, 0.048, 0.1, 1.0, dtype))
    three = (0, 0, 0)
    for place in ((), (0,) * 9):
        arguments = (0, 1), three, place, 4, three, 7, device_key(2**63) if noisy else (), c
        assert tuple(map(numba.typeof, arguments)) == signature(dtype, noisy, bool(place))[2:-2]


def test_in_the_simulator() -> None:
    run_simulated(Path(__file__).with_name("simulated_two_steps_cuda.py"))


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
        if kind is CudaEngine:
            engine.set_steps_per_sweep(2)
        engine.compile()
        for field, value in zip(engine.host(), start):
            field[:] = value
        engine.commit()
        step = 0
        while step < 51:
            step += engine.advance(step, 51 - step)
        results.append([field.copy() for field in engine.host()])
    np.testing.assert_array_equal(results[0], results[1])
