"""Products with centrosymmetric matrices, by even and odd parts, against the whole matrices in NumPy."""

from itertools import product

import numpy as np
import pytest

from kept_kernels import njit
from ridgeline.elements.even_odd import (
    EVEN,
    ODD,
    even_odd_parts,
    even_odd_product,
    parts_size,
    prefetching_even_odd_product,
)
from ridgeline.elements.quadrature import derivative_matrix, gauss, gauss_interpolation, gauss_lobatto
from ridgeline.elements.tensor import GENERATED, PLAIN

GUARD = 777.0
SIZES = pytest.mark.parametrize(
    "sizes",
    [
        [(2, 2), (2, 3), (4, 7), (8, 8), (9, 12), (17, 16)],
        pytest.param([(3, 2), (3, 3), (5, 6), (12, 8), (16, 17), (33, 33)], marks=pytest.mark.full),
    ],
    ids=["few", "more"],
)


def centrosymmetric(m, k, parity, dtype, seed=1):
    half = np.random.default_rng(seed).uniform(-1, 1, (m, k))
    return (half + parity * half[::-1, ::-1]).astype(dtype)


def make_product(m, n, k, batch, accumulate, parity, prefetched=0, products=GENERATED):
    size = parts_size(m, k)

    @njit
    def kernel(c, matrix, b, coming):
        parts = even_odd_parts(matrix, np.empty(size, c.dtype))
        if prefetched == 0:
            even_odd_product(products, m, n, k, batch, accumulate, parity, c, 3, parts, 0, b, 1)
        else:
            prefetching_even_odd_product(
                products, m, n, k, batch, accumulate, parity, prefetched,
                c, 3, parts, 0, b, 1, coming, 0, coming, 2,
            )  # fmt: skip

    return kernel


def check(m, n, k, batch, accumulate, parity, dtype, products):
    random = np.random.default_rng(m + n + k)
    matrix = centrosymmetric(m, k, parity, dtype)
    b = random.uniform(-1, 1, 1 + batch * k * n).astype(dtype)
    c = np.full(3 + batch * m * n + 20, GUARD, dtype)
    inside = slice(3, 3 + batch * m * n)
    c[inside] = random.uniform(-1, 1, batch * m * n)
    exact = matrix.astype(float) @ b[1:].astype(float).reshape(batch, k, n)
    exact = exact.ravel() + (c[inside] if accumulate else 0.0)

    make_product(m, n, k, batch, accumulate, parity, 0, products)(c, matrix, b, b)

    case = f"{m=}, {n=}, {k=}, {batch=}, {accumulate=}, {parity=}, {dtype=}, {products=}"
    assert np.all(c[:3] == GUARD), case
    assert np.all(c[inside.stop :] == GUARD), case
    assert np.abs(c[inside] - exact).max() <= 4 * (k + 2) * np.finfo(dtype).eps, case


@SIZES
def test_a_product_equals_that_of_the_whole_matrix(sizes):
    for (m, k), parity in product(sizes, [EVEN, ODD]):
        n = 3 + (5 * m + k) % 31  # all kinds of columns beside whole vectors
        check(m, n, k, 1 + k % 3, bool(m % 2), parity, np.float64, GENERATED)


@pytest.mark.parametrize(
    "sizes", [[(5, 7, 5)], pytest.param([(8, 64, 6), (2, 9, 3)], marks=pytest.mark.full)]
)
def test_both_codes_and_precisions(sizes):
    kinds = product(sizes, [np.float64, np.float32], [False, True], [EVEN, ODD], [GENERATED, PLAIN])
    for (m, n, k), dtype, accumulate, parity, products in kinds:
        check(m, n, k, 2, accumulate, parity, dtype, products)


def test_prefetching_changes_no_bit():
    for prefetched in (1, 2):
        matrix = centrosymmetric(5, 6, ODD, np.float64)
        b, coming = np.random.default_rng(2).uniform(-1, 1, 1 + 6 * 20), np.zeros(4)
        results = []
        for number in (0, prefetched):
            results.append(np.zeros(3 + 100))
            make_product(5, 20, 6, 1, False, ODD, number)(results[-1], matrix, b, coming)
        assert np.array_equal(*results), f"{prefetched=}"
        assert not coming.any(), f"{prefetched=}"


def test_matrices_of_an_element_have_their_parity():
    """To rounding: what `even_odd_parts` drops is what it cannot hold."""
    for n in range(2, 18):
        points, weights = gauss_lobatto(n)
        fine, _ = gauss(n + 3)
        derivative = derivative_matrix(points)
        of = {
            ODD: (derivative, derivative.T, derivative_matrix(fine)),
            EVEN: (gauss_interpolation(n, n + 3), derivative.T @ np.diag(weights) @ derivative),
        }
        for parity, matrices in of.items():
            for matrix in matrices:
                assert np.abs(matrix - parity * matrix[::-1, ::-1]).max() <= 1e-13 * np.abs(matrix).max(), (
                    f"{n=}, {parity=}"
                )
