"""One level of multigrid: the elements with their own number of points along each direction.

Orders are triples (z, y, x), because long thin elements are coarsened along their short directions first. Everything
is computed from the mesh in closed form, on any rank, without communication.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.mesh import BoxMesh
from ridgeline.elements.mesh_protocol import Array, Indices, Mesh
from ridgeline.elements.quadrature import gauss_lobatto, gll_derivative, gll_interpolation
from ridgeline.parallel.partition import Triple
from ridgeline.runtime.errors import ConfigError

Line = tuple[Array, Array, Array]


def apply_tensor(matrices: Sequence[Array], u: Array) -> Array:
    """Return (M_z x M_y x M_x) u for elements u [e, z, y, x].

    matrices: M_z, M_y, M_x [to, from], or [e, to, from] for a matrix of each element.
    """
    matrix_z, matrix_y, matrix_x = matrices
    u = u @ np.swapaxes(matrix_x, -1, -2)[..., None, :, :]
    u = matrix_y[..., None, :, :] @ u
    flat = u.reshape(*u.shape[:2], -1)
    return np.asarray((matrix_z @ flat).reshape(len(u), -1, *u.shape[2:]))


class PolynomialLevel:
    """Points, numbering and operator of some elements at orders (z, y, x), in float64, for set-up and reference.

    positions: int64, of the elements in the mesh. n: points along (z, y, x). Memory: 6 or 7 numbers a point on a
    mapped mesh, otherwise 4 numbers an element.
    """

    def __init__(
        self, mesh: Mesh, positions: Indices, orders: Triple, dirichlet_sides: Sequence[str]
    ) -> None:
        self.mesh, self.positions, self.orders = mesh, positions, orders
        self.dirichlet_sides = tuple(dirichlet_sides)
        nz, ny, nx = (order + 1 for order in orders)
        self.n: Triple = (nz, ny, nx)
        self.shape = (len(positions), nz, ny, nx)
        self.n_unique = mesh.n_unique(orders)
        self.derivatives: Line = tuple(gll_derivative(n) for n in self.n)  # type: ignore[assignment]
        self.weights: Line = tuple(gauss_lobatto(n)[1] for n in self.n)  # type: ignore[assignment]

    @property
    def box(self) -> BoxMesh:
        """The mesh, which must be a box."""
        assert isinstance(self.mesh, BoxMesh)
        return self.mesh

    @property
    def lattice(self) -> Triple:
        """Distinct points of a box along (z, y, x)."""
        return self.box.lattice(self.orders)

    @cached_property
    def ids(self) -> Indices:
        """Global numbers of the points, int64 [E, n_z, n_y, n_x]; equal where elements share a point."""
        return self.mesh.ids(self.positions, self.orders)

    @cached_property
    def constrained(self) -> NDArray[np.bool_]:
        """Which points lie on a Dirichlet side, bool [E, n_z, n_y, n_x]."""
        constrained = np.zeros(self.shape, np.bool_)
        for side in self.dirichlet_sides:
            constrained |= self.mesh.on_side(self.positions, side, self.n)
        return constrained

    @cached_property
    def cube(self) -> Array:
        """Quadrature weights of the reference element, [n_z, n_y, n_x]."""
        return np.asarray(np.einsum("k,j,i->kji", *self.weights))

    @cached_property
    def diagonal_factors(self) -> Array:
        """For axis-aligned elements: volume (dr/dx)^2, (ds/dy)^2, (dt/dz)^2 without weights, [E, 3]."""
        lengths = self.mesh.box_lengths(self.positions)
        return np.asarray(lengths.prod(axis=1)[:, None] / 8.0 * (2.0 / lengths) ** 2)

    @cached_property
    def factors(self) -> Array:
        """For mapped elements: G_rr, G_rs, G_rt, G_ss, G_st, G_tt with weight and Jacobian, [E, 6, n_z, n_y, n_x].

        Raises ConfigError if the elements' map folds at this order.
        """
        points = tuple(gauss_lobatto(n)[0] for n in self.n)
        factors = np.empty((self.shape[0], 6, *self.n))
        step = max(1, 2**17 // int(np.prod(self.n)))
        for start in range(0, self.shape[0], step):
            part = slice(start, min(start + step, self.shape[0]))
            places = self.mesh.places(self.positions[part], points)  # type: ignore[arg-type]
            x_r, x_s, x_t = (np.stack(t) for t in zip(*(self.gradient(c) for c in places)))
            rows = [np.cross(a, b, axis=0) for a, b in ((x_s, x_t), (x_t, x_r), (x_r, x_s))]
            jacobian = (x_r * rows[0]).sum(axis=0)
            if not (jacobian > 0).all():
                raise ConfigError(
                    f"the mapping of the mesh folds an element at order {self.orders} (z, y, x) of the pressure "
                    f"preconditioner. Use more elements or a smoother mapping."
                )
            pairs = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))
            for place, (a, b) in enumerate(pairs):
                factors[part, place] = self.cube / jacobian * (rows[a] * rows[b]).sum(axis=0)
        return factors

    def gradient(self, u: Array) -> tuple[Array, Array, Array]:
        """Return (u_r, u_s, u_t) of a field [e, n_z, n_y, n_x]."""
        d_z, d_y, d_x = self.derivatives
        along_t = (d_z @ u.reshape(*u.shape[:2], -1)).reshape(u.shape)
        return u @ d_x.T, d_y @ u, along_t

    def stiffness(self, u: Array) -> Array:
        """Return the unassembled K_e u_e of a field [E, n_z, n_y, n_x]."""
        u_r, u_s, u_t = self.gradient(u)
        if self.mesh.axis_aligned:
            f_r, f_s, f_t = (
                self.cube * factor[:, None, None, None] * g
                for factor, g in zip(self.diagonal_factors.T, (u_r, u_s, u_t))
            )
        else:
            rr, rs, rt, ss, st, tt = (self.factors[:, a] for a in range(6))
            f_r = rr * u_r + rs * u_s + rt * u_t
            f_s = rs * u_r + ss * u_s + st * u_t
            f_t = rt * u_r + st * u_s + tt * u_t
        d_z, d_y, d_x = self.derivatives
        along_t = (d_z.T @ f_t.reshape(*f_t.shape[:2], -1)).reshape(u.shape)
        return np.asarray(f_r @ d_x + d_y.T @ f_s + along_t)


def galerkin_matrices(fine: PolynomialLevel, coarse: PolynomialLevel) -> Array:
    """Return J^T K_e J of every element, float64 [E, c, c] with c points of a coarse element, z slowest."""
    matrices = [gll_interpolation(a, b) for a, b in zip(coarse.n, fine.n)]
    c = int(np.prod(coarse.n))
    products = np.empty((coarse.shape[0], c, c))
    for column in range(c):
        unit = np.zeros((1, c))
        unit[0, column] = 1.0
        shape = apply_tensor(matrices, unit.reshape(1, *coarse.n))
        force = fine.stiffness(np.broadcast_to(shape, fine.shape))
        products[:, :, column] = apply_tensor([m.T for m in matrices], force).reshape(-1, c)
    return (products + products.transpose(0, 2, 1)) / 2.0


def level_orders(order: int, lengths: Sequence[float]) -> list[Triple]:
    """Return the orders (z, y, x) of the levels of multigrid for elements of typical lengths (z, y, x).

    The order along the shortest direction is halved from p down to 1. The other directions keep points as dense in
    physical space, up to order p, because a sweep over elements does not reduce a mode that is rough along a long
    direction and smooth across thin elements. Up to an aspect ratio of 2 all directions are coarsened alike.
    """
    ratios = np.asarray(lengths) / min(lengths)
    bases, q = [], order
    while q > 5 or (q == order and q > 3):
        q //= 2
        bases.append(q)
    levels: list[Triple] = [(order,) * 3]
    for base in (*bases, 1):
        kept = ratios * (base if base > 1 else 2.0 / 3.0)
        z, y, x = (int(min(order, max(base, np.floor(k + 0.5 - 1e-6)))) for k in kept)
        if (z, y, x) != levels[-1]:
            levels.append((z, y, x))
    # At order 1 there is one sweep besides the coarse solve.
    return levels if len(levels) > 1 else levels * 2
