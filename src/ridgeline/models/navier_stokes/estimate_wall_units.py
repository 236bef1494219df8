"""The distances of points in wall units, where a friction Reynolds number is expected: for `ridgeline check`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ridgeline.elements.mesh import ElementMesh, side_axis
from ridgeline.elements.mesh_protocol import Mesh
from ridgeline.elements.quadrature import gauss_lobatto

if TYPE_CHECKING:
    from ridgeline.models.navier_stokes.case_sections.sections import NavierStokesSettings

# Kim, Moin and Moser, J. Fluid Mech. 177 (1987) 133; Moser, Kim and Mansour, Phys. Fluids 11 (1999) 943.
PUBLISHED = (
    "direct simulations of channels at Re_tau = 180 had 12 (1987) and 17.7 (1999) along, 7 and 5.9 across, "
    "0.05 at the wall and 4.4 in the middle (Kim, Moin, Moser, Mansour)"
)


def wall_sides(case: NavierStokesSettings) -> list[str]:
    """Return the names of the sides that are walls."""
    return [side for side in case.side_names() if case.boundary.side(side).kind in ("wall", "moving-wall")]


def friction(case: NavierStokesSettings) -> tuple[float, float] | None:
    """Return (Re_tau, u_tau) that are expected of a box with walls, None if nothing is.

    By model.expected_re_tau, or from the balance of a given force and the walls' friction, u_tau^2 = F V/A. The
    length h of Re_tau is that of the time series: half a gap, or half the side of a square duct.
    """
    walls, model = wall_sides(case), case.model
    if not walls or not case.is_plain_box:
        return None
    volume = math.prod(case.grid.lengths)
    area = sum(volume / case.grid.lengths[side_axis(side)[0]] for side in walls)
    half = volume / area * (1.0 if len({side[0] for side in walls}) == 1 else 2.0)
    if model.expected_re_tau is not None:
        return model.expected_re_tau, model.expected_re_tau * model.viscosity / half
    if model.forcing.kind != "force" or not any(model.forcing.value):
        return None
    speed = math.sqrt(max(map(abs, model.forcing.value)) * volume / area)
    return speed * half / model.viscosity, speed


def wall_units(case: NavierStokesSettings, mesh: Mesh) -> tuple[str, ...]:
    """Return a sentence on the distances of points along x, y, z over nu/u_tau; none where nothing is expected."""
    found = friction(case)
    if found is None or not isinstance(mesh, ElementMesh):
        return ()
    re_tau, speed = found
    walls = {side[0] for side in wall_sides(case)}
    unit = case.model.viscosity / speed
    gaps = np.diff(gauss_lobatto(case.grid.order + 1)[0]) / 2.0
    words = []
    for axis in "xyz":
        edges = mesh.edges["zyx".index(axis)]
        distances = np.outer(np.diff(edges), gaps).reshape(-1) / unit
        if axis in walls:
            at_walls = min(distances[0], distances[-1])
            words.append(f"Delta {axis}+ {at_walls:.3g} at the wall, {distances.max():.3g} at most")
        else:
            words.append(f"Delta {axis}+ {distances.mean():.3g} on average, {distances.max():.3g} at most")
    return (f"wall units of Re_tau = {re_tau:.4g}, u_tau = {speed:.4g}: {'; '.join(words)}; {PUBLISHED}",)
