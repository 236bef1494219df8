"""A force along one axis that holds the mean velocity exactly: the step is linear in a uniform force.

The response of velocity and pressure to a unit force within one step is solved for. That of the pressure does not
depend on the step and is solved for once, that of the velocity with each b_0/dt. After each step as much of the
response is added as the flow rate needs.
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

# (weak force [3, E, n, n, n], velocity, pressure, known): set velocity and pressure to what the present step makes,
# from rest, of the force, which is overwritten; the velocity alone if the pressure is known. Collective.
StepFromRest = Callable[[Array, Array, Array, bool], None]


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
        """Add to the newest velocity and pressure what the flow rate needs. shift: b_0/dt of the step. Collective."""
        if shift != self._shift:
            self._respond(known=self._shift > 0.0)
            self._shift = shift
        points = self._mass.size
        with self._regions("other", (2.0 + 2.0 * len(self._moved)) * points, 16.0 * points):
            self.force = (self.wanted.bulk_velocity - self.bulk(velocity)) / self._unit
            for component in self._moved:
                velocity[component] += self.force * self._velocity[component]
            if self._pressure.any():
                pressure += self.force * self._pressure

    def _respond(self, known: bool) -> None:
        """Solve for what a unit force does in the present step from rest. known: whether the pressure is there."""
        force = np.zeros_like(self._velocity)
        force[self.wanted.axis] = self._mass
        self._step_from_rest(force, self._velocity, self._pressure, known)
        self._unit = self.bulk(self._velocity)
        rank_has = np.array([bool(u.any()) for u in self._velocity])
        self._moved = [i for i, has in enumerate(self._comm.allreduce(rank_has * 1)) if has]
