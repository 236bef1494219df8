"""The initial box, by global index, whatever the decomposition."""

from itertools import product

import numpy as np

from ridgeline.blocks.block import Block
from ridgeline.models.gray_scott.initial import set_box
from ridgeline.parallel.partition import factorizations


def test_blocks_together_hold_the_box_of_the_whole_grid() -> None:
    for shape, ranks in product([(20, 13, 15), (5, 40, 3), (1, 1, 1), (12, 12, 12)], [1, 2, 3, 4]):
        expected = np.ones(shape)
        for cell in np.ndindex(*shape):
            if all(n // 2 - 6 <= i < n // 2 + 6 for i, n in zip(cell, shape)):
                expected[cell] = 0.25
        for grid in factorizations(ranks):
            if any(p > n for p, n in zip(grid, shape)):
                continue
            for rank in range(ranks):
                block = Block.of_rank(shape, grid, rank)
                u, v = np.full(block.shape_local, np.nan), np.full(block.shape_local, np.nan)
                set_box(block, u, v, 6, (0.25, 0.33), (1.0, 0.0))
                cells = tuple(slice(o, o + n) for o, n in zip(block.offset_global, block.shape_local))
                np.testing.assert_array_equal(u, expected[cells], err_msg=f"{shape=}, {grid=}, {rank=}")
                np.testing.assert_array_equal(
                    v, np.where(expected[cells] == 1, 0, 0.33), err_msg=f"{shape=}, {grid=}, {rank=}"
                )
