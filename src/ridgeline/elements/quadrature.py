"""Points, weights and matrices of one direction of a spectral element, on the reference interval [-1, 1].

All arrays are float64. A matrix acts on values at points from the left: `values_to = matrix @ values_from`.
Source: Deville, Fischer, Mund, "High-Order Methods for Incompressible Fluid Flow", 2002, Appendix B;
derivatives and interpolation by barycentric weights: Berrut and Trefethen, SIAM Review 46 (2004) 501.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import NDArray

Matrix = NDArray[np.float64]

NEWTON_STEPS = 50  # convergence is quadratic: a few steps are enough, the others cover the end at rounding


def _frozen(*arrays: Matrix) -> tuple[Matrix, ...]:
    for array in arrays:
        array.setflags(write=False)
    return arrays


@cache
def gauss_lobatto(n: int) -> tuple[Matrix, Matrix]:
    """Return the points and weights of the Gauss-Lobatto-Legendre rule.

    The points are the ends of [-1, 1] and the roots of P'_(n-1), and the rule is exact for polynomials of degree
    2 n - 3. Source: Deville, Fischer and Mund, "High-Order Methods for Incompressible Fluid Flow", 2002, Appendix B.

    Parameters
    ----------
    n : int
        Number of points, 2 or more.

    Returns
    -------
    points : float64 [n]
        Ascending, and symmetric about 0 to the last bit.
    weights : float64 [n]
        Both arrays are read-only and shared by all callers.

    Raises
    ------
    ValueError
        If n is less than 2.

    Notes
    -----
    Local. Each rule is computed once in a process.

    Examples
    --------
    >>> from ridgeline.elements.quadrature import gauss_lobatto
    >>> points, weights = gauss_lobatto(3)
    >>> points, float(weights @ points**2)
    (array([-1.,  0.,  1.]), 0.6666666666666666)
    """
    if n < 2:
        raise ValueError(f"n = {n} points are too few. A Gauss-Lobatto rule has at least 2.")
    p = n - 1
    x = -np.cos(np.pi * np.arange(n) / p)
    for _ in range(NEWTON_STEPS):
        # The inner points are roots of P_p'; (1 - x^2) P_p' = p (P_{p-1} - x P_p) has the ends as roots too.
        last, before = _legendre(p, x), _legendre(p - 1, x)
        step = (x * last - before) / (n * last)
        x = x - step
        if np.abs(step).max() < 1e-16:
            break
    x[0], x[-1] = -1.0, 1.0
    x = (x - x[::-1]) / 2
    return _frozen(x, 2.0 / (p * n * _legendre(p, x) ** 2))  # type: ignore[return-value]


@cache
def gauss(n: int) -> tuple[Matrix, Matrix]:
    """Return (points, weights) of the n Gauss-Legendre points, ascending, read-only; exact to degree 2 n - 1."""
    return _frozen(*legendre.leggauss(n))  # type: ignore[return-value]


def _legendre(degree: int, x: Matrix) -> Matrix:
    """Return the Legendre polynomial of the given degree at x."""
    return np.asarray(legendre.legval(x, [0.0] * degree + [1.0]))


def _barycentric(points: Matrix) -> Matrix:
    gaps = points[:, None] - points[None, :]
    np.fill_diagonal(gaps, 1.0)
    # The span of the points as unit keeps the product of up to 63 gaps away from underflow.
    return np.asarray(1.0 / np.prod(2.0 * gaps, axis=1))


def interpolation_matrix(points: Matrix, targets: Matrix) -> Matrix:
    """Return the matrix [targets, points] that evaluates the interpolating polynomial at the targets."""
    weights = _barycentric(points)
    gaps = targets[:, None] - points[None, :]
    hit = gaps == 0.0
    terms = weights / np.where(hit, 1.0, gaps)
    matrix = terms / terms.sum(axis=1, keepdims=True)
    on_point = hit.any(axis=1)
    matrix[on_point] = hit[on_point]
    return np.asarray(matrix)


def derivative_matrix(points: Matrix) -> Matrix:
    """Return the matrix [points, points] that differentiates the interpolating polynomial at the points."""
    weights = _barycentric(points)
    gaps = points[:, None] - points[None, :]
    np.fill_diagonal(gaps, 1.0)
    matrix = weights[None, :] / (weights[:, None] * gaps)
    np.fill_diagonal(matrix, 0.0)
    np.fill_diagonal(matrix, -matrix.sum(axis=1))  # constants have derivative 0 exactly
    return np.asarray(matrix)


def legendre_matrix(points: Matrix) -> Matrix:
    """Return the matrix [points, degrees] of the Legendre polynomials of degree 0 ... n - 1 at n points."""
    return np.asarray(legendre.legvander(points, len(points) - 1))


@cache
def gll_derivative(n: int) -> Matrix:
    """Return the matrix that differentiates a polynomial given at Gauss-Lobatto points.

    Parameters
    ----------
    n : int
        Number of points, 2 or more.

    Returns
    -------
    float64 [n, n]
        D, read-only, with u' = D @ u at the points of `gauss_lobatto(n)`.

    Raises
    ------
    ValueError
        If n is less than 2.

    Notes
    -----
    Local. Each matrix is computed once in a process, by barycentric weights: Berrut and Trefethen, SIAM Review 46
    (2004) 501.

    Examples
    --------
    >>> from ridgeline.elements.quadrature import gauss_lobatto, gll_derivative
    >>> points, _ = gauss_lobatto(4)
    >>> slope = gll_derivative(4) @ points**2  # 2 x
    >>> float(abs(slope - 2 * points).max()) < 1e-14
    True
    """
    return _frozen(derivative_matrix(gauss_lobatto(n)[0]))[0]


@cache
def gll_interpolation(n_from: int, n_to: int) -> Matrix:
    """Return the matrix [n_to, n_from] from n_from Gauss-Lobatto points to n_to of them, read-only."""
    return _frozen(interpolation_matrix(gauss_lobatto(n_from)[0], gauss_lobatto(n_to)[0]))[0]


@cache
def gauss_interpolation(n_from: int, n_to: int) -> Matrix:
    """Return the matrix [n_to, n_from] from n_from Gauss-Lobatto points to n_to Gauss points, read-only."""
    return _frozen(interpolation_matrix(gauss_lobatto(n_from)[0], gauss(n_to)[0]))[0]
