"""Tests of conjugate gradients on GPUs in numba-cuda's simulator; test_inner_cuda.py runs this file."""

import numpy as np
import pytest
from mpi4py import MPI
from numba import cuda

from element_problems import Problem
from ridgeline.elements.device.gather_scatter_cuda import CudaGatherScatter
from ridgeline.elements.device.geometry_cuda import CudaGeometry
from ridgeline.elements.device.one_pass_cuda import CudaOnePassStiffness
from ridgeline.elements.device.operator_cuda import CudaElementOperator
from ridgeline.jit.cuda_device import SIMULATED
from ridgeline.krylov.cg import cg, one_pass_cg
from ridgeline.krylov.device.inner_cuda import CudaInnerProduct, CudaWorkspace
from ridgeline.krylov.operator import InnerProduct, SolveResult
from simulator import ON_GPU

assert SIMULATED != ON_GPU, "run with NUMBA_ENABLE_CUDASIM=1"
RANDOM = np.random.default_rng(5)


def same(found: SolveResult, expected: SolveResult) -> None:
    """The same iterations, and residuals to the rounding that iterations let grow."""
    assert (found.iterations, found.converged) == (expected.iterations, expected.converged)
    assert found.initial_residual == pytest.approx(expected.initial_residual, rel=1e-12)
    assert found.residual == pytest.approx(expected.residual, rel=1e-7)


def solve_both(problem, b, guess, diagonal=None, iterations=100, tolerance=1e-6):
    """Solve on the host and on the device; return both results and solutions."""
    host, inner = problem.operator, CudaInnerProduct(problem.operator.inner)
    gather = CudaGatherScatter(MPI.COMM_SELF, problem.gather_scatter.plan, False, fields=3)
    geometry = CudaGeometry(problem.geometry, gather)
    device = CudaElementOperator(
        MPI.COMM_SELF, problem.grid, geometry, gather, host.h1, host.h2, host.constrained, inner=inner
    )
    x, on_device = guess.copy(), cuda.to_device(guess)
    inverse = host.inverse_diagonal() if diagonal is None else diagonal
    of_device = device.inverse_diagonal() if diagonal is None else cuda.to_device(diagonal)
    left, residual = np.empty_like(b), cuda.to_device(np.empty_like(b))
    expected = cg(host, b, x, inverse, tolerance, iterations, residual=left)
    found = cg(
        device,
        cuda.to_device(b),
        on_device,
        of_device,
        tolerance,
        iterations,
        residual=residual,
        work=CudaWorkspace(),
    )
    same(found, expected)
    np.testing.assert_allclose(residual.copy_to_host(), left, atol=1e-9 * abs(b).max())
    return expected, x, on_device.copy_to_host()


@pytest.mark.parametrize("curved", [False, True])
def test_components_with_ends_of_their_own(curved) -> None:
    """Three components, one of which is solved before the first iteration, from a guess."""
    problem = Problem(MPI.COMM_SELF, 2, curved, 0.5, 400.0, (["x_min", "x_max"], [], ["z_min"]))
    b = problem.right_hand_side(RANDOM.standard_normal((3, *problem.grid.shape)))
    guess = RANDOM.standard_normal(b.shape)
    problem.gather_scatter.sum(guess)
    problem.operator.mask(guess)
    b[1], guess[1] = 0.0, 0.0
    result, expected, found = solve_both(problem, b, guess)
    assert result.converged
    assert not expected[1].any()
    np.testing.assert_allclose(found, expected, atol=1e-11 * abs(expected).max())


def test_constants_are_free() -> None:
    problem = Problem(MPI.COMM_SELF, 2, False, 1.0, 0.0, (), periodic=True)
    b = problem.right_hand_side(RANDOM.standard_normal((1, *problem.grid.shape)))
    result, expected, found = solve_both(problem, b, np.zeros_like(b))
    assert result.converged
    np.testing.assert_allclose(found, expected, atol=1e-11 * abs(expected).max())


def test_diagonals_of_each_component_and_an_end_without_convergence() -> None:
    problem = Problem(MPI.COMM_SELF, 2, False, 1.0, 3.0, (["x_min"], ["y_min"]))
    b = problem.right_hand_side(RANDOM.standard_normal((2, *problem.grid.shape)))
    diagonal = np.stack([problem.operator.inverse_diagonal(), np.full(problem.grid.shape, 0.5)])
    result, expected, found = solve_both(problem, b, np.zeros_like(b), diagonal, iterations=5)
    assert not result.converged
    np.testing.assert_allclose(found, expected, atol=1e-12 * abs(expected).max())


def test_nan_ends_the_solve() -> None:
    problem = Problem(MPI.COMM_SELF, 2, False, 1.0, 3.0)
    inner = CudaInnerProduct(problem.operator.inner)
    b = np.full((1, *problem.grid.shape), np.nan)
    x, r = cuda.to_device(b), cuda.to_device(b)
    inner.set_zero(x)
    assert not x.copy_to_host().any()
    assert np.isnan(inner.norm(r)).all()


def test_one_pass_on_curved_elements() -> None:
    """Every element has factors of its own."""
    problem = Problem(MPI.COMM_SELF, 2, True, 1.0, 0.0)
    b = problem.right_hand_side(RANDOM.standard_normal((1, *problem.grid.shape)))[0]
    host = problem.one_pass(MPI.COMM_SELF)
    device = problem.one_pass(MPI.COMM_SELF, CudaOnePassStiffness, False)
    for operator in (host, device):
        operator.start(b, 4)
    np.testing.assert_allclose(one_pass_cg(device, 4), one_pass_cg(host, 4), rtol=1e-11)
    np.testing.assert_allclose(device.solution(), host.solution(), rtol=0, atol=1e-11)


@pytest.mark.parametrize("with_mass", [False, True])
def test_sums_are_the_host_s(with_mass) -> None:
    """A number of points that does not divide by threads, thread blocks or components."""
    n = 41
    mass = RANDOM.uniform(0.5, 2, n) if with_mass else None
    host = InnerProduct(None, RANDOM.uniform(0.1, 1, n), mass)
    device = CudaInnerProduct(host)
    u, v = RANDOM.standard_normal((2, 3, n))
    of_u, of_v = cuda.to_device(u), cuda.to_device(v)
    for name, arguments in (("dot", (of_u, of_v)), ("norm", (of_u,)), ("mean", (of_u,))):
        expected = getattr(host, name)(*(each.copy_to_host() for each in arguments))
        np.testing.assert_allclose(getattr(device, name)(*arguments), expected, rtol=1e-13, err_msg=name)
    for name in ("remove_mean", "make_consistent"):
        expected, found = u.copy(), cuda.to_device(u)
        getattr(host, name)(expected)
        getattr(device, name)(found)
        np.testing.assert_allclose(found.copy_to_host(), expected, rtol=1e-12, err_msg=name)


def test_the_workspace_keeps_its_memory() -> None:
    work = CudaWorkspace()
    first = work("r", (3, 4))
    first.copy_to_device(np.ones((3, 4)))
    assert (work("r", (2, 4)).copy_to_host() == 1).all()
    assert work("r", (2, 2), np.float32).dtype == np.float32
    assert work.n_bytes == 8 * 12 + 4 * 4
