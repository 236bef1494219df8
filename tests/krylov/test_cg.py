"""Conjugate gradients against dense solves: components, masks, null space, and ends other than success."""

import numpy as np
import pytest

from linalg_toys import DenseOperator, path_laplacian, random_places, random_positive
from ridgeline.krylov.cg import cg
from ridgeline.krylov.operator import Workspace
from ridgeline.runtime.regions import Regions

N = 60


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(3)


@pytest.fixture
def operator(rng: np.random.Generator) -> DenseOperator:
    """Three components of different condition, with different constrained points."""
    matrices = [random_positive(rng, N, k) for k in (3.0, 30.0, 300.0)]
    return DenseOperator(matrices, random_places(rng, N), rng.uniform(0.5, 2.0, N), ((0, 5), (), (7, 8, 9)))


def test_components_agree_with_dense_solves(operator: DenseOperator, rng: np.random.Generator) -> None:
    b = operator.spread(rng.standard_normal((3, N)))
    x = operator.spread(rng.standard_normal((3, N)))
    residual = np.empty_like(b)
    given = b.copy()
    result = cg(operator, b, x, operator.inverse_diagonal(), 1e-11, 400, residual=residual)
    assert result.converged
    assert 1e-13 < result.residual <= 1e-11
    np.testing.assert_allclose(x, operator.solve(b), atol=1e-9)
    np.testing.assert_array_equal(b, given)
    applied = np.empty_like(x)
    operator.apply(x, applied)
    np.testing.assert_allclose(residual, b - applied, atol=1e-13)
    assert (x[operator.spread(np.ones((3, N))) == 0] == 0).all()


def test_a_component_alone_and_among_others_takes_the_same_steps(
    operator: DenseOperator, rng: np.random.Generator
) -> None:
    b = operator.spread(rng.standard_normal((3, N)))
    together = np.empty_like(b)
    cg(operator, b, together, operator.inverse_diagonal(), 1e-9, 400, zero_guess=True)
    for c in range(3):
        alone = DenseOperator([operator.matrices[c] + np.diag(~operator.free[c] * 1.0)], operator.places)
        alone.free, alone.inner = [operator.free[c]], operator.inner
        alone.matrices = [operator.matrices[c]]
        x = np.full(b.shape[1:], np.nan)
        cg(alone, b[c], x, operator.inverse_diagonal()[c], 1e-9, 400, zero_guess=True)
        np.testing.assert_allclose(x, together[c], rtol=0, atol=1e-14)


def test_one_diagonal_serves_all_components(rng: np.random.Generator) -> None:
    matrix = random_positive(rng, N, 50.0)
    operator = DenseOperator([matrix] * 3, random_places(rng, N), None, ((1,), (2,), (3,)))
    b = operator.spread(rng.standard_normal((3, N)))
    shared, each = np.empty_like(b), np.empty_like(b)
    diagonal = (1.0 / np.diag(matrix))[operator.places]
    one = cg(operator, b, shared, diagonal, 1e-10, 300, zero_guess=True)
    three = cg(operator, b, each, operator.inverse_diagonal(), 1e-10, 300, zero_guess=True)
    assert one.iterations == three.iterations
    np.testing.assert_allclose(shared, each, atol=1e-13)


def test_n_iterations_suffice_for_n_eigenvalues(rng: np.random.Generator) -> None:
    """A with 5 distinct eigenvalues: 5 iterations end it, 4 do not."""
    q = np.linalg.qr(rng.standard_normal((N, N)))[0]
    matrix = (q * np.repeat([1.0, 2.0, 5.0, 7.0, 11.0], N // 5)) @ q.T
    operator = DenseOperator([matrix], random_places(rng, N))
    b, ones = operator.spread(rng.standard_normal(N)), np.ones(len(operator.places))
    x = np.empty_like(b)
    assert cg(operator, b, x, ones, 1e-12, 100, zero_guess=True).iterations == 5


def test_null_space_of_constants(rng: np.random.Generator) -> None:
    mass = rng.uniform(0.5, 2.0, N)
    matrix = path_laplacian(N, rng)
    operator = DenseOperator([matrix], random_places(rng, N), mass, nullspace=True)
    given = rng.standard_normal(N)
    b, x = operator.spread(given), np.empty(len(operator.places))
    result = cg(operator, b, x, operator.inverse_diagonal()[0], 1e-11, 500, zero_guess=True)
    assert result.converged
    u = operator.distinct(x)
    consistent = given - mass * given.sum() / mass.sum()
    np.testing.assert_allclose(matrix @ u, consistent, atol=1e-9)
    assert abs(u @ mass) < 1e-12


def test_zero_right_hand_side_and_exact_guess_take_no_iteration(
    operator: DenseOperator, rng: np.random.Generator
) -> None:
    diagonal, zero = operator.inverse_diagonal(), operator.spread(np.zeros((3, N)))
    x = np.full_like(zero, np.nan)
    result = cg(operator, zero, x, diagonal, 0.0, 50, zero_guess=True)
    assert (result.iterations, result.residual, result.converged) == (0, 0.0, True)
    assert not x.any()
    b = operator.spread(rng.standard_normal((3, N)))
    exact = operator.solve(b)
    result = cg(operator, b, exact, diagonal, 1e-9, 50)
    assert (result.iterations, result.converged) == (0, True)


def test_what_does_not_converge_says_so(operator: DenseOperator, rng: np.random.Generator) -> None:
    b = operator.spread(rng.standard_normal((3, N)))
    x = np.empty_like(b)
    result = cg(operator, b, x, operator.inverse_diagonal(), 1e-12, 4, zero_guess=True)
    assert (result.iterations, result.converged) == (4, False)
    assert 1e-12 < result.residual < result.initial_residual
    assert "NOT converged after 4" in str(result)


def test_nan_and_indefinite_operators_end_the_solve(rng: np.random.Generator) -> None:
    places = random_places(rng, N)
    good = random_positive(rng, N, 10.0)
    operator = DenseOperator([good, -good], places)
    b, ones = operator.spread(rng.standard_normal((2, N))), np.ones(len(places))
    x = np.empty_like(b)
    result = cg(operator, b, x, ones, 1e-10, 200, zero_guess=True)
    assert not result.converged
    np.testing.assert_allclose(x[0], operator.solve(b)[0], atol=1e-9)
    b[0, 3] = np.nan
    result = cg(operator, b, x, ones, 1e-10, 200, zero_guess=True)
    assert not result.converged
    assert result.iterations <= 1


def test_buffers_are_kept_and_work_is_counted(operator: DenseOperator, rng: np.random.Generator) -> None:
    work, regions = Workspace(), Regions()
    b = operator.spread(rng.standard_normal((3, N)))
    x = np.empty_like(b)
    for _ in range(2):
        result = cg(
            operator,
            b,
            x,
            operator.inverse_diagonal(),
            1e-9,
            400,
            zero_guess=True,
            work=work,
            regions=regions,
        )
    assert work("cg p", b.shape) is not None
    assert work.n_bytes < 4 * b.nbytes + 1000
    counted = regions.table["cg"]
    points = len(operator.places)
    assert (
        2 * result.iterations * points * 8 * (6 + 3)
        < counted.bytes
        <= 2 * result.iterations * points * 8 * 21
    )
    assert counted.flops > 0
