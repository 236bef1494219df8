"""Hybrid Schwarz multigrid in plain NumPy, serial, on vectors of distinct points: the oracle of `cycle`.

It is written to be read. R_e selects the points of element e and one layer of each face neighbour from the global
vector. K_e^-1 is the fast diagonalisation there, W is damping over the number of overlaps, and

    S_l r = W sum_e R_e^T K_e^-1 R_e r;    z = S r;   z += J V(J^T (r - K z)),   V on the coarsest level: pinv.

Sources: Lottes and Fischer, J. Sci. Comput. 24 (2005) 45; Fischer and Lottes (2005); Hadri et al., Sec. 2.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.mesh import BoxMesh
from ridgeline.elements.multigrid.fast_diagonalisation import eigenpairs, extended_operators, line_problems
from ridgeline.elements.multigrid.level import PolynomialLevel, apply_tensor, galerkin_matrices
from ridgeline.elements.quadrature import gll_interpolation
from ridgeline.parallel.partition import Triple

Array = NDArray[np.float64]
Indices = NDArray[np.int64]


class ReferenceLevel(PolynomialLevel):
    """One set of orders: operator, restriction to extended elements, and the additive Schwarz sweep on [n_unique]."""

    def __init__(self, mesh: BoxMesh, orders: Triple, dirichlet_sides: tuple[str, ...]) -> None:
        super().__init__(mesh, mesh.range(0, mesh.n_elements), orders, dirichlet_sides)
        self.free = np.ones(self.n_unique, np.bool_)
        self.free[self.ids[self.constrained]] = False

    def prepare_schwarz(self) -> None:
        """Find the points of the extended elements, their eigenpairs and overlaps."""
        size, n = self.shape[0], self.n
        neighbours = self.mesh.neighbours(self.positions)
        local = np.empty(size, np.int64)
        local[self.mesh.numbers(self.positions)] = np.arange(size)
        # Points beyond the mesh have the number n_unique, a place that is ignored.
        points = np.full((size, n[0] + 2, n[1] + 2, n[2] + 2), self.n_unique)
        inside = slice(1, -1)
        points[:, inside, inside, inside] = self.ids
        for column in range(6):
            direction, upper = divmod(column, 2)
            axis = 2 - direction
            there = neighbours[:, column] >= 0
            inner = 1 if upper else n[axis] - 2
            place: list[slice | int | NDArray[np.bool_]] = [there, inside, inside, inside]
            place[1 + axis] = n[axis] + 1 if upper else 0
            points[tuple(place)] = np.take(self.ids[local[neighbours[there, column]]], inner, axis=1 + axis)
        self.extended = points
        lengths, kinds = line_problems(self.mesh, self.positions, self.dirichlet_sides)
        pairs = [eigenpairs(*extended_operators(n[2 - a], lengths[:, a], kinds[:, a])) for a in range(3)]
        self.vectors = [vectors for vectors, _ in pairs]
        l_x, l_y, l_z = (values for _, values in pairs)
        total = l_z[:, :, None, None] + l_y[:, None, :, None] + l_x[:, None, None, :]
        self.inverse = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
        self.weight = 1.0 / np.bincount(points.ravel(), minlength=self.n_unique + 1)[:-1]

    def assemble(self, u: Array) -> Array:
        """Return the vector of sums over the elements [e, n, n, n]."""
        return np.asarray(np.bincount(self.ids.ravel(), u.ravel(), self.n_unique), np.float64)

    def operator(self, v: Array) -> Array:
        """Return K v; rows of Dirichlet points are zero."""
        return np.where(self.free, self.assemble(self.stiffness(v[self.ids])), 0.0)

    def schwarz(self, r: Array) -> Array:
        """Return S r."""
        s_x, s_y, s_z = self.vectors
        u = np.append(r, 0.0)[self.extended]
        u = apply_tensor([s.transpose(0, 2, 1) for s in (s_z, s_y, s_x)], u) * self.inverse
        u = apply_tensor((s_z, s_y, s_x), u)
        return np.bincount(self.extended.ravel(), u.ravel(), self.n_unique + 1)[:-1] * self.weight


class ReferenceMultigrid:
    """The preconditioner z = M r of the stiffness matrix on `mesh`. orders: triples (z, y, x), descending.

    damping: factor of the Schwarz sweep of each level but the coarse one.
    """

    def __init__(
        self,
        mesh: BoxMesh,
        orders: Sequence[Triple],
        dirichlet_sides: tuple[str, ...],
        damping: Sequence[float],
    ) -> None:
        self.levels = [ReferenceLevel(mesh, triple, dirichlet_sides) for triple in orders]
        for place, level in enumerate(self.levels[:-1]):
            level.prepare_schwarz()
            level.weight *= damping[place]
        self.prolong = [
            [gll_interpolation(a + 1, b + 1) for a, b in zip(coarse, fine)]
            for fine, coarse in pairwise(orders)
        ]
        # The coarse matrix is J^T K J of the level before the last, dense [points, points].
        coarse = self.levels[-1]
        matrix = np.zeros((coarse.n_unique, coarse.n_unique))
        ids = coarse.ids.reshape(coarse.shape[0], -1)
        np.add.at(matrix, (ids[:, :, None], ids[:, None, :]), galerkin_matrices(self.levels[-2], coarse))
        matrix = np.where(coarse.free[:, None] & coarse.free[None, :], matrix, 0.0)
        self.coarse = np.linalg.pinv(matrix, hermitian=True, rcond=1e-12)

    def _cycle(self, place: int, r: Array) -> Array:
        level = self.levels[place]
        if place == len(self.levels) - 1:
            return self.coarse @ r
        below, j = self.levels[place + 1], self.prolong[place]
        z = level.schwarz(r)
        left = r - level.operator(z)
        # Each copy of a point gets its share of the residual.
        left /= np.bincount(level.ids.ravel())
        r_below = below.assemble(apply_tensor([m.T for m in j], left[level.ids]))
        z_below = self._cycle(place + 1, np.where(below.free, r_below, 0.0))
        correction = np.empty(level.n_unique)
        correction[level.ids] = apply_tensor(j, z_below[below.ids])
        z += correction
        return z

    def apply(self, r: Array) -> Array:
        """Return z = M r: float64 [n_unique], r zero on Dirichlet sides."""
        return self._cycle(0, r)
