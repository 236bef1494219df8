"""Rules are exact to their degree; matrices differentiate and interpolate polynomials."""

import numpy as np
import pytest

from ridgeline.elements.quadrature import (
    derivative_matrix,
    gauss,
    gauss_interpolation,
    gauss_lobatto,
    gll_derivative,
    gll_interpolation,
    legendre_matrix,
)

SIZES = (2, 3, 4, 5, 8, 13, 16, 25, 32, 33, 48)


@pytest.mark.parametrize("n", SIZES)
def test_rules_integrate_monomials_to_their_degree(n: int) -> None:
    for (x, w), degree in ((gauss_lobatto(n), 2 * n - 3), (gauss(n), 2 * n - 1)):
        for power in (p for p in (0, 1, 2, degree - 1, degree) if p <= degree):
            exact = 0.0 if power % 2 else 2.0 / (power + 1)
            assert (w * x**power).sum() == pytest.approx(exact, abs=1e-14)
        beyond = degree + 1
        if n <= 8:
            assert abs((w * x**beyond).sum() - 2.0 / (beyond + 1)) > 1e-9


@pytest.mark.parametrize("n", SIZES)
def test_lobatto_points_have_the_ends_and_are_symmetric(n: int) -> None:
    x, w = gauss_lobatto(n)
    assert x[0] == -1.0
    assert x[-1] == 1.0
    np.testing.assert_array_equal(x, -x[::-1])
    np.testing.assert_allclose(w, w[::-1], rtol=1e-13)
    assert (np.diff(x) > 0).all()


def test_known_points_of_order_four() -> None:
    x, w = gauss_lobatto(5)
    np.testing.assert_allclose(x[3], np.sqrt(3 / 7), rtol=1e-15)
    np.testing.assert_allclose(w, [1 / 10, 49 / 90, 32 / 45, 49 / 90, 1 / 10], rtol=1e-14)


@pytest.mark.parametrize("n", SIZES)
def test_derivatives_are_exact_for_polynomials(n: int) -> None:
    x, _ = gauss_lobatto(n)
    p = n - 1
    error = np.abs(gll_derivative(n) @ x**p - p * x ** (p - 1)).max()
    assert error < 1e-13 * n**2
    assert np.abs(gll_derivative(n) @ np.ones(n)).max() < 1e-12


@pytest.mark.parametrize(("n", "m"), [(2, 3), (8, 12), (12, 8), (8, 8), (16, 24), (33, 48)])
def test_interpolation_is_exact_for_polynomials(n: int, m: int) -> None:
    for matrix, targets in (
        (gll_interpolation(n, m), gauss_lobatto(m)[0]),
        (gauss_interpolation(n, m), gauss(m)[0]),
    ):
        assert matrix.shape == (m, n)
        np.testing.assert_allclose(matrix @ gauss_lobatto(n)[0] ** (n - 1), targets ** (n - 1), atol=1e-13)


def test_derivative_at_other_points() -> None:
    x, _ = gauss(6)
    np.testing.assert_allclose(derivative_matrix(x) @ x**5, 5 * x**4, atol=1e-12)


def test_legendre_columns_are_orthogonal() -> None:
    x, w = gauss(9)
    matrix = legendre_matrix(x)
    np.testing.assert_allclose((matrix.T * w) @ matrix, np.diag(2 / (2 * np.arange(9) + 1)), atol=1e-14)


def test_one_point_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        gauss_lobatto(1)
