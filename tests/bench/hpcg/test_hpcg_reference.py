"""The reference path on one rank against dense NumPy, and where conjugate gradients ends."""

import numpy as np
import pytest
from mpi4py import MPI

import hpcg_dense
from ridgeline.bench.hpcg.geometry import place
from ridgeline.bench.hpcg.implementation import Times
from ridgeline.bench.hpcg.problem import diagonal_of, generate_problem
from ridgeline.bench.hpcg.reference import ReferenceImplementation
from ridgeline.runtime.regions import Regions

SELF = MPI.COMM_SELF
GEOMETRY = place(1, 0, (8, 4, 12), (1, 1, 1))


@pytest.fixture
def problem():
    level, b, _ = generate_problem(SELF, GEOMETRY, levels=3)
    path = ReferenceImplementation(SELF, level)
    return path, path.vector(b)


@pytest.fixture
def noise():
    return np.random.default_rng(2).standard_normal(GEOMETRY.n_rows)


def test_vectors(problem, noise) -> None:
    path, _ = problem
    assert not path.vector().values.any()
    v = path.vector(noise)
    np.testing.assert_array_equal(path.natural(v), noise)
    path.natural(v)[:] = 0  # a copy
    np.testing.assert_array_equal(v.owned, noise)
    assert path.dot(v, path.vector(noise + 1)) == pytest.approx(noise @ (noise + 1), rel=1e-13)
    assert path.memory() > path.level.matrix.nbytes > 12 * path.level.matrix.total_nonzeros


@pytest.mark.parametrize("count", [1, 2, 3])
def test_product_and_cycle_against_dense(count: int, noise) -> None:
    dense = hpcg_dense.levels(GEOMETRY, count)
    path = ReferenceImplementation(SELF, generate_problem(SELF, GEOMETRY, levels=count)[0])
    r, z = path.vector(noise), path.vector(noise)  # what z holds before does not matter
    path.precondition(r, z)
    np.testing.assert_allclose(z.owned, hpcg_dense.cycle(dense, noise), rtol=0, atol=1e-14)
    np.testing.assert_array_equal(r.owned, noise)
    path.spmv(r, z)
    np.testing.assert_allclose(z.owned, dense[0].a @ noise, rtol=0, atol=1e-13)


def test_replaced_diagonal_is_used_on_the_finest_level_only(problem, noise) -> None:
    path, _ = problem
    diagonal = 30 + np.abs(noise)
    path.replace_diagonal(diagonal)
    dense = hpcg_dense.levels(GEOMETRY, 3)
    for matrix in (dense[0].a, dense[0].own, dense[0].lower, dense[0].upper):
        np.fill_diagonal(matrix, diagonal)
    z = path.vector()
    path.precondition(path.vector(noise), z)
    np.testing.assert_allclose(z.owned, hpcg_dense.cycle(dense, noise), rtol=0, atol=1e-14)
    np.testing.assert_array_equal(diagonal_of(path.level.coarse.matrix), 26.0)


def test_cg_stops_where_told(problem) -> None:
    path, b = problem
    x, regions = path.vector(), Regions()
    all_steps = path.cg(b, x, 12, 0.0, regions=regions)
    np.testing.assert_allclose(x.owned, 1, rtol=0, atol=1e-9)
    assert all_steps.iterations == len(all_steps.history) == 12
    assert all_steps.history[-1] == all_steps.scaled_residual < 1e-9
    assert all_steps.initial_residual == pytest.approx(np.linalg.norm(b.owned), rel=1e-14)
    times = Times.of(regions)
    parts = [times.dot, times.waxpby, times.spmv, times.multigrid]
    assert all(0 < part < times.total for part in [*parts, times.allreduce])
    assert sum(parts) <= times.total
    assert times.allreduce <= times.dot
    fifth = all_steps.history[4]
    # Residuals count to six digits: one that misses the tolerance by less ends the solve.
    for tolerance, expected in ((fifth, 5), (fifth * (1 - 0.9e-6), 5), (fifth * (1 - 1.1e-6), 6), (1e9, 0)):
        x.owned[:] = 0
        result = path.cg(b, x, 500, tolerance)
        assert result.iterations == expected
        assert result.history == all_steps.history[:expected]


def test_cg_starts_from_the_x_given(problem) -> None:
    path, b = problem
    exact = path.vector(np.ones(GEOMETRY.n_rows))
    result = path.cg(b, exact, 50, 0.0)
    assert (result.iterations, result.scaled_residual, result.history) == (0, 0.0, [])


def test_cg_runs_into_underflow_and_ends(problem) -> None:
    path, b = problem
    for preconditioned in (True, False):
        x = path.vector()
        result = path.cg(b, x, 3000, 0.0, preconditioned=preconditioned)
        assert result.iterations < 3000
        assert np.isfinite(result.history).all()
        np.testing.assert_allclose(x.owned, 1, rtol=0, atol=1e-12)


def test_unpreconditioned_cg_leaves_the_multigrid_alone(problem) -> None:
    path, b = problem
    regions = Regions()
    result = path.cg(b, path.vector(), 20, 1e-6, preconditioned=False, regions=regions)
    assert Times.of(regions).multigrid == 0
    assert 5 < result.iterations < 20
