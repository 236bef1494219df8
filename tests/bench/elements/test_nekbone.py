"""Nekbone: its fused passes against plain conjugate gradients in NumPy, its counts, its refusals."""

import numpy as np
import pytest
from mpi4py import MPI

from bench_tools import measure
from ridgeline.bench.elements.nekbone import Nekbone, brick, flops_per_point, run_nekbone, to_result
from ridgeline.elements.quadrature import gauss_lobatto, gll_derivative
from ridgeline.runtime.errors import ConfigError


def plain(problem, iterations):
    """Conjugate gradients on the unique points, one operation at a time."""
    ids, n = problem.ids, problem.n
    f = problem.right_side()
    unique, index = np.unique(ids, return_inverse=True)
    index = index.reshape(ids.shape)
    b = np.zeros(unique.size)
    b[index] = f
    # The lattice of points of the brick gives its boundary.
    sizes = [e * (n - 1) + 1 for e in problem.brick]
    places = np.unravel_index(unique, sizes)
    free = np.all([(place > 0) & (place < size - 1) for place, size in zip(places, sizes)], axis=0)
    np.testing.assert_array_equal(b[~free], 0.0)
    D = gll_derivative(n)
    _, weights = gauss_lobatto(n)
    cube = weights[:, None, None] * weights[:, None] * weights

    def apply(u):
        v = u[index]
        local = sum(
            np.einsum(back, D, cube * np.einsum(forth, D, v))
            for forth, back in (
                ("il,ekjl->ekji", "li,ekjl->ekji"),
                ("jl,ekli->ekji", "lj,ekli->ekji"),
                ("kl,elji->ekji", "lk,elji->ekji"),
            )
        )
        out = 0.1 * u
        np.add.at(out, index, local)
        return np.where(free, out, 0.0)

    x, r, p, rr = np.zeros_like(b), b.copy(), np.zeros_like(b), 1.0
    residuals = [np.sqrt(r @ r)]
    for i in range(iterations):
        beta = r @ r / rr if i else 0.0
        rr = r @ r
        p = r + beta * p
        w = apply(p)
        alpha = rr / (p @ w)
        x, r = x + alpha * p, r - alpha * w
        residuals.append(np.sqrt(r @ r))
    return x[index], residuals


@pytest.mark.parametrize(
    ("n", "elements"),
    [
        *[(8, 2), (5, 27), (2, 64)],
        *(pytest.param(*size, marks=pytest.mark.full) for size in ((4, 12), (9, 8), (10, 4))),
    ],
)
def test_as_plain_conjugate_gradients(n, elements):
    problem = Nekbone(MPI.COMM_SELF, n, elements)
    for _ in range(2):  # a second solve starts afresh
        _, residuals = problem.solve(15)
    x, expected = plain(problem, 15)
    np.testing.assert_allclose(residuals, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(problem.solution(), x, rtol=0, atol=1e-9 * abs(x).max())


def test_right_side_is_noise():
    """One value per point inside, spread over [-1, 1)."""
    problem = Nekbone(MPI.COMM_SELF, 8, 27)
    f = problem.right_side()
    values = np.unique(f[f != 0])
    assert values.size == 20**3
    assert values.min() >= -1
    assert values.max() < 1
    assert abs(values.mean()) < 0.03
    assert values.std() == pytest.approx(3**-0.5, rel=0.03)


def test_iterating_on_after_convergence():
    """One free point: solved at once, and the iterations that are left change nothing."""
    problem = Nekbone(MPI.COMM_SELF, 2, 8)
    _, residuals = problem.solve(5)
    assert residuals[0] > 0
    np.testing.assert_allclose(residuals[1:], 0.0, atol=1e-15)
    expected, _ = plain(problem, 1)
    np.testing.assert_allclose(problem.solution(), expected, rtol=1e-12)


def test_figures_count_as_nekbone_does():
    figures = run_nekbone(MPI.COMM_SELF, 4, 6, iterations=7)
    assert (figures.elements, figures.brick, figures.points) == (6, (1, 2, 3), 6 * 64)
    assert flops_per_point(8) == 130
    assert figures.flops == (12 * 4 + 34) * 6 * 64 * 7
    assert figures.bytes == 112 * 6 * 64 * 7
    assert figures.unique == 4 * 7 * 10
    assert figures.unknowns_rate == pytest.approx(figures.unique * 7 / figures.seconds)
    assert figures.rate == pytest.approx(figures.flops / figures.seconds)
    assert len(figures.residuals) == 8
    result = to_result([figures], None)
    (row,) = result.rows
    assert row["rate_per_rank"] == result.extra["average_rate"] == figures.rate


@pytest.mark.parametrize(
    ("count", "expected"),
    [(1, (1, 1, 1)), (1000, (10, 10, 10)), (2000, (10, 10, 20)), (12, (2, 2, 3)), (7, (1, 1, 7))],
)
def test_brick_is_compact(count, expected):
    assert brick(count) == expected


@pytest.mark.parametrize(
    ("n", "elements", "iterations", "words"),
    [
        (1, 8, 1, "nx1 is 1"),
        (33, 8, 1, "nx1 is 33"),
        (4, 0, 1, "elements is 0"),
        (4, 8, 0, "iterations is 0"),
    ],
)
def test_refusals(n, elements, iterations, words):
    with pytest.raises(ConfigError, match=words):
        measure("nekbone", MPI.COMM_SELF, points=[n], elements=elements, iterations=iterations)


def test_more_than_the_memory_is_refused():
    with pytest.raises(ConfigError, match="Use fewer --elements"):
        run_nekbone(MPI.COMM_SELF, 32, 2**24)
