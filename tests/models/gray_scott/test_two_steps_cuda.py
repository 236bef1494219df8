"""Two steps of Gray-Scott in one launch: what the kernel compiles to, how it is launched, and what it computes."""

from pathlib import Path

import numba
import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "ridgeline[cuda]"')

from mpi4py import MPI
from numba import types

from cuda_tools import assemble, run_simulated, skip_without_device
from ridgeline.blocks.cartesian import decompose
from ridgeline.jit.cuda_random import device_key
from ridgeline.jit.random import PHILOX_7, PHILOX_10
from ridgeline.models.gray_scott.device.kernels_cuda import device_coefficients
from ridgeline.models.gray_scott.device.kernels_two_cuda import (
    SHARED_BYTES,
    TwoStepTile,
    bytes_per_cell,
    default_tile,
    make_two_step_sweep,
    two_step_launch,
)
from ridgeline.models.gray_scott.engine_cpu import CpuEngine
from ridgeline.models.gray_scott.physics import coefficients
from ridgeline.runtime.context import Context

ROW_PITCH = 528
LARGE = (512, 512, 512)
ROWS = 4
LOADS = 2 * (2 * ROWS) + 2 * (ROWS + 2 + 2 * ROWS)  # those of one step: the second reads no memory
FMA_PER_CELL = {False: 6, True: 7}
ALONE = (False, False, False)
CUTS = [(True, True, True)]
CUTS += [
    pytest.param(cut, marks=pytest.mark.full)
    for cut in ((True, False, False), (True, True, False), (False, False, True))
]
FACES = [(2, 512, 512), (508, 2, 512), (508, 508, 2)]  # boxes next to faces across z, y and x
VARIANTS = [(dtype, noisy) for dtype in (np.float64, np.float32) for noisy in (False, True)]


def whole(shape):
    """The box of a block that is the whole grid."""
    nz, ny, nx = shape
    return 0, nz, 0, ny, 0, nx


def signature(dtype, noisy, several_ranks=False):
    real = types.float64 if dtype == np.float64 else types.float32
    fields, integer, several = real[::1], types.int64, types.UniTuple
    key = several(types.uint32, 2) if noisy else types.Tuple(())
    three = several(integer, 3)
    place = several(integer, 9) if several_ranks else types.Tuple(())
    of_launch = several(integer, 2), three, place, integer, three, integer, key, several(real, 6)
    return fields, fields, *of_launch, fields, fields


@pytest.fixture(scope="module")
def assembly():
    made = {}

    def of(dtype, noisy, generator=PHILOX_7, cut=ALONE, box=LARGE):
        key = dtype, noisy, generator, cut, box
        if key not in made:
            sweep = make_two_step_sweep(dtype, ROW_PITCH, default_tile(dtype, box), generator, cut)
            made[key] = assemble(sweep, signature(dtype, noisy, any(cut)))
        return made[key]

    return of


@pytest.mark.parametrize(("dtype", "noisy"), VARIANTS)
def test_registers_allow_the_planned_occupancy(assembly, dtype, noisy) -> None:
    tile = default_tile(dtype, LARGE)
    result = assembly(dtype, noisy)
    assert result.registers <= 65536 // (tile.along_x * tile.along_y * tile.blocks)
    assert result.spilled == 0


@pytest.mark.parametrize(("dtype", "noisy"), VARIANTS)
@pytest.mark.parametrize("cut", CUTS)
def test_cuts_between_ranks_take_no_more_registers(assembly, cut, dtype, noisy) -> None:
    tile = default_tile(dtype, LARGE)
    result = assembly(dtype, noisy, cut=cut)
    assert result.registers <= 65536 // (tile.along_x * tile.along_y * tile.blocks)
    assert result.spilled == 0


@pytest.mark.parametrize("box", FACES)
def test_boxes_next_to_faces_spill_nothing(assembly, box) -> None:
    assert assembly(np.float64, True, cut=(True, True, True), box=box).spilled == 0


def test_numbers_of_older_runs_take_no_more_registers(assembly) -> None:
    assert assembly(np.float64, True, PHILOX_10).spilled == 0
    assert assembly(np.float64, True, PHILOX_10).count("mul.wide.u32") == 40


@pytest.mark.parametrize(("dtype", "noisy"), VARIANTS)
def test_both_steps_have_the_multiply_adds_of_the_formula(assembly, dtype, noisy) -> None:
    """One more or less would be a contraction: other bits than on the CPU."""
    kind = "f64" if dtype == np.float64 else "f32"
    for cut in (ALONE, (True, True, True)):
        assert assembly(dtype, noisy, cut=cut).count(f"fma.rn.{kind}") == 2 * ROWS * FMA_PER_CELL[noisy]
        assert assembly(dtype, noisy, cut=cut).count("mul.wide.u32") == (28 if noisy else 0)


@pytest.mark.parametrize("noisy", [False, True])
def test_single_precision_stays_single(assembly, noisy) -> None:
    for cut in (ALONE, (True, True, True)):
        assert ".f64" not in assembly(np.float32, noisy, cut=cut).ptx
        assert ".ftz" not in assembly(np.float32, noisy, cut=cut).ptx


@pytest.mark.parametrize(("dtype", "noisy"), VARIANTS)
def test_the_step_between_is_not_read_from_memory(assembly, dtype, noisy) -> None:
    kind = "f64" if dtype == np.float64 else "f32"
    for cut in (ALONE, (True, True, True)):
        assert assembly(dtype, noisy, cut=cut).ptx.count(f"ld.global.{kind}") == LOADS


@pytest.mark.parametrize(("dtype", "noisy"), VARIANTS)
def test_arguments_are_of_the_types_that_are_compiled_here(dtype, noisy) -> None:
    c = device_coefficients(coefficients(0.2, 0.1, 0.02, 0.048, 0.1, 1.0, dtype))
    three = (0, 0, 0)
    for place in ((), (0,) * 9):
        arguments = (0, 1), three, place, 4, three, 7, device_key(2**63) if noisy else (), c
        assert tuple(map(numba.typeof, arguments)) == signature(dtype, noisy, bool(place))[2:-2]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_planes_between_fit_into_shared_memory(dtype) -> None:
    tile = default_tile(dtype, LARGE)
    planes = 2 * 2 * tile.along_x * (ROWS * tile.along_y + 1) * np.dtype(dtype).itemsize
    assert tile.shared_bytes(dtype) == planes <= SHARED_BYTES


BOXES = [whole(shape) for shape in [(1, 1, 1), (512, 512, 512), (7, 83, 30), (7, 84, 31), (5, 85, 260)]] + [
    (2, 9, 2, 81, 2, 28),
    (0, 2, 0, 17, 0, 64),
    (3, 7, 15, 17, 0, 64),
    (3, 7, 2, 15, 62, 64),
]


@pytest.mark.parametrize("box", BOXES)
@pytest.mark.parametrize("y_offset", [0, 3, 5, 6])
@pytest.mark.parametrize("tile", [None, TwoStepTile(32, 8), TwoStepTile(64, 3)])
def test_tiles_write_every_cell_once_and_have_its_neighbours(box, y_offset, tile) -> None:
    z0, z1, y0, y1, x0, x1 = box
    tile = tile or default_tile(np.float64, (z1 - z0, y1 - y0, x1 - x0))
    grid, block, planes = two_step_launch(box, y_offset, tile, 132)
    assert block == (tile.along_x, tile.along_y, 1)
    written = [x0 + x * tile.written[1] + t - 1 for x in range(grid[0]) for t in range(1, tile.along_x - 1)]
    assert [i for i in written if i < x1] == list(range(x0, x1))
    begin, end = y0 + y_offset, y1 + y_offset
    groups = -(-end // ROWS)
    first = [groups - (grid[1] - y) * (tile.along_y - 1) for y in range(grid[1])]
    assert first[0] <= (begin - 1) // ROWS, "the group with the row before the first"
    assert first[-1] + tile.along_y - 1 == groups, "the group behind the last row's ends the last tile"
    rows = [r for g in first for r in range(ROWS * g + ROWS - 1, ROWS * (g + tile.along_y) - 1)]
    assert [r for r in rows if begin <= r < end] == list(range(begin, end))
    assert (grid[2] - 1) * planes < z1 - z0 <= grid[2] * planes


def test_faces_get_a_turn_while_the_rest_is_swept() -> None:
    tile = default_tile(np.float64, LARGE)
    grid = two_step_launch(whole(LARGE), 0, tile, 132, waves=4).grid
    assert np.prod(grid) >= 4 * 132 * tile.blocks


def test_small_grids_have_small_tiles() -> None:
    assert default_tile(np.float64, (4, 4, 6)) == TwoStepTile(8, 3, 2)
    assert default_tile(np.float64, (4, 4, 7)) == TwoStepTile(16, 3, 2)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_two_steps_move_less_than_two_launches(dtype) -> None:
    tile, itemsize = default_tile(dtype, LARGE), np.dtype(dtype).itemsize
    planes = two_step_launch(whole(LARGE), 0, tile, 132).planes
    one_launch = 4 * itemsize
    assert one_launch < bytes_per_cell(tile, planes, dtype) < 1.3 * one_launch


def test_bytes_are_those_of_cells_read_and_written() -> None:
    """By hand: 34 x 34 cells of 12 planes are read, 28 x 30 of 8 written, of two fields."""
    expected = 2 * 8 * (34 * 34 * 12 + 28 * 30 * 8) / (28 * 30 * 8)
    assert bytes_per_cell(TwoStepTile(32, 8), 8, np.float64) == pytest.approx(expected)


def test_a_run_begins_in_the_simulator() -> None:
    """The rest takes a minute, and is in `make test-all`."""
    test = "test_the_trivial_state_stays_put"
    assert " passed" in run_simulated(Path(__file__).with_name(f"simulated_two_steps_cuda.py::{test}"))


@pytest.mark.full
def test_in_the_simulator() -> None:
    assert " passed" in run_simulated(Path(__file__).with_name("simulated_two_steps_cuda.py"))


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
            engine.take_steps(2)
        engine.compile()
        for field, value in zip(engine.host(), start):
            field[:] = value
        engine.commit()
        step = 0
        while step < 51:
            step += engine.advance(step, 51 - step)
        results.append([field.copy() for field in engine.host()])
    np.testing.assert_array_equal(results[0], results[1])
