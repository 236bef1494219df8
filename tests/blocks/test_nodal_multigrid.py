"""Nodal multigrid on one rank: against the NumPy oracle and sparse LU, its convergence, its work and its errors."""

import numpy as np
import pytest
from mpi4py import MPI

from nodal_reference import Reference, node_shape
from ridgeline.blocks.block import BlockArray
from ridgeline.blocks.cartesian import decompose
from ridgeline.blocks.multigrid.nodes import NodalMultigrid

PERIODIC = ("periodic",) * 3
WALLS = (("neumann", "neumann"),) * 3
FIXED = (("dirichlet", "dirichlet"),) * 3
MIXED = (("neumann", "dirichlet"), "periodic", ("neumann", "neumann"))
STRETCHED = 0.3 * 1.08 ** np.arange(21)


def make(cells, widths, sides, sigma=1.0, **options):
    cartesian, block = decompose(MPI.COMM_SELF, cells, periodic=tuple(pair == "periodic" for pair in sides))
    if isinstance(sigma, np.ndarray):
        field = BlockArray.allocate(block, options.get("dtype", "float64"))
        field.owned[...] = sigma
        sigma = field
    return NodalMultigrid(cartesian, block, widths, sides, sigma=sigma, **options)


def random_b(solver, seed=0):
    """A right-hand side that sums to zero, so that it fits singular problems too."""
    b = np.random.default_rng(seed).standard_normal(solver.block.shape_local)
    return b - b.mean()


@pytest.mark.parametrize(
    ("cells", "widths", "sides", "with_cells"),
    [
        ((12, 12, 12), (1.0, 1.0, 1.0), PERIODIC, False),
        ((12, 12, 12), (1.0, 1.0, 1.0), PERIODIC, True),
        ((13, 11, 17), (1.0, 0.9, 1.1), WALLS, False),
        ((13, 11, 17), (1.0, 0.9, 1.1), WALLS, True),
        ((21, 9, 10), (STRETCHED, 1.0, 1.0), MIXED, False),
        ((21, 9, 10), (STRETCHED, 1.0, 1.0), MIXED, True),
        ((16, 2, 17), (0.25, 1.0, 1.0), (("dirichlet", "neumann"), "periodic", "periodic"), True),
        ((16, 1, 17), (0.25, 1.0, 1.0), (("dirichlet", "neumann"), "periodic", "periodic"), False),
    ],
)
def test_a_cycle_equals_the_oracle(cells, widths, sides, with_cells) -> None:
    sigma = np.random.default_rng(5).uniform(0.5, 2.0, cells) if with_cells else 0.7
    solver, oracle = make(cells, widths, sides, sigma), Reference(cells, widths, sides, sigma)
    assert len(oracle.levels) > 1
    free = oracle.free[0]
    b = np.where(free, random_b(solver).ravel(), 0.0)
    b -= b.sum() / free.sum() * free
    x = np.zeros(free.size)
    x[free] = np.random.default_rng(1).standard_normal(free.sum())
    solver.b.owned[...], solver.x.owned[...] = (
        b.reshape(solver.block.shape_local),
        x.reshape(solver.block.shape_local),
    )
    result = solver.solve(tolerance=0.0, max_cycles=1)
    expected = oracle.cycle(b[free], x[free])
    assert solver.x.owned.ravel()[free] == pytest.approx(expected, abs=1e-12 * abs(expected).max())
    assert not solver.x.owned.ravel()[~free].any()
    residual = abs(b[free] - oracle.operators[0] @ expected).max()
    assert (result.cycles, result.residual) == (1, pytest.approx(residual, rel=1e-9))


@pytest.mark.parametrize("sides", [FIXED, WALLS, PERIODIC])
def test_the_solution_equals_that_of_sparse_lu(sides) -> None:
    cells, widths = (10, 9, 11), (np.linspace(0.5, 1.5, 10), 1.0, np.linspace(1.0, 2.0, 11))
    solver, oracle = make(cells, widths, sides), Reference(cells, widths, sides)
    free = oracle.free[0]
    b = random_b(solver)
    x = BlockArray.allocate(solver.block, "float64")
    given = BlockArray.allocate(solver.block, "float64")
    given.owned[...] = b
    assert solver.solve(given, x, 1e-13).converged
    found, expected = x.owned.ravel()[free], oracle.solve(b.ravel()[free])
    shift = found[0] - expected[0] if solver.is_singular else 0.0
    assert found - shift == pytest.approx(expected, abs=1e-10 * abs(expected).max())


@pytest.mark.parametrize(
    ("cells", "widths", "sides"),
    [
        ((16, 16, 16), (1.0, 1.0, 1.0), PERIODIC),
        ((48, 48, 48), (1.0, 1.0, 1.0), PERIODIC),
        ((32, 32, 32), (1.0, 1.0, 1.0), FIXED),
        ((31, 37, 29), (1.0, 1.0, 1.0), MIXED),
        ((23, 23, 23), (1.0, 1.0, 1.0), WALLS),
        ((32, 24, 20), (0.25, 1.0, 1.0), PERIODIC),
        ((31, 19, 17), (0.1, 1.0, 1.0), MIXED),
        ((21, 32, 32), (STRETCHED, 1.0, 1.0), MIXED),
    ],
)
def test_a_cycle_reduces_the_residual_to_15_percent(cells, widths, sides) -> None:
    solver = make(cells, widths, sides)
    solver.b.owned[...] = random_b(solver)
    solver.solve(tolerance=0.0, max_cycles=2)
    assert solver.solve(tolerance=0.0, max_cycles=6).factor <= 0.15


def test_float32_converges_alike_and_ends_at_its_rounding() -> None:
    solver = make((24, 24, 24), (1.0, 1.0, 1.0), FIXED, dtype="float32")
    solver.b.owned[...] = random_b(solver)
    result = solver.solve(tolerance=2e-6)
    assert result.converged
    assert result.factor <= 0.15
    assert solver.x.owned.dtype == np.float32


def test_the_work_of_a_cycle_is_counted() -> None:
    """Two steps on each of the levels of 32, 16 and 8 cells, of which the coarser two begin from zero."""
    solver = make((32, 32, 32), (1.0, 1.0, 1.0), PERIODIC)
    words = 6 * 32**3 + 2 * 16**3 + 5 * 16**3 + 2 * 8**3 + 5 * 8**3 + 2 * 4**3
    work = solver.work_of_cycle()
    assert (work.bytes, work.messages) == (8 * words, 0)
    assert work.passes == words / (3 * 32**3) < 2.4


def test_levels_without_coarser_ones_are_solved_directly() -> None:
    solver = make((3, 4, 5), (1.0, 1.0, 1.0), MIXED)
    assert len(solver.levels) == 1
    solver.b.owned[...] = random_b(solver)
    result = solver.solve(tolerance=1e-12)
    assert (result.converged, result.cycles) == (True, 1)


def test_an_inconsistent_right_hand_side_does_not_converge_and_zero_takes_no_cycle() -> None:
    solver = make((16, 16, 16), (1.0, 1.0, 1.0), PERIODIC)
    assert solver.solve().cycles == 0
    solver.b.owned[...] = random_b(solver) + 0.01
    result = solver.solve(tolerance=1e-8, max_cycles=15)
    assert not result.converged
    assert result.residual == pytest.approx(0.01, rel=1e-6)
    assert solver.solve(tolerance=0.0, absolute=0.02).converged


def test_a_nan_ends_the_solve_and_leaves_nothing_behind() -> None:
    cells, widths = (21, 12, 13), (STRETCHED, 1.0, 1.0)
    solver, fresh = make(cells, widths, MIXED), make(cells, widths, MIXED)
    solver.b.owned[...] = np.nan
    assert not solver.solve(max_cycles=5).converged
    for each in (solver, fresh):
        each.b.owned[...] = random_b(each)
        each.x.owned[...] = 0.0
        assert each.solve().converged
    np.testing.assert_array_equal(solver.x.owned, fresh.x.owned)


def test_one_cycle_is_a_preconditioner() -> None:
    cells, widths = (13, 12, 11), (1.0, 1.0, 1.0)
    solver, oracle = make(cells, widths, FIXED), Reference(cells, widths, FIXED)
    free, r = oracle.free[0], random_b(solver)
    z = np.full(r.shape, 7.0)
    solver.apply(r, z)
    expected = oracle.cycle(r.ravel()[free], np.zeros(free.sum()))
    assert z.ravel()[free] == pytest.approx(expected, abs=1e-12 * abs(expected).max())


def test_wrong_arguments_are_named() -> None:
    cells, widths = (8, 8, 8), (1.0, 1.0, 1.0)
    cartesian, block = decompose(MPI.COMM_SELF, cells, periodic=(False, True, True))
    with pytest.raises(ValueError, match=r"sides of z .* not periodic"):
        NodalMultigrid(cartesian, block, widths, PERIODIC)
    with pytest.raises(ValueError, match="sides of z are"):
        make(cells, widths, (("neumann", "wall"), "periodic", "periodic"))
    with pytest.raises(ValueError, match="must be positive"):
        make(cells, widths, PERIODIC, sigma=np.zeros(cells))
    solver = make(cells, widths, PERIODIC)
    other = BlockArray.allocate(make(cells, widths, FIXED).block, "float64")
    with pytest.raises(ValueError, match="b has"):
        solver.solve(other)
    assert node_shape(cells, (True, False, True)) == (8, 9, 8)
