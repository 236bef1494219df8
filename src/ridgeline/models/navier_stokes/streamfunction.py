"""The streamfunction of flow in planes z = const: u = dpsi/dy, v = -dpsi/dx.

It is the psi whose gradient is nearest to (-v, u, 0), which is the weak form of lap psi = -w_z with the tangential
velocity as dpsi/dn at all sides, whatever they are:

    (grad q, grad psi) = (grad q, (-v, u, 0))   for every q

Its error has the order of the elements. In a flow that varies along z, the mean of psi along z is the streamfunction
of the mean flow. psi is 0 on the first wall of the settings, or 0 in the mean where there are none. Along a periodic
direction psi is periodic too, so that the mean flow across it is left out.

The solve is that of conjugate gradients with the diagonal, to TOLERANCE of the right-hand side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ridgeline.elements.gather_scatter import GatherScatter
from ridgeline.elements.geometry import MOST_FACES, ElementGeometry
from ridgeline.elements.operator import ElementOperator
from ridgeline.jit.kernel import compile_kernels
from ridgeline.krylov.cg import cg, kernels_of_cg
from ridgeline.models.navier_stokes.derivatives import element_chunks, weak_divergence
from ridgeline.models.navier_stokes.problem import Array, FlowProblem
from ridgeline.parallel.allreduce import allreduce_sums
from ridgeline.parallel.communicator import in_turn_per_node

if TYPE_CHECKING:
    from mpi4py import MPI

TOLERANCE = 1e-11
MOST_ITERATIONS = 100_000
WORDS_PER_POINT = (
    9.0  # of 8 bytes: diagonal and three arrays of the inner product; psi, right-hand side, three vectors
)


class Streamfunction:
    """Computes streamfunctions on the host. Made collectively. gather_scatter: of this rank's points."""

    def __init__(
        self, comm: MPI.Comm, geometry: ElementGeometry, gather_scatter: GatherScatter, problem: FlowProblem
    ) -> None:
        self._comm, self._geometry, self._gather = comm, geometry, gather_scatter
        in_turn_per_node(comm, lambda: compile_kernels(kernels_of_cg()))
        self._operator = ElementOperator(geometry.grid, geometry, gather_scatter, 1.0, 0.0)
        self._inverse_diagonal = self._operator.inverse_diagonal()
        self._wall = next(iter(problem.sides_of("wall", "moving-wall")), None)

    def of(self, velocity: Array) -> Array:
        """Return psi [E, n, n, n] of a velocity [3, E, n, n, n], NaN if the velocity is not finite. Collective."""
        geometry, grid, inner = self._geometry, self._geometry.grid, self._operator.inner
        weak, psi = np.empty(grid.shape), np.zeros(grid.shape)
        for chunk in element_chunks(grid.n_elements, grid.n**3):
            turned = np.stack([-velocity[1, chunk], velocity[0, chunk], 0.0 * velocity[2, chunk]])
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
        if self._wall is not None:
            side = geometry.sides[self._wall]
            parts = [side.area.sum(axis=(1, 2)), (side.area * side.take(psi)).sum(axis=(1, 2))]
            area, total = allreduce_sums(self._comm, parts, MOST_FACES * grid.n_elements_global)
            psi -= total / area
        return psi
