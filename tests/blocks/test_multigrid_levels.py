"""The plan of multigrid's levels: aggregates, cuts, owners; without MPI, for any number of ranks."""

from itertools import pairwise, product

import numpy as np
import pytest

from ridgeline.blocks.block import Block
from ridgeline.blocks.multigrid.levels import aggregates_of, plan_levels

CASES = [
    ((33, 47, 29), (4, 1, 1), (1.0, 1.0, 1.0), (False, False, False)),
    ((33, 47, 29), (1, 4, 2), (1.0, 1.0, 1.0), (True, True, False)),
    ((96, 17, 40), (3, 1, 2), (0.1, 1.0, 1.0), (True, False, True)),
    ((64, 4097, 4000), (2, 64, 32), (1.0, 1.0, 1.0), (False, True, True)),
]


@pytest.mark.parametrize(("shape", "grid", "widths", "periodic"), CASES)
@pytest.mark.parametrize("thickness", [1, 4])
def test_levels_join_all_cells_once_and_end_on_one_rank(shape, grid, widths, periodic, thickness) -> None:
    levels = plan_levels(Block.of_rank(shape, grid, 0, periodic), widths, thickness=thickness)
    for fine, coarse in pairwise(levels):
        for axis in range(3):
            joined = np.diff(coarse.aggregates[axis])
            assert joined.sum() == fine.shape_global[axis]
            assert set(joined[:-1].tolist()) <= ({2} if coarse.coarsened[axis] else {1})
            assert joined[-1] in ((1, 2, 3) if coarse.coarsened[axis] else (1,))
            assert coarse.widths[axis].sum() == pytest.approx(fine.widths[axis].sum(), rel=1e-12)
            # A natural block begins at the first aggregate that begins in the finer block.
            for first, cut in zip(coarse.natural_cuts[axis], fine.cuts[axis]):
                assert coarse.aggregates[axis][first] >= cut
                assert first == 0 or coarse.aggregates[axis][first - 1] < cut
        assert coarse.natural_owners == fine.owners
        assert any(coarse.coarsened)
    for level in levels:
        for axis in range(3):
            sizes = np.diff(level.cuts[axis])
            assert len(sizes) == 1 or min(sizes) >= thickness
            assert level.cuts[axis][0] == 0
            assert level.cuts[axis][-1] == level.shape_global[axis]
            assert set(level.owners[axis]) <= set(level.natural_owners[axis])
    assert levels[-1].process_grid == (1, 1, 1)
    assert levels[-1].cells <= 256


@pytest.mark.parametrize("nodes", [False, True])
def test_every_natural_block_lies_in_the_block_of_its_owner(nodes) -> None:
    grid = (4, 2, 2)
    levels = plan_levels(
        Block.of_rank((33, 20, 21), grid, 0, (False, True, False)), (1.0, 1.0, 1.0), thickness=4
    )
    assert any(level.is_agglomerated for level in levels)
    for level in levels:
        shape = (level.shape_global[0] + nodes, level.shape_global[1], level.shape_global[2] + nodes)
        owned, natural = np.zeros(shape, int), np.zeros(shape, int)
        for coords in product(*map(range, grid)):
            for block, count in (
                (level.block(coords, 1, nodes), owned),
                (level.natural_block(coords, 1, nodes), natural),
            ):
                if block is not None:
                    assert block.shape_global == shape
                    count[tuple(slice(o, o + n) for o, n in zip(block.offset_global, block.shape_local))] += 1
            if (part := level.natural_block(coords, 0, nodes)) is not None:
                owner = level.block(level.owner_of(coords), 0, nodes)
                for offset, n, start, size in zip(
                    part.offset_global, part.shape_local, owner.offset_global, owner.shape_local
                ):
                    assert start <= offset
                    assert offset + n <= start + size
        assert (owned == 1).all()
        assert (natural == 1).all()


def test_only_narrow_axes_are_coarsened_until_cells_are_isotropic() -> None:
    levels = plan_levels(Block.of_rank((64, 64, 64), (1, 1, 1), 0), (0.1, 1.0, 1.0))
    assert [level.coarsened for level in levels[1:4]] == [(True, False, False)] * 3
    assert levels[4].coarsened == (True, True, True)
    lines = plan_levels(
        Block.of_rank((16, 64, 64), (1, 1, 1), 0), (0.1, 1.0, 1.0), uncoarsened=(True, False, False)
    )
    assert {level.shape_global[0] for level in lines} == {16}


def test_the_last_aggregate_is_as_wide_as_its_neighbours() -> None:
    assert aggregates_of(np.ones(7)).tolist() == [0, 2, 4, 7]
    assert aggregates_of(np.array([2.0, 2, 2, 2, 2, 2, 3])).tolist() == [0, 2, 4, 6, 7]
    assert aggregates_of(np.ones(3)).tolist() == [0, 2, 3]
    assert aggregates_of(np.ones(1)).tolist() == [0, 1]


def test_widths_are_checked() -> None:
    block = Block.of_rank((4, 4, 4), (1, 1, 1), 0)
    with pytest.raises(ValueError, match="along y are 3 numbers, but there are 4 cells"):
        plan_levels(block, (1.0, np.ones(3), 1.0))
    with pytest.raises(ValueError, match="along z is -1"):
        plan_levels(block, (-1.0, 1.0, 1.0))
