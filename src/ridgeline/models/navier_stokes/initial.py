"""The flow of step 0, by position alone: every rank sets its own points, and copies of a point are equal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ridgeline.config.expressions import parse
from ridgeline.models.navier_stokes import exact
from ridgeline.models.navier_stokes.case_sections.sections import NavierStokesSettings
from ridgeline.models.navier_stokes.exact import Array, Flow, Values
from ridgeline.models.navier_stokes.initial_channel import Channel
from ridgeline.models.navier_stokes.initial_perturbation import PeriodicFactor, WallFactor, solenoidal
from ridgeline.models.navier_stokes.laminar_duct import unit_bulk, unit_velocity


@dataclass(frozen=True)
class Duct:
    """A box along one axis with walls around it. axes: (along, across, across) as numbers, 0 = x.

    centre, half: of the section, in the order of the two axes across; start, length: along.
    """

    axes: tuple[int, int, int]
    centre: tuple[float, float]
    half: tuple[float, float]
    start: float
    length: float

    @classmethod
    def of(cls, case: NavierStokesSettings) -> Duct:
        """Return the duct of a case whose initial.kind is one of a duct's."""
        along = "xyz".index(case.initial.direction)
        first, second = ((along + 1) % 3, (along + 2) % 3)
        low, size = case.grid.origin[::-1], case.grid.lengths[::-1]
        half = (size[first] / 2, size[second] / 2)
        centre = (low[first] + half[0], low[second] + half[1])
        return cls((along, first, second), centre, half, low[along], size[along])

    def section(self, *points: Array) -> tuple[Array, Array]:
        """Return the two coordinates across of points (x, y, z), from -1 to 1."""
        _, first, second = self.axes
        a, b = self.half
        return (points[first] - self.centre[0]) / a, (points[second] - self.centre[1]) / b

    def gradient(self, viscosity: float, speed: float) -> float:
        """Return G = -dp/dx of the laminar flow with bulk velocity `speed`."""
        return viscosity * speed / unit_bulk(*self.half)

    def laminar(self, viscosity: float, speed: float, forced: bool) -> Flow:
        """Return the laminar flow of bulk velocity `speed`. forced: by a body force, so that p = 0."""
        along = self.axes[0]
        bulk, gradient = unit_bulk(*self.half), self.gradient(viscosity, speed)
        end = self.start + self.length

        def flow(x: Array, y: Array, z: Array, t: float) -> Values:
            eta, zeta = self.section(x, y, z)
            velocity = [np.zeros_like(eta) for _ in range(3)]
            velocity[along] = (
                speed / bulk * unit_velocity(eta * self.half[0], zeta * self.half[1], *self.half)
            )
            pressure = np.zeros_like(eta) if forced else gradient * (end - (x, y, z)[along])
            return velocity[0], velocity[1], velocity[2], pressure

        return flow

    def perturbation(self, seed: int) -> Callable[[Array, Array, Array], Array]:
        """Return a solenoidal velocity (x, y, z) -> [3, *shape], 0 at the walls, periodic along, largest about 1."""
        first, second = (WallFactor(c - h, 2 * h) for c, h in zip(self.centre, self.half))
        return solenoidal(self.axes, (PeriodicFactor(self.start, self.length), first, second), seed)


def exact_flow(case: NavierStokesSettings) -> Flow | None:
    """Return the exact solution that initial.kind is, None if it is none."""
    initial, viscosity = case.initial, case.model.viscosity
    forced = case.grid.periodic["zyx".index(initial.direction)]  # by a body force, or a fall of pressure
    match initial.kind:
        case "uniform" if case.model.forcing.kind == "none":
            formulas, nought = [parse(text) for text in initial.velocity], np.zeros(1)
            if any(formula.variables for formula in formulas):
                return None
            return exact.uniform([float(formula(nought, nought, nought, 0.0)[0]) for formula in formulas])
        case "taylor_green_2d":
            return exact.taylor_green_2d(viscosity, initial.speed)
        case "abc":
            return exact.abc(viscosity, initial.speed)
        case "walsh":
            return exact.walsh(viscosity, [float(text) for text in initial.velocity])
        case "ethier_steinman":
            return exact.ethier_steinman(viscosity, initial.a, initial.d)
        case "kovasznay":
            return exact.kovasznay(viscosity)
        case "duct":
            return Duct.of(case).laminar(viscosity, initial.speed, forced)
        case "channel":
            return Channel.of(case).laminar(viscosity, initial.speed, forced)
    return None


def initial_velocity(case: NavierStokesSettings, x: Array, y: Array, z: Array, t: float = 0.0) -> Array:
    """Return the velocity of step 0 at points of equal shape, float64 [3, *shape]; of exact solutions that at t."""
    initial = case.initial
    flow = exact_flow(case)
    if flow is not None:
        return np.stack(flow(x, y, z, t)[:3])
    if initial.kind == "taylor_green":
        u = np.sin(x) * np.cos(y) * np.cos(z)
        v = -np.cos(x) * np.sin(y) * np.cos(z)
        return initial.speed * np.stack([u, v, np.zeros_like(x)])
    if initial.kind.startswith("perturbed-"):
        walls: Duct | Channel = (Duct if initial.kind == "perturbed-duct" else Channel).of(case)
        base = np.stack(walls.laminar(case.model.viscosity, initial.speed, True)(x, y, z, 0.0)[:3])
        return base + initial.perturbation * initial.speed * walls.perturbation(case.run.seed)(x, y, z)
    if initial.kind in ("uniform", "expression"):
        return np.stack([parse(text)(x, y, z, 0.0) for text in initial.velocity])
    return np.zeros((3, *np.shape(x)))


def initial_scalar(case: NavierStokesSettings, number: int, x: Array, y: Array, z: Array) -> Array:
    """Return scalar `number` of step 0 at points of equal shape, float64."""
    return parse(case.scalar[number].initial)(x, y, z, 0.0)


def history(case: NavierStokesSettings, x: Array, y: Array, z: Array, dt: float, levels: int) -> list[Array]:
    """Return the velocities [3, *shape] at times -dt, -2 dt, ... of `levels` steps before step 0.

    Empty if the flow is not known there, or initial.exact_history is false: the first steps are of lower order then.
    """
    if not case.initial.exact_history or exact_flow(case) is None or case.scalar:
        return []
    return [initial_velocity(case, x, y, z, -back * dt) for back in range(1, levels + 1)]
