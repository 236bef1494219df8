"""How sweeps are launched on GPUs, with one step and with two: every cell is swept once. Nothing is compiled."""

from itertools import product

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "numba-cuda[cu13]"')

from ridgeline.models.gray_scott.device.kernels_cuda import Shape, default_shape, launch_shape
from ridgeline.models.gray_scott.device.kernels_two_cuda import (
    SHARED_BYTES,
    TwoStepTile,
    bytes_per_cell,
    default_tile,
    two_step_launch,
)

LARGE = (512, 512, 512)
ROWS = 4  # cells of one thread and plane


def whole(shape):
    """The box of a block that is the whole grid."""
    nz, ny, nx = shape
    return 0, nz, 0, ny, 0, nx


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
        assert shape.march // 2 <= launch.planes <= shape.march


def test_faces_get_a_turn_while_the_rest_is_swept() -> None:
    blocks = np.prod(launch_shape((1, 511, 0, 512, 0, 512), 0, Shape(512, 1, waves=4), 132).grid)
    assert blocks >= 4 * 132


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_planes_between_fit_into_shared_memory(dtype) -> None:
    tile = default_tile(dtype, LARGE)
    planes = 2 * 2 * tile.along_x * (ROWS * tile.along_y + 1) * np.dtype(dtype).itemsize
    assert tile.shared_bytes(dtype) == planes <= SHARED_BYTES


TILED_BOXES = [
    whole(shape) for shape in [(1, 1, 1), (512, 512, 512), (7, 83, 30), (7, 84, 31), (5, 85, 260)]
] + [
    (2, 9, 2, 81, 2, 28),
    (0, 2, 0, 17, 0, 64),
    (3, 7, 15, 17, 0, 64),
    (3, 7, 2, 15, 62, 64),
]


@pytest.mark.parametrize("box", TILED_BOXES)
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


def test_faces_get_a_turn_while_tiles_are_swept() -> None:
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
