"""Merged passes of Krylov solvers against NumPy, at lengths on both sides of their blocks."""

from itertools import product

import numpy as np
import pytest

from ridgeline.krylov import basis_kernels as krylov_basis
from ridgeline.krylov import kernels as krylov

LENGTHS = (1, 255, 1024, 4097, 9000)
ROWS = 7


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(1)


def test_cg_update(rng) -> None:
    for n, rows in product(LENGTHS, [1, 3]):
        case = f"{n=}, {rows=}"
        p, w, x, r = (rng.standard_normal((rows, n)) for _ in range(4))
        diagonal, weights, norm = rng.random((1, n)), rng.random(n), rng.random(n)
        alpha, active = rng.random(rows), np.arange(rows) != 1
        expected_x = np.where(active[:, None], x + alpha[:, None] * p, x)
        expected_r = np.where(active[:, None], r - alpha[:, None] * w, r)
        sums = np.empty((rows, 2))
        krylov.cg_update(alpha, active, p, w, diagonal, weights, norm, x, r, sums)
        np.testing.assert_allclose(x, expected_x, rtol=1e-13, atol=1e-14, err_msg=case)
        np.testing.assert_allclose(r, expected_r, rtol=1e-13, atol=1e-14, err_msg=case)
        squares = np.where(active[:, None], r**2, 0)
        np.testing.assert_allclose(
            sums[:, 0], (squares * diagonal * weights).sum(1), rtol=1e-13, err_msg=case
        )
        np.testing.assert_allclose(sums[:, 1], (squares * norm).sum(1), rtol=1e-13, err_msg=case)


def test_direction_does_not_read_p_at_the_start(rng) -> None:
    for n in LENGTHS:
        r, diagonal, p = rng.standard_normal((2, n)), rng.random((2, n)), np.full((2, n), np.nan)
        krylov.cg_direction(r, diagonal, np.zeros(2), p)
        np.testing.assert_array_equal(p, diagonal * r, err_msg=f"{n=}")
        krylov.cg_direction(r, diagonal, np.array([0.5, 2.0]), p)
        np.testing.assert_allclose(p, diagonal * r * [[1.5], [3.0]], rtol=1e-14, err_msg=f"{n=}")


def test_products_with_a_basis(rng) -> None:
    for n, count in product(LENGTHS, [0, 1, 4, 6]):
        case = f"{n=}, {count=}"
        basis, weights = rng.standard_normal((ROWS, n)), rng.random(n)
        a, b = basis[5], rng.standard_normal(n)
        pair = np.full((2, ROWS), np.nan)
        for with_b in (False, True):
            krylov_basis.pair_dots(basis, count, a, b, with_b, weights, pair)
            np.testing.assert_allclose(
                pair[0, :count], basis[:count] @ (a * weights), atol=1e-11, err_msg=case
            )
            expected = basis[:count] @ (b * weights) if with_b else 0.0
            np.testing.assert_allclose(pair[1, :count], expected, atol=1e-11, err_msg=case)


def test_combinations_of_a_basis(rng) -> None:
    for n, count in product(LENGTHS, [0, 3, 4, 5]):
        case = f"{n=}, {count=}"
        basis, factors, others = rng.standard_normal((ROWS, n)), rng.random(ROWS), rng.random(ROWS)
        v, w = basis[5].copy(), basis[6].copy()
        expected_v = 0.7 * (v - factors[:count] @ basis[:count])
        expected_w = 1.3 * (w - others[:count] @ basis[:count] - 0.2 * expected_v)
        krylov_basis.basis_subtract_pair(basis, count, factors, 0.7, others, 0.2, 1.3, basis[5], basis[6])
        np.testing.assert_allclose(basis[5], expected_v, atol=1e-13, err_msg=case)
        np.testing.assert_allclose(basis[6], expected_w, atol=1e-13, err_msg=case)
        krylov_basis.basis_subtract(basis, count, factors, 0.7, v)
        np.testing.assert_allclose(v, expected_v, atol=1e-13, err_msg=case)
        small, given = basis.astype(np.float32), w.copy()
        krylov_basis.basis_add(small, count, factors, w)
        np.testing.assert_allclose(w - given, factors[:count] @ small[:count], atol=1e-13, err_msg=case)


def test_projection_joins_combines_and_drops(rng) -> None:
    ends = [(False, False), (True, False), (True, True)]
    for n, (fresh, drop), count in product(LENGTHS, ends, [1, 5]):
        case = f"{n=}, {fresh=}, {drop=}, {count=}"
        basis = rng.standard_normal((count + 1, n))
        along, factors, mirror = rng.random((3, count + 1))
        expected = basis.copy()
        if fresh:
            expected[count] = 0.4 * (basis[count] - along[:count] @ basis[:count])
        held = count + 1 if fresh else count
        x, combined = np.full(n, np.nan), factors[:held] @ expected[:held]
        if drop:
            expected -= np.outer(mirror, mirror @ expected)
            held = count
        krylov_basis.projection_combine(
            basis, count, fresh, along, 0.4, factors, mirror if drop else np.empty(0), x
        )
        np.testing.assert_allclose(basis[:held], expected[:held], atol=1e-12, err_msg=case)
        np.testing.assert_allclose(x, combined, atol=1e-12, err_msg=case)


def test_flexible_passes(rng) -> None:
    for dtype in ("float32", "float64"):
        n = 5000
        z = rng.standard_normal(n).astype(dtype)
        r, old, p, w, x = (rng.standard_normal(n) for _ in range(5))
        weights, two, one = rng.random(n), np.empty(2), np.empty(1)
        krylov.flexible_dots(z, r, old, weights, two)
        np.testing.assert_allclose(
            two, [(z * r * weights).sum(), (z * (r - old) * weights).sum()], rtol=1e-5, err_msg=dtype
        )
        expected = z + 0.5 * p
        krylov.flexible_direction(z, 0.5, p)
        np.testing.assert_allclose(p, expected, rtol=1e-14, err_msg=dtype)
        before_x, before_r = x.copy(), r.copy()
        krylov.flexible_update(0.3, p, w, weights, x, r, old, one)
        np.testing.assert_array_equal(old, before_r, err_msg=dtype)
        np.testing.assert_allclose(x, before_x + 0.3 * p, rtol=1e-13, atol=1e-14, err_msg=dtype)
        np.testing.assert_allclose(r, before_r - 0.3 * w, rtol=1e-13, atol=1e-14, err_msg=dtype)
        np.testing.assert_allclose(one[0], (r * r * weights).sum(), rtol=1e-13, err_msg=dtype)
