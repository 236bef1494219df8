"""Flexible GMRES and flexible CG against dense solves, and their ends other than success."""

import itertools

import numpy as np
import pytest

from linalg_toys import DenseOperator, DensePreconditioner, path_laplacian, random_places, random_positive
from ridgeline.krylov.cg import flexible_cg
from ridgeline.krylov.gmres import gmres
from ridgeline.krylov.operator import Jacobi, Workspace
from ridgeline.runtime.regions import Regions

N = 50
BOTH = pytest.mark.parametrize("solve", [gmres, flexible_cg])


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)


@pytest.fixture
def operator(rng: np.random.Generator) -> DenseOperator:
    """Symmetric positive, with a mass matrix and two constrained points."""
    matrix = random_positive(rng, N, 200.0)
    return DenseOperator([matrix], random_places(rng, N), rng.uniform(0.5, 2.0, N), ((0, 4),))


@pytest.fixture
def good(operator: DenseOperator, rng: np.random.Generator) -> DensePreconditioner:
    """A float32 inverse of a disturbed matrix."""
    noise = random_positive(rng, N, 1.2) - 0.1 * np.eye(N)
    inverse = np.linalg.inv(operator.matrices[0] + np.diag(~operator.free[0] * 1.0))
    free = np.outer(operator.free[0], operator.free[0])
    root = np.linalg.cholesky(inverse)
    return DensePreconditioner(operator, free * (root @ noise @ root.T))


@BOTH
@pytest.mark.parametrize("kind", ["none", "jacobi", "float32", "float64"])
def test_agrees_with_a_dense_solve(solve, kind, operator, good, rng) -> None:
    preconditioner = {
        "none": None,
        "jacobi": Jacobi(operator.inverse_diagonal(), operator.inner),
        "float32": good,
        "float64": DensePreconditioner(operator, good.inverse, "float64"),
    }[kind]
    b = operator.spread(rng.standard_normal(N))
    x = operator.spread(rng.standard_normal(N))
    given = b.copy()
    result = solve(operator, b, x, preconditioner, 40, 1e-11, 300)
    assert result.converged
    assert result.residual <= 1e-11
    np.testing.assert_allclose(x, operator.solve(b), atol=1e-8)
    np.testing.assert_array_equal(b, given)


@pytest.mark.parametrize("restart", [5, 20, 80])
def test_unsymmetric_operators_and_restarts(restart: int, rng: np.random.Generator) -> None:
    matrix = np.eye(N) + 0.5 * rng.standard_normal((N, N)) / np.sqrt(N)
    operator = DenseOperator([matrix], random_places(rng, N))
    b, x = operator.spread(rng.standard_normal(N)), np.empty(len(operator.places))
    result = gmres(operator, b, x, None, restart, 1e-11, 400, zero_guess=True)
    assert result.converged
    np.testing.assert_allclose(x, operator.solve(b), atol=1e-9)


def test_no_more_vectors_are_kept_than_iterations_are_allowed(operator: DenseOperator, rng) -> None:
    b, x = operator.spread(rng.standard_normal(N)), np.empty(len(operator.places))
    assert gmres(operator, b, x, None, 10**12, 1e-9, 2 * N, zero_guess=True).converged


def test_residuals_are_least_over_the_space_and_as_stated(operator: DenseOperator, rng) -> None:
    """After k iterations: the least norm over the Krylov space, by dense least squares."""
    b = operator.spread(rng.standard_normal(N))
    space, norm = [operator.distinct(b)], operator.inner.norm
    matrix, mass = operator.matrices[0], operator.distinct(operator.inner.mass)
    for k in range(1, 6):
        x = np.empty_like(b)
        result = gmres(operator, b, x, None, 10, 0.0, k, zero_guess=True)
        basis = np.stack(space, axis=1)
        root = 1 / np.sqrt(mass)
        y = np.linalg.lstsq(root[:, None] * (matrix @ basis), root * operator.distinct(b), rcond=None)[0]
        least = np.linalg.norm(root * (operator.distinct(b) - matrix @ basis @ y)) / np.sqrt(mass.sum())
        applied = np.empty_like(x)
        operator.apply(x, applied)
        assert not result.converged
        np.testing.assert_allclose(result.residual, least, rtol=1e-9)
        np.testing.assert_allclose(norm(b - applied)[0], least, rtol=1e-9)
        space.append(matrix @ space[-1])


def test_gram_schmidt_is_repeated_where_much_cancels(rng: np.random.Generator) -> None:
    """With A near the identity almost nothing is left of each new vector."""
    matrix = np.eye(N) + 1e-7 * random_positive(rng, N, 1e3)
    operator = DenseOperator([matrix], random_places(rng, N))
    b, x = operator.spread(rng.standard_normal(N)), np.empty(len(operator.places))
    work = Workspace()
    result = gmres(operator, b, x, None, 8, 1e-14, 8, zero_guess=True, work=work)
    basis = work("gmres v", (9, len(b)))[: result.iterations]
    gram = (basis * operator.inner.weights) @ basis.T / operator.inner.volume
    np.testing.assert_allclose(gram, np.eye(len(gram)), atol=1e-9)


@BOTH
def test_null_space_of_constants(solve, rng: np.random.Generator) -> None:
    mass = rng.uniform(0.5, 2.0, N)
    matrix = path_laplacian(N, rng)
    operator = DenseOperator([matrix], random_places(rng, N), mass, nullspace=True)
    regular = DensePreconditioner(operator, np.linalg.inv(matrix + 0.05 * np.eye(N)))
    given = rng.standard_normal(N)
    b, x = operator.spread(given), np.empty(len(operator.places))
    result = solve(operator, b, x, regular, 30, 1e-10, 200, zero_guess=True)
    assert result.converged
    u = operator.distinct(x)
    np.testing.assert_allclose(matrix @ u, given - mass * given.sum() / mass.sum(), atol=1e-8)
    assert abs(u @ mass) < 1e-11


@BOTH
def test_zero_right_hand_side_and_exact_guess_take_no_iteration(solve, operator, good, rng) -> None:
    zero = operator.spread(np.zeros(N))
    x = np.full_like(zero, np.nan)
    result = solve(operator, zero, x, good, 10, 0.0, 50, zero_guess=True)
    assert (result.iterations, result.residual, result.converged) == (0, 0.0, True)
    assert not x.any()
    b = operator.spread(rng.standard_normal(N))
    result = solve(operator, b, operator.solve(b), good, 10, 1e-9, 50)
    assert (result.iterations, result.converged) == (0, True)


def test_an_exhausted_space_ends_the_solve(rng: np.random.Generator) -> None:
    """Three eigenvectors in b: the fourth vector is nothing; a singular system stays unsolved."""
    places = random_places(rng, N)
    values = np.arange(1.0, N + 1)
    operator = DenseOperator([np.diag(values)], places)
    given = np.zeros(N)
    given[[2, 5, 9]] = 1.0
    b, x = operator.spread(given), np.empty(len(places))
    result = gmres(operator, b, x, None, 10, 1e-13, 100, zero_guess=True)
    assert (result.iterations, result.converged) == (3, True)
    values[5] = 0.0
    singular = DenseOperator([np.diag(values)], places)
    result = gmres(singular, b, x, None, 10, 1e-13, 100, zero_guess=True)
    assert not result.converged
    assert result.iterations < 20
    assert np.isfinite(x).all()


@BOTH
def test_what_does_not_converge_says_so(solve, operator, rng) -> None:
    b, x = operator.spread(rng.standard_normal(N)), np.empty(len(operator.places))
    result = solve(operator, b, x, None, 3, 1e-12, 7, zero_guess=True)
    assert (result.iterations, result.converged) == (7, False)
    assert result.residual > 1e-12


@BOTH
def test_nan_ends_the_solve(solve, operator, good, rng) -> None:
    b, x = operator.spread(rng.standard_normal(N)), np.empty(len(operator.places))
    good.inverse = good.inverse * np.nan
    result = solve(operator, b, x, good, 10, 1e-10, 50, zero_guess=True)
    assert not result.converged
    assert result.iterations <= 1
    b[1] = np.nan
    result = solve(operator, b, x, None, 10, 1e-10, 50, zero_guess=True)
    assert (result.iterations, result.converged) == (0, False)


def test_directions_of_flexible_cg_stay_conjugate_while_the_preconditioner_varies(
    operator, good, rng
) -> None:
    class Varying(DensePreconditioner):
        def apply(self, r, z):
            super().apply(r, z)
            z *= rng.uniform(0.5, 1.5, N)[operator.places]  # positive, but another operator each time

    class Recorded:
        def __getattr__(self, name):
            return getattr(operator, name)

        def apply(self, u, out):
            operator.apply(u, out)
            pairs.append((operator.distinct(u).copy(), operator.distinct(out).copy()))

    pairs: list = []
    b, x = operator.spread(rng.standard_normal(N)), np.empty(len(operator.places))
    varying = Varying(operator, good.inverse, "float64")
    assert flexible_cg(Recorded(), b, x, varying, 0, 1e-9, 200, zero_guess=True).converged
    for (last, _), (p, w) in itertools.pairwise(pairs[:12]):
        assert abs(last @ w) < 1e-10 * np.linalg.norm(last) * np.linalg.norm(w), p


def test_flexible_cg_stops_at_a_preconditioner_that_is_not_positive(operator, good, rng) -> None:
    b, x = operator.spread(rng.standard_normal(N)), np.empty(len(operator.places))
    good.inverse = -good.inverse
    assert not flexible_cg(operator, b, x, good, 0, 1e-10, 50, zero_guess=True).converged


@BOTH
def test_tolerance_and_counted_work(solve, operator, good, rng) -> None:
    b = 1e5 * operator.spread(rng.standard_normal(N))
    size = float(operator.inner.norm(b)[0])
    for zero_guess in (True, False):
        x, regions = operator.spread(np.zeros(N)), Regions()
        result = solve(operator, b, x, good, 10, 1e-7 * size, 50, zero_guess=zero_guess, regions=regions)
        assert result.converged
        assert result.residual <= 1e-7 * size
        (counted,) = regions.table.values()
        assert counted.bytes > 8 * len(b) * 5 * result.iterations
        assert counted.flops > 0


@BOTH
@pytest.mark.parametrize(("restart", "iterations"), [(30, 1), (30, 4), (3, 7), (3, 6), (40, 200)])
def test_the_residual_at_the_end_tells_what_the_operator_gives(
    solve, operator, good, rng, restart, iterations
) -> None:
    """In a cycle, at its end, after restarts and after convergence, with a preconditioner of either precision."""
    for dtype in (np.float32, np.float64):
        b, x = operator.spread(rng.standard_normal(N)), np.empty(len(operator.places))
        good.dtype, left, applied = np.dtype(dtype), np.full_like(b, np.nan), np.empty_like(b)
        result = solve(operator, b, x, good, restart, 1e-9, iterations, zero_guess=True, residual=left)
        operator.apply(x, applied)
        np.testing.assert_allclose(left, b - applied, atol=1e-12 * np.abs(b).max())
        np.testing.assert_allclose(operator.inner.norm(left)[0], result.residual, rtol=1e-3)
