"""The compiled element operators of the Navier-Stokes step, with the geometry they take.

No communication. All results are those of each element alone ("unassembled").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.advection import fine_metrics, make_advection, make_advection_collocated
from ridgeline.elements.courant import inverse_spacing, make_courant
from ridgeline.elements.geometry import ElementGeometry
from ridgeline.elements.mesh import ElementGrid
from ridgeline.elements.quadrature import derivative_matrix, gauss, gauss_interpolation, gauss_lobatto
from ridgeline.elements.tensor import PRODUCTS
from ridgeline.models.navier_stokes.buoyancy import buoyancy_factors
from ridgeline.models.navier_stokes.extrapolation import levels_of_kernel
from ridgeline.models.navier_stokes.kernels import (
    make_buoyancy,
    make_force_divergence,
    make_momentum,
    make_weak_right_hand_side,
)
from ridgeline.models.navier_stokes.problem import Array, FlowProblem, bubble_filter


class ElementKernels:
    """Operators on the fields of this rank's elements. every: all elements, as operators on some take them."""

    def __init__(self, grid: ElementGrid, geometry: ElementGeometry, problem: FlowProblem) -> None:
        dealias_points = problem.dealias_points
        self.grid, self.geometry = grid, geometry
        n, aligned = grid.n, geometry.axis_aligned
        products = PRODUCTS[problem.products]
        self.elements = np.arange(grid.n_elements, dtype=np.int64)
        self.every = (self.elements,)
        self._right_hand_side = make_weak_right_hand_side()
        self._force_divergence = make_force_divergence(n, aligned, products)
        self._momentum = make_momentum(n, aligned, products)
        g = geometry
        self._metric = (g.scale, g.volume, g.metrics, g.mass, g.derivative, g.weights)
        w = g.weights
        self._mass = (
            g.volume,
            np.einsum("k,j,i->kji", w, w, w).reshape(-1),
            np.empty((0, n**3)) if aligned else g.mass.reshape(grid.n_elements, n**3),
        )
        self._buoyancy: Any = make_buoyancy() if problem.buoyant else None
        self._factors = buoyancy_factors(problem)
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

    def right_hand_side(
        self,
        elements: NDArray[np.int64],
        coefficients: tuple[Array, Array],
        force: Array,
        fields: Sequence[Array],
        rates: Sequence[Array],
        out: Array,
    ) -> None:
        """Set elements of out [c, E, n, n, n] to the unassembled known side of the step. One pass: 7 words per point.

        out = -a . rates - mass (b . fields - force). coefficients: a and b of `StepCoefficients`; force: [c]; fields,
        rates: of the levels that there are, newest first, as of `TimeLevels`. The rates hold advection less sources.
        """
        a, b = coefficients
        flat = [self._of_points(level) for levels in (fields, rates) for level in levels_of_kernel(levels)]
        self._right_hand_side(elements, -a, b, force, *flat, *self._mass, self._of_points(out))

    def _of_points(self, fields: Array) -> Array:
        return fields.reshape(*fields.shape[:2], -1)

    def subtract_buoyancy(self, fields: Array, rates: Array) -> None:
        """Subtract the weak force of the scalars from the rates [3 + S, E, n, n, n] of fields of the same shape.

        The rates hold advection less sources. Of a problem with buoyancy alone.
        """
        scalars, out = self._of_points(fields)[3:], self._of_points(rates)[:3]
        self._buoyancy(*self._factors, scalars, *self._mass, out)

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
