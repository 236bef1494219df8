"""Solenoidal velocities of all sizes in a box, 0 at its walls: what makes a laminar duct or channel turbulent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ridgeline.models.navier_stokes.exact import Array

WAVES = 4  # of a perturbation, along a periodic direction
MODES = 3  # of it, between two walls
SAMPLES = 21  # per direction, where its largest velocity is looked for


@dataclass(frozen=True)
class PeriodicFactor:
    """cos(mode xi + phase), with xi to 2 pi along the box."""

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


Factor = PeriodicFactor | WallFactor  # what a mode is along one direction; low, size: of the box there


# Kept, because finding the largest value costs more than the velocities of some elements.
@lru_cache(maxsize=4)
def solenoidal(
    axes: tuple[int, ...], factors: tuple[Factor, ...], seed: int
) -> Callable[[Array, Array, Array], Array]:
    """Return a solenoidal velocity (x, y, z) -> [3, *shape], float64, whose largest value is about 1.

    It is the curl of a vector potential, a sum of products of modes along the three directions. Small modes weigh
    more than large mode numbers; random phases depend on seed alone. axes: (0 = x) of the factors.
    """
    numbers = np.random.Generator(np.random.Philox(seed))
    modes = [i.ravel() for i in np.meshgrid(*(np.arange(factor.count) for factor in factors), indexing="ij")]
    phases = 2 * np.pi * numbers.random((3, 3, len(modes[0])))  # [component, direction, mode]
    weights = 1 / (1 + np.sum(modes, axis=0)) ** 2

    def raw(*points: Array) -> Array:
        found = np.zeros((3, *np.shape(points[0])))
        for number, weight in enumerate(weights):
            for component in range(3):
                (a, da), (b, db), (c, dc) = (
                    factor(points[axis], int(mode[number]), phases[component, place, number])
                    for place, (axis, factor, mode) in enumerate(zip(axes, factors, modes))
                )
                gradient = (da * b * c, a * db * c, a * b * dc)
                # curl of psi e_c = grad psi x e_c
                one, two = (component + 1) % 3, (component + 2) % 3
                found[axes[one]] += weight * gradient[two]
                found[axes[two]] -= weight * gradient[one]
        return found

    lines = [np.zeros(0)] * 3
    for axis, factor in zip(axes, factors):
        lines[axis] = factor.low + factor.size * np.linspace(0, 1, SAMPLES)
    sample = raw(*np.meshgrid(*lines, indexing="ij"))
    largest = float(np.sqrt((sample**2).sum(axis=0)).max())
    return lambda x, y, z: raw(x, y, z) / largest
