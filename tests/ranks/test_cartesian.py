"""Laying ranks over a grid."""

import pytest
from mpi4py import MPI

from ridgeline.blocks.block import Block, exchange_cost
from ridgeline.blocks.cartesian import check_ghost, decompose
from ridgeline.parallel.partition import factorizations
from ridgeline.runtime.errors import DecompositionError

QUICK_RANKS = (3,)


@pytest.mark.parametrize("grid", list(factorizations(MPI.COMM_WORLD.size)))
@pytest.mark.parametrize("periodic", [(True, True, True), (False, True, False)])
def test_block_and_communicator_agree(comm, grid, periodic) -> None:
    cartesian, block = decompose(comm, (37, 20, 51), grid, periodic, ghost=2)
    assert cartesian.rank == comm.rank
    assert tuple(cartesian.dims) == grid
    assert tuple(cartesian.coords) == block.coords
    assert tuple(map(bool, cartesian.periods)) == block.periodic == periodic
    assert block == Block.of_rank((37, 20, 51), grid, comm.rank, periodic, 2)
    for axis in range(3):
        below, above = cartesian.Shift(axis, 1)
        for side, rank in ((-1, below), (1, above)):
            neighbour = block.neighbour(tuple(side if a == axis else 0 for a in range(3)))
            assert rank == (MPI.PROC_NULL if neighbour is None else neighbour)
    cartesian.Free()


@pytest.mark.parametrize("shape", [(64, 64, 64), (37, 20, 51), (9, 300, 7)])
def test_auto_is_never_worse_than_compute_dims(comm, shape) -> None:
    cartesian, block = decompose(comm, shape)
    assert exchange_cost(shape, block.process_grid) <= exchange_cost(
        shape, tuple(MPI.Compute_dims(comm.size, 3))
    )
    cartesian.Free()


def test_wrong_process_grid_is_refused_by_all(comm) -> None:
    with pytest.raises(DecompositionError, match=f"the run has {comm.size} ranks"):
        decompose(comm, (8, 8, 8), (comm.size + 1, 1, 1))


def test_blocks_thinner_than_ghosts_are_refused() -> None:
    check_ghost((8, 9, 2), (4, 3, 1), (True, True, False), 2)
    with pytest.raises(
        DecompositionError, match=r"blocks of 2 cells in z \(of 8\), which are thinner than the 3 ghost"
    ):
        check_ghost((8, 9, 3), (4, 3, 1), (False, False, False), 3)
    with pytest.raises(DecompositionError, match="Divide z into at most 2 blocks"):
        check_ghost((8, 9, 3), (4, 3, 1), (False, False, False), 3)
    with pytest.raises(DecompositionError, match=r"blocks of 2 cells in x \(of 2\).*fewer ghost layers"):
        check_ghost((8, 9, 2), (1, 1, 1), (True, True, True), 3)


def test_auto_leaves_room_for_ghosts(comm) -> None:
    cartesian, block = decompose(comm, (5, 64, 64), ghost=3)
    assert block.process_grid[0] == 1
    cartesian.Free()
