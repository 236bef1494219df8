"""Parts of a matrix kept apart, and the passes over them, against dense algebra on irregular matrices."""

from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from ridgeline.sparse import external_columns, grid_transfer
from ridgeline.sparse.external_columns import external_rows, has_external
from ridgeline.sparse.grid_transfer import extract_rows, upper_blocks
from ridgeline.sparse.row_strips import Strips, make_triangles
from ridgeline.sparse.wavefronts import number_wavefronts, order_by_wavefront

EXTERNAL = 40


class Case(NamedTuple):
    """A matrix [n, n + EXTERNAL] in the order of wavefronts, dense and by parts."""

    dense: NDArray  # columns: new numbers, then external ones
    csr: tuple[NDArray, ...]  # in natural order
    order: NDArray
    lower: Strips
    upper: Strips
    n: int


def band(n: int, seed: int) -> Case:
    """Make entries at some distances from the diagonal, in most rows: strips of all lengths."""
    rng = np.random.default_rng(seed)
    natural = np.zeros((n, n + EXTERNAL))
    for distance in (-31, -30, -29, -1, 0, 1, 29, 30, 31):
        rows = np.flatnonzero(rng.random(n) < (1 if distance == 0 else 0.97))
        inside = rows[(rows + distance >= 0) & (rows + distance < n)]
        natural[inside, inside + distance] = rng.uniform(1, 2, inside.size)
    rows = rng.choice(n, n // 5, replace=False)
    natural[rows, n + rng.integers(0, EXTERNAL, rows.size)] = rng.uniform(1, 2, rows.size)
    i, j = np.nonzero(natural)
    indptr = np.searchsorted(i, np.arange(n + 1)).astype(np.int64)
    csr = indptr, j.astype(np.int32), natural[i, j]
    order, new_number, front_rows = order_by_wavefront(number_wavefronts(*csr[:2], n))
    lower, upper = make_triangles(*csr, order, new_number, front_rows)
    dense = natural[order][:, np.concatenate([order, np.arange(n, n + EXTERNAL)])]
    return Case(dense, csr, order, lower, upper, n)


@pytest.fixture(params=[(300, 1), (2500, 2)])
def case(request: pytest.FixtureRequest) -> Case:
    return band(*request.param)


def close(a: NDArray, b: NDArray) -> bool:
    return bool(np.allclose(a, b, rtol=1e-13, atol=1e-13))


def test_residual_at_coarse_points(case: Case) -> None:
    n, rng = case.n, np.random.default_rng(4)
    fine = rng.choice(n, n // 4, replace=False).astype(np.int32)
    rows, columns = extract_rows(fine, case.lower), case.lower.slot_columns
    r, half, x = rng.uniform(-1, 1, (3, n))
    points = rng.permutation(fine.size).astype(np.int32)
    expected = np.zeros(fine.size)
    expected[points] = (r - half - np.tril(case.dense[:, :n], -1) @ x)[fine]
    for n_threads in (None, 1, 3):
        out = np.full(fine.size, np.nan)
        if n_threads is None:
            grid_transfer.coarse_residual(rows, points, columns, r, half, x, out)
        else:
            grid_transfer.coarse_residual_threaded(n_threads, rows, points, columns, r, half, x, out)
        assert close(out, expected)


def test_correction_reaches_the_half_products(case: Case) -> None:
    n, rng = case.n, np.random.default_rng(5)
    fine = rng.choice(n, n // 4, replace=False).astype(np.int32)
    coarse_number = np.full(n, -1, np.int32)
    coarse_number[fine] = np.arange(fine.size)
    blocks = upper_blocks(case.upper, coarse_number)
    before, e = rng.uniform(-1, 1, n), rng.uniform(-1, 1, fine.size)
    correction = np.zeros(n)
    correction[fine] = e
    for n_threads in (None, 1, 3):
        half = before.copy()
        if n_threads is None:
            grid_transfer.add_product(blocks, e, half)
        else:
            grid_transfer.add_product_threaded(n_threads, blocks, e, half)
        assert close(half, before + np.triu(case.dense[:, :n], 1) @ correction)


def test_correction_of_some_rows_and_back() -> None:
    x, e, saved = np.array([0.1, 0.2, 0.3]), np.array([5.0, 1e20]), np.zeros(2)
    rows, points = np.array([2, 0], np.int32), np.array([0, 1], np.int32)
    grid_transfer.correct(rows, points, e, x, saved)
    assert (x == [1e20, 0.2, 5.3]).all()
    grid_transfer.restore(rows, saved, x)
    assert (x == [0.1, 0.2, 0.3]).all()


def test_rows_with_external_columns(case: Case) -> None:
    n, rng = case.n, np.random.default_rng(6)
    external = has_external(*case.csr[:2])
    assert (external[case.order] == case.dense[:, n:].any(axis=1)).all()
    boundary = external_rows(case.order, external, case.csr)
    assert (boundary.rows == np.flatnonzero(case.dense[:, n:].any(axis=1))).all()
    values, x, y, r = rng.uniform(-1, 1, EXTERNAL), *rng.uniform(-1, 1, (3, n))
    product = case.dense[:, n:] @ values
    new = y.copy()
    assert external_columns.add_external(boundary, values, x, new) == pytest.approx(x @ product)
    assert close(new, y + product)
    new, saved = r.copy(), np.zeros(boundary.rows.size)
    external_columns.move_external(boundary, values, new, saved)
    assert close(new, r - product)
    grid_transfer.restore(boundary.rows, saved, new)
    assert (new == r).all()
    chosen = rng.choice(n, n // 3, replace=False).astype(np.int32)  # of a coarse grid: called by their place
    some = external_rows(case.order[chosen], external, case.csr)
    new = np.zeros(chosen.size)
    external_columns.subtract_external(some, values, new)
    assert close(new, -product[chosen])
