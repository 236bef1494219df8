"""BLAS from compiled code and from Python against NumPy: slices, both precisions, empty matrices."""

from itertools import product

import numpy as np
from numba import njit

from ridgeline.bench.hpl import blas

DTYPES = (np.float64, np.float32)


@njit
def multiply(gemm, left, right, out):
    blas.gemm_subtract(gemm, left, right, out)


@njit
def lower(trsm, triangle, out):
    blas.trsm_unit_lower(trsm, triangle, out)


def compiled_product(left, right, out):
    multiply(blas.blas_addresses().gemm, left, right, out)


def compiled_lower(triangle, out):
    lower(blas.blas_addresses().trsm, triangle, out)


def matrix(rng, rows, columns, dtype):
    """A slice of a larger matrix, so that columns lie apart."""
    return np.asfortranarray(rng.random((rows + 3, columns + 2)) - 0.5, dtype)[2 : rows + 2, 1 : columns + 1]


def test_products_are_subtracted():
    functions = [(compiled_product, np.float64), *((blas.subtract_product, t) for t in DTYPES)]
    shapes = [(7, 5, 3), (1, 1, 1), (0, 4, 2), (4, 0, 2), (4, 2, 0), (33, 17, 20)]
    for (subtract, dtype), shape in product(functions, shapes):
        case = f"{subtract.__name__}, {dtype=}, {shape=}"
        m, n, k = shape
        rng = np.random.default_rng(1)
        left, right, out = matrix(rng, m, k, dtype), matrix(rng, k, n, dtype), matrix(rng, m, n, dtype)
        expected = out - left @ right
        subtract(left, right, out)
        np.testing.assert_allclose(out, expected, rtol=0, atol=8 * k * np.finfo(dtype).eps, err_msg=case)


def test_triangles_are_solved():
    for dtype in DTYPES:
        rng = np.random.default_rng(2)
        triangle, right = matrix(rng, 9, 9, dtype), matrix(rng, 9, 4, dtype)
        triangle[np.diag_indices(9)] += 2
        unit, upper = np.tril(triangle, -1) + np.eye(9, dtype=dtype), np.triu(triangle)
        solves = [(blas.solve_lower, unit), (blas.solve_upper, upper)]
        for solve, of in solves + [(compiled_lower, unit)] * (dtype is np.float64):
            x = np.asfortranarray(right)
            solve(triangle, x)
            np.testing.assert_allclose(
                of @ x, right, rtol=0, atol=1e3 * np.finfo(dtype).eps, err_msg=f"{dtype=}"
            )
        x = np.asfortranarray(right.T)
        blas.solve_upper_from_right(triangle, x)
        np.testing.assert_allclose(
            x @ upper, right.T, rtol=0, atol=1e3 * np.finfo(dtype).eps, err_msg=f"{dtype=}"
        )


def test_products_with_vectors_are_subtracted():
    for dtype in DTYPES:
        rng = np.random.default_rng(3)
        left, x, out = matrix(rng, 9, 4, dtype), rng.random(4).astype(dtype), rng.random(9).astype(dtype)
        expected = out - left @ x
        blas.subtract_product_of_vector(left, x, out)
        np.testing.assert_allclose(out, expected, rtol=0, atol=32 * np.finfo(dtype).eps, err_msg=f"{dtype=}")
