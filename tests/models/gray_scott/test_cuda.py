"""The GPU sweep: what it compiles to, how it is launched, and what it computes, in the simulator and on a GPU."""

from itertools import product
from pathlib import Path

import numba
import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "ridgeline[cuda]"')

from mpi4py import MPI
from numba import types
from numba.cuda.dispatcher import _Kernel

from cuda_tools import assemble, run_simulated, skip_without_device
from ridgeline.blocks.cartesian import decompose
from ridgeline.jit.cuda_random import device_key
from ridgeline.jit.random import PHILOX_7, PHILOX_10
from ridgeline.models.gray_scott.device.kernels_cuda import (
    Shape,
    default_shape,
    device_coefficients,
    launch_shape,
    make_sweep,
)
from ridgeline.models.gray_scott.engine_cpu import CpuEngine
from ridgeline.models.gray_scott.physics import coefficients
from ridgeline.runtime.context import Context

ROW_PITCH = 528
ROWS = 4  # cells of one thread and plane
LOADS = 2 * (2 * ROWS) + 2 * (ROWS + 2 + 2 * ROWS)  # two planes of both fields ahead of the loop; in it
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


@pytest.fixture(scope="module")
def assembly():
    made = {}

    def of(dtype, noisy, shape=None, generator=PHILOX_7):
        key = dtype, noisy, shape, generator
        if key not in made:
            made[key] = assemble(make_sweep(dtype, ROW_PITCH, shape, generator), signature(dtype, noisy))
        return made[key]

    return of


@pytest.mark.parametrize(("dtype", "noisy"), VARIANTS)
def test_multiply_adds_are_those_of_the_formula(assembly, dtype, noisy) -> None:
    """One more or less would be a contraction: other bits than on the CPU."""
    kind = "f64" if dtype == np.float64 else "f32"
    assert assembly(dtype, noisy).count(f"fma.rn.{kind}") == ROWS * FMA_PER_CELL[noisy]


@pytest.mark.parametrize("noisy", [False, True])
def test_single_precision_stays_single(assembly, noisy) -> None:
    assert ".f64" not in assembly(np.float32, noisy).ptx
    assert ".ftz" not in assembly(np.float32, noisy).ptx, (
        "tiny numbers must not become zero on one machine only"
    )


@pytest.mark.parametrize(("dtype", "noisy"), VARIANTS)
def test_random_numbers_take_two_wide_products_a_round_for_four_cells(assembly, dtype, noisy) -> None:
    assert assembly(dtype, noisy).count("mul.wide.u32") == (14 if noisy else 0)


def test_numbers_of_older_runs_take_ten_rounds(assembly) -> None:
    assert assembly(np.float64, True, generator=PHILOX_10).count("mul.wide.u32") == 20


@pytest.mark.parametrize(("dtype", "noisy"), VARIANTS)
def test_each_cell_is_loaded_once_into_the_queue(assembly, dtype, noisy) -> None:
    kind = "f64" if dtype == np.float64 else "f32"
    assert assembly(dtype, noisy).ptx.count(f"ld.global.{kind}") == LOADS


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


@pytest.mark.parametrize(("dtype", "noisy"), VARIANTS)
def test_registers_allow_the_planned_occupancy(assembly, dtype, noisy) -> None:
    shape = default_shape(dtype)
    result = assembly(dtype, noisy)
    assert result.registers <= 65536 // (shape.threads * shape.blocks)
    assert result.spilled == 0


def test_streaming_stores_are_an_option(assembly) -> None:
    streaming = Shape(512, 1, streaming=True)
    assert assembly(np.float64, False, streaming).count("st.global.cs.f64") == 2 * ROWS
    assert assembly(np.float64, False).count("st.global.cs.f64") == 0


BOXES = [
    (0, 512, 0, 512, 0, 512),
    (0, 37, 0, 20, 0, 51),
    (0, 1, 0, 512, 0, 512),  # a layer across z
    (1, 511, 511, 512, 0, 512),  # across y
    (1, 511, 1, 511, 0, 1),  # across x
    (1, 511, 1, 511, 1, 511),
    (2, 3, 5, 6, 7, 8),
    (0, 4, 0, 4, 30, 34),
    (0, 5, 0, 9, 20, 50),
]


@pytest.mark.parametrize("box", BOXES)
@pytest.mark.parametrize(("y_offset", "shape"), [(0, Shape(512, 1)), (3, Shape(512, 2, waves=4))])
def test_launches_cover_the_box(box, y_offset, shape) -> None:
    z0, z1, y0, y1, x0, x1 = box
    grid, block, planes = launch_shape(box, y_offset, shape, 132)
    threads = [n * m for n, m in zip(grid, block)]
    assert 1 <= np.prod(block) <= shape.threads
    first_x = x0 - x0 % 32 if block[0] >= 32 else x0  # as the kernel has it
    assert first_x + threads[0] >= x1 > first_x + threads[0] - block[0]
    first_group, last_group = (y0 + y_offset) // 4, (y1 - 1 + y_offset) // 4
    assert first_group + threads[1] > last_group >= first_group + threads[1] - block[1]
    assert z0 + grid[2] * planes >= z1 > z0 + (grid[2] - 1) * planes


def test_a_large_box_fills_the_device_evenly() -> None:
    for n, dtype in product((256, 512, 1024), (np.float64, np.float32)):
        shape = default_shape(dtype)
        launch = launch_shape((0, n, 0, n, 0, n), 0, shape, 132)
        waves = np.prod(launch.grid) / (132 * shape.blocks)
        assert waves / np.ceil(waves) > 0.9
        assert launch.planes >= 16


def test_faces_get_a_turn_while_the_rest_is_swept() -> None:
    blocks = np.prod(launch_shape((1, 511, 0, 512, 0, 512), 0, Shape(512, 1, waves=4), 132).grid)
    assert blocks >= 4 * 132


@pytest.mark.full
def test_in_the_simulator() -> None:
    assert " passed" in run_simulated(Path(__file__).with_name("simulated_cuda.py"))


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
