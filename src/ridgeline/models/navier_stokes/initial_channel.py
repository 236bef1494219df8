"""A box with walls at two sides, periodic across the third direction: laminar flow in it, and its turbulent start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ridgeline.models.navier_stokes.case_sections.sections import NavierStokesSettings
from ridgeline.models.navier_stokes.exact import Array, Flow, Values
from ridgeline.models.navier_stokes.initial_perturbation import Factor, PeriodicFactor, WallFactor, solenoidal


def walls_across(case: NavierStokesSettings) -> list[str]:
    """Return the directions across initial.direction at both ends of which there are walls."""
    return [
        axis
        for axis in "xyz"
        if axis != case.initial.direction
        and all(case.boundary.side(f"{axis}_{end}").kind == "wall" for end in ("min", "max"))
    ]


@dataclass(frozen=True)
class Channel:
    """The flow between two walls. axes: (along, between the walls, across) as numbers, 0 = x.

    low, size: of the box, [x, y, z].
    """

    axes: tuple[int, int, int]
    low: tuple[float, ...]
    size: tuple[float, ...]

    @classmethod
    def of(cls, case: NavierStokesSettings) -> Channel:
        """Return the channel of a case whose initial.kind is one of a channel's."""
        along, between = "xyz".index(case.initial.direction), "xyz".index(walls_across(case)[0])
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
        """Return a solenoidal velocity (x, y, z) -> [3, *shape], 0 at the walls, periodic else, largest about 1."""
        along, between, across = ((self.low[axis], self.size[axis]) for axis in self.axes)
        factors: tuple[Factor, ...] = (PeriodicFactor(*along), WallFactor(*between), PeriodicFactor(*across))
        return solenoidal(self.axes, factors, seed)
