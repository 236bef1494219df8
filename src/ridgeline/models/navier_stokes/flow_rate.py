"""A force along one axis that holds the mean velocity exactly: the step is linear in a uniform force.

The response of velocity and pressure to a unit force within one step is solved for once per b_0/dt. After each step
as much of it is added as the flow rate needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ridgeline.elements.geometry import ElementGeometry
from ridgeline.krylov.operator import InnerProduct
from ridgeline.models.navier_stokes.problem import Array, FlowRate
from ridgeline.runtime.regions import Regions

if TYPE_CHECKING:
    from mpi4py import MPI

# (weak force [3, E, n, n, n], b_0/dt, velocity, pressure): set the last two to what a step from rest makes of the
# force, which is overwritten. Collective.
StepFromRest = Callable[[Array, float, Array, Array], None]


class HeldFlowRate:
    """Holds the bulk velocity of a flow. force: of the last step, -dp/dx as it acts on the flow."""

    def __init__(
        self,
        wanted: FlowRate,
        comm: MPI.Comm,
        geometry: ElementGeometry,
        inner: InnerProduct,
        regions: Regions,
        step_from_rest: StepFromRest,
    ) -> None:
        self.wanted, self._comm, self._regions = wanted, comm, regions
        self._mass, self._volume = geometry.mass, inner.volume
        self._step_from_rest = step_from_rest
        self.force = 0.0
        self._shift = 0.0
        self._velocity = np.zeros((3, *self._mass.shape))
        self._pressure = np.zeros(self._mass.shape)
        self._unit = 1.0
        self._moved: list[int] = []

    def bulk(self, velocity: Array) -> float:
        """Return the mean of the velocity's component along the axis over the volume. Collective."""
        component = velocity[self.wanted.axis].reshape(-1)
        mine = float(np.dot(self._mass.reshape(-1), component))
        return float(self._comm.allreduce(mine)) / self._volume

    def correct(self, shift: float, velocity: Array, pressure: Array) -> None:
        """Add to the newest velocity and pressure what the flow rate needs. shift: b_0/dt. Collective."""
        if shift != self._shift:
            self._respond(shift)
        points = self._mass.size
        with self._regions("other", (2.0 + 2.0 * len(self._moved)) * points, 16.0 * points):
            self.force = (self.wanted.bulk_velocity - self.bulk(velocity)) / self._unit
            for component in self._moved:
                velocity[component] += self.force * self._velocity[component]
            if self._pressure.any():
                pressure += self.force * self._pressure

    def _respond(self, shift: float) -> None:
        """Solve for what a unit force does in a step from rest."""
        self._shift = shift
        force = np.zeros_like(self._velocity)
        force[self.wanted.axis] = self._mass
        self._step_from_rest(force, shift, self._velocity, self._pressure)
        self._unit = self.bulk(self._velocity)
        rank_has = np.array([bool(u.any()) for u in self._velocity])
        self._moved = [i for i, has in enumerate(self._comm.allreduce(rank_has * 1)) if has]
