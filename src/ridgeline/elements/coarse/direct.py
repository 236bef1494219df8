"""The coarse problem of multigrid (`CoarseSolver`), and its direct solution on a separable box (`DirectCoarse`).

A coarse solver takes an unassembled residual on this rank's coarse elements [E, c_z, c_y, c_x] and returns the
correction at the same points, continuous. The direct solution is a fast diagonalisation on the global lattice:
K = A_z x B_y x B_x + B_z x A_y x B_x + B_z x B_y x A_x with one-dimensional Galerkin matrices; see
`fast_diagonalisation`. Every rank solves the whole problem: 4 N (N_z + N_y + N_x) flops for N = N_z N_y N_x points.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import scipy.linalg
from numpy.typing import DTypeLike, NDArray

from ridgeline.elements.multigrid.fast_diagonalisation import ZERO
from ridgeline.elements.multigrid.level import PolynomialLevel
from ridgeline.elements.quadrature import gll_interpolation
from ridgeline.jit.kernel import compile_kernels, specialise
from ridgeline.parallel.communicator import compile_on_nodes
from ridgeline.sparse.rows import gather, scatter_add

if TYPE_CHECKING:
    from mpi4py import MPI

Array = NDArray[np.float64]
Field = NDArray[Any]

WHOLE = 4096  # the most unknowns of a problem, or of a level of it, that every rank has as a whole
LEAST = 1e-3  # the least eigenvalue times L^2 that is not 0


class CoarseSolver(Protocol):
    """Solves the coarse problem, exactly or by one cycle."""

    def solve(self, residual: Field, correction: Field) -> None:
        """Set the correction from an unassembled residual, both flat, at this rank's coarse points. Collective."""

    def describe(self) -> str:
        """Return one line that names the solver and its size."""


class WholeVector:
    """The vector of all distinct points of a level on every rank: [n_unique].

    Each rank sends the sums over its own elements (one Allgatherv) and adds up all of them in the order of ranks. It
    receives the points of all ranks in a call; points between ranks come once from each.
    """

    def __init__(self, comm: MPI.Comm, level: PolynomialLevel, dtype: DTypeLike) -> None:
        self.comm, self.n_unique = comm, level.n_unique
        unique, inverse = np.unique(level.ids, return_inverse=True)
        self._point = np.ascontiguousarray(inverse.reshape(-1), np.int64)
        self._ids = np.ascontiguousarray(level.ids.reshape(-1), np.int64)
        self._local = np.zeros(len(unique), dtype)
        self.vector = np.zeros(level.n_unique, dtype)
        compile_on_nodes(comm, lambda: compile_kernels(specialise([gather, scatter_add], dtype)))
        if comm.size > 1:
            self._counts = comm.allgather(len(unique))
            self._all_ids = np.concatenate(comm.allgather(unique))
            self._all = np.zeros(len(self._all_ids), dtype)
            self._target = [self._all, self._counts]

    def assemble(self, residual: Field) -> Field:
        """Return the sums over the elements of all ranks, overwritten by the next call. Collective."""
        if self.comm.size == 1:
            scatter_add(self._ids, residual, self.vector)
            return self.vector
        scatter_add(self._point, residual, self._local)
        self.comm.Allgatherv(self._local, self._target)
        scatter_add(self._all_ids, self._all, self.vector)
        return self.vector

    def gather_local(self, vector: Field, correction: Field) -> None:
        """Set the correction to the values of the vector at this rank's points."""
        gather(self._ids, vector, correction)


def line_pair(fine: PolynomialLevel, coarse: PolynomialLevel, axis: int) -> tuple[Array, Array]:
    """Return the assembled stiffness and mass [N, N] of one direction (0: z), with the quadrature of `fine`."""
    lengths = np.diff(coarse.box.edges[axis])
    derivative, weights = fine.derivatives[axis], fine.weights[axis]
    j = gll_interpolation(coarse.n[axis], fine.n[axis])
    stiffness = j.T @ (derivative.T @ (weights[:, None] * derivative)) @ j
    mass = j.T @ (weights[:, None] * j)
    size, order = coarse.lattice[axis], coarse.orders[axis]
    pair = np.zeros((2, size, size))
    for element, length in enumerate(lengths):
        places = (element * order + np.arange(order + 1)) % size
        at = (places[:, None], places[None, :])
        np.add.at(pair[0], at, stiffness * 2.0 / length)
        np.add.at(pair[1], at, mass * length / 2.0)
    return pair[0], pair[1]


class DirectCoarse:
    """K^-1 on the lattice of the coarse level; the pseudo-inverse if constants are free."""

    def __init__(
        self, comm: MPI.Comm, fine: PolynomialLevel, coarse: PolynomialLevel, dtype: DTypeLike
    ) -> None:
        self._whole = WholeVector(comm, coarse, dtype)
        self._lattice = coarse.lattice
        vectors: list[Array] = []
        values: list[Array] = []
        for axis in range(3):
            stiffness, mass = line_pair(fine, coarse, axis)
            kept = np.ones(len(mass), np.bool_)
            kept[0] = f"{'zyx'[axis]}_min" not in coarse.dirichlet_sides
            kept[-1] &= f"{'zyx'[axis]}_max" not in coarse.dirichlet_sides
            at = np.ix_(kept, kept)
            s, full = np.zeros_like(mass), np.ones(len(mass))
            inner = np.flatnonzero(kept)
            if len(inner):
                value, vector = scipy.linalg.eigh(stiffness[at], mass[at])
                # A single periodic element has only the eigenvalue 0, up to rounding. Others are above (pi/2L)^2,
                # where L is the length of the direction.
                length = float(np.ptp(coarse.box.edges[axis]))
                value[value < max(ZERO * value.max(), LEAST / length**2)] = 0.0
                s[np.ix_(inner, np.arange(len(inner)))] = vector
                full[: len(inner)] = value
            vectors.append(s)
            values.append(full)
        self._vectors = [np.ascontiguousarray(s, dtype) for s in vectors]
        self._transposed = [np.ascontiguousarray(s.T, dtype) for s in vectors]
        z, y, x = values
        total = z[:, None, None] + y[None, :, None] + x[None, None, :]
        inverse = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
        self._inverse: NDArray[Any] = inverse.astype(dtype)
        self._a, self._b = (np.zeros(self._lattice, dtype) for _ in range(2))

    def _transform(self, u: Field, z: Field, y: Field, x: Field) -> Field:
        """Return (M_z x M_y x M_x) u; overwrites the buffers a and b and returns a."""
        nz, ny, nx = self._lattice
        np.matmul(u.reshape(nz * ny, nx), x.T, out=self._a.reshape(nz * ny, nx))
        np.matmul(y, self._a, out=self._b)
        np.matmul(z, self._b.reshape(nz, ny * nx), out=self._a.reshape(nz, ny * nx))
        return self._a

    def solve(self, residual: Field, correction: Field) -> None:
        """Set the correction to K^-1 of the assembled residual; its mean is zero if constants are free."""
        vector = self._whole.assemble(residual)
        a = self._transform(vector, *self._transposed)
        np.multiply(a, self._inverse, out=self._b)
        vector.reshape(self._lattice)[...] = self._b
        a = self._transform(vector, *self._vectors)
        self._whole.gather_local(a.reshape(-1), correction)

    def describe(self) -> str:
        return f"direct solver on {' x '.join(map(str, self._lattice))} points (z, y, x)"
