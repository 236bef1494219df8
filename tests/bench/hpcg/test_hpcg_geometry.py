"""Boxes and process grids of HPCG, and what its rules refuse."""

from itertools import product

import numpy as np
import pytest

from hpcg_dense import numbers
from ridgeline.bench.hpcg.geometry import HpcgGeometry, coarsen, make_geometry, place, process_grid, surface
from ridgeline.runtime.errors import ConfigError

GRIDS = {
    1: (1, 1, 1),
    2: (2, 1, 1),
    3: (3, 1, 1),
    4: (2, 2, 1),
    6: (2, 3, 1),
    8: (2, 2, 2),
    12: (2, 3, 2),
    15: (3, 5, 1),
    16: (4, 2, 2),
    64: (4, 4, 4),
    18: (2, 3, 3),
    24: (2, 4, 3),
    30: (2, 3, 5),
    72: (4, 3, 6),
    1000: (10, 10, 10),
}


@pytest.mark.parametrize("size", list(GRIDS))
def test_process_grid(size: int) -> None:
    assert process_grid(size) == GRIDS[size]
    every = [g for g in product(range(1, size + 1), repeat=3) if np.prod(g) == size] if size <= 30 else []
    assert all(surface(process_grid(size)) <= surface(grid) for grid in every)


def test_numbers_given_are_kept() -> None:
    assert process_grid(12, npz=3) == (2, 2, 3)
    assert process_grid(12, 1, 12, 1) == (1, 12, 1)
    assert process_grid(12, npx=1) == (1, 3, 4)


@pytest.mark.parametrize("given", [(5, 0, 0), (2, 2, 2), (12, 12, 0), (-1, 0, 0), (1, 1, 1)])
def test_impossible_process_grid(given) -> None:
    with pytest.raises(ConfigError, match=r"must be the number of ranks, 12\..*--npx"):
        process_grid(12, *given)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 6, 8])
def test_boxes_tile_the_whole(size: int) -> None:
    boxes = [make_geometry(size, rank, 16, 24, 32) for rank in range(size)]
    assert {box.whole for box in boxes} == {(16 * boxes[0].npx, 24 * boxes[0].npy, 32 * boxes[0].npz)}
    assert boxes[0].total_rows == size * boxes[0].n_rows == size * 16 * 24 * 32
    every = np.concatenate([numbers(box) for box in boxes])
    np.testing.assert_array_equal(np.sort(every), np.arange(boxes[0].total_rows))


def test_ranks_count_in_x_first() -> None:
    places = [make_geometry(12, rank, 16, 16, 16) for rank in (0, 1, 3, 6, 11)]
    assert [(g.ipx, g.ipy, g.ipz) for g in places] == [(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 0, 1), (1, 2, 1)]


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ((20, 16, 16), r"nx = 20: .*multiples of 8 and at least 16.*Try 24\.$"),
        ((16, 15, 16), r"ny = 15: .*Try 16\.$"),
        ((16, 16, 8), r"nz = 8: .*Try 16\.$"),
        ((0, 16, 16), r"nx = 0: .*Try 16\.$"),
        ((-104, 16, 16), r"nx = -104: .*Try 16\.$"),
        ((16, 16, 136), r"local box nx x ny x nz = 16 x 16 x 136: .*0\.118.*at least 0\.125"),
    ],
)
def test_sizes_against_the_rules(sizes, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        make_geometry(1, 0, *sizes)
    assert "\n" not in str(caught.value)


def test_process_grid_against_the_rules() -> None:
    with pytest.raises(ConfigError, match=r"process grid npx x npy x npz = 11 x 1 x 1: .*0.0909"):
        make_geometry(11, 0, 16, 16, 16)
    assert make_geometry(7, 0, 16, 16, 128).npx == 7  # 1/7 and 1/8 are allowed


def test_coarsen() -> None:
    fine = make_geometry(4, 3, 16, 24, 32)
    assert coarsen(fine) == HpcgGeometry(4, 3, 2, 2, 1, 1, 1, 0, 8, 12, 16)
    with pytest.raises(ConfigError, match="6 x 7 x 8 points cannot be halved"):
        coarsen(place(1, 0, (6, 7, 8), (1, 1, 1)))
