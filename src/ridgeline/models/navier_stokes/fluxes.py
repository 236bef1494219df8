"""The flow through the sides of a case, integrated on its mesh: what cannot balance is found before a run.

A finer Gauss rule than the mesh's own is taken, so that what is found is a fault of the settings and not of the
resolution; the solver itself removes what quadrature leaves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ridgeline.config.fields import Problem
from ridgeline.grid.element import SIDES, ElementMesh, side_axis
from ridgeline.grid.quadrature import derivative_matrix, gauss
from ridgeline.models.navier_stokes.boundary import mesh_of, velocity_sides
from ridgeline.models.navier_stokes.exact import Array
from ridgeline.models.navier_stokes.problem import VectorFunction

if TYPE_CHECKING:
    from ridgeline.models.navier_stokes.config import NavierStokesCase

POINTS = 12  # Gauss points in each direction of a face
TOLERANCE = 1e-4  # net flux over the flux in and out that is still a rounding of profiles
MOST_ELEMENTS = 20_000  # of a side that are looked at; more are left to the engine
FLAT = 1e-10  # how far the normals of a symmetry side may differ


def side_normals(mesh: ElementMesh, side: str) -> tuple[Array, Array]:
    """Return (coordinates [3, f, q, q], outward normals times area weights [3, f, q, q]) of a side's f faces.

    q x q Gauss points on each face, lines of the faster direction last.
    """
    axis, upper = side_axis(side)
    low = [0, 0, 0]
    counts = list(mesh.elements)
    counts[axis] = 1
    low[axis] = mesh.elements[axis] - 1 if upper else 0
    places = np.stack([i.ravel() + l for i, l in zip(np.indices(counts), low)], axis=1)
    points, weights = gauss(POINTS)
    end = np.array([1.0 if upper else -1.0])
    lines = [points, points, points]
    lines[axis] = end
    found = mesh.places(places.astype(np.int64), (lines[0], lines[1], lines[2])).squeeze(2 + axis)
    d = derivative_matrix(points)
    along_faster = np.einsum("il,cfjl->cfji", d, found)
    along_slower = np.einsum("jl,cfli->cfji", d, found)
    # x = r, y = s, z = t are right-handed: d/dfaster x d/dslower points along +x and +z, and against y.
    sign = (1.0 if upper else -1.0) * (-1.0 if axis == 1 else 1.0)
    normal = sign * np.cross(along_faster, along_slower, axis=0)
    return found, normal * np.outer(weights, weights)


def flux(mesh: ElementMesh, side: str, velocity: VectorFunction, t: float = 0.0) -> tuple[float, float]:
    """Return (net volume per time that leaves through a side, the same of what leaves and enters added up)."""
    (x, y, z), normal = side_normals(mesh, side)
    through = (np.asarray(velocity(x, y, z, t)) * normal).sum(axis=0)
    return float(through.sum()), float(np.abs(through).sum())


def _countable(mesh: ElementMesh, side: str) -> bool:
    axis, _ = side_axis(side)
    return mesh.n_elements // mesh.elements[axis] <= MOST_ELEMENTS


def flux_problems(case: NavierStokesCase) -> Iterator[Problem]:
    """Yield what is wrong with the flow through the sides: values that are no numbers, walls that let it through,
    an imbalance that no outflow takes up, a symmetry side that is not flat.

    Raises ConfigError for a mapping that cannot be had.
    """
    mesh, sides = mesh_of(case), velocity_sides(case)
    net = whole = 0.0
    last = ""
    for name in SIDES:
        side = sides[name]
        if not _countable(mesh, name):
            return
        if side.kind == "symmetry" and not _is_flat(mesh, name):
            yield Problem(
                f"boundary.{name}.kind", "another kind: a symmetry side is flat and across x, y or z"
            )
        if side.value is None:
            continue
        (x, y, z), _ = side_normals(mesh, name)
        if not np.isfinite(np.asarray(side.value(x, y, z, 0.0))).all():
            yield Problem(f"boundary.{name}.value", "values that are finite all over the side at t = 0")
            return
        leaves, moved = flux(mesh, name, side.value)
        if side.kind == "moving-wall" and moved > TOLERANCE * _speed_area(mesh, name, side.value):
            yield Problem(f"boundary.{name}.value", 'a velocity along the wall, or kind = "inflow"')
        net, whole = net + leaves, whole + moved
        last = name if side.kind == "inflow" else last
    lets_out = any(side.kind == "outflow" for side in sides.values())
    if last and not lets_out and abs(net) > TOLERANCE * whole:
        way = "out" if net > 0 else "in"
        yield Problem(
            f"boundary.{last}.value",
            f'as much flow in as out of all sides, or a side of kind = "outflow": {abs(net):.6g} goes {way} at t = 0',
        )


def _is_flat(mesh: ElementMesh, side: str) -> bool:
    _, normal = side_normals(mesh, side)
    across = 2 - side_axis(side)[0]
    others = [component for component in range(3) if component != across]
    return float(np.abs(normal[others]).max()) <= FLAT * float(np.abs(normal).max())


def _speed_area(mesh: ElementMesh, side: str, velocity: VectorFunction) -> float:
    (x, y, z), normal = side_normals(mesh, side)
    speed = np.sqrt((np.asarray(velocity(x, y, z, 0.0)) ** 2).sum(axis=0))
    return float((speed * np.sqrt((normal**2).sum(axis=0))).sum())
