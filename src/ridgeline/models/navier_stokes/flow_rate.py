"""A force along one axis that holds the mean velocity exactly: the step is linear in a uniform force.

The response of velocity and pressure to a unit force within one step is solved for. That of the pressure does not
depend on the step and is solved for once, that of the velocity with each b_0/dt. After each step as much of the
response is added as the flow rate needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ridgeline.krylov.operator import VectorPasses
from ridgeline.models.navier_stokes.problem import FlowRate
from ridgeline.runtime.regions import Regions

# (axis, velocity, pressure, known): set velocity and pressure to what the present step makes, from rest, of a unit
# force along the axis; the velocity alone if the pressure is known. Collective.
StepFromRest = Callable[[int, Any, Any, bool], None]


class HeldFlowRate:
    """Holds the bulk velocity of a flow. force: of the last step, -dp/dx as it acts on the flow.

    inner: of the engine's fields; response: memory for a velocity [3, E, n, n, n] and a pressure, all zero.
    """

    def __init__(
        self,
        wanted: FlowRate,
        inner: VectorPasses,
        response: tuple[Any, Any],
        regions: Regions,
        step_from_rest: StepFromRest,
    ) -> None:
        self.wanted, self._inner, self._regions = wanted, inner, regions
        self._velocity, self._pressure = response
        self._step_from_rest = step_from_rest
        self.force = 0.0
        self._shift = 0.0
        self._unit = 1.0
        self._moved: list[int] = []
        self._moves_pressure = False

    def bulk(self, velocity: Any) -> float:
        """Return the mean of the velocity's component along the axis over the volume. Collective."""
        axis = self.wanted.axis
        return float(self._inner.mean(velocity[axis : axis + 1])[0])

    def correct(self, shift: float, velocity: Any, pressure: Any) -> None:
        """Add to the newest velocity and pressure what the flow rate needs. shift: b_0/dt of the step. Collective."""
        if shift != self._shift:
            self._respond(known=self._shift > 0.0)
            self._shift = shift
        points = pressure.size
        with self._regions("other", (2.0 + 2.0 * len(self._moved)) * points, 16.0 * points):
            self.force = (self.wanted.bulk_velocity - self.bulk(velocity)) / self._unit
            for component in self._moved:
                self._inner.add(self._velocity[component], velocity[component], self.force)
            if self._moves_pressure:
                self._inner.add(self._pressure, pressure, self.force)

    def _respond(self, known: bool) -> None:
        """Solve for what a unit force does in the present step from rest. known: whether the pressure is there."""
        self._step_from_rest(self.wanted.axis, self._velocity, self._pressure, known)
        self._unit = self.bulk(self._velocity)
        self._moved = [i for i, size in enumerate(self._inner.norm(self._velocity)) if size != 0.0]
        self._moves_pressure = bool(self._inner.norm(self._pressure)[0] != 0.0)
