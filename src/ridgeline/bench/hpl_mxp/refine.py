"""Refinement to 64-bit accuracy: GMRES in float64, preconditioned by the factors in low precision.

The first guess is the solution with the factors alone. GMRES (`krylov.gmres`) goes on until the root mean square of
the residual is at most 2^-53 (||A|| ||x|| + ||b||), in maximum norms: what elimination in float64 would reach. The
rules ask for less, N times as much times 16. They allow 50 iterations.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.bench.hpl.record import EPSILON
from ridgeline.bench.hpl_mxp.matrix import SystemMatrix, Vector
from ridgeline.bench.hpl_mxp.triangular import Triangles, solve
from ridgeline.krylov.gmres import gmres
from ridgeline.krylov.operator import InnerProduct

MOST_ITERATIONS = 50  # by the rules
BASIS = 20  # iterations of a cycle: vectors of the whole order, on every rank
LIMIT = 16.0  # of the scaled residual


class _Operator:
    """A for `gmres`: every rank holds whole vectors, so that it sums alone."""

    nullspace = False

    def __init__(self, matrix: SystemMatrix) -> None:
        self.matrix = matrix
        self.inner = InnerProduct(None, np.ones(matrix.n))

    def apply(self, u: Vector, out: Vector) -> None:
        """Set out = A u."""
        out[:] = self.matrix.product(u)

    direction: Any = None  # of conjugate gradients, which need a symmetric matrix


class _Preconditioner:
    """(L U)^-1 for `gmres`. Every rank gets the same bits, so that all take the same decisions."""

    dtype = np.dtype(np.float64)

    def __init__(self, triangles: Triangles, comm: MPI.Comm) -> None:
        self.triangles, self.comm = triangles, comm

    def apply(self, r: Vector, z: NDArray[Any]) -> None:
        """Set z to about A^-1 r."""
        z[:] = solve(self.triangles, self.comm, r)


def first_guess(triangles: Triangles, comm: MPI.Comm, b: Vector) -> Vector:
    """Return the solution with the factors alone. Collective."""
    return solve(triangles, comm, b)


def refine(
    matrix: SystemMatrix, triangles: Triangles, comm: MPI.Comm, b: Vector, x: Vector
) -> tuple[int, bool]:
    """Improve x in place; return (iterations, whether the tolerance was met). Collective."""
    tolerance = EPSILON * (matrix.norm * float(np.abs(x).max()) + float(np.abs(b).max()))
    preconditioner = _Preconditioner(triangles, comm)
    done = gmres(_Operator(matrix), b, x, preconditioner, BASIS, tolerance, MOST_ITERATIONS)
    return done.iterations, done.converged


def judge(matrix: SystemMatrix, b: Vector, x: Vector) -> float:
    """Return ||b - A x|| / (||A|| ||x|| + ||b||) / (n 2^-53), maximum norms, the residual computed anew. Collective.

    NaN if anything is.
    """
    residual, solution, right = (float(np.abs(one).max()) for one in (b - matrix.product(x), x, b))
    return residual / (matrix.norm * solution + right) / (x.size * EPSILON)
