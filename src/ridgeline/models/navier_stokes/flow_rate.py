"""A force along one axis that holds the mean velocity exactly: the step is linear in a uniform force.

What a unit force does to velocity and pressure within one step is solved for once per b_0/dt; after each step as much
of it is added as the flow rate needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ridgeline.models.navier_stokes.problem import Array, FlowRate

if TYPE_CHECKING:
    from ridgeline.models.navier_stokes.engine_cpu import Engine


class HeldFlowRate:
    """Holds the bulk velocity of an engine. force: of the last step, -dp/dx as it acts on the flow."""

    def __init__(self, engine: Engine, wanted: FlowRate) -> None:
        self._engine, self.wanted = engine, wanted
        self.force = 0.0
        self._shift = 0.0
        self._velocity = np.zeros((3, *engine.grid.shape))
        self._pressure = np.zeros(engine.grid.shape)
        self._unit = 1.0
        self._moved: list[int] = []

    def bulk(self, velocity: Array) -> float:
        """Return the mean of the velocity's component along the axis over the volume. Collective."""
        engine = self._engine
        component = velocity[self.wanted.axis].reshape(-1)
        mine = float(np.dot(engine.geometry.mass.reshape(-1), component))
        return float(engine.comm.allreduce(mine)) / engine.inner.volume

    def correct(self, shift: float) -> None:
        """Add to the newest velocity and pressure what the flow rate needs. Collective."""
        engine = self._engine
        if shift != self._shift:
            self._respond(shift)
        points = engine.grid.n_points
        with engine.regions("other", (2.0 + 2.0 * len(self._moved)) * points, 16.0 * points):
            self.force = (self.wanted.bulk_velocity - self.bulk(engine.u)) / self._unit
            for component in self._moved:
                engine.u[component] += self.force * self._velocity[component]
            if self._pressure.any():
                engine.p += self.force * self._pressure

    def _respond(self, shift: float) -> None:
        """Solve for what a unit force does in a step from rest."""
        engine, axis = self._engine, self.wanted.axis
        self._shift = shift
        right = np.zeros((3, *engine.grid.shape))
        right[axis] = engine.geometry.mass
        engine.assemble(right)
        b = np.zeros(engine.grid.shape)
        engine.kernels.force_divergence(right, engine.inverse_mass, b)
        engine.assemble(b)
        engine.require("pressure", engine.pressure.solve(b, self._pressure, remember=False))
        weak = np.zeros_like(right)
        engine.kernels.momentum(self._pressure, right, engine.inner.weights, weak)
        engine.assemble(weak)
        engine.velocity.prepare(shift)
        engine.require("velocity", engine.velocity.solve(weak, self._velocity, remember=False))
        self._unit = self.bulk(self._velocity)
        rank_has = np.array([bool(u.any()) for u in self._velocity])
        self._moved = [i for i, has in enumerate(engine.comm.allreduce(rank_has * 1)) if has]
