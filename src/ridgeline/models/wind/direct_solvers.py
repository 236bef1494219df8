"""The two Poisson problems of the projections, solved directly on the whole grid by diagonalisation along each axis.

Both discrete operators are sums of tensor products of matrices along single axes (Lynch, Rice and Thomas 1964):

    cells   K_z x I x I + I x K_y x I + I x I x K_x           the 7-point Laplacian
    nodes   K_z x M_y x M_x + M_z x K_y x M_x + M_z x M_y x K_x   trilinear finite elements, 27 points

K and M are the stiffness and mass matrices of one axis. With the generalised eigenvectors of each axis, which are
M-orthonormal, the solution is three small products of matrices, a division by sums of eigenvalues, and three more
products: about 12 n flops a point for n points in each direction. Use them for small grids and as the oracle of the
multigrid solvers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ridgeline.models.wind.problem import WindProblem

Array = NDArray[Any]


class TensorSolver:
    """Solve A x = b for a sum of tensor products, with given matrices along the axes z, y and x.

    A singular A has the constants as its null space; the solution then has no part in it.
    """

    def __init__(self, stiffness: list[Array], mass: list[Array], free: list[Array]) -> None:
        """free: along each axis, the unknowns that are not fixed at 0."""
        self._free = np.ix_(*free)
        values, self._vectors = [], []
        for k, m, unknown in zip(stiffness, mass, free, strict=True):
            inner = np.ix_(unknown, unknown)
            eigenvalues, vectors = scipy.linalg.eigh(k[inner], m[inner])
            values.append(np.where(abs(eigenvalues) < 1e-12 * abs(eigenvalues).max(), 0.0, eigenvalues))
            self._vectors.append(vectors)
        total = values[0][:, None, None] + values[1][:, None] + values[2]
        self._inverse = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)

    def solve(self, b: Array) -> Array:
        """Return x, in float64."""
        z, y, x = self._vectors
        inner = np.asarray(b, np.float64)[self._free]
        modes = np.einsum("ka,kji->aji", z, inner, optimize=True)
        modes = np.matmul(y.T, modes)
        modes = np.matmul(modes, x) * self._inverse
        modes = np.matmul(np.matmul(y, modes), x.T)
        result = np.zeros(b.shape)
        result[self._free] = np.einsum("ka,aji->kji", z, modes, optimize=True)
        return result


def cell_solver(problem: WindProblem) -> TensorSolver:
    """Return the solver of -div(grad x) = b at cells: x = 0 at outflows, no gradient at other sides."""
    stiffness = []
    for axis, (n, h) in enumerate(zip(problem.shape, problem.widths, strict=True)):
        k = 2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)
        if problem.periodic[axis]:
            k[0, -1] -= 1
            k[-1, 0] -= 1
        for last in (False, True):
            side = problem.at(axis, last)
            if side is not None:  # half a cell lies between the centre and an outflow
                k[-last, -last] += 1 if side.outflow else -1
        stiffness.append(k / h**2)
    return TensorSolver(stiffness, [np.eye(n) for n in problem.shape], [np.arange(n) for n in problem.shape])


def node_solver(problem: WindProblem) -> TensorSolver:
    """Return the solver of the trilinear finite elements at nodes, whose right side is over the volume of a cell."""
    stiffness, mass, free = [], [], []
    for axis, (n, h) in enumerate(zip(problem.shape, problem.widths, strict=True)):
        k, m = np.zeros((n + 1, n + 1)), np.zeros((n + 1, n + 1))
        for i in range(n):
            k[i : i + 2, i : i + 2] += np.array([[1, -1], [-1, 1]]) / h**2
            m[i : i + 2, i : i + 2] += np.array([[2, 1], [1, 2]]) / 6
        unknown = np.arange(n + 1)
        if problem.periodic[axis]:
            for matrix in (k, m):  # the last node is the first one
                matrix[0] += matrix[n]
                matrix[:, 0] += matrix[:, n]
            unknown = unknown[:n]
            k, m = k[:n, :n], m[:n, :n]
        else:
            low, high = problem.at(axis, False), problem.at(axis, True)
            assert low is not None
            assert high is not None
            unknown = unknown[int(low.outflow) : n + 1 - int(high.outflow)]
        stiffness.append(k)
        mass.append(m)
        free.append(unknown)
    return TensorSolver(stiffness, mass, free)


def helmholtz_solver(problem: WindProblem, number: int, factor: float) -> TensorSolver:
    """Return the solver of x - factor lap x = b with x = 0 at sides with values and no gradient at others."""
    stiffness = []
    for axis, (n, h) in enumerate(zip(problem.shape, problem.widths, strict=True)):
        k = 2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)
        if problem.periodic[axis]:
            k[0, -1] -= 1
            k[-1, 0] -= 1
        for last in (False, True):
            side = problem.at(axis, last)
            if side is not None:
                k[-last, -last] += 1 if side.fields[number].fixed else -1
        stiffness.append(factor / h**2 * k + np.eye(n) / 3)
    return TensorSolver(stiffness, [np.eye(n) for n in problem.shape], [np.arange(n) for n in problem.shape])
