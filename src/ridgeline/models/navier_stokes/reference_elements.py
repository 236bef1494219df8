"""Operators on spectral elements in NumPy, with assembled SciPy matrices: what the reference solver is made of.

Fields are float64 [E, n, n, n] = (element, z, y, x); "unassembled" is one element's contribution to a weak form.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import splu

from ridgeline.elements.mesh import ElementGrid, side_axis, side_index
from ridgeline.elements.quadrature import gauss, gauss_interpolation, gauss_lobatto, gll_derivative
from ridgeline.models.navier_stokes.problem import Array

Flags = NDArray[np.bool_]


class Elements:
    """Operators on all elements of a mesh, and their assembled matrices."""

    def __init__(self, grid: ElementGrid) -> None:
        n = self.n = grid.n
        self.grid = grid
        self.points, self.weights = gauss_lobatto(n)
        self.derivative = gll_derivative(n)
        self.coordinates = grid.coordinates
        self.ids = grid.ids
        tangent = np.stack([self.reference_gradient(c) for c in self.coordinates])  # [x, r, e, z, y, x]
        self.jacobian = np.linalg.det(np.moveaxis(tangent, (0, 1), (-2, -1)))
        inverse = np.linalg.inv(np.moveaxis(tangent, (0, 1), (-2, -1)))
        self.metrics = np.moveaxis(inverse, (-2, -1), (0, 1))  # d r / d x: [r, x, e, z, y, x]
        self.mass = self.jacobian * np.einsum("k,j,i->kji", *[self.weights] * 3)
        self.assembled_mass = self.assemble(self.mass)
        self.volume = float(self.mass.sum())

    def assemble(self, weak: Array) -> Array:
        """Return weak with the contributions of all elements to a point added, for [..., E, n, n, n]."""
        total = np.zeros((*weak.shape[:-4], self.grid.n_unique))
        for index in np.ndindex(weak.shape[:-4]):
            np.add.at(total[index], self.ids, weak[index])
        return total[..., self.ids]

    def reference_gradient(self, u: Array) -> Array:
        """Return d u / d(r, s, t), [3, ..., E, n, n, n]."""
        d = self.derivative
        along = ("il,...l->...i", "jl,...li->...ji", "kl,...lji->...kji")
        return np.stack([np.einsum(how, d, u) for how in along])

    def gradient(self, u: Array) -> Array:
        """Return d u / d(x, y, z), [3, E, n, n, n]."""
        return np.asarray(np.einsum("rx...,r...->x...", self.metrics, self.reference_gradient(u)))

    def weak_divergence(self, f: Array, weighted: bool = False) -> Array:
        """Return (grad q, f) for every q, unassembled. weighted: f holds the weights of the quadrature already."""
        flux = np.einsum("rx...,x...->r...", self.metrics, f) * (1.0 if weighted else self.mass)
        d = self.derivative
        along = ("li,...l->...i", "lj,...li->...ji", "lk,...lji->...kji")
        return np.asarray(sum(np.einsum(how, d, c) for how, c in zip(along, flux)))

    def curl(self, u: Array) -> Array:
        """Return curl u, [3, E, n, n, n], made continuous by the mean over elements, weighted by mass."""
        g = np.stack([self.gradient(c) for c in u])  # [component, derivative]
        curl = np.stack([g[2, 1] - g[1, 2], g[0, 2] - g[2, 0], g[1, 0] - g[0, 1]])
        return self.assemble(curl * self.mass) / self.assembled_mass

    def advection(self, velocity: Array, f: Array, m: int) -> Array:
        """Return (v, u.grad f), unassembled, integrated on m Gauss points per direction; m = 0: on the points."""
        flux = np.einsum("rx...,x...->r...", self.metrics * self.jacobian, velocity)
        if m == 0:
            cube = np.einsum("k,j,i->kji", *[self.weights] * 3)
            return np.asarray((flux * self.reference_gradient(f)).sum(0) * cube)
        to = gauss_interpolation(self.n, m)
        cube = np.einsum("k,j,i->kji", *[gauss(m)[1]] * 3)

        def fine(u: Array) -> Array:
            return np.asarray(np.einsum("kc,jb,ia,...cba->...kji", to, to, to, u, optimize=True))

        contravariant = np.einsum("rx...,x...->r...", fine(self.metrics * self.jacobian), fine(velocity))
        product = (contravariant * fine(self.reference_gradient(f))).sum(0) * cube
        return np.asarray(np.einsum("kc,jb,ia,...kji->...cba", to, to, to, product, optimize=True))

    def stiffness(self) -> sparse.csr_matrix:
        """Return the assembled matrix of (grad q, grad u) on the distinct points."""
        n_elements = self.grid.n_elements
        eye, d = sparse.identity(self.n), sparse.csr_matrix(self.derivative)
        cubes = (
            sparse.kron(eye, sparse.kron(eye, d)),
            sparse.kron(eye, sparse.kron(d, eye)),
            sparse.kron(sparse.kron(d, eye), eye),
        )
        along = [sparse.kron(sparse.identity(n_elements), cube, format="csr") for cube in cubes]
        total = 0
        for x in range(3):
            gradient = sum(sparse.diags(self.metrics[r, x].ravel()) @ along[r] for r in range(3))
            total = total + gradient.T @ sparse.diags(self.mass.ravel()) @ gradient
        q = self.scatter()
        return sparse.csr_matrix(q.T @ total @ q)

    def scatter(self) -> sparse.csr_matrix:
        """Return the matrix from values at distinct points to those of the elements."""
        m = self.ids.size
        return sparse.csr_matrix((np.ones(m), (np.arange(m), self.ids.ravel())), (m, self.grid.n_unique))

    def normal_area(self, side: str) -> Array:
        """Return outward normal times area times quadrature weight at a side, [3, f, n, n]."""
        axis, upper = side_axis(side)
        chosen = self.grid.side_elements(side)
        face = (self.metrics * self.jacobian)[(2 - axis, slice(None), *side_index(side))][:, chosen]
        return np.asarray(face * np.outer(self.weights, self.weights) * (1.0 if upper else -1.0))

    def on_side(self, side: str, faces: Array) -> Array:
        """Return a field that is `faces` [..., f, n, n] on a side and zero elsewhere, unassembled."""
        field = np.zeros((*faces.shape[:-3], *self.grid.shape))
        chosen = np.zeros((*faces.shape[:-3], self.grid.n_elements, self.n, self.n))
        chosen[..., self.grid.side_elements(side), :, :] = faces
        field[(..., *side_index(side))] = chosen
        return field

    def at(self, side: str | None = None) -> tuple[Array, Array, Array]:
        """Return the coordinates (x, y, z) of all points, or of those of a side."""
        x, y, z = self.coordinates if side is None else self.face(side, self.coordinates)
        return x, y, z

    def ids_at(self, side: str) -> NDArray[np.int64]:
        """Return the numbers of the distinct points on a side, [f, n, n]."""
        return np.asarray(self.ids[side_index(side)][self.grid.side_elements(side)])

    def face(self, side: str, field: Array) -> Array:
        """Return the values of a field [..., E, n, n, n] on a side, [..., f, n, n]."""
        return np.asarray(field[(..., *side_index(side))][..., self.grid.side_elements(side), :, :])


class DirectSolver:
    """Solves A u = b on the free points of an assembled matrix; the fixed ones keep their Dirichlet values.

    singular: A u = 0 for constants; u is then 0 at one point, and b must have the sum 0.
    """

    def __init__(self, matrix: sparse.csr_matrix, fixed: Flags, singular: bool = False) -> None:
        free = np.flatnonzero(~fixed)
        self.free = free[1:] if singular else free
        self.matrix = matrix
        self.factors = splu(sparse.csc_matrix(matrix[self.free][:, self.free]))

    def solve(self, b: Array, dirichlet: Array) -> Array:
        """Return u with A u = b on the free points and u = dirichlet on the others, all [n_unique]."""
        u = dirichlet.copy()
        u[self.free] = 0.0
        u[self.free] = self.factors.solve((b - self.matrix @ u)[self.free])
        return u
