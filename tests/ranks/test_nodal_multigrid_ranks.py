"""Nodal multigrid and the projections give the same bits on any ranks and process grid as on one rank."""

from dataclasses import replace

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.blocks.block import BlockArray
from ridgeline.blocks.cartesian import decompose
from ridgeline.blocks.halo import HaloExchange
from ridgeline.blocks.multigrid.nodes import NodalMultigrid
from ridgeline.blocks.projection import MacProjection, NodalProjection
from ridgeline.parallel.partition import factorizations

RANKS = (1, 2, 3, 4)
QUICK_RANKS = (4,)
TIMEOUT = 120

PERIODIC = ("periodic",) * 3
MIXED = (("neumann", "dirichlet"), "periodic", ("neumann", "neumann"))
STRETCHED = 0.3 * 1.07 ** np.arange(23)
SIZE = MPI.COMM_WORLD.size
GRIDS = [grid for grid in factorizations(SIZE) if SIZE < 4 or max(grid) < 4 or grid[0] == 4]


def part_of(whole, block):
    return whole[tuple(slice(o, o + n) for o, n in zip(block.offset_global, block.shape_local))]


def solve(comm, grid, cells, widths, sides, dtype, with_cells, cells_per_rank):
    """Four cycles; returns the block of this rank, the result, and phi with one layer of ghosts."""
    cartesian, block = decompose(comm, cells, grid, tuple(pair == "periodic" for pair in sides))
    rng = np.random.default_rng(2)
    sigma = 1.0
    if with_cells:
        sigma = BlockArray.allocate(block, dtype)
        sigma.owned[...] = part_of(rng.uniform(0.5, 2.0, cells), block)
    solver = NodalMultigrid(
        cartesian, block, widths, sides, sigma=sigma, dtype=dtype, cells_per_rank=cells_per_rank
    )
    b = rng.standard_normal(solver.block.shape_global)
    solver.b.owned[...] = part_of(b - b.mean(), solver.block)
    result = solver.solve(tolerance=0.0, max_cycles=4)
    g = solver.block.ghost - 1
    phi = solver.x.ghosted[g : -g or None, g : -g or None, g : -g or None].copy()
    nodes = solver.block
    solver.free()
    cartesian.Free()
    return nodes, result, phi


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize(
    ("cells", "widths", "sides", "dtype", "with_cells"),
    [
        ((24, 24, 24), (1.0, 1.0, 1.0), PERIODIC, "float64", False),
        ((23, 21, 27), (1.0, 1.0, 1.0), PERIODIC, "float32", True),
        ((23, 17, 19), (STRETCHED, 1.0, 1.0), MIXED, "float64", False),
        ((13, 29, 19), (1.0, 0.5, 1.0), MIXED, "float64", True),
    ],
)
def test_phi_and_its_ghosts_have_the_bits_of_one_rank(
    comm, grid, cells, widths, sides, dtype, with_cells
) -> None:
    _, alone, whole = solve(MPI.COMM_SELF, (1, 1, 1), cells, widths, sides, dtype, with_cells, 4096)
    # So small a number leaves levels on several ranks as long as their blocks are thick enough.
    nodes, result, phi = solve(comm, grid, cells, widths, sides, dtype, with_cells, 1)
    wider = tuple(slice(o, o + n + 2) for o, n in zip(nodes.offset_global, nodes.shape_local))
    np.testing.assert_array_equal(phi, whole[wider])
    assert result == alone


def project(comm, grid, cells, sides):
    """A nodal projection and one at faces, of a random velocity; returns the block and the velocities there."""
    periodic = tuple(pair == "periodic" for pair in sides)
    cartesian, block = decompose(comm, cells, grid, periodic)
    rng = np.random.default_rng(3)
    velocity = [BlockArray.allocate(block, "float64") for _ in range(3)]
    for field in velocity:
        field.owned[...] = part_of(rng.standard_normal(cells), block)
    halo = HaloExchange.of_fields(cartesian, [velocity], corners=True, method="pack")
    halo.exchange()
    projection = NodalProjection(cartesian, block, (0.1, 0.2, 0.15), sides)
    assert projection.project(velocity, 1e-10).converged
    projected = [field.owned.copy() for field in velocity]
    halo.exchange()
    mac = MacProjection(cartesian, block, (0.1, 0.2, 0.15), sides)
    assert mac.project(velocity, 1e-10).converged
    for each in (halo, projection, mac):
        each.free()
    cartesian.Free()
    return block, projected + [field.owned for field in velocity]


@pytest.mark.parametrize("grid", GRIDS)
def test_projected_velocities_have_the_bits_of_one_rank(comm, grid) -> None:
    cells, sides = (13, 18, 22), (("wall", "outflow"), "periodic", ("slip", "wall"))
    _, whole = project(MPI.COMM_SELF, (1, 1, 1), cells, sides)
    block, parts = project(comm, grid, cells, sides)
    for part, expected in zip(parts, whole):
        np.testing.assert_array_equal(part, part_of(expected, block))


def test_explicit_cuts_of_the_cells_are_followed(comm) -> None:
    """A thin first block: the finest level itself moves onto fewer ranks, and phi comes back."""
    cells, ranks = (16, 8, 8), comm.size
    periodic = (False, True, True)
    cartesian, block = decompose(comm, cells, (ranks, 1, 1), periodic)
    cuts = ((0, *range(1, ranks), 16), (0, 8), (0, 8))
    sides = (("dirichlet", "neumann"), "periodic", "periodic")
    solver = NodalMultigrid(cartesian, replace(block, cuts=cuts), (1.0, 1.0, 1.0), sides)
    solver.b.owned[...] = 1.0
    assert solver.solve().converged
    assert solver.levels[0].is_agglomerated == (ranks > 1)
    z = solver.block.offset_global[0] + np.arange(solver.block.shape_local[0])
    z = z[:, None, None]
    # -phi'' = 1 with phi(0) = 0; the node at the upper side has b for a whole cell, thus a flux of 1/2 more.
    expected = 16.5 * z - z**2 / 2
    assert np.broadcast_to(expected, solver.block.shape_local) == pytest.approx(solver.x.owned, rel=1e-8)
    solver.free()
    cartesian.Free()
