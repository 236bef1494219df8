"""The block-cyclic distribution: every index has one owner and one place, for odd sizes too."""

from itertools import product

import numpy as np
import pytest

from ridgeline.bench.hpl.block_cyclic import Axis, check_grid, distribute, grid_place
from ridgeline.runtime.errors import DecompositionError


def test_every_index_has_one_owner_and_place():
    for n, nb, parts in product([0, 1, 7, 24, 25, 100], [1, 3, 8, 200], [1, 2, 3, 5]):
        case = f"{n=}, {nb=}, {parts=}"
        axes = [Axis(n, nb, parts, part) for part in range(parts)]
        together = np.concatenate([axis.globals() for axis in axes])
        assert sorted(together) == list(range(n)), case
        for axis in axes:
            assert axis.count() == len(axis.globals()) == axes[0].count(part=axis.part), case
            assert np.all(np.diff(axis.globals()) > 0), case
            for local, index in enumerate(axis.globals()):
                assert axis.owner(index) == axis.part, case
                assert axis.local(index) == local, case
            for first in range(n + 2):
                assert axis.count(first) == np.count_nonzero(axis.globals() < first), case


def test_b_is_the_last_column():
    whole = distribute(10, 4, (1, 1), (0, 0))
    assert whole.shape == (10, 11)
    assert distribute(8, 4, (2, 3), (1, 2)).shape == (4, 1)


def test_ranks_are_numbered_along_rows_or_columns():
    assert [grid_place(2, 3, rank, "row") for rank in range(4)] == [(0, 0), (0, 1), (0, 2), (1, 0)]
    assert [grid_place(2, 3, rank, "column") for rank in range(4)] == [(0, 0), (1, 0), (0, 1), (1, 1)]


def test_a_grid_of_other_ranks_is_refused_with_those_that_are_possible():
    with pytest.raises(
        DecompositionError,
        match=r"2 x 2 grid requires 4 ranks, but there are 6. Possible grids: 1 x 6, 2 x 3",
    ):
        check_grid(6, 2, 2)
    check_grid(6, 3, 2)
