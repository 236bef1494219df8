"""The merged vector passes of conjugate gradients against NumPy, at lengths with and without a rest."""

import math

import numpy as np
import pytest

from ridgeline.bench.hpcg import cg_passes as passes
from ridgeline.sparse.rows import add_scaled

LENGTHS = [0, 1, 7, 8, 1023, 1024, 1025, 5003]


def vectors(n: int, count: int) -> list[np.ndarray]:
    return list(np.random.default_rng(n).uniform(-1, 1, (count, n)))


@pytest.mark.parametrize("n", LENGTHS)
def test_sums(n: int) -> None:
    x, y = vectors(n, 2)
    longer = np.concatenate([x, [np.nan]])  # external values follow
    sums = np.zeros(passes.blocks(n))
    total = passes.dot(longer, y, sums)
    assert total == pytest.approx(math.fsum(x * y), abs=1e-13)
    for n_threads in (1, 2, 3):
        assert passes.dot_threaded(n_threads, longer, y, sums) == total


@pytest.mark.parametrize("n", LENGTHS)
def test_residual_in_place_and_not(n: int) -> None:
    b, ap = vectors(n, 2)
    expected = b - 0.75 * ap
    sums = np.zeros(passes.blocks(n))
    r = np.full(n, np.nan)
    rr = passes.residual_dot(0.75, b, ap, r, sums)
    assert (r == expected).all()
    assert rr == pytest.approx(math.fsum(expected**2), rel=1e-14)
    for n_threads in (1, 2, 3):
        again = b.copy()
        assert passes.residual_dot_threaded(n_threads, 0.75, again, ap, again, sums) == rr
        assert (again == expected).all()


@pytest.mark.parametrize("n", LENGTHS)
def test_update_takes_the_step_before_along(n: int) -> None:
    z, p, x = vectors(n, 3)
    p = np.concatenate([p, [3.0]])
    expected_x, expected_p = x + 0.25 * p[:n], z + 0.5 * p[:n]
    for n_threads in (None, 1, 2, 3):
        new_x, new_p = x.copy(), p.copy()
        if n_threads is None:
            passes.update_x_and_p(0.25, 0.5, z, new_p, new_x)
        else:
            passes.update_x_and_p_threaded(n_threads, 0.25, 0.5, z, new_p, new_x)
        assert (new_x == expected_x).all()
        assert (new_p[:n] == expected_p).all()
        assert new_p[n] == 3.0


def test_last_step() -> None:
    p, x = vectors(1000, 2)
    expected = x + 0.3 * p
    add_scaled(x, 0.3, np.concatenate([p, [np.nan]]), x)
    assert (x == expected).all()
