"""Poisson and Helmholtz problems on spectral elements: the same on any number of ranks, in all their variants."""

from collections.abc import Callable

import numpy as np
import pytest
from mpi4py import MPI

from element_problems import Problem, solve_dirichlet
from ridgeline.elements.operator import ElementOperator, element_inner_product
from ridgeline.krylov.cg import cg, one_pass_cg
from ridgeline.krylov.gmres import gmres
from ridgeline.krylov.operator import Jacobi, unfused_direction
from ridgeline.krylov.projection import Projection

RANKS = (1, 2, 3, 4)
TIMEOUT = 120
Array = np.ndarray


@pytest.mark.parametrize("curved", [False, True])
def test_ranks_agree_with_one_rank(comm: MPI.Comm, curved: bool) -> None:
    problem, x = solve_dirichlet(comm, 6, curved, 1.0, 2.0)
    _, alone = solve_dirichlet(MPI.COMM_SELF, 6, curved, 1.0, 2.0)
    mine = slice(problem.grid.first, problem.grid.first + problem.grid.n_elements)
    np.testing.assert_allclose(x, alone[mine], rtol=0, atol=1e-11)


@pytest.mark.parametrize("curved", [False, True])
def test_neumann_problem_by_gmres(comm: MPI.Comm, curved: bool) -> None:
    """A periodic box, or one with free sides where curved: constants are free; the solution has mean zero."""
    problem = Problem(comm, 6, curved, 1.0, 0.0, sides=(), periodic=not curved)
    operator = problem.operator
    assert operator.nullspace
    x, y, z = problem.geometry.coordinates
    source = np.sin(2 * np.pi * x / 1.5) * np.cos(2 * np.pi * y / 1.2) + z + 3.0
    b, u = problem.right_hand_side(source[None])[0], np.empty_like(x)
    jacobi = Jacobi(operator.inverse_diagonal(), operator.inner)
    result = gmres(operator, b, u, jacobi, 40, 1e-9, 600, zero_guess=True, regions=problem.regions)
    assert result.converged, result
    applied = np.empty_like(u)
    operator.apply(u, applied)
    operator.inner.make_consistent(b)
    assert operator.inner.norm(b - applied)[0] < 2e-9
    assert abs(operator.inner.mean(u)[0]) < 1e-12
    other = np.empty_like(u)
    assert cg(operator, b, other, operator.inverse_diagonal(), 1e-9, 600, zero_guess=True).converged
    np.testing.assert_allclose(other, u, atol=1e-8)
    table = problem.regions.table
    assert {"gmres", "helmholtz", "gather-scatter"} <= set(table)
    assert all(table[name].bytes > 0 for name in ("gmres", "helmholtz", "gather-scatter"))


def test_one_pass_on_curved_elements(comm: MPI.Comm) -> None:
    """Every element has factors of its own, and points have copies on other ranks: the solution of `cg`."""
    problem = Problem(comm, 5, True, 1.0, 0.0)
    b, x = (
        problem.right_hand_side(problem.geometry.coordinates[:1] ** 2 - 0.3)[0],
        np.empty(problem.grid.shape),
    )
    assert cg(
        problem.operator, b, x, problem.operator.inverse_diagonal(), 1e-12, 600, zero_guess=True
    ).converged
    fused = problem.one_pass(comm)
    fused.start(b, 300)
    residuals = one_pass_cg(fused, 300)
    assert residuals[-1] < 1e-12 * residuals[0]
    np.testing.assert_allclose(fused.solution(), x, rtol=0, atol=1e-9 * abs(x).max())
    assert comm.allgather(residuals) == [residuals] * comm.size


def components(comm: MPI.Comm, curved: bool) -> tuple[Problem, Array]:
    """Three components, each free on other sides; the first has nothing to do."""
    sides = (("x_min", "x_max"), ("y_min", "z_max"), ("z_min",))
    problem = Problem(comm, 6, curved, 0.3, 7.0, sides)
    x, y, z = problem.geometry.coordinates
    return problem, problem.right_hand_side(np.stack([0 * x, np.cos(x * y) + z, np.exp(x) * y - z]))


@pytest.mark.parametrize("curved", [False, True])
def test_components_with_points_of_their_own(comm: MPI.Comm, curved: bool) -> None:
    problem, b = components(comm, curved)
    operator, x = problem.operator, np.empty_like(b)
    diagonal = operator.inverse_diagonal()
    for middle in (False, True):  # the component that is done first is at the end, and in the middle
        if middle:
            operator.constrained = [operator.constrained[k] for k in (1, 0, 2)]
            b = np.ascontiguousarray(b[[1, 0, 2]])
        assert cg(operator, b, x, diagonal, 1e-10, 300, zero_guess=True).converged
        for c in range(3):
            alone = ElementOperator(
                problem.grid,
                problem.geometry,
                problem.gather_scatter,
                0.3,
                7.0,
                operator.constrained[c],
                inner=operator.inner,
            )
            one = np.empty_like(b[c])
            assert cg(alone, np.ascontiguousarray(b[c]), one, diagonal, 1e-10, 300, zero_guess=True).converged
            np.testing.assert_allclose(x[c], one, rtol=0, atol=1e-12)
            assert not x[c].reshape(-1)[operator.constrained[c]].any()


@pytest.mark.parametrize("curved", [False, True])
def test_fused_direction_is_the_plain_one(comm: MPI.Comm, curved: bool) -> None:
    problem, b = components(comm, curved)
    operator = problem.operator
    diagonal, beta = operator.inverse_diagonal(), np.array([0.3, 0.0, -1.2])
    p = problem.right_hand_side(np.cos(b))
    plain_p, w, plain_w = p.copy(), np.zeros_like(p), np.zeros_like(p)
    shares = operator.direction(b, diagonal, beta, p, w, (0, 2))
    plain = unfused_direction(operator, b, diagonal, beta, plain_p, plain_w, (0, 2))
    np.testing.assert_allclose(p, plain_p, atol=1e-14)
    np.testing.assert_allclose(w[[0, 2]], plain_w[[0, 2]], atol=1e-12)
    inner = operator.inner
    np.testing.assert_allclose(inner.allreduce(shares), inner.allreduce(plain), rtol=1e-12)
    assert not w[1].any()
    assert shares[1] == 0


def test_diagonal_is_that_of_the_operator(comm: MPI.Comm) -> None:
    """A applied to unit vectors of a few points of the mesh, curved."""
    problem = Problem(comm, 6, True, 0.7, 1.3, sides=())
    grid, operator = problem.grid, problem.operator
    diagonal = 1.0 / operator.inverse_diagonal()
    for number in range(0, grid.n_unique, 397):
        unit, out = (grid.ids == number).astype(float), np.empty(grid.shape)
        operator.apply(unit, out)
        np.testing.assert_allclose(out[grid.ids == number], diagonal[grid.ids == number], rtol=1e-12)


def test_projection_saves_iterations_on_elements(comm: MPI.Comm) -> None:
    """Three components driven by slowly changing sources: the run report's saving, on any number of ranks."""
    counts: dict[int, list[int]] = {0: [], 6: []}
    for depth in counts:
        problem, b = components(comm, True)
        operator, diagonal = problem.operator, problem.operator.inverse_diagonal()
        projection = Projection(operator, depth, 3, problem.regions)
        first = problem.right_hand_side(np.cos(3 * problem.geometry.coordinates))
        for t in range(10):
            x, r, dx, left = (np.empty_like(b) for _ in range(4))
            now = np.cos(0.1 * t) * b + np.sin(0.07 * t) * first
            projection.guess(now, x, r)
            result = cg(operator, r, dx, diagonal, 1e-8, 300, zero_guess=True, residual=left)
            assert result.converged
            projection.update(dx, r, left)
            x += dx
            applied = np.empty_like(x)
            operator.apply(x, applied)
            assert operator.inner.norm(now - applied).max() < 1.1e-8
            counts[depth].append(result.iterations)
    assert sum(counts[6][4:]) < 0.4 * sum(counts[0][4:]), counts


def test_norm_is_that_of_the_equation(comm: MPI.Comm) -> None:
    """The weak form of a function f has the norm sqrt(mean f^2), and its mean is the integral over the volume."""
    problem = Problem(comm, 6, True, 1.0, 0.0, sides=())
    inner = element_inner_product(problem.geometry, problem.gather_scatter)
    f: Callable[..., Array] = lambda x, y, z: np.cos(x) + y * z  # noqa: E731
    values = f(*problem.geometry.coordinates)
    weak = problem.right_hand_side(values[None])[0]
    volume = comm.allreduce(problem.geometry.mass.sum())
    total = comm.allreduce((problem.geometry.mass * values**2).sum())
    np.testing.assert_allclose(inner.volume, volume, rtol=1e-12)
    np.testing.assert_allclose(inner.norm(weak)[0], np.sqrt(total / volume), rtol=1e-12)
    mean = comm.allreduce((problem.geometry.mass * values).sum()) / volume
    np.testing.assert_allclose(inner.mean(values)[0], mean, rtol=1e-12)
    inner.make_consistent(weak)
    assert abs(inner.dot(weak, np.ones_like(weak))[0]) < 1e-11
