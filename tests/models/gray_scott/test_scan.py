"""Extrema and bad cells of a block, against NumPy."""

import numpy as np
import pytest

from ridgeline.blocks.block import Block, BlockArray
from ridgeline.blocks.field_summary import scan


def random_field(shape, dtype, ghost=2):
    field = BlockArray.allocate(Block(shape, (1, 1, 1), (0, 0, 0), ghost=ghost), dtype, fill=np.nan)
    field.owned[...] = np.random.default_rng(5).normal(size=shape)
    return field


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 37), (7, 2, 16)])
@pytest.mark.parametrize("n_threads", [1, 2])
def test_extrema_are_numpys_and_ghosts_do_not_count(shape, dtype, n_threads):
    field = random_field(shape, dtype)
    assert scan(field, n_threads) == (field.owned.min(), field.owned.max(), 0)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_bad_cell_is_counted(bad, dtype):
    field = random_field((4, 3, 21), dtype)
    for count, cell in enumerate([(0, 0, 0), (3, 2, 20), (1, 1, 9)], start=1):
        field.owned[cell] = bad
        assert scan(field, 2)[2] == count
