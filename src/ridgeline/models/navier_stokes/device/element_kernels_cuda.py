"""The element operators of the Navier-Stokes step in GPU memory: the twin of `navier_stokes.element_kernels`.

No communication. All results are those of each element alone ("unassembled"). Kernels go to the stream of the
geometry's gather-scatter; a call allocates nothing. Fields are contiguous device arrays, float64, [E, n, n, n] or
[c, E, n, n, n].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import cuda

from ridgeline.elements.courant import inverse_spacing
from ridgeline.elements.device.advection_cuda import CudaAdvection
from ridgeline.elements.device.courant_cuda import largest, make_courant
from ridgeline.elements.device.gather_scatter_cuda import field_count
from ridgeline.elements.device.geometry_cuda import CudaGeometry
from ridgeline.elements.device.helmholtz_cuda import THREADS
from ridgeline.elements.quadrature import gauss_lobatto
from ridgeline.jit.cuda_device import flat
from ridgeline.models.navier_stokes.buoyancy import buoyancy_factors
from ridgeline.models.navier_stokes.device.kernels_cuda import (
    make_filter,
    make_force_divergence,
    make_linear_sources,
    make_momentum,
    make_right_hand_side,
)
from ridgeline.models.navier_stokes.extrapolation import levels_of_kernel
from ridgeline.models.navier_stokes.problem import Array, FlowProblem, bubble_filter


class CudaElementKernels:
    """Operators on the fields of this rank's elements, which lie in the memory of its GPU.

    advection(velocity, fields, out): as of `CudaAdvection`. every: all elements, as operators on some take them.
    Raises DeviceError for dealiasing that GPUs have no kernel for.
    """

    def __init__(self, geometry: CudaGeometry, problem: FlowProblem) -> None:
        n, aligned = geometry.n, geometry.axis_aligned
        self.geometry, self.stream = geometry, geometry.stream
        self._order, self._count = geometry.gather.order, geometry.gather.n_elements
        self._block = n, n, geometry.layout.elements
        self.every = 0, self._count
        self.advection = CudaAdvection(geometry, problem.dealias_points)
        self._right_hand_side = make_right_hand_side(n, aligned)
        self._force_divergence = make_force_divergence(n, aligned)
        self._momentum = make_momentum(n, aligned)
        points = gauss_lobatto(n)[0]
        self._courant = make_courant(n, aligned)
        self._spacing = cuda.to_device(inverse_spacing(points))
        self._maxima = cuda.device_array(self._grid(self._count) + 1, np.float64)  # the last one: of all
        self._maximum, self._seen = cuda.pinned_array(1, np.float64), cuda.event()
        self._filter: Any = None
        if problem.filter_weight:
            self._filter = make_filter(n)
            matrix = bubble_filter(points, problem.filter_weight, problem.filter_modes)
            self._filter_matrix = cuda.to_device(np.ascontiguousarray(matrix).reshape(-1))
        self._linear_sources = make_linear_sources(n, aligned)
        if problem.buoyant:
            factors, references = buoyancy_factors(problem)
            self._buoyancy = tuple(map(cuda.to_device, (factors.reshape(-1), references)))
        gradients = np.array([scalar.mean_gradient for scalar in problem.scalars]).reshape(-1)
        self.has_gradients = bool(gradients.any())
        if self.has_gradients:
            self._gradients = cuda.to_device(gradients), cuda.to_device(np.zeros(3))

    def _grid(self, elements: int) -> int:
        return self.geometry.layout.blocks(elements)

    def right_hand_side(
        self,
        first: int,
        end: int,
        coefficients: tuple[Array, Array],
        force: Any,
        fields: Sequence[Any],
        rates: Sequence[Any],
        out: Any,
    ) -> None:
        """Set elements order[first:end] of out [c, E, n, n, n] to the known side of a step.

        out = -a . rates - mass (b . fields - force). coefficients: a and b of `StepCoefficients`; force: [c], device;
        fields, rates: of the levels that there are, newest first, as of `TimeLevels`. Of a level that there is not
        the coefficient is 0.
        """
        if end <= first:
            return
        a, b = coefficients
        flat_levels = [flat(level) for levels in (fields, rates) for level in levels_of_kernel(levels)]
        count, (_, mass, weights) = field_count(out), self.geometry.metric
        self._right_hand_side[self._grid(end - first) * count, self._block, self.stream](
            self._order, first, end, count, tuple((-a).tolist()), tuple(b.tolist()), force, *flat_levels,
            mass, weights, flat(out),
        )  # fmt: skip

    def force_divergence(self, force: Any, inverse_mass: Any, out: Any) -> None:
        """Set out [E, n, n, n] to (grad q, inverse_mass force); force: an assembled weak vector [3, E, n, n, n]."""
        self._force_divergence[self._grid(self._count), self._block, self.stream](
            self._order, 0, self._count, flat(force), flat(inverse_mass),
            *self.geometry.metric, self.geometry.derivative, flat(out),
        )  # fmt: skip

    def momentum(self, first: int, end: int, p: Any, force: Any, share: Any, out: Any) -> None:
        """Set elements order[first:end] of out [3, E, n, n, n] to share force - mass grad p."""
        if end <= first:
            return
        self._momentum[self._grid(end - first), self._block, self.stream](
            self._order, first, end, flat(p), flat(force), flat(share),
            *self.geometry.metric, self.geometry.derivative, flat(out),
        )  # fmt: skip

    def subtract_buoyancy(self, fields: Any, rates: Any) -> None:
        """Subtract the weak force of the scalars from the rates [3 + S, E, n, n, n] of fields of the same shape.

        The rates hold advection less sources. Of a problem with buoyancy alone.
        """
        points = 3 * self.geometry.points
        self._add_linear(self._buoyancy, flat(fields)[points:], flat(rates)[:points])

    def subtract_mean_gradients(self, fields: Any, rates: Any) -> None:
        """Subtract the source -u.G of each scalar's mean gradient G from the rates [3 + S, E, n, n, n] of fields.

        Of a problem with mean gradients alone, as `has_gradients` says.
        """
        points = 3 * self.geometry.points
        self._add_linear(self._gradients, flat(fields)[:points], flat(rates)[points:])

    def _add_linear(self, factors: tuple[Any, Any], fields: Any, out: Any) -> None:
        _, mass, weights = self.geometry.metric
        self._linear_sources[self._grid(self._count), self._block, self.stream](
            self._order, 0, self._count, *factors, fields, mass, weights, out
        )

    def courant(self, velocity: Any) -> float:
        """Return max(|u_r| / dr + |u_s| / ds + |u_t| / dt) over this rank's points: the Courant number over dt.

        velocity: [3, E, n, n, n]. The host waits for it.
        """
        grid = self._grid(self._count)
        self._courant[grid, self._block, self.stream](
            self._order, 0, self._count, flat(velocity), self.geometry.metric[0], self._spacing, self._maxima
        )
        number = self._maxima[grid:]
        largest[1, THREADS, self.stream](self._maxima, grid, number)
        number.copy_to_host(self._maximum, stream=self.stream)
        self._seen.record(self.stream)
        self._seen.synchronize()
        return float(self._maximum[0])

    def filter(self, fields: Any) -> None:
        """Apply the explicit filter in all directions to fields [c, E, n, n, n], in place."""
        count = field_count(fields)
        self._filter[self._grid(self._count) * count, self._block, self.stream](
            self._order, 0, self._count, count, self._filter_matrix, flat(fields)
        )
