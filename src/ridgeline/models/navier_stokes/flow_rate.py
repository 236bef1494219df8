"""A uniform force along one axis that keeps the bulk velocity of a flow exactly.

A step is linear in a uniform force. The response of velocity and pressure to a unit force within one step is
therefore solved for beforehand: that of the pressure once, because it does not depend on the step, and that of the
velocity for each b_0/dt. After each step, as much of the response is added as the flow rate needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ridgeline.krylov.operator import VectorPasses
from ridgeline.models.navier_stokes.problem import FlowRate
from ridgeline.runtime.regions import Regions

# (axis, velocity, pressure, known): set velocity and pressure to the response of the present step, from rest, to a
# unit force along the axis; only the velocity if the pressure is known. Collective.
StepFromRest = Callable[[int, Any, Any, bool], None]


class FlowRateForce:
    """Keeps the bulk velocity of a flow. force: the force of the last step, -dp/dx as it acts on the flow.

    target: the flow rate; inner: of the engine's fields; response: memory for a velocity [3, E, n, n, n] and a
    pressure, all zero.
    """

    def __init__(
        self,
        target: FlowRate,
        inner: VectorPasses,
        response: tuple[Any, Any],
        regions: Regions,
        step_from_rest: StepFromRest,
    ) -> None:
        self.target, self._inner, self._regions = target, inner, regions
        self._velocity, self._pressure = response
        self._step_from_rest = step_from_rest
        self.force = 0.0
        self._shift = 0.0
        self._unit = 1.0
        self._moved: list[int] = []
        self._moves_pressure = False

    def bulk(self, velocity: Any) -> float:
        """Return the mean of the velocity's component along the axis over the volume. Collective."""
        axis = self.target.axis
        return float(self._inner.mean(velocity[axis : axis + 1])[0])

    def prepare(self, shift: float) -> None:
        """Compute the response to a unit force in the coming step, where its b_0/dt is new. Collective."""
        if shift == self._shift:
            return
        self._step_from_rest(self.target.axis, self._velocity, self._pressure, self._shift > 0.0)
        self._unit = self.bulk(self._velocity)
        self._moved = [i for i, size in enumerate(self._inner.norm(self._velocity)) if size != 0.0]
        self._moves_pressure = bool(self._inner.norm(self._pressure)[0] != 0.0)
        self._shift = shift

    def correct(self, velocity: Any, pressure: Any) -> None:
        """Change the newest velocity and pressure so that the flow rate is kept. Collective."""
        points = pressure.size
        with self._regions("other", (2.0 + 2.0 * len(self._moved)) * points, 16.0 * points):
            self.force = (self.target.bulk_velocity - self.bulk(velocity)) / self._unit
            for component in self._moved:
                self._inner.add(self._velocity[component], velocity[component], self.force)
            if self._moves_pressure:
                self._inner.add(self._pressure, pressure, self.force)
