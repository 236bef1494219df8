"""The streamfunction of the flow in planes across an axis, such as z = const: u = dpsi/dy, v = -dpsi/dx.

In each plane it is the psi whose gradient is nearest to (-v, u), which is the weak form of lap psi = -w_z in the
plane with the tangential velocity as dpsi/dn at all sides, whatever they are:

    (grad q, grad psi) = (grad q, (-v, u, 0))   for every q, with derivatives along the plane alone

If the flow in the plane has a divergence, as in a plane of a three-dimensional flow, psi is that of its part without
divergence: what (u, v) has beside it is the gradient of a potential that is constant on each side. For planes across
x and y the axes are those in cyclic order: v = dpsi/dz, w = -dpsi/dy, and w = dpsi/dx, u = -dpsi/dz.

The points of the elements must lie in such planes: the mesh is extruded along the axis. The equations of all planes
are then independent, and are solved together. The error has the order of the elements. In each plane psi is 0 on the
first wall of the settings that is along the axis, or 0 in the mean where there is none. Along a periodic direction
psi is periodic too, so that the mean flow across it is left out.

The solve is that of conjugate gradients with the diagonal, to TOLERANCE of the right-hand side.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.gather_scatter import GatherScatter
from ridgeline.elements.geometry import ElementGeometry
from ridgeline.elements.operator import ElementOperator
from ridgeline.jit.kernel import compile_kernels
from ridgeline.krylov.cg import cg, kernels_of_cg
from ridgeline.models.navier_stokes.derivatives import element_chunks, weak_divergence
from ridgeline.models.navier_stokes.problem import Array, FlowProblem, smallest_spacing
from ridgeline.models.parts import sum_over_groups
from ridgeline.parallel.allreduce import allreduce_min
from ridgeline.parallel.communicator import compile_on_nodes

if TYPE_CHECKING:
    from mpi4py import MPI

TOLERANCE = 1e-11
MOST_ITERATIONS = 100_000
AXES = {"streamfunction": 2, "streamfunction_x": 0, "streamfunction_y": 1}  # across which the planes are
ALONG = 1e-8  # largest share of the area of a wall across an axis along which it runs
SAME_PLANE = 1e-3  # of the smallest distance of points: planes that are nearer are the same


class Streamfunction:
    """Computes streamfunctions on the host. Made collectively.

    gather_scatter: of this rank's points; axis: across which the planes are, 0 is x.
    """

    def __init__(
        self,
        comm: MPI.Comm,
        geometry: ElementGeometry,
        gather_scatter: GatherScatter,
        problem: FlowProblem,
        axis: int = 2,
    ) -> None:
        self._comm, self._geometry, self._gather, self._axis = comm, geometry, gather_scatter, axis
        compile_on_nodes(comm, lambda: compile_kernels(kernels_of_cg()))
        self._operator = ElementOperator(
            geometry.grid, _along_planes(geometry, axis), gather_scatter, 1.0, 0.0
        )
        self._inverse_diagonal = self._operator.inverse_diagonal()
        self._planes, self._n_planes = self._numbers_of_planes()
        self._wall = None
        for name in problem.sides_of("wall", "moving-wall"):
            area = comm.allreduce(np.abs(geometry.sides[name].normal_area).sum(axis=(0, 2, 3)))
            if area[axis] <= ALONG * area.max():
                self._wall = geometry.sides[name]
                break

    def _numbers_of_planes(self) -> tuple[NDArray[np.int64], int]:
        """Return the number of the plane in which each point lies, [E, n, n, n], and how many planes there are."""
        coordinates = self._geometry.coordinates
        places = coordinates[self._axis]
        near = SAME_PLANE * float(allreduce_min(self._comm, smallest_spacing(coordinates)))
        every = np.unique(np.concatenate(self._comm.allgather(np.unique(places))))
        first = every[np.concatenate([[True], np.diff(every) > near])]
        return np.searchsorted(first, places, side="right") - 1, len(first)

    def of(self, velocity: Array) -> Array:
        """Return psi [E, n, n, n] of a velocity [3, E, n, n, n], NaN if the velocity is not finite. Collective."""
        geometry, grid, inner = self._geometry, self._geometry.grid, self._operator.inner
        second, third = (self._axis + 1) % 3, (self._axis + 2) % 3
        weak, psi = np.empty(grid.shape), np.zeros(grid.shape)
        for chunk in element_chunks(grid.n_elements, grid.n**3):
            turned = np.zeros_like(velocity[:, chunk])
            turned[second], turned[third] = -velocity[third, chunk], velocity[second, chunk]
            weak[chunk] = weak_divergence(geometry, geometry.mass[chunk] * turned, chunk)
        self._gather.sum(weak)
        size = float(inner.norm(weak)[0])
        if size == 0.0:
            return psi
        tolerance = TOLERANCE * size
        result = cg(
            self._operator, weak, psi, self._inverse_diagonal, tolerance, MOST_ITERATIONS, zero_guess=True
        )
        if not result.converged:
            psi[...] = np.nan
            return psi
        psi -= self._levels(psi)[self._planes]
        return psi

    def _levels(self, psi: Array) -> Array:
        """Return the mean in each plane on the wall, or everywhere, [planes]."""
        weight, values, planes = self._geometry.mass, psi, self._planes
        if (wall := self._wall) is not None:
            weight, values, planes = wall.area, wall.take(psi), wall.take(planes)
        most = self._geometry.grid.n_elements_global * self._geometry.grid.n**3
        sums = [
            self._comm.bcast(sum_over_groups(self._comm, part, planes, self._n_planes, most))
            for part in (weight * values, np.ascontiguousarray(weight))
        ]
        levels: Array = np.divide(sums[0], sums[1], out=np.zeros(self._n_planes), where=sums[1] > 0)
        return levels


def _along_planes(geometry: ElementGeometry, axis: int) -> ElementGeometry:
    """Return a geometry in whose stiffness matrix derivatives across the planes are left out."""
    planes = copy.copy(geometry)
    if geometry.axis_aligned:
        planes.scale = geometry.scale.copy()
        planes.scale[:, axis] = 0.0
        return planes
    kept = [direction for direction in range(3) if direction != axis]
    planes.factors = np.empty_like(geometry.factors)
    for place, (a, b) in enumerate(((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))):
        products = (geometry.metrics[:, 3 * a + j] * geometry.metrics[:, 3 * b + j] for j in kept)
        planes.factors[:, place] = geometry.mass * sum(products)
    return planes
