"""BLAS from compiled code against NumPy: slices, both precisions, empty matrices."""

import numpy as np
import pytest
from numba import njit

from ridgeline.bench.hpl import blas_calls

DTYPES = (np.float64, np.float32)


@njit
def product(gemm, left, right, out):
    blas_calls.subtract_product(gemm, left, right, out)


@njit
def lower(trsm, triangle, out):
    blas_calls.solve_unit_lower(trsm, triangle, out)


@njit
def upper(trsm, triangle, out):
    blas_calls.solve_upper(trsm, triangle, out)


def matrix(rng, rows, columns, dtype):
    """A slice of a larger matrix, so that columns lie apart."""
    return np.asfortranarray(rng.random((rows + 3, columns + 2)) - 0.5, dtype)[2 : rows + 2, 1 : columns + 1]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(7, 5, 3), (1, 1, 1), (0, 4, 2), (4, 0, 2), (4, 2, 0), (33, 17, 20)])
def test_products_are_subtracted(shape, dtype):
    m, n, k = shape
    rng = np.random.default_rng(1)
    left, right, out = matrix(rng, m, k, dtype), matrix(rng, k, n, dtype), matrix(rng, m, n, dtype)
    expected = out - left @ right
    product(blas_calls.blas_addresses(dtype).gemm, left, right, out)
    np.testing.assert_allclose(out, expected, rtol=0, atol=8 * k * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", DTYPES)
def test_triangles_are_solved(dtype):
    rng = np.random.default_rng(2)
    triangle, right = matrix(rng, 9, 9, dtype), matrix(rng, 9, 4, dtype)
    triangle[np.diag_indices(9)] += 2
    trsm = blas_calls.blas_addresses(dtype).trsm
    for solve, of in (
        (lower, np.tril(triangle, -1) + np.eye(9, dtype=dtype)),
        (upper, np.triu(triangle)),
    ):
        x = np.asfortranarray(right)
        solve(trsm, triangle, x)
        np.testing.assert_allclose(of @ x, right, rtol=0, atol=1e3 * np.finfo(dtype).eps)


def test_other_dtypes_have_no_functions():
    with pytest.raises(KeyError):
        blas_calls.blas_addresses(np.int64)
