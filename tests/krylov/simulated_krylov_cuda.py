"""GMRES, flexible CG, projections and step lengths on GPUs, in numba-cuda's simulator; test_inner_cuda.py runs this.

Operators and preconditioners are dense and of the host; all passes over vectors are the device's.
"""

import numpy as np
import pytest
from numba import cuda

from linalg_toys import DenseOperator, DensePreconditioner, path_laplacian, random_places, random_positive
from ridgeline.jit.cuda_device import SIMULATED
from ridgeline.krylov import basis_kernels
from ridgeline.krylov.cg import flexible_cg, step_lengths
from ridgeline.krylov.device.inner_cuda import BlockSums, CudaBasisPasses, CudaInnerProduct, CudaWorkspace
from ridgeline.krylov.device.one_pass_cg_cuda import FOLD_ROWS, FOLD_THREADS, fold_rows, set_steps
from ridgeline.krylov.gmres import gmres
from ridgeline.krylov.projection import Projection
from simulator import ON_GPU

assert SIMULATED != ON_GPU, "run with NUMBA_ENABLE_CUDASIM=1"
N, ROWS, POINTS = 24, 7, 41
BOTH = pytest.mark.parametrize("solve", [gmres, flexible_cg])


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(3)


class OnDevice:
    """An operator or a preconditioner of the host, applied to device arrays."""

    def __init__(self, host, inner=None) -> None:
        self.host, self.inner = host, inner
        self.nullspace = getattr(host, "nullspace", False)
        self.dtype = getattr(host, "dtype", None)

    def apply(self, u, out) -> None:
        found = np.empty(out.shape, out.dtype)
        self.host.apply(u.copy_to_host(), found)
        out.copy_to_device(found)


def on_device(operator: DenseOperator) -> OnDevice:
    return OnDevice(operator, CudaInnerProduct(operator.inner))


@BOTH
@pytest.mark.parametrize(
    ("precision", "restart", "zero_guess"),
    [("float32", 30, True), ("float64", 4, False), (None, 30, True)],
)
def test_solvers_take_the_host_s_iterations(solve, precision, restart, zero_guess, rng) -> None:
    matrix = random_positive(rng, N, 4.0)  # few iterations: rounding grows with them
    operator = DenseOperator([matrix], random_places(rng, N), rng.uniform(0.5, 2, N), ((0,),))
    near = DensePreconditioner(operator, np.linalg.inv(matrix + 0.3 * np.eye(N)), precision or "float64")
    good = None if precision is None else near
    b, guess = (operator.spread(rng.standard_normal(N)) for _ in range(2))
    x, left = guess.copy(), np.empty_like(b)
    options = {"zero_guess": zero_guess}
    expected = solve(operator, b, x, good, restart, 1e-6, 60, residual=left, **options)
    assert expected.converged
    of_x, of_left = cuda.to_device(guess), cuda.to_device(left)
    found = solve(
        on_device(operator),
        cuda.to_device(b),
        of_x,
        None if good is None else OnDevice(good),
        restart,
        1e-6,
        60,
        residual=of_left,
        work=CudaWorkspace(),
        **options,
    )
    assert (found.iterations, found.converged) == (expected.iterations, True)
    assert found.initial_residual == pytest.approx(expected.initial_residual, rel=1e-12)
    # A preconditioner of float32 may round another way.
    near_zero = 1e-6 if precision == "float32" else 1e-9
    np.testing.assert_allclose(of_x.copy_to_host(), x, atol=near_zero * abs(x).max())
    np.testing.assert_allclose(of_left.copy_to_host(), left, atol=near_zero * abs(b).max())


@BOTH
def test_constants_are_free(solve, rng) -> None:
    operator = DenseOperator([path_laplacian(8, rng)], random_places(rng, 8), nullspace=True)
    b, x = operator.spread(rng.standard_normal(8)), np.zeros(len(operator.places))
    expected = solve(operator, b, x, None, 60, 1e-6, 60, zero_guess=True)
    device, of_x = on_device(operator), cuda.to_device(np.full_like(x, np.nan))
    found = solve(device, cuda.to_device(b), of_x, None, 60, 1e-6, 60, zero_guess=True, work=CudaWorkspace())
    assert (found.iterations, found.converged) == (expected.iterations, True)
    np.testing.assert_allclose(of_x.copy_to_host(), x, atol=1e-8 * abs(x).max())


@BOTH
def test_nan_ends_the_solve(solve, rng) -> None:
    operator = DenseOperator([random_positive(rng, N, 10.0)], random_places(rng, N))
    b = np.full(len(operator.places), np.nan)
    arguments = cuda.to_device(b), cuda.to_device(b), None, 10, 1e-6, 50
    result = solve(on_device(operator), *arguments, zero_guess=True, work=CudaWorkspace())
    assert (result.iterations, result.converged) == (0, False)


def test_gram_schmidt_is_repeated_after_cancellation(rng) -> None:
    """Nearly all of A v is along v, so that its second sweep comes at once."""
    operator = DenseOperator([np.eye(N) + 1e-8 * random_positive(rng, N, 1e3)], random_places(rng, N))
    b, x = operator.spread(rng.standard_normal(N)), np.zeros(len(operator.places))
    expected = gmres(operator, b, x, None, 10, 1e-13, 3, zero_guess=True)
    of_x = cuda.to_device(x)
    found = gmres(
        on_device(operator),
        cuda.to_device(b),
        of_x,
        None,
        10,
        1e-13,
        3,
        zero_guess=True,
        work=CudaWorkspace(),
    )
    assert found.iterations == expected.iterations
    np.testing.assert_allclose(of_x.copy_to_host(), x, rtol=1e-12)


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_guesses_are_the_host_s(depth, rng) -> None:
    """Until the space is full and the oldest solutions leave, through a shift of the operator."""
    matrices = [random_positive(rng, N, k) for k in (10.0, 100.0)]
    mass = rng.uniform(0.5, 2, N)
    operator = DenseOperator(matrices, random_places(rng, N), mass, ((0,), (3, 4)))
    device = on_device(operator)
    here, there = Projection(operator, depth, 2), Projection(device, depth, 2)
    for step in range(depth + 4):
        b = operator.spread(rng.standard_normal((2, N)))
        if step == depth + 1:
            for c, free in enumerate(operator.free):
                operator.matrices[c] += 0.7 * np.diag(mass * free)
            here.shift(0.7)
            there.shift(0.7)
        x, r = np.empty_like(b), np.empty_like(b)
        of_x, of_r = cuda.to_device(x), cuda.to_device(r)
        here.guess(b, x, r)
        there.guess(cuda.to_device(b), of_x, of_r)
        np.testing.assert_allclose(of_x.copy_to_host(), x, atol=1e-11)
        np.testing.assert_allclose(of_r.copy_to_host(), r, atol=1e-10)
        dx, applied = operator.solve(r), np.empty_like(b)
        operator.apply(dx, applied)
        here.update(dx, r, r - applied)
        there.update(cuda.to_device(dx), of_r, cuda.to_device(r - applied))
        np.testing.assert_allclose(there.numbers(), here.numbers(), atol=1e-10)


@pytest.mark.parametrize("count", [0, 1, 4, 6])
def test_passes_over_bases_are_the_host_s(count, rng) -> None:
    passes = CudaBasisPasses(POINTS, BlockSums(POINTS))
    basis, weights = rng.standard_normal((ROWS, POINTS)), rng.random(POINTS)
    a, b = rng.standard_normal((2, POINTS))
    given = cuda.to_device(basis)
    for with_b in (False, True):
        expected, found = np.full((2, ROWS), np.nan), np.full((2, ROWS), np.nan)
        basis_kernels.pair_dots(basis, count, a, b, with_b, weights, expected)
        passes.pair_dots(given, count, *map(cuda.to_device, (a, b)), with_b, cuda.to_device(weights), found)
        np.testing.assert_allclose(found, expected, atol=1e-12)
    expected, found = np.full((ROWS, ROWS), np.nan), np.full((ROWS, ROWS), np.nan)
    basis_kernels.basis_products(basis, count, weights, expected)
    passes.basis_products(given, count, cuda.to_device(weights), found)
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("precision", [np.float32, np.float64])
@pytest.mark.parametrize("count", [0, 3, 6])
def test_sums_of_bases_are_the_host_s(count, precision, rng) -> None:
    basis, factors = rng.standard_normal((ROWS, POINTS)).astype(precision), rng.random(ROWS)
    x = rng.standard_normal(POINTS)
    of_x = cuda.to_device(x)
    CudaBasisPasses(POINTS, BlockSums(POINTS)).basis_add(cuda.to_device(basis), count, factors, of_x)
    basis_kernels.basis_add(basis, count, factors, x)
    np.testing.assert_allclose(of_x.copy_to_host(), x, atol=1e-13)


@pytest.mark.parametrize("rows", [1, FOLD_ROWS, 2 * FOLD_ROWS + 3])
def test_rows_of_sums_are_folded(rows) -> None:
    """Numbers that add up exactly, in any order; rows behind the last one are not theirs."""
    sums = np.arange(4.0 * (rows + 2))
    blocks = -(-rows // FOLD_ROWS)
    out = cuda.to_device(np.zeros(4 * blocks))
    fold_rows[blocks, FOLD_THREADS](sums, rows, out)
    parts = out.copy_to_host().reshape(blocks, 4)
    np.testing.assert_array_equal(parts.sum(axis=0), sums.reshape(-1, 4)[:rows].sum(axis=0))
    np.testing.assert_array_equal(parts[0], sums.reshape(-1, 4)[: min(rows, FOLD_ROWS)].sum(axis=0))


def test_step_lengths_are_those_of_the_host() -> None:
    """0 once r is; what follows alpha and beta is left alone."""
    values, residuals = cuda.to_device(np.array([5.0, 7.0, 0.1])), cuda.to_device(np.ones(3))
    sums = np.array([0.0, 0.0, 0.0, 0.0]), np.array([4.0, 7.0, 3.0, 5.0])
    for step, of_step in enumerate(sums, start=1):
        set_steps[1, 1](of_step, step, values, residuals)
        expected = step_lengths(*of_step)
        np.testing.assert_allclose(values.copy_to_host(), [*expected, 0.1], rtol=1e-15)
    np.testing.assert_array_equal(residuals.copy_to_host(), [1.0, 0.0, 2.0])
