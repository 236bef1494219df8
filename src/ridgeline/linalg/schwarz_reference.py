"""Hybrid Schwarz multigrid in plain NumPy, serial, on vectors of distinct points: the oracle of the fast one.

Written to be read. Every level is what its matrices say: R_e takes the points of element e and one layer of each face
neighbour out of the global vector, K_e^-1 is the fast diagonalisation there, W is the inverse count of overlaps, and

    S_l r = W sum_e R_e^T K_e^-1 R_e r;    z = S r;    z += J V(J^T (r - K z)),    V on the coarsest level: Q1 by pinv.

Sources: Lottes and Fischer, J. Sci. Comput. 24 (2005) 45; Fischer and Lottes (2005); Hadri et al., Sec. 2.4.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ridgeline.grid.element import ElementGrid, ElementMesh, side_index
from ridgeline.grid.geometry import Geometry, reference_gradient
from ridgeline.grid.quadrature import gll_interpolation
from ridgeline.linalg.fast_diagonalisation import (
    eigenpairs,
    extended_operators,
    line_problems,
    neighbour_numbers,
)

Array = NDArray[np.float64]
Indices = NDArray[np.int64]


def apply_tensor(matrix_z: Array, matrix_y: Array, matrix_x: Array, u: Array) -> Array:
    """Return (M_z x M_y x M_x) u for elements u [e, z, y, x]; matrices [to, from] or one per element [e, to, from]."""
    u = u @ np.swapaxes(matrix_x, -1, -2)[..., None, :, :]
    u = matrix_y[..., None, :, :] @ u
    flat = u.reshape(*u.shape[:2], -1)
    return np.asarray((matrix_z @ flat).reshape(len(u), -1, *u.shape[2:]))


def element_stiffness(geometry: Geometry, u: Array) -> Array:
    """Return the unassembled stiffness K_e u_e, [e, n, n, n]."""
    d = geometry.derivative
    u_r, u_s, u_t = reference_gradient(u, d)
    if geometry.axis_aligned:
        scale = geometry.scale[:, :, None, None, None] ** 2
        f_r, f_s, f_t = (geometry.mass * scale[:, a] * g for a, g in enumerate((u_r, u_s, u_t)))
    else:
        rr, rs, rt, ss, st, tt = (geometry.factors[:, a] for a in range(6))
        f_r = rr * u_r + rs * u_s + rt * u_t
        f_s = rs * u_r + ss * u_s + st * u_t
        f_t = rt * u_r + st * u_s + tt * u_t
    flat = f_t.reshape(*f_t.shape[:2], -1)
    return np.asarray(f_r @ d + d.T @ f_s + (d.T @ flat).reshape(u.shape))


def constrained_points(grid: ElementGrid, dirichlet_sides: Sequence[str]) -> NDArray[np.bool_]:
    """Return which points of this rank's elements lie on a Dirichlet side, bool [E, n, n, n]."""
    found = np.zeros(grid.shape, np.bool_)
    for side in dirichlet_sides:
        face = np.zeros(grid.shape, np.bool_)
        face[side_index(side)] = True
        at_side = np.zeros(grid.n_elements, np.bool_)
        at_side[grid.side_elements(side)] = True
        found |= face & at_side[:, None, None, None]
    return found


class ReferenceLevel:
    """One order: operator, restriction to extended elements, and the additive Schwarz sweep. Vectors [n_unique]."""

    def __init__(self, mesh: ElementMesh, order: int, dirichlet_sides: tuple[str, ...]) -> None:
        self.grid = grid = ElementGrid(mesh, order)
        self.geometry = Geometry(grid)
        self.n_unique = grid.n_unique
        self.ids = grid.ids
        self.free = np.ones(self.n_unique, np.bool_)
        self.free[self.ids[constrained_points(grid, dirichlet_sides)]] = False
        if order > 1:
            self._schwarz(mesh, dirichlet_sides)

    def _schwarz(self, mesh: ElementMesh, dirichlet_sides: tuple[str, ...]) -> None:
        grid, n = self.grid, self.grid.n
        neighbours = neighbour_numbers(mesh, grid.positions)
        local = np.full(grid.n_elements + 1, -1)
        local[grid.number] = np.arange(grid.n_elements)
        lines = np.full(
            (grid.n_elements, n + 2, n + 2, n + 2), self.n_unique
        )  # one place more: takes no part
        inside = slice(1, -1)
        lines[:, inside, inside, inside] = self.ids
        for column in range(6):
            direction, upper = divmod(column, 2)
            axis = 3 - direction
            there = neighbours[:, column] >= 0
            layer = np.take(self.ids[local[neighbours[there, column]]], 1 if upper else n - 2, axis=axis)
            place: list[slice | int | NDArray[np.bool_]] = [there, inside, inside, inside]
            place[axis] = n + 1 if upper else 0
            lines[tuple(place)] = layer
        self.extended = lines
        lengths, kinds = line_problems(mesh, grid.positions, dirichlet_sides)
        pairs = [eigenpairs(*extended_operators(n, lengths[:, a], kinds[:, a])) for a in range(3)]
        self.vectors = [vectors for vectors, _ in pairs]
        x, y, z = (values for _, values in pairs)
        total = z[:, :, None, None] + y[:, None, :, None] + x[:, None, None, :]
        self.inverse = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
        count = np.bincount(lines.ravel(), minlength=self.n_unique + 1)[:-1]
        self.weight = 1.0 / count

    def assemble(self, u: Array) -> Array:
        """Return the vector of sums over the elements [e, n, n, n]."""
        return np.bincount(self.ids.ravel(), u.ravel(), self.n_unique)

    def operator(self, v: Array) -> Array:
        """Return K v; rows of Dirichlet points are zero."""
        return np.where(self.free, self.assemble(element_stiffness(self.geometry, v[self.ids])), 0.0)

    def schwarz(self, r: Array) -> Array:
        """Return S r."""
        s_x, s_y, s_z = self.vectors
        u = np.append(r, 0.0)[self.extended]
        u = apply_tensor(*(s.transpose(0, 2, 1) for s in (s_z, s_y, s_x)), u) * self.inverse
        u = apply_tensor(s_z, s_y, s_x, u)
        return np.bincount(self.extended.ravel(), u.ravel(), self.n_unique + 1)[:-1] * self.weight


class ReferenceMultigrid:
    """The preconditioner z = M r of the stiffness matrix on `mesh`. orders: descending, the last is 1."""

    def __init__(
        self,
        mesh: ElementMesh,
        orders: Sequence[int],
        dirichlet_sides: tuple[str, ...] = (),
        post_smoothing: bool = False,
    ) -> None:
        self.levels = [ReferenceLevel(mesh, order, dirichlet_sides) for order in orders]
        self.prolong = [gll_interpolation(a + 1, b + 1) for b, a in zip(orders[:-1], orders[1:])]
        self.post_smoothing = post_smoothing
        self.coarse = np.linalg.pinv(self._coarse_matrix(), hermitian=True, rcond=1e-12)

    def _coarse_matrix(self) -> Array:
        """Return J^T K J of the order above 1, dense [vertices, vertices]."""
        fine, coarse = self.levels[max(0, len(self.levels) - 2)], self.levels[-1]
        j = gll_interpolation(2, fine.grid.n)
        matrix = np.zeros((coarse.n_unique, coarse.n_unique))
        ids = coarse.ids.reshape(-1, 8)
        for corner in range(8):
            unit = np.zeros((len(ids), 8))
            unit[:, corner] = 1.0
            column = element_stiffness(fine.geometry, apply_tensor(j, j, j, unit.reshape(-1, 2, 2, 2)))
            rows = apply_tensor(j.T, j.T, j.T, column).reshape(-1, 8)
            np.add.at(matrix, (ids, ids[:, [corner]]), rows)
        free = coarse.free
        return np.where(free[:, None] & free[None, :], matrix, 0.0)

    def _cycle(self, place: int, r: Array) -> Array:
        level = self.levels[place]
        if place == len(self.levels) - 1:
            return self.coarse @ r
        below, j = self.levels[place + 1], self.prolong[place]
        z = level.schwarz(r)
        left = r - level.operator(z)
        left /= np.bincount(level.ids.ravel())  # each copy carries its share of the residual
        r_below = below.assemble(apply_tensor(j.T, j.T, j.T, left[level.ids]))
        z_below = self._cycle(place + 1, np.where(below.free, r_below, 0.0))
        correction = np.empty(level.n_unique)
        correction[level.ids] = apply_tensor(j, j, j, z_below[below.ids])
        z += correction
        if self.post_smoothing:
            z += level.schwarz(r - level.operator(z))
        return z

    def apply(self, r: Array) -> Array:
        """Return z = M r: float64 [n_unique], r zero on Dirichlet sides."""
        return self._cycle(0, r)
