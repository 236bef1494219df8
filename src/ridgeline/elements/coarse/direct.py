"""Direct solution of the coarse problem of a separable box: fast diagonalisation on the global lattice.

K = A_z x B_y x B_x + B_z x A_y x B_x + B_z x B_y x A_x with one-dimensional Galerkin matrices; see
`fast_diagonalisation`. Every rank solves all of it: 4 N (N_z + N_y + N_x) flops for N = N_z N_y N_x points.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
from numpy.typing import DTypeLike, NDArray

from ridgeline.elements.coarse.whole_vector import Field, WholeVector
from ridgeline.elements.multigrid.fast_diagonalisation import ZERO
from ridgeline.elements.multigrid.level import PolynomialLevel
from ridgeline.elements.quadrature import gll_interpolation

if TYPE_CHECKING:
    from mpi4py import MPI

Array = NDArray[np.float64]

LEAST = 1e-3  # of an eigenvalue times L^2 that is not 0


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
                # A single element that closes on itself has the eigenvalue 0 alone, up to rounding; others are above
                # (pi/2L)^2, L the length of the direction.
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
        self._whole.take(a.reshape(-1), correction)

    def describe(self) -> str:
        """Return one line that says what it is."""
        return f"direct on {' x '.join(map(str, self._lattice))} points (z, y, x)"
