"""The flow of step 0, a function of position alone: every rank sets its own points, and copies of a point are equal.

initial_velocity(case, x, y, z)     the velocity; `initial_scalar`: a scalar; `history`: the steps before
exact_flow(case)                    the exact solution that the initial flow is, if it is one (exact.py)
Duct, Channel                       boxes with walls around one axis, and at two sides: their laminar flows
solenoidal(axes, factors, seed)     the perturbation that makes these flows turbulent
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ridgeline.config.expressions import is_zero, parse
from ridgeline.models.navier_stokes import exact
from ridgeline.models.navier_stokes.case_sections.sections import NavierStokesSettings
from ridgeline.models.navier_stokes.exact import Array, Flow, Values
from ridgeline.models.navier_stokes.laminar_duct import unit_bulk, unit_velocity

WAVES = 4  # of a perturbation, along a periodic direction
MODES = 3  # of a perturbation, between two walls
SAMPLES = 21  # points per direction among which the largest velocity of a perturbation is found


def exact_flow(case: NavierStokesSettings) -> Flow | None:
    """Return the exact solution that initial.kind is, None if it is not an exact solution."""
    initial, viscosity = case.initial, case.model.viscosity
    forced = case.grid.periodic[
        "zyx".index(initial.direction)
    ]  # by a body force, otherwise by a pressure gradient
    match initial.kind:
        case "uniform" if case.model.forcing.kind == "none":
            formulas, origin = [parse(text) for text in initial.velocity], np.zeros(1)
            if any(formula.variables for formula in formulas):
                return None
            return exact.uniform([float(formula(origin, origin, origin, 0.0)[0]) for formula in formulas])
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
    """Return the velocity of step 0, of an exact solution that at time t, float64 [3, *shape of x]."""
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
    """Return scalar `number` of step 0 at points x, y, z of equal shape, float64."""
    return parse(case.scalar[number].initial)(x, y, z, 0.0)


def initial_fields(case: NavierStokesSettings, places: Array) -> Array:
    """Return velocity and scalars of step 0 at points [3, *shape], float64 [3 + S, *shape]."""
    scalars = [initial_scalar(case, i, *places) for i in range(len(case.scalar))]
    return np.stack([*initial_velocity(case, *places), *scalars])


def history(case: NavierStokesSettings, x: Array, y: Array, z: Array, dt: float, levels: int) -> list[Array]:
    """Return the velocities [3, *shape] at times -dt, -2 dt, ... of `levels` steps before step 0.

    The list is empty if they are not known, or if initial.exact_history is false; the first steps then have a lower
    order.
    """
    forced = case.scalar or case.sponge or case.model.viscosity_formula
    alone = not forced and all(map(is_zero, case.model.source))
    if not case.initial.exact_history or exact_flow(case) is None or not alone:
        return []
    return [initial_velocity(case, x, y, z, -back * dt) for back in range(1, levels + 1)]


@dataclass(frozen=True)
class Duct:
    """A box with walls around one axis. axes: (along, across, across) as numbers, 0 = x.

    centre, half: centre and half the edges of the section, in the order of the two axes across; start, length: along.
    """

    axes: tuple[int, int, int]
    centre: tuple[float, float]
    half: tuple[float, float]
    start: float
    length: float

    @classmethod
    def of(cls, case: NavierStokesSettings) -> Duct:
        """Return the duct of a case whose initial.kind is that of a duct."""
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


@dataclass(frozen=True)
class Channel:
    """A box with walls at two sides, periodic across. axes: (along, between the walls, across) as numbers, 0 = x.

    low, size: of the box, [x, y, z].
    """

    axes: tuple[int, int, int]
    low: tuple[float, ...]
    size: tuple[float, ...]

    @classmethod
    def of(cls, case: NavierStokesSettings) -> Channel:
        """Return the channel of a case whose initial.kind is that of a channel."""
        along, between = "xyz".index(case.initial.direction), "xyz".index(case.walled_directions()[0])
        return cls((along, between, 3 - along - between), case.grid.origin[::-1], case.grid.lengths[::-1])

    @property
    def half(self) -> float:
        """Half the distance of the walls."""
        return self.size[self.axes[1]] / 2

    def laminar(self, viscosity: float, speed: float, forced: bool) -> Flow:
        """Return Poiseuille's flow of bulk velocity `speed`, which -dp/dx = 3 viscosity speed/half^2 drives.

        forced: by a body force, so that p = 0.
        """
        along, between, _ = self.axes
        gradient = 0.0 if forced else 3.0 * viscosity * speed / self.half**2
        centre, end = self.low[between] + self.half, self.low[along] + self.size[along]

        def flow(x: Array, y: Array, z: Array, t: float) -> Values:
            eta = ((x, y, z)[between] - centre) / self.half
            velocity = [np.zeros_like(eta) for _ in range(3)]
            velocity[along] = 1.5 * speed * (1.0 - eta * eta)
            return velocity[0], velocity[1], velocity[2], gradient * (end - (x, y, z)[along])

        return flow

    def perturbation(self, seed: int) -> Callable[[Array, Array, Array], Array]:
        """Return a solenoidal velocity (x, y, z) -> [3, *shape] of size 1, 0 at the walls and periodic elsewhere."""
        along, between, across = ((self.low[axis], self.size[axis]) for axis in self.axes)
        factors: tuple[Factor, ...] = (PeriodicFactor(*along), WallFactor(*between), PeriodicFactor(*across))
        return solenoidal(self.axes, factors, seed)


@dataclass(frozen=True)
class PeriodicFactor:
    """cos(mode xi + phase), with xi from 0 to 2 pi along the box."""

    low: float
    size: float
    count: int = WAVES + 1

    def __call__(self, x: Array, mode: int, phase: float) -> tuple[Array, Array]:
        """Return a mode and its derivative at coordinates x."""
        angle = mode * (2 * np.pi * (x - self.low) / self.size) + phase
        return np.cos(angle), -mode * 2 * np.pi / self.size * np.sin(angle)


@dataclass(frozen=True)
class WallFactor:
    """(1 - s^2)^2 cos(mode pi s + phase), s from -1 to 1 between the walls: 0 there, and so is the derivative."""

    low: float
    size: float
    count: int = MODES

    def __call__(self, x: Array, mode: int, phase: float) -> tuple[Array, Array]:
        """Return a mode and its derivative at coordinates x."""
        half = self.size / 2
        s = (x - (self.low + half)) / half
        envelope, wave = (1 - s * s) ** 2, np.cos(mode * np.pi * s + phase)
        slope = -4 * s * (1 - s * s) * wave - envelope * mode * np.pi * np.sin(mode * np.pi * s + phase)
        return envelope * wave, slope / half


# A mode along one direction, in which the box has the size `size` from `low`.
Factor = PeriodicFactor | WallFactor


# Cached, because it costs more to find the largest value than to compute the velocities of some elements.
@lru_cache(maxsize=4)
def solenoidal(
    axes: tuple[int, ...], factors: tuple[Factor, ...], seed: int
) -> Callable[[Array, Array, Array], Array]:
    """Return a solenoidal velocity (x, y, z) -> [3, *shape], float64, whose largest value is about 1.

    It is the curl of a vector potential, which is a sum of products of modes along the three directions. Modes of
    small numbers have a larger weight; the random phases depend on the seed alone. axes: of the factors, 0 = x.
    """
    numbers = np.random.Generator(np.random.Philox(seed))
    modes = [i.ravel() for i in np.meshgrid(*(np.arange(factor.count) for factor in factors), indexing="ij")]
    phases = 2 * np.pi * numbers.random((3, 3, len(modes[0])))  # [component, direction, mode]
    weights = 1 / (1 + np.sum(modes, axis=0)) ** 2

    def raw(*points: Array) -> Array:
        velocity = np.zeros((3, *np.shape(points[0])))
        for number, weight in enumerate(weights):
            for component in range(3):
                (a, da), (b, db), (c, dc) = (
                    factor(points[axis], int(mode[number]), phases[component, place, number])
                    for place, (axis, factor, mode) in enumerate(zip(axes, factors, modes))
                )
                gradient = (da * b * c, a * db * c, a * b * dc)
                # curl of psi e_c = grad psi x e_c
                second, third = (component + 1) % 3, (component + 2) % 3
                velocity[axes[second]] += weight * gradient[third]
                velocity[axes[third]] -= weight * gradient[second]
        return velocity

    lines = [np.zeros(0)] * 3
    for axis, factor in zip(axes, factors):
        lines[axis] = factor.low + factor.size * np.linspace(0, 1, SAMPLES)
    sample = raw(*np.meshgrid(*lines, indexing="ij"))
    largest = float(np.sqrt((sample**2).sum(axis=0)).max())
    return lambda x, y, z: raw(x, y, z) / largest
