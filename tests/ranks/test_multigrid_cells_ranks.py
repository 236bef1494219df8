"""Cell-centred multigrid on ranks: the bits of one rank on any process grid, with any sides."""

from dataclasses import replace

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.blocks.block import Block, BlockArray
from ridgeline.blocks.cartesian import decompose
from ridgeline.blocks.multigrid.cells import CellMultigrid
from ridgeline.parallel.partition import factorizations

RANKS = (1, 2, 3, 4)
QUICK_RANKS = (2, 4)

PERIODIC, OPEN, WALLS, MIXED = "periodic", ("dirichlet",) * 2, ("neumann",) * 2, ("dirichlet", "neumann")
GRIDS = list(factorizations(MPI.COMM_WORLD.size))
STRETCHED = 0.3 * 1.08 ** np.arange(22)

CASES = {
    "odd": ((23, 31, 27), (1.0, 1.0, 1.0), (MIXED, WALLS, PERIODIC), "constant", np.float64),
    "singular": ((26, 21, 24), (1.0, 0.3, 1.0), (PERIODIC, WALLS, PERIODIC), "constant", np.float32),
    "varying": ((25, 22, 29), (1.0, 1.2, 1.0), (OPEN, PERIODIC, MIXED), "varying", np.float64),
    "lines": ((22, 33, 28), (STRETCHED, 1.0, 1.0), (MIXED, PERIODIC, WALLS), "varying", np.float64),
    "thin": ((9, 31, 24), (1.0, 1.0, 1.0), (PERIODIC, OPEN, PERIODIC), "constant", np.float64),
}


def solve(comm, process_grid, name: str, cycles: int):
    """Do some cycles and return this rank's result, its block, x with ghosts and what was sent."""
    shape, widths, sides, coefficients, dtype = CASES[name]
    cartesian, block = decompose(comm, shape, process_grid, tuple(pair == PERIODIC for pair in sides))
    block = replace(block, ghost=3)  # more layers than a thin block has cells
    multigrid = CellMultigrid(cartesian, block, widths, sides, dtype=dtype, cells_per_rank=1000)
    cells = tuple(slice(o, o + n) for o, n in zip(block.offset_global, block.shape_local))
    random = np.random.default_rng(1)
    values, beta, a = (
        random.standard_normal(shape),
        random.uniform(0.5, 2.0, shape),
        random.uniform(0, 1, shape),
    )
    if coefficients == "varying":
        multigrid.set_coefficients(alpha=0.1, a=a[cells], beta=beta[cells])
    b, x = (BlockArray.allocate(block, dtype) for _ in range(2))
    b.owned[...] = values[cells]
    result = multigrid.solve(b, x, 0.0, cycles)
    levels = multigrid.levels
    applied = np.empty(block.shape_local, dtype)
    multigrid.apply_operator(np.ascontiguousarray(x.owned), applied)
    multigrid.free()
    cartesian.Free()
    return result, block, x, levels, applied


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("name", CASES)
def test_ranks_give_the_bits_of_one_rank(comm, name, grid) -> None:
    if name == "lines" and grid[0] > 1:
        pytest.skip("lines need a z axis that is not cut")
    result, block, x, levels, applied = solve(comm, grid, name, 3)
    alone, _, expected, _, expected_applied = solve(MPI.COMM_SELF, (1, 1, 1), name, 3)
    assert result == alone
    assert comm.size == 1 or any(level.is_agglomerated for level in levels)
    cells = tuple(slice(o, o + n) for o, n in zip(block.offset_global, block.shape_local))
    np.testing.assert_array_equal(x.owned, expected.owned[cells])
    np.testing.assert_array_equal(applied, expected_applied[cells])
    padded = tuple(slice(o, o + n + 6) for o, n in zip(block.offset_global, block.shape_local))
    np.testing.assert_array_equal(x.ghosted, expected.ghosted[padded])


def test_lines_across_a_cut_axis_are_refused_on_all_ranks(comm) -> None:
    if comm.size == 1:
        pytest.skip("nothing is cut")
    cartesian, block = decompose(comm, (22, 16, 16), (comm.size, 1, 1), (False, True, True))
    with pytest.raises(ValueError, match="z is cut into"):
        CellMultigrid(cartesian, block, (STRETCHED, 1.0, 1.0), (WALLS, PERIODIC, PERIODIC))
    cartesian.Free()


def test_one_rank_with_wrong_coefficients_is_an_error_on_all(comm) -> None:
    cartesian, block = decompose(comm, (16, 16, 16), "auto")
    multigrid = CellMultigrid(cartesian, block, (1.0, 1.0, 1.0), (PERIODIC,) * 3)
    beta = np.ones(block.shape_local)
    if comm.rank == comm.size - 1:
        beta[0, 0, 0] = -1.0
    with pytest.raises(ValueError, match="beta must be positive"):
        multigrid.set_coefficients(beta=beta)
    multigrid.free()
    cartesian.Free()
    assert isinstance(block, Block)
