"""What `ridgeline check` says of the resolution at walls: distances of points in wall units, and four rules.

    friction(case)            the friction that is expected, from the settings
    wall_units(case, mesh)    the sentences: distances of points, and whether each rule of resolution is met

A wall unit is nu/u_tau with the friction velocity u_tau. It follows, in this order, from

- model.expected_re_tau,
- the balance of a given force F with the friction at the walls, u_tau^2 = F V/A,
- the bulk velocity U of a flow rate, by Jones' correlation for turbulent ducts of sides a >= b: u_tau^2 = f U^2/8
  with 1/sqrt f = 2 log10(Re* sqrt f) - 0.8, Re* = U D/nu (2/3 + 11/24 b/a (2 - b/a)) and D = 4 V/A. A channel has
  b/a = 0.

The rules are those by which Hadri et al., Sec. 2.2, chose the meshes of their direct simulations. The point on the
wall counts, as it must for their mesh of order 31: its fourth and tenth points are at 0.77 and 5.92. Those of the
mesh of order 15 are at 1.03 and 6.42, and the paper rounds them down.

Sources: Jones, J. Fluids Eng. 98 (1976) 173; Hadri et al. (NekBox), Sec. 2.2 and Table 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ridgeline.elements.mesh import BoxMesh, side_axis
from ridgeline.elements.mesh_protocol import Mesh
from ridgeline.elements.quadrature import gauss_lobatto
from ridgeline.models.navier_stokes.case_sections.sections import NavierStokesSettings
from ridgeline.models.navier_stokes.exact import Array

# Kim, Moin and Moser, J. Fluid Mech. 177 (1987) 133; Moser, Kim and Mansour, Phys. Fluids 11 (1999) 943.
PUBLISHED = (
    "for comparison, direct simulations of channels at Re_tau = 180 had 12 (1987) and 17.7 (1999) along the flow, 7 "
    "and 5.9 across it, and 0.05 at the wall and 4.4 in the middle (Kim, Moin, Moser, Mansour)"
)
LEAST_TURBULENT = 2300.0  # Re*: a flow below it is taken for laminar, where wall units mean nothing
NEAR_POINTS = (
    ("fourth", 4, 1.0),
    ("tenth", 10, 6.0),
)  # from the wall, and how far away it may be, in wall units
LARGEST_ACROSS, LARGEST_ALONG = 5.0, 10.0  # spacings in wall units


class Friction(NamedTuple):
    """The friction that is expected at walls. re_tau: u_tau h/nu; speed: u_tau; source: where it comes from."""

    re_tau: float
    speed: float
    source: str


def friction(case: NavierStokesSettings) -> Friction | None:
    """Return the friction that is expected in a box with walls, None if it is not known or the flow is laminar.

    The length h of Re_tau is that of the time series: half a gap, or half the side of a square duct.
    """
    walls, model = case.wall_sides(), case.model
    if not walls or not case.is_plain_box:
        return None
    volume = math.prod(case.grid.lengths)
    ratio = volume / sum(volume / case.grid.lengths[side_axis(side)[0]] for side in walls)  # V/A
    half = ratio * (1.0 if len({side[0] for side in walls}) == 1 else 2.0)
    if model.expected_re_tau is not None:
        speed = model.expected_re_tau * model.viscosity / half
        return Friction(model.expected_re_tau, speed, "model.expected_re_tau")
    if model.forcing.kind == "force" and any(model.forcing.value):
        speed = math.sqrt(max(map(abs, model.forcing.value)) * ratio)
        return Friction(speed * half / model.viscosity, speed, "the balance with model.forcing.value")
    if model.forcing.kind == "flow-rate" and all(case.boundary.side(name).kind == "wall" for name in walls):
        bulk = abs(model.forcing.bulk_velocity or 0.0)
        reynolds = bulk * 4.0 * ratio / model.viscosity * _effective(case, walls)
        if reynolds >= LEAST_TURBULENT:
            speed = bulk * math.sqrt(smooth_friction(reynolds) / 8.0)
            return Friction(speed * half / model.viscosity, speed, "Jones' correlation for the flow rate")
    return None


def _effective(case: NavierStokesSettings, walls: list[str]) -> float:
    """Return the factor of the Reynolds number by which a duct has the friction of a round pipe."""
    widths = {}
    for axis in {side[0] for side in walls}:
        # A wall that faces a symmetry side stands for both walls of a duct twice as wide.
        ends = sum(side[0] == axis for side in walls)
        widths[axis] = case.grid.lengths["zyx".index(axis)] * (2.0 if ends == 1 else 1.0)
    aspect = min(widths.values()) / max(widths.values()) if len(widths) > 1 else 0.0
    return 2.0 / 3.0 + 11.0 / 24.0 * aspect * (2.0 - aspect)


def smooth_friction(reynolds: float) -> float:
    """Return Darcy's friction factor of turbulent flow in a smooth round pipe, by the law of Prandtl and Karman."""
    x = 8.0  # 1/sqrt f
    for _ in range(50):  # contracts by 2/(x ln 10), about 0.1 each time
        x = 2.0 * math.log10(reynolds / x) - 0.8
    return 1.0 / x**2


def wall_units(case: NavierStokesSettings, mesh: Mesh) -> tuple[str, ...]:
    """Return sentences on the distances of points over nu/u_tau and on the rules, none if no friction is expected."""
    expected = friction(case)
    if expected is None or not isinstance(mesh, BoxMesh):
        return ()
    unit = case.model.viscosity / expected.speed
    points = {axis: _line(mesh, axis, case.grid.order) / unit for axis in "xyz"}
    walls = case.wall_sides()
    words = []
    for axis, line in points.items():
        gaps = np.diff(line)
        if any(side[0] == axis for side in walls):
            words.append(
                f"Delta {axis}+ is {min(gaps[0], gaps[-1]):.3g} at the wall and at most {gaps.max():.3g}"
            )
        else:
            words.append(f"Delta {axis}+ is {gaps.mean():.3g} on average and at most {gaps.max():.3g}")
    return (
        f"wall units of Re_tau = {expected.re_tau:.4g}, u_tau = {expected.speed:.4g} (from {expected.source}): "
        f"{'; '.join(words)}; {PUBLISHED}",
        *_rules(points, walls, stream_axis(case)),
    )


def _line(mesh: BoxMesh, axis: str, order: int) -> Array:
    """Return the places of the distinct points of a box along an axis, ascending."""
    edges = mesh.edges["zyx".index(axis)]
    inside = (1.0 + gauss_lobatto(order + 1)[0][:-1]) / 2.0
    return np.append((edges[:-1, None] + np.diff(edges)[:, None] * inside).reshape(-1), edges[-1])


def stream_axis(case: NavierStokesSettings) -> str | None:
    """Return the axis along which the flow is driven or starts, None if the settings do not say it."""
    forcing = case.model.forcing
    if forcing.kind == "flow-rate":
        return forcing.direction
    if forcing.kind == "force" and any(forcing.value):
        return "xyz"[int(np.argmax(np.abs(forcing.value)))]
    return case.initial.direction if "duct" in case.initial.kind or "channel" in case.initial.kind else None


def _rules(points: dict[str, Array], walls: list[str], stream: str | None) -> Iterator[str]:
    """Yield a sentence on each rule. points: places along x, y, z in wall units; stream: axis of the flow."""
    walled = {side[0] for side in walls}
    from_walls = [
        np.abs(line - line[end])[:: 1 if end == 0 else -1]
        for axis, line in points.items()
        for end in (0, -1)
        if f"{axis}_{'max' if end else 'min'}" in walls
    ]
    across = walled if stream is None else set(points) - {stream}
    across_spacing = max(float(np.diff(points[axis]).max()) for axis in across)
    along_spacing = max(float(np.diff(points[axis]).max()) for axis in set(points) - across)
    judged = [
        (
            f"the {name} point from the wall, counting the point on it, is",
            max(float(line[min(number, len(line)) - 1]) for line in from_walls),
            "away",
            limit,
        )
        for name, number, limit in NEAR_POINTS
    ]
    judged += [
        ("the largest spacing across the flow is", across_spacing, "wide", LARGEST_ACROSS),
        ("the largest spacing along the flow is", along_spacing, "wide", LARGEST_ALONG),
    ]
    for number, (words, value, how, limit) in enumerate(judged, start=1):
        yield (
            f"rule {number} of {len(judged)} for direct simulations (Hadri et al., Sec. 2.2): {words} {value:.3g} "
            f"wall units {how}; the rule allows {limit:g} and is {'met' if value <= limit else 'not met'}"
        )
