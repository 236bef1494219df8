"""Compile what the solvers call, by solving a problem of three points with each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.krylov.cg import cg
from ridgeline.krylov.flexible_cg import flexible_cg
from ridgeline.krylov.gmres import gmres
from ridgeline.krylov.kernels import zero_points
from ridgeline.krylov.operator import Array, InnerProduct, Jacobi, direction
from ridgeline.krylov.projection import Projection


class _Diagonal:
    """diag(1, 2, 3), with itself in single precision as a preconditioner."""

    nullspace = False
    dtype = np.dtype(np.float32)

    def __init__(self) -> None:
        self.inner = InnerProduct(None, np.ones(3), np.ones(3))
        self.values = np.arange(1.0, 4.0)

    def apply(self, u: Array, out: NDArray[Any]) -> None:
        out[...] = self.values * u

    def direction(
        self, r: Array, inverse_diagonal: Array, beta: Array, p: Array, w: Array, components: Sequence[int]
    ) -> Array:
        return direction(self, r, inverse_diagonal, beta, p, w, components)


def compile_solvers() -> None:
    """Compile, or load from the cache, the kernels of all solvers for both precisions. No communication."""
    operator, b = _Diagonal(), np.ones(3)
    x, r, left = np.zeros(3), np.zeros(3), np.zeros(3)
    projection = Projection(operator, 1)
    for _ in range(2):
        projection.guess(b, x, r)
        cg(operator, r, x, np.ones(3), 1e-9, 5, residual=left)
        projection.update(x, r, left)
    for preconditioner in (operator, Jacobi(np.ones(3))):
        gmres(operator, b, x, preconditioner, 3, 1e-9, 3, zero_guess=True)
        flexible_cg(operator, b, x, preconditioner, 0, 1e-9, 3, zero_guess=True)
    near = np.array([1.0, 1.0 + 1e-9, 1.0])  # nearly all cancels: Gram-Schmidt is repeated
    operator.values = near
    gmres(operator, np.arange(3.0), x, None, 3, 0.0, 2, zero_guess=True)
    operator.inner.dot(b, b)
    operator.inner.make_consistent(b)
    zero_points(b.reshape(1, -1), np.zeros(1, np.int64))
