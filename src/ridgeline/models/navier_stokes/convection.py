"""Convection between two sides of a box: which scalars have it, and the numbers of Rayleigh and Prandtl.

A scalar conducts along an axis if it is fixed at both sides across that axis, with different values. On such a pair
of sides the Nusselt number is the flux over that of conduction alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from ridgeline.config.expressions import is_number
from ridgeline.models.navier_stokes.case_sections.sections import NavierStokesSettings

AXES = "xyz"


def conduction_axes(case: NavierStokesSettings, number: int) -> tuple[int, ...]:
    """Return the axes (0 = x) along which scalar `number` conducts; only in a plain box, of a buoyant scalar."""
    scalar = case.scalar[number]
    if not case.is_plain_box or not scalar.expansion:
        return ()
    found = []
    for axis, name in enumerate(AXES):
        ends = (f"{name}_min", f"{name}_max")
        low, high = (getattr(scalar.boundary, end).value for end in ends)
        if all(case.scalar_kind(number, end) == "fixed" for end in ends) and low != high:
            found.append(axis)
    return tuple(found)


def convection_remarks(case: NavierStokesSettings) -> Iterator[str]:
    """Yield what `ridgeline check` says of each pair of sides with two numbers: Ra = |g beta dT| L^3/(nu k)."""
    gravity = math.hypot(*case.model.gravity)
    for number, scalar in enumerate(case.scalar):
        for axis in conduction_axes(case, number):
            sides = [f"{AXES[axis]}_{end}" for end in ("min", "max")]
            values = [getattr(scalar.boundary, side).value for side in sides]
            if not all(is_number(value) for value in values):
                continue
            length = case.grid.lengths[2 - axis]
            pull = gravity * abs(scalar.expansion * (float(values[1]) - float(values[0])))
            if not pull:
                continue
            rayleigh = pull * length**3 / (case.model.viscosity * scalar.diffusivity)
            fall = math.sqrt(length / pull)
            steps = f", {fall / case.model.dt:.3g} steps" if case.model.dt else ""
            yield (
                f"scalar {number} between {sides[0]} and {sides[1]}: Rayleigh number {rayleigh:.6g}, Prandtl number "
                f"{case.model.viscosity / scalar.diffusivity:.4g}; free-fall time {fall:.3g}{steps}"
            )
