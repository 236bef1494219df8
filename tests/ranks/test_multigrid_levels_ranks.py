"""Agglomeration of multigrid's levels: values reach their owners, and come back with ghosts."""

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.blocks.block import BlockArray
from ridgeline.blocks.cartesian import decompose
from ridgeline.blocks.multigrid.agglomeration import Agglomeration, free_levels, split_levels
from ridgeline.blocks.multigrid.levels import plan_levels
from ridgeline.parallel.partition import factorizations

RANKS = (1, 3, 4)
QUICK_RANKS = (4,)


@pytest.mark.parametrize("nodes", [False, True])
@pytest.mark.parametrize("grid", list(factorizations(MPI.COMM_WORLD.size)))
def test_values_reach_the_owners_and_come_back(comm, grid, nodes) -> None:
    cartesian, block = decompose(comm, (13, 18, 23), grid, (False, True, False))
    levels = plan_levels(block, (1.0, 1.0, 1.0), thickness=3, cells_per_rank=300, coarsest_cells=8)
    comms = split_levels(cartesian, levels, block.coords)
    assert comm.size == 1 or any(level.is_agglomerated for level in levels)
    natural_comm = cartesian
    for level, level_comm in zip(levels, comms):
        if natural_comm is not None and level.is_agglomerated:
            move = Agglomeration(natural_comm, level, block.coords, 1, np.float64, nodes)
            part = level.natural_block(block.coords, 1, nodes)
            whole = np.arange(np.prod(part.shape_global), dtype=float).reshape(part.shape_global)
            padded = np.pad(whole, 1, constant_values=-1.0)
            owner = level.block(block.coords, 2, nodes)
            merged = None if owner is None else BlockArray.allocate(owner, np.float64, -1.0)
            cells = tuple(slice(o, o + n) for o, n in zip(part.offset_global, part.shape_local))
            move.gather(whole[cells], merged)
            if merged is not None:
                cells = tuple(slice(o, o + n) for o, n in zip(owner.offset_global, owner.shape_local))
                np.testing.assert_array_equal(merged.owned, whole[cells])
                assert level_comm.size == owner.n_ranks
                z, y, x = owner.coords
                assert level_comm.rank == (z * owner.process_grid[1] + y) * owner.process_grid[2] + x
                inner = merged.ghosted[1:-1, 1:-1, 1:-1]
                inner[...] = padded[tuple(slice(s.start, s.stop + 2) for s in cells)]
            back = BlockArray.allocate(part, np.float64)
            move.scatter(merged, back)
            cells = tuple(slice(o, o + n + 2) for o, n in zip(part.offset_global, part.shape_local))
            np.testing.assert_array_equal(back.ghosted, padded[cells])
        natural_comm = level_comm
    free_levels(cartesian, comms)
    cartesian.Free()
