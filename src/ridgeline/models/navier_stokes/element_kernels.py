"""The compiled element operators of the Navier-Stokes step, with the geometry they take; work in closed form.

No communication. All results are those of each element alone ("unassembled").
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.advection import fine_metrics, make_advection, make_advection_collocated
from ridgeline.elements.courant import inverse_spacing, make_courant
from ridgeline.elements.geometry import ElementGeometry
from ridgeline.elements.mesh import ElementGrid
from ridgeline.elements.quadrature import derivative_matrix, gauss, gauss_interpolation, gauss_lobatto
from ridgeline.elements.tensor import PRODUCTS
from ridgeline.models.navier_stokes.kernels import make_force_divergence, make_momentum
from ridgeline.models.navier_stokes.problem import Array, FlowProblem, bubble_filter

WORD = 8.0  # bytes


class ElementKernels:
    """Operators on the fields of this rank's elements."""

    def __init__(
        self, grid: ElementGrid, geometry: ElementGeometry, problem: FlowProblem, n_fields: int
    ) -> None:
        dealias_points = problem.dealias_points
        self.grid, self.geometry, self.m, self.n_fields = grid, geometry, dealias_points, n_fields
        n, aligned = grid.n, geometry.axis_aligned
        products = PRODUCTS[problem.products]
        self.elements = np.arange(grid.n_elements, dtype=np.int64)
        self._force_divergence = make_force_divergence(n, aligned, products)
        self._momentum = make_momentum(n, aligned, products)
        g = geometry
        self._metric = (g.scale, g.volume, g.metrics, g.mass, g.derivative, g.weights)
        points = gauss_lobatto(n)[0]
        self._courant = make_courant(n, aligned)
        self._inverse_spacing = inverse_spacing(points)
        self._filter = np.eye(n)
        if problem.filter_weight:
            self._filter = bubble_filter(points, problem.filter_weight, problem.filter_modes)
        if dealias_points:
            fine_points, fine_weights = gauss(dealias_points)
            to_fine = gauss_interpolation(n, dealias_points)
            fine = np.empty((0, 9, 1, 1, 1))
            if not aligned:
                fine = fine_metrics(g.metrics, g.mass, g.weights, to_fine, fine_weights)
            self._advection = make_advection(n, dealias_points, "float64", aligned, products)
            self._fine = (g.scale, g.volume, fine, to_fine, derivative_matrix(fine_points), fine_weights)
        else:
            self._advection = make_advection_collocated(n, "float64", aligned, products)
            self._fine = self._metric

    def advection(self, velocity: Array, fields: Array, out: Array) -> None:
        """Set out [c, E, n, n, n] to (v, u.grad f) of fields [c, ...]; velocity [3, ...] may be their beginning."""
        self._advection(self.elements, velocity, fields, *self._fine, out)

    def force_divergence(self, force: Array, inverse_mass: Array, out: Array) -> None:
        """Set out to (grad q, inverse_mass force); force: an assembled weak vector [3, E, n, n, n]."""
        self._force_divergence(self.elements, force, inverse_mass, *self._metric, out)

    def momentum(self, elements: NDArray[np.int64], p: Array, force: Array, share: Array, out: Array) -> None:
        """Set elements of out [3, E, n, n, n] to share force - mass grad p."""
        self._momentum(elements, p, force, share, *self._metric, out)

    def courant(self, velocity: Array) -> float:
        """Return max(|u_r| / dr + |u_s| / ds + |u_t| / dt) over this rank's points: the Courant number over dt."""
        g = self.geometry
        return float(self._courant(self.elements, velocity, g.scale, g.metrics, self._inverse_spacing))

    def filter(self, fields: Array) -> None:
        """Apply the explicit filter in all directions, in place."""
        f = self._filter
        for field in fields:
            for element in field:
                along = f @ (element @ f.T)
                element[...] = (f @ along.reshape(len(f), -1)).reshape(element.shape)

    def _points(self) -> float:
        return float(self.grid.n_points)

    def _curved(self, words: float) -> float:
        """Return words per point that curved elements read beside the fields."""
        return 0.0 if self.geometry.axis_aligned else words

    def advection_work(self) -> tuple[float, float]:
        """Return flops and least bytes: fields in (velocity among them), rates out, fine metrics of curved ones."""
        n, m, c = self.grid.n, self.m or self.grid.n, self.n_fields
        if self.m:
            to_fine = 2.0 * (m * n**3 + m**2 * n**2 + m**3 * n)  # and back
            derivatives = 2.0 * (2 * m**4 + m**3 * n)
        else:
            to_fine, derivatives = 0.0, 6.0 * n**4
        per_element = c * (2 * to_fine + derivatives + 6 * m**3)
        words = 2 * c + self._curved(9 * (m / n) ** 3)
        return self.grid.n_elements * per_element, WORD * words * self._points()

    def divergence_work(self) -> tuple[float, float]:
        """Return flops and least bytes of `force_divergence`."""
        n = self.grid.n
        flops = (6.0 * n + 4 + self._curved(18)) * self._points()
        return flops, WORD * (5 + self._curved(10)) * self._points()

    def momentum_work(self) -> tuple[float, float]:
        """Return flops and least bytes of `momentum`."""
        n = self.grid.n
        flops = (6.0 * n + 12 + self._curved(15)) * self._points()
        return flops, WORD * (8 + self._curved(10)) * self._points()
