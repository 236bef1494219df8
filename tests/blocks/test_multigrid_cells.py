"""Cell-centred multigrid on one rank: against NumPy and direct solvers, convergence, order, counts, errors."""

from dataclasses import replace

import numpy as np
import pytest
from mpi4py import MPI
from scipy.sparse import csc_matrix
from scipy.sparse.linalg import splu

from cell_multigrid_reference import ReferenceLevel, ReferenceMultigrid
from ridgeline.blocks.block import BlockArray
from ridgeline.blocks.cartesian import decompose
from ridgeline.blocks.multigrid.cell_preconditioner import CellOperator, CellPreconditioner
from ridgeline.blocks.multigrid.cells import CellMultigrid
from ridgeline.blocks.multigrid.smoothing import LINE_EIGENVALUES, POINT_EIGENVALUES, STEPS, chebyshev_factors
from ridgeline.krylov.cg import flexible_cg
from ridgeline.krylov.operator import Jacobi
from ridgeline.runtime.regions import Regions

PERIODIC, OPEN, WALLS, MIXED = "periodic", ("dirichlet",) * 2, ("neumann",) * 2, ("dirichlet", "neumann")


def stretched(n: int, ratio: float) -> np.ndarray:
    return ratio ** (np.arange(n) - n / 2)


def make(shape, widths, sides, **options):
    cartesian, block = decompose(MPI.COMM_SELF, shape, periodic=tuple(pair == PERIODIC for pair in sides))
    return CellMultigrid(cartesian, block, widths, sides, **options), block


def field(block, values=0.0, dtype=np.float64) -> BlockArray:
    array = BlockArray.allocate(block, dtype)
    array.owned[...] = values
    return array


def smooth_beta(shape, contrast: float) -> np.ndarray:
    z, y, x = np.meshgrid(*[(np.arange(n) + 0.5) / n for n in shape], indexing="ij")
    waves = np.sin(2 * np.pi * x) * np.cos(2 * np.pi * y) * np.cos(2 * np.pi * z)
    return contrast ** (waves / 2)


REFERENCE = {
    "constant": ((7, 9, 11), (1.0, 1.0, 1.2), (MIXED, PERIODIC, WALLS), False),
    "varying": ((9, 8, 10), (stretched(9, 1.05), 1.0, 1.0), (OPEN, PERIODIC, MIXED), True),
    "singular": ((8, 9, 10), (1.0, stretched(9, 1.1), 1.0), (PERIODIC, WALLS, PERIODIC), True),
    "lines": ((6, 9, 11), (stretched(6, 1.5), 1.0, 1.0), (MIXED, PERIODIC, OPEN), True),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", REFERENCE)
def test_a_cycle_is_that_of_the_reference(name, dtype) -> None:
    shape, widths, sides, varies = REFERENCE[name]
    multigrid, _ = make(shape, widths, sides, dtype=dtype)
    assert multigrid.lines == (name == "lines")
    assert len(multigrid.levels) >= 2
    random = np.random.default_rng(0)
    faces = [random.uniform(0.1, 2.0, [n + (a == axis) for a, n in enumerate(shape)]) for axis in range(3)]
    for axis, pair in enumerate(sides):
        if pair == PERIODIC:
            np.moveaxis(faces[axis], axis, 0)[-1] = np.moveaxis(faces[axis], axis, 0)[0]
    a = random.uniform(0.0, 2.0, shape)
    alpha = 0.0 if name == "singular" else 0.25
    if varies:
        multigrid.set_coefficients(alpha, a, faces=faces)
    else:
        multigrid.set_coefficients(alpha, beta=1.5)
        faces, a = [np.full(face.shape, 1.5) for face in faces], np.ones(shape)
    taus = chebyshev_factors(STEPS, LINE_EIGENVALUES if multigrid.lines else POINT_EIGENVALUES)
    reference = ReferenceMultigrid(multigrid.levels, sides, taus, multigrid.lines, alpha * a, faces)
    b, x = random.standard_normal(shape), random.standard_normal(shape)
    if name == "singular":
        b -= (b * multigrid.volumes()).sum() / multigrid.volumes().sum()
    rounding = 1e-11 if dtype == np.float64 else 2e-4
    for from_zero in (True, False):
        start = np.zeros(shape) if from_zero else x
        out = start.astype(dtype)
        multigrid.cycle(b.astype(dtype), out, from_zero)
        expected = reference.cycle(b, start)
        np.testing.assert_allclose(out, expected, rtol=0, atol=rounding * abs(expected).max())


@pytest.mark.parametrize("name", ["varying", "lines"])
def test_solutions_are_those_of_a_direct_solver(name) -> None:
    shape, widths, sides, _ = REFERENCE[name]
    multigrid, block = make(shape, widths, sides)
    random = np.random.default_rng(2)
    beta, a = random.uniform(0.5, 2.0, shape), random.uniform(0.0, 1.0, shape)
    multigrid.set_coefficients(0.3, a, beta, mean="arithmetic")
    b, x = field(block, random.standard_normal(shape)), field(block)
    result = multigrid.solve(b, x, 1e-12)
    assert result.converged, result
    faces = []
    for axis in range(3):
        w = multigrid.levels[0].widths[axis]
        padded = np.pad(beta, [(int(k == axis), int(k == axis)) for k in range(3)], mode="wrap")
        w = np.pad(w, 1, mode="wrap")
        if sides[axis] != PERIODIC:
            moved = np.moveaxis(padded, axis, 0)
            moved[0], moved[-1], w[0], w[-1] = moved[1], moved[-2], w[1], w[-2]
        low, high = (np.take(padded, np.arange(shape[axis] + 1) + more, axis) for more in (0, 1))
        w_low, w_high = (v.reshape([-1 if k == axis else 1 for k in range(3)]) for v in (w[:-1], w[1:]))
        faces.append((w_high * low + w_low * high) / (w_low + w_high))
    level = ReferenceLevel(multigrid.levels[0].widths, sides, 0.3 * a, faces)
    expected = splu(csc_matrix(level.matrix())).solve(b.owned.ravel()).reshape(shape)
    np.testing.assert_allclose(x.owned, expected, rtol=0, atol=1e-10 * abs(expected).max())


CONVERGENCE = {
    "16": ((16, 16, 16), (1.0, 1.0, 1.0), (OPEN, OPEN, OPEN), None),
    "odd": ((33, 47, 29), (1.0, 1.0, 1.0), (MIXED, WALLS, PERIODIC), None),
    "odd periodic": ((33, 47, 29), (1.0, 1.0, 1.0), (PERIODIC,) * 3, None),
    "64": ((64, 64, 64), (1.0, 1.0, 1.0), (PERIODIC, PERIODIC, WALLS), None),
    "long": ((96, 17, 40), (1.0, 1.0, 1.0), (PERIODIC, PERIODIC, WALLS), None),
    "anisotropic": ((40, 32, 27), (0.1, 1.0, 1.0), (WALLS, PERIODIC, PERIODIC), None),
    "anisotropic in x": ((24, 21, 40), (1.0, 0.7, 0.1), (WALLS, OPEN, PERIODIC), None),
    "stretched by 5 %": ((40, 32, 37), (stretched(40, 1.05), 1.0, 1.0), (WALLS, PERIODIC, PERIODIC), None),
    "stretched by 10 %": ((40, 32, 37), (stretched(40, 1.1), 1.0, 1.0), (MIXED, PERIODIC, OPEN), None),
    "flat stretched": ((40, 32, 37), (stretched(40, 1.1), 0.1, 0.1), (MIXED, PERIODIC, OPEN), None),
    "beta 1:10": ((32, 32, 32), (1.0, 1.0, 1.0), (PERIODIC,) * 3, 10.0),
    "beta 1:100": ((33, 47, 29), (1.0, 1.0, 1.0), (MIXED, WALLS, PERIODIC), 100.0),
}


@pytest.mark.parametrize("name", CONVERGENCE)
def test_a_cycle_reduces_residuals_by_seven(name) -> None:
    shape, widths, sides, contrast = CONVERGENCE[name]
    multigrid, block = make(shape, widths, sides)
    if contrast is not None:
        multigrid.set_coefficients(beta=smooth_beta(shape, contrast))
    b, x = field(block), field(block, np.random.default_rng(0).standard_normal(shape))
    before = multigrid.solve(b, x, 0.0, 8)
    after = multigrid.solve(b, x, 0.0, 4)
    assert before.residual < 0.15**7 * before.initial_residual
    assert after.factor <= 0.15, after


def test_coefficients_that_are_random_from_cell_to_cell_converge_nearly_as_well() -> None:
    shape = (40, 33, 48)
    multigrid, block = make(shape, (1.0, 1.0, 1.0), (WALLS, PERIODIC, OPEN))
    multigrid.set_coefficients(beta=np.random.default_rng(1).uniform(0.5, 2.0, shape))
    b, x = field(block, np.random.default_rng(0).standard_normal(shape)), field(block)
    assert multigrid.solve(b, x, 0.0, 8).factor < 0.155  # 0.165 with the mean of the coarser faces alone


def test_values_at_sides_are_of_second_order() -> None:
    errors = []
    for n in (12, 24):
        shape, sides = (n, n, n), (MIXED, OPEN, PERIODIC)
        multigrid, block = make(shape, (1 / n,) * 3, sides)
        z, y, x = np.meshgrid(*[(np.arange(m) + 0.5) / m for m in shape], indexing="ij")

        def exact(z, y, x):
            return np.cos(z) * np.exp(y) * np.sin(2 * np.pi * x)

        def beta(z, y, x):
            return 1 + y

        multigrid.set_coefficients(beta=beta(z, y, x), mean="arithmetic")
        # div(beta grad u) for beta = 1 + y
        u = exact(z, y, x)
        right = -((1 + y) * (-u + u - 4 * np.pi**2 * u) + u)
        b, out = field(block, right), field(block)
        multigrid.add_side_values(b, 0, 0, exact(0.0, y[0], x[0]))
        multigrid.add_side_values(b, 0, 1, -np.sin(1.0) * np.exp(y[0]) * np.sin(2 * np.pi * x[0]))
        # At the sides of y the solver takes beta of the cells, so the exact values of faces are given.
        faces = [beta(*np.meshgrid(*places(shape, axis), indexing="ij")) for axis in range(3)]
        multigrid.set_coefficients(faces=faces)
        for end in (0, 1):
            multigrid.add_side_values(b, 1, end, exact(z[:, 0], float(end), x[:, 0]))
        assert multigrid.solve(b, out, 1e-10).converged
        errors.append(abs(out.owned - u).max())
    assert 3.5 < errors[0] / errors[1] < 4.6


def places(shape, axis: int) -> list[np.ndarray]:
    """Return the places of the faces across an axis in the unit cube."""
    return [np.arange(n + 1) / n if a == axis else (np.arange(n) + 0.5) / n for a, n in enumerate(shape)]


def test_singular_problems_lose_their_mean_and_say_it() -> None:
    shape = (17, 16, 20)
    multigrid, block = make(shape, (stretched(17, 1.04), 1.0, 1.0), (WALLS, PERIODIC, PERIODIC))
    values = np.random.default_rng(3).standard_normal(shape) + 5.0
    b, x = field(block, values), field(block, 7.0)
    result = multigrid.solve(b, x, 1e-9)
    volumes = multigrid.volumes()
    mean = (values * volumes).sum() / volumes.sum()
    assert result.converged, result
    assert result.mean_removed == pytest.approx(mean, rel=1e-12)
    assert abs((x.owned * volumes).sum()) < 1e-10 * volumes.sum()
    applied = np.empty(shape)
    multigrid.apply_operator(np.ascontiguousarray(x.owned), applied)
    np.testing.assert_allclose(applied, values - mean, rtol=0, atol=1e-8)
    multigrid.set_coefficients(alpha=1.0)
    assert not multigrid.singular


def test_results_say_when_the_tolerance_is_not_reached() -> None:
    multigrid, block = make((16, 16, 16), (1.0, 1.0, 1.0), (OPEN, OPEN, OPEN))
    b, x = field(block, 1.0), field(block)
    result = multigrid.solve(b, x, 1e-12, max_cycles=2)
    assert not result.converged
    assert result.cycles == 2
    assert "NOT converged after 2 V-cycles" in str(result)
    result = multigrid.solve(b, x, 0.0, absolute=1e-5)
    assert result.converged
    assert 0 < result.residual <= 1e-5
    b.owned[3, 3, 3] = np.nan
    assert not multigrid.solve(b, field(block), 1e-6).converged
    zero = multigrid.solve(field(block), field(block))
    assert (zero.converged, zero.cycles) == (True, 0)


def test_ghosts_of_solutions_hold_neighbours_and_mirror_images() -> None:
    multigrid, block = make((9, 8, 7), (1.0, 1.0, 1.0), (MIXED, PERIODIC, WALLS))
    block = replace(block, ghost=2)
    x = BlockArray.allocate(block, np.float64)
    multigrid.solve(field(block, np.random.default_rng(7).standard_normal((9, 8, 7))), x, 1e-6)
    inner = x.owned
    padded = np.pad(inner, ((0, 0), (2, 2), (0, 0)), mode="wrap")
    padded = np.pad(padded, ((2, 2), (0, 0), (2, 2)), mode="symmetric")
    padded[:2] *= -1
    np.testing.assert_array_equal(x.ghosted, padded)


def test_single_precision_reaches_its_rounding() -> None:
    multigrid, block = make((24, 17, 32), (1.0, 1.0, 1.0), (OPEN, OPEN, PERIODIC), dtype=np.float32)
    b = field(block, np.random.default_rng(4).standard_normal((24, 17, 32)), np.float32)
    result = multigrid.solve(b, field(block, 0.0, np.float32), 2e-6)
    assert result.converged, result


def test_conjugate_gradients_need_fewer_iterations_with_a_cycle() -> None:
    shape = (32, 24, 27)
    multigrid, block = make(shape, (stretched(32, 1.02), 1.0, 1.0), (WALLS, PERIODIC, OPEN))
    random = np.random.default_rng(5)
    blob = np.where(smooth_beta(shape, 100.0) > 2.0, 1000.0, 1.0)
    multigrid.set_coefficients(beta=blob)
    b, out = field(block, random.standard_normal(shape)), field(block)
    alone = multigrid.solve(b, out, 1e-8, 60)
    operator = CellOperator(multigrid)
    right = operator.integrate(b.owned)
    iterations = []
    diagonal = np.zeros(shape)
    unit = np.zeros(shape)
    for parity in np.ndindex(
        2, 2, 2
    ):  # cells of one parity are not neighbours, except around a periodic axis
        part = tuple(slice(p, None, 2) for p in parity)
        unit[...] = 0
        unit[part] = 1
        applied = np.empty(shape)
        operator.apply(unit, applied)
        diagonal[part] = applied[part]
    single, _ = make(shape, (stretched(32, 1.02), 1.0, 1.0), (WALLS, PERIODIC, OPEN), dtype=np.float32)
    single.set_coefficients(beta=blob)
    preconditioners = [CellPreconditioner(solver, operator.volumes) for solver in (multigrid, single)]
    for preconditioner in (*preconditioners, Jacobi(1 / diagonal, operator.inner)):
        x = np.zeros(shape)
        result = flexible_cg(operator, right, x, preconditioner, 0, 1e-8, 2000, zero_guess=True)
        assert result.converged, result
        iterations.append(result.iterations)
        applied = np.empty(shape)
        operator.apply(x, applied)
        assert abs(applied - right).max() < 1e-6
    assert iterations[0] < 0.15 * iterations[2]
    assert abs(iterations[1] - iterations[0]) <= 2
    assert not alone.converged or iterations[0] <= alone.cycles


def test_work_is_counted() -> None:
    regions = Regions()
    multigrid, block = make((16, 20, 24), (1.0, 1.0, 1.0), (PERIODIC,) * 3, regions=regions)
    multigrid.solve(
        field(block, np.random.default_rng(6).standard_normal((16, 20, 24))), field(block), 0.0, 3
    )
    assert multigrid.passes_per_cycle <= 4
    assert multigrid.cycles == 3
    assert multigrid.bytes_per_cycle == 2 * 3 * 8 * 16 * 20 * 24
    assert regions.table["multigrid"].bytes == 3 * multigrid.bytes_per_cycle
    assert multigrid.messages == 0
    assert (multigrid.seconds[0] > 0).all()
    assert (multigrid.seconds[1:, 3] == 0).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_residual_that_is_not_finite_is_seen_wherever_it_lies(bad) -> None:
    shape = (6, 7, 21)
    multigrid, block = make(shape, (1.0, 1.0, 1.0), (WALLS, PERIODIC, OPEN))
    for place in ((0, 0, 0), (3, 3, 8), (5, 6, 20)):
        b = field(block, 1.0)
        b.owned[place] = bad
        result = multigrid.solve(b, field(block), 0.0, 3)
        assert (result.converged, result.cycles) == (False, 0)


def test_what_is_not_possible_is_an_error() -> None:
    cartesian, block = decompose(MPI.COMM_SELF, (8, 8, 8), periodic=(False, True, True))
    with pytest.raises(ValueError, match="not periodic in z"):
        CellMultigrid(cartesian, block, (1.0, 1.0, 1.0), (PERIODIC,) * 3)
    with pytest.raises(ValueError, match="sides of y are 'wall'"):
        make((8, 8, 8), (1.0, 1.0, 1.0), (PERIODIC, "wall", PERIODIC))
    with pytest.raises(ValueError, match="at least 2 steps"):
        make((8, 8, 8), (1.0, 1.0, 1.0), (PERIODIC,) * 3, steps=1)
    with pytest.raises(ValueError, match="dtype = int64"):
        make((8, 8, 8), (1.0, 1.0, 1.0), (PERIODIC,) * 3, dtype=np.int64)
    with pytest.raises(ValueError, match="neither cut nor periodic"):
        make((8, 8, 8), (1.0, 1.0, 1.0), (PERIODIC,) * 3, lines=True)
    for axis, name in ((1, "y"), (2, "x")):
        widths = [stretched(16, 1.1) if a == axis else 1.0 for a in range(3)]
        with pytest.raises(ValueError, match=f"widths of cells along {name} differ by a factor of 4.18"):
            make((16, 16, 16), widths, (WALLS,) * 3)
        assert not make((16, 16, 16), widths, (WALLS,) * 3, lines=False)[0].lines
    multigrid, block = make((8, 8, 8), (1.0, 1.0, 1.0), (PERIODIC,) * 3)
    with pytest.raises(ValueError, match="alpha = -1"):
        multigrid.set_coefficients(alpha=-1.0)
    with pytest.raises(ValueError, match="beta has the shape"):
        multigrid.set_coefficients(beta=np.ones((3, 3, 3)))
    with pytest.raises(ValueError, match="periodic and has no sides"):
        multigrid.add_side_values(field(block), 0, 0, 1.0)
