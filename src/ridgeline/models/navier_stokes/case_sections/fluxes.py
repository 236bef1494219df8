"""The flow through the sides of a case, integrated on its mesh: what cannot balance is found before a run.

It is integrated twice. A finer Gauss rule than the mesh's own finds faults of the settings and not of the resolution.
The engine's own rule takes the points of the mesh, whose edges belong to one side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ridgeline.config.fields import Problem
from ridgeline.elements.hexahedron import face_places
from ridgeline.elements.mesh_protocol import Mesh
from ridgeline.elements.quadrature import derivative_matrix, gauss, gauss_lobatto
from ridgeline.models.navier_stokes.case_sections.sections import NavierStokesSettings
from ridgeline.models.navier_stokes.exact import Array
from ridgeline.models.navier_stokes.problem import DIRICHLET, LEAK, VelocitySide, sides_of
from ridgeline.models.navier_stokes.problem_of_case import mesh_of, velocity_sides

POINTS = 12  # Gauss points in each direction of a face
# Flux over that of the same speed straight through the side, which is still a rounding of profiles. The speed and not
# the flux in and out is the measure: of a velocity along the side, the latter is rounding itself.
TOLERANCE = 1e-4
MOST_ELEMENTS = 20_000  # of a side that are looked at; more are left to the engine
FLAT = 1e-10  # how far the normals of a symmetry side may differ
TIMES = 5  # from the first to the last of a run, at which values that depend on time are looked at

Rule = tuple[Array, Array]


@dataclass(frozen=True, eq=False)
class Faces:
    """The f faces of a side with q x q points each, lines of the faster direction last.

    positions: of their elements, as the mesh names them; faces: int64 [f], 0 ... 5; places: coordinates [3, f, q, q];
    normal: outward, times area and quadrature weight, [3, f, q, q].
    """

    mesh: Mesh
    side: str
    positions: NDArray[np.int64]
    faces: NDArray[np.int64]
    places: Array
    normal: Array

    @classmethod
    def of(cls, mesh: Mesh, side: str, rule: Rule) -> Faces:
        """Return the faces of a side with the points and weights of a quadrature rule in [-1, 1]."""
        points, weights = rule
        positions = mesh.side_positions(side, mesh.side_size(side))
        elements, faces = mesh.side_faces(positions, side)
        positions = positions[elements]
        places = np.empty((3, len(faces), len(points), len(points)))
        normal = np.empty_like(places)
        d = derivative_matrix(points)
        for face in np.unique(faces).tolist():
            part, axis, upper = faces == face, 2 - face // 2, face % 2
            lines = [points, points, points]
            lines[axis] = np.array([1.0 if upper else -1.0])
            found = mesh.places(positions[part], (lines[0], lines[1], lines[2])).squeeze(2 + axis)
            along_faster = np.einsum("il,cfjl->cfji", d, found)
            along_slower = np.einsum("jl,cfli->cfji", d, found)
            # x = r, y = s, z = t are right-handed: d/dfaster x d/dslower points along +x and +z, and against y.
            sign = (1.0 if upper else -1.0) * (-1.0 if axis == 1 else 1.0)
            places[:, part] = found
            normal[:, part] = sign * np.cross(along_faster, along_slower, axis=0)
        return cls(mesh, side, positions, faces, places, normal * np.outer(weights, weights))

    def edge(self, other: str) -> NDArray[np.bool_]:
        """Say which points, [f, q, q], are on another side too; the points are those of a rule with both ends."""
        q = self.places.shape[-1]
        flags = self.mesh.on_side(self.positions, other, (q, q, q)).reshape(-1, q**3)
        every = np.arange(len(flags))[:, None, None]
        return np.asarray(flags[every, face_places(q)[self.faces]])

    def dirichlet_velocity(self, sides: Mapping[str, VelocitySide], t: float, edges: bool = False) -> Array:
        """Return the Dirichlet velocity at these points, [3, f, q, q].

        edges: whether the points have both ends, and those on another side have its velocity where that overwrites.
        """
        side = sides[self.side]
        found = np.zeros(self.places.shape)
        if side.value is not None:
            x, y, z = self.places
            found[...] = np.asarray(side.value(x, y, z, t))
        order = sides_of(sides, *DIRICHLET)
        for name in order[order.index(self.side) + 1 :] if edges else ():
            at, other = self.edge(name), sides[name]
            x, y, z = self.places[:, at]
            found[:, at] = 0.0 if other.value is None else np.asarray(other.value(x, y, z, t))
        return found


class Flux(NamedTuple):
    """Through a side: what leaves less what enters, both added up, and what the speed would carry straight out."""

    net: float
    moved: float
    most: float

    @classmethod
    def of(cls, faces: Faces, velocity: Array) -> Flux:
        """Return the flux of a velocity [3, f, q, q], volume per time."""
        through = (velocity * faces.normal).sum(axis=0)
        straight = np.sqrt((velocity**2).sum(axis=0) * (faces.normal**2).sum(axis=0))
        return cls(float(through.sum()), float(np.abs(through).sum()), float(straight.sum()))


def countable(mesh: Mesh, side: str) -> bool:
    """Say whether a side has so few elements that all of them are looked at."""
    return mesh.side_size(side) <= MOST_ELEMENTS


def times_of(case: NavierStokesSettings, steady: bool) -> list[float]:
    """Return the times at which values are looked at: of steady ones 0, of others those that a run surely reaches."""
    end = case.run.steps * (case.model.dt or case.model.dt_min or 0.0)
    return [0.0] if steady or not end else np.linspace(0.0, end, TIMES).tolist()


def fluxes_at(case: NavierStokesSettings, mesh: Mesh, t: float) -> dict[str, Flux]:
    """Return what goes through each side that gives the velocity, at a time; no side with too many faces is there."""
    sides, rule = velocity_sides(case), gauss(POINTS)
    found = {}
    for name in (name for name in sides if sides[name].value is not None and countable(mesh, name)):
        faces = Faces.of(mesh, name, rule)
        found[name] = Flux.of(faces, faces.dirichlet_velocity(sides, t))
    return found


def flux_problems(case: NavierStokesSettings) -> Iterator[Problem]:
    """Yield what is wrong with the flow through the sides.

    Its values must be numbers, and walls must not let it through. An outflow must take up an imbalance, and a
    symmetry side must be flat.

    Raises ConfigError for a mapping that cannot be had.
    """
    mesh, sides = mesh_of(case), velocity_sides(case)
    if not all(countable(mesh, name) for name in mesh.sides):
        return
    fine, nodes = gauss(POINTS), gauss_lobatto(case.grid.order + 1)
    for name in sides_of(sides, "symmetry"):
        if not _is_flat(Faces.of(mesh, name, fine)):
            yield Problem(
                f"boundary.{name}.kind", "another kind: a symmetry side is flat and across x, y or z"
            )
    dirichlet = [name for name in sides if sides[name].value is not None]
    smooth = {name: Faces.of(mesh, name, fine) for name in dirichlet}
    discrete = {name: Faces.of(mesh, name, nodes) for name in dirichlet}
    for t in times_of(case, all(sides[name].steady for name in dirichlet)):
        problems = list(_at_time(sides, smooth, discrete, t))
        if problems:
            yield from problems
            return


def closed_inflows(case: NavierStokesSettings) -> Iterator[tuple[str, str]]:
    """Yield (key, sentence) for each given inflow through which nothing flows at any time that is looked at."""
    sides = velocity_sides(case)
    names = [name for name in sides_of(sides, "inflow") if case.boundary.side(name).value != "exact"]
    mesh = mesh_of(case) if names else None
    for name in names:
        assert mesh is not None
        if not countable(mesh, name):
            continue
        faces, times = Faces.of(mesh, name, gauss(POINTS)), times_of(case, sides[name].steady)
        fluxes = [Flux.of(faces, faces.dirichlet_velocity(sides, t)) for t in times]
        if all(flux.moved <= TOLERANCE * flux.most for flux in fluxes):
            yield (
                f"boundary.{name}.value",
                "nothing flows through this inflow, as its velocity is 0 or along the side; give it a velocity "
                f'through the side, or boundary.{name}.kind = "moving-wall" or "wall"',
            )


def _at_time(
    sides: Mapping[str, VelocitySide], smooth: Mapping[str, Faces], discrete: Mapping[str, Faces], t: float
) -> Iterator[Problem]:
    """Yield what is wrong at a time. smooth, discrete: faces with points of a fine rule, and those of the mesh."""
    values = {name: faces.dirichlet_velocity(sides, t) for name, faces in smooth.items()}
    at_points = {name: faces.dirichlet_velocity(sides, t, edges=True) for name, faces in discrete.items()}
    for name in values:
        if not (np.isfinite(values[name]).all() and np.isfinite(at_points[name]).all()):
            yield Problem(f"boundary.{name}.value", f"values that are finite all over the side at t = {t:g}")
            return
    fluxes = {name: Flux.of(smooth[name], velocity) for name, velocity in values.items()}
    for name, flux in fluxes.items():
        if sides[name].kind == "moving-wall" and flux.moved > TOLERANCE * flux.most:
            yield Problem(f"boundary.{name}.value", 'a velocity along the wall, or kind = "inflow"')
            return
    if not fluxes or sides_of(sides, "outflow"):
        return
    key = f"boundary.{(sides_of(sides, 'inflow') or list(fluxes))[-1]}.value"
    net, most = sum(flux.net for flux in fluxes.values()), sum(flux.most for flux in fluxes.values())
    if abs(net) > TOLERANCE * most:
        yield Problem(
            key,
            f'as much flow in as out of all sides, or a side of kind = "outflow": {_way(net)} at t = {t:g}',
        )
        return
    found = [Flux.of(discrete[name], velocity) for name, velocity in at_points.items()]
    net, most = sum(flux.net for flux in found), sum(flux.most for flux in found)
    if abs(net) > LEAK * most:
        yield Problem(
            key,
            "as much flow in as out at the points of the mesh too, where walls are at rest to their edges: a "
            f'velocity that falls to that of the sides beside it, or a side of kind = "outflow": {_way(net)} at '
            f"t = {t:g}",
        )


def _way(net: float) -> str:
    return f"{abs(net):.6g} goes {'out' if net > 0 else 'in'}"


def _is_flat(faces: Faces) -> bool:
    most = np.sort(np.abs(faces.normal).max(axis=(1, 2, 3)))
    return bool(most[1] <= FLAT * most[2])
