"""Conjugate gradients in one pass: a dense operator in NumPy against a dense solve, and the formula of beta."""

import numpy as np
import pytest
from mpi4py import MPI

from linalg_toys import random_positive
from ridgeline.krylov.cg import SUMS, HostStepLengths, one_pass_cg, step_lengths

N = 40


class DensePass:
    """An `OnePassOperator` of one rank, written as its protocol says it."""

    def __init__(self, matrix) -> None:
        self.matrix, self.values = matrix, np.array([np.nan, np.nan, 7.0])
        self.steps = HostStepLengths(MPI.COMM_SELF, self.values)

    def start(self, b, iterations) -> None:
        self.x, self.p, self.w = np.zeros((3, N))
        self.r = b.copy()
        self.steps.reset(iterations)

    def update(self):
        alpha = self.values[0]
        self.x += alpha * self.p
        self.r -= alpha * self.w
        return np.array([self.r @ self.r, 0.0, 0.0, 0.0])

    def iterate(self):
        sums = self.update()
        self.p = self.r + self.values[1] * self.p
        self.w = self.matrix @ self.p
        sums[1:] = self.p @ self.w, self.r @ self.w, self.w @ self.w
        return sums


def test_solves_as_a_dense_solve_twice_over() -> None:
    rng = np.random.default_rng(5)
    operator, b = DensePass(random_positive(rng, N, 30.0)), rng.standard_normal(N)
    expected = np.linalg.solve(operator.matrix, b)
    for _ in range(2):
        operator.start(b, 2 * N)
        residuals = one_pass_cg(operator, 2 * N)
        np.testing.assert_allclose(operator.x, expected, rtol=0, atol=1e-12 * abs(expected).max())
        assert len(residuals) == 2 * N + 1
        assert residuals[0] == pytest.approx(np.linalg.norm(b), rel=1e-15)
        assert residuals[-1] < 1e-12 * residuals[0]
    assert operator.values[2] == 7.0, "what follows alpha and beta is the operator's"


def test_beta_is_that_of_the_next_residual() -> None:
    rng = np.random.default_rng(6)
    r, p, w = rng.standard_normal((3, N))
    sums = r @ r, abs(p @ w), r @ w, w @ w
    assert len(sums) == SUMS
    alpha, beta = step_lengths(*sums)
    following = r - alpha * w
    assert alpha == sums[0] / sums[1]
    assert beta == pytest.approx(following @ following / sums[0], rel=1e-13)
    assert step_lengths(0.0, 0.0, 0.0, 0.0) == (0.0, 0.0)
