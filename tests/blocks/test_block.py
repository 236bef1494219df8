"""Cutting grids into blocks, and the memory of a field."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from ridgeline.blocks.block import (
    PAGE,
    Block,
    BlockArray,
    all_directions,
    check_process_grid,
    choose_process_grid,
    exchange_cost,
)
from ridgeline.parallel.partition import factorizations, split
from ridgeline.runtime.aligned import CACHE_LINE
from ridgeline.runtime.errors import DecompositionError


def test_split_covers_all_cells_once_and_evenly() -> None:
    for n, parts in itertools.product([1, 2, 3, 5, 7, 11, 13, 31, 37, 51, 64, 101], range(1, 12)):
        case = f"{n=}, {parts=}"
        pieces = [split(n, parts, index) for index in range(parts)]
        assert [offset for offset, _ in pieces] == [
            sum(size for _, size in pieces[:i]) for i in range(parts)
        ], case
        assert sum(size for _, size in pieces) == n, case
        sizes = [size for _, size in pieces]
        assert max(sizes) - min(sizes) <= 1, case
        assert sizes == sorted(sizes, reverse=True), case


def test_factorizations_are_all_and_each_once() -> None:
    for n in range(1, 61):
        expected = {g for g in itertools.product(range(1, n + 1), repeat=2) if n % (g[0] * g[1]) == 0}
        found = list(factorizations(n))
        assert {g[:2] for g in found} == expected, f"{n=}"
        assert len(found) == len(expected), f"{n=}"
        assert all(np.prod(g) == n for g in found), f"{n=}"


def test_blocks_tile_the_grid() -> None:
    shapes = [(37, 20, 51), (7, 8, 9), (5, 5, 5), (1, 64, 3)]
    for shape, n_ranks in itertools.product(shapes, [1, 2, 3, 4, 6, 12]):
        for grid in factorizations(n_ranks):
            if any(p > n for p, n in zip(grid, shape)):
                continue
            owner = np.zeros(shape, int)
            for rank in range(n_ranks):
                block = Block.of_rank(shape, grid, rank)
                assert block.neighbour((0, 0, 0)) == rank, f"{shape=}, {grid=}"
                assert block.n_ranks == n_ranks, f"{shape=}, {grid=}"
                owner[tuple(slice(o, o + n) for o, n in zip(block.offset_global, block.shape_local))] += 1
            assert np.all(owner == 1), f"{shape=}, {grid=}"


def test_blocks_with_given_cuts_have_them() -> None:
    cuts = ((0, 3, 4, 10), (0, 5), (0, 2, 9))
    found = [replace(Block.of_rank((10, 5, 9), (3, 1, 2), rank), cuts=cuts) for rank in range(6)]
    assert [block.offset_global for block in found] == [(z, 0, x) for z in (0, 3, 4) for x in (0, 2)]
    assert [block.shape_local for block in found] == [(z, 5, x) for z in (3, 1, 6) for x in (2, 7)]


def test_neighbours_are_mutual() -> None:
    for periodic in itertools.product((False, True), repeat=3):
        grid = (2, 3, 1)
        blocks = [Block.of_rank((10, 11, 12), grid, rank, periodic) for rank in range(6)]
        for rank, block in enumerate(blocks):
            for direction in all_directions():
                other = block.neighbour(direction)
                place = [c + d for c, d in zip(block.coords, direction)]
                beyond = any(not w and not 0 <= i < p for i, p, w in zip(place, grid, periodic))
                assert (other is None) == beyond, f"{periodic=}"
                if other is not None:
                    assert blocks[other].neighbour(tuple(-d for d in direction)) == rank, f"{periodic=}"


def test_directions_are_faces_then_edges_then_corners() -> None:
    directions = all_directions()
    assert len(set(directions)) == 26
    assert [sum(map(abs, d)) for d in directions] == [1] * 6 + [2] * 12 + [3] * 8


def test_auto_prefers_cuts_in_z_and_avoids_x() -> None:
    assert choose_process_grid((64, 64, 64), 2) == (2, 1, 1)
    assert choose_process_grid((256, 256, 256), 8) == (4, 2, 1)
    assert choose_process_grid((8, 8, 4096), 4) == (1, 1, 4)
    assert choose_process_grid((2, 3, 8), 6) in {(2, 3, 1), (1, 3, 2), (2, 1, 3), (1, 1, 6)}


def test_auto_is_the_cheapest_that_fits() -> None:
    def fits(grid, shape, ghost) -> bool:
        return all(n // p >= (ghost if p > 1 else 1) for n, p in zip(shape, grid))

    shapes = [(64, 64, 64), (37, 20, 51), (5, 300, 7), (16, 1024, 3)]
    for shape, n_ranks, ghost in itertools.product(shapes, [1, 2, 3, 4, 5, 8, 12, 24], [1, 2, 3]):
        fitting = [grid for grid in factorizations(n_ranks) if fits(grid, shape, ghost)]
        chosen = choose_process_grid(shape, n_ranks, ghost)
        assert chosen in fitting, f"{shape=}, {n_ranks=}, {ghost=}"
        least = min(exchange_cost(shape, grid) for grid in fitting)
        assert exchange_cost(shape, chosen) == least, f"{shape=}, {n_ranks=}, {ghost=}, {chosen=}"


def test_auto_says_what_cannot_be_cut() -> None:
    with pytest.raises(
        DecompositionError, match=r"\[2, 2, 2\] cannot be divided into 9 blocks of at least one cell"
    ):
        choose_process_grid((2, 2, 2), 9)
    with pytest.raises(DecompositionError, match=r"into 8 blocks of at least 3 cells in each direction"):
        choose_process_grid((6, 6, 5), 8, ghost=3)


def test_process_grid_that_does_not_fit_is_refused() -> None:
    check_process_grid((4, 4, 4), (4, 1, 2), 8)
    with pytest.raises(DecompositionError, match=r"has 4 blocks, but the run has 3 ranks. Use 4 ranks"):
        check_process_grid((4, 4, 4), (2, 2, 1), 3)
    with pytest.raises(
        DecompositionError, match=r"divides 4 cells in y into 5 blocks, but at most 4 are possible"
    ):
        check_process_grid((4, 4, 4), (1, 5, 1), 5)


def test_rows_are_aligned_and_views_are_the_same_memory() -> None:
    shapes = [(3, 4, 5), (2, 7, 16), (1, 1, 1), (2, 2, 510), (2, 62, 1022)]
    for shape, ghost, dtype in itertools.product(shapes, [1, 2, 3, 9], [np.float64, np.float32]):
        case = f"{shape=}, {ghost=}, {dtype=}"
        field = BlockArray.allocate(Block(shape, (1, 1, 1), (0, 0, 0), ghost=ghost), dtype, fill=3)
        nz, ny, nx = shape
        assert field.ghosted.shape == (nz + 2 * ghost, ny + 2 * ghost, nx + 2 * ghost), case
        assert field.owned.shape == shape, case
        assert np.all(field.flat == 3), case
        assert field.owned.ctypes.data % CACHE_LINE == 0, case
        for pitch in (field.row_pitch, field.plane_pitch):
            assert pitch * field.flat.itemsize % CACHE_LINE == 0, case
            assert pitch * field.flat.itemsize % PAGE != 0, case
        first = field.ghosted.ctypes.data - field.flat.ctypes.data
        last = first + sum((n - 1) * s for n, s in zip(field.ghosted.shape, field.ghosted.strides))
        line = CACHE_LINE
        assert first >= 0, case
        # a whole vector may be read past the row
        assert last + field.flat.itemsize + line <= field.flat.nbytes, case

        field.ghosted[...] = np.arange(field.ghosted.size).reshape(field.ghosted.shape)
        assert len(np.unique(field.ghosted)) == field.ghosted.size, case  # no two cells share memory
        inner = tuple(slice(ghost, -ghost) for _ in range(3))
        np.testing.assert_array_equal(field.owned, field.ghosted[inner], err_msg=case)
        k, j, i = nz - 1, ny - 1, nx - 1
        place = field.origin + k * field.plane_pitch + j * field.row_pitch + i
        assert field.flat[place] == field.owned[k, j, i], case
