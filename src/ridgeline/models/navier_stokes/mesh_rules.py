"""The rules of a case that need its mesh: they find before a run what the engine or the physics would refuse.

    mesh_problems(case)           sides, periodic pairs and flow rates that a mesh from a file does not have
    flux_problems(case)           flow through the sides that cannot balance; `closed_inflows`: inflows without flow
    formula_problems(case)        formulas that are not finite somewhere on the mesh
    plane_problems(case)          domains in which a flow has no streamfunction
    checked_places(case, mesh)    places of probes outside the mesh

The flow through the sides is integrated twice. A Gauss rule that is finer than that of the mesh finds faults of the
settings and not of the resolution. The rule of the engine takes the points of the mesh, whose edges belong to one
side. No function communicates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ridgeline.config.check import nearest
from ridgeline.config.expressions import is_number, parse
from ridgeline.config.fields import Problem, toml
from ridgeline.elements.hexahedron import face_places
from ridgeline.elements.inverse_map import places_inside
from ridgeline.elements.mesh import BoxMesh
from ridgeline.elements.mesh_protocol import Mesh
from ridgeline.elements.meshes.hexahedra import HexahedralMesh
from ridgeline.elements.quadrature import derivative_matrix, gauss, gauss_lobatto
from ridgeline.io.place_lists import read_places
from ridgeline.models.navier_stokes.case_sections.sections import NavierStokesSettings
from ridgeline.models.navier_stokes.exact import Array
from ridgeline.models.navier_stokes.initial import initial_fields
from ridgeline.models.navier_stokes.problem import DIRICHLET, LEAK, VelocitySide, sides_of
from ridgeline.models.navier_stokes.problem_of_case import mesh_of, scalar_sides, velocity_sides
from ridgeline.models.navier_stokes.sources import PLACES, field_symbols, source_names, values_of
from ridgeline.runtime.errors import ConfigError

POINTS = 12  # Gauss points in each direction of a face
# The largest flux that counts as rounding of a profile, over the flux of the same speed straight through the side.
# The flux in and out would be a bad measure: for a velocity along the side it is rounding itself.
TOLERANCE = 1e-4
MOST_ELEMENTS = 20_000  # of a side that are integrated; larger sides are left to the engine
FLAT = 1e-10  # largest relative difference between the normals of a symmetry side
FLAT_PLANE = 1e-8  # of the extent of an element: the depth of a plane of its points
TIMES = 5  # from the first to the last of a run, at which values that depend on time are evaluated
MOST_POINTS = 300_000  # at which formulas are evaluated; of larger meshes, those of evenly spread elements
ALONG = 1e-6  # smallest share of a translation's length that is along a direction
SHOWN = 5  # places that an error names
POINTS_AT_ONCE = 2**18  # points of elements in which places are searched at a time

Rule = tuple[Array, Array]


def mesh_problems(case: NavierStokesSettings) -> Iterator[Problem]:
    """Yield what the settings and a mesh from a file disagree on. ConfigError for a mesh that cannot be used."""
    mesh = mesh_of(case)
    assert isinstance(mesh, HexahedralMesh)
    given = [name for name in case.boundary.given() if not case.is_periodic(name)]
    has = f"only {', '.join(mesh.sides)}" if mesh.sides else "and all its sides are periodic"
    for name in given:
        if name not in mesh.sides:
            near = nearest(name, list(mesh.sides))
            hint = f" (did you mean {near}?)" if near else ""
            yield Problem(
                f"boundary.{name}.kind", f"left out, because the mesh has no side of this name, {has}{hint}"
            )
    missing = [name for name in mesh.sides if name not in given]
    if missing:
        yield Problem(
            "grid.mesh",
            "accompanied by a section [boundary.NAME] with a kind for each side of the mesh, which is missing for "
            f"{', '.join(missing)}",
        )
    forcing = case.model.forcing
    axis = "xyz".index(forcing.direction)
    along = [t for t in mesh.translations if abs(t[axis]) > ALONG * max(map(abs, t))]
    if forcing.kind == "flow-rate" and not along:
        yield Problem("model.forcing.direction", "a direction along which two sides of the mesh are periodic")


@dataclass(frozen=True, eq=False)
class Faces:
    """The f faces of a side with q x q points each, lines of the faster direction last.

    positions: of their elements in the mesh; faces: int64 [f], 0 ... 5; places: coordinates [3, f, q, q];
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
            points_of_part = mesh.places(positions[part], (lines[0], lines[1], lines[2])).squeeze(2 + axis)
            along_faster = np.einsum("il,cfjl->cfji", d, points_of_part)
            along_slower = np.einsum("jl,cfli->cfji", d, points_of_part)
            # x = r, y = s, z = t are right-handed: d/dfaster x d/dslower points along +x and +z, and against y.
            sign = (1.0 if upper else -1.0) * (-1.0 if axis == 1 else 1.0)
            places[:, part] = points_of_part
            normal[:, part] = sign * np.cross(along_faster, along_slower, axis=0)
        return cls(mesh, side, positions, faces, places, normal * np.outer(weights, weights))

    def edge(self, other: str) -> NDArray[np.bool_]:
        """Say which points, [f, q, q], are on another side too. The quadrature rule must have both ends."""
        q = self.places.shape[-1]
        flags = self.mesh.on_side(self.positions, other, (q, q, q)).reshape(-1, q**3)
        every = np.arange(len(flags))[:, None, None]
        return np.asarray(flags[every, face_places(q)[self.faces]])

    def dirichlet_velocity(self, sides: Mapping[str, VelocitySide], t: float, edges: bool = False) -> Array:
        """Return the Dirichlet velocity at these points, [3, f, q, q].

        edges: whether points that are on another side too have the velocity of the side that overwrites the other,
        as in the engine. The quadrature rule must then have both ends.
        """
        side = sides[self.side]
        velocity = np.zeros(self.places.shape)
        if side.value is not None:
            x, y, z = self.places
            velocity[...] = np.asarray(side.value(x, y, z, t))
        order = sides_of(sides, *DIRICHLET)
        for name in order[order.index(self.side) + 1 :] if edges else ():
            at, other = self.edge(name), sides[name]
            x, y, z = self.places[:, at]
            velocity[:, at] = 0.0 if other.value is None else np.asarray(other.value(x, y, z, t))
        return velocity


class Flux(NamedTuple):
    """The flow through a side: out less in, out plus in, and what the speed would carry straight through it."""

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
    """Say whether a side has few enough elements to be integrated."""
    return mesh.side_size(side) <= MOST_ELEMENTS


def times_of(case: NavierStokesSettings, steady: bool) -> list[float]:
    """Return the times at which values are evaluated: 0 if they are steady, otherwise times that the run reaches."""
    shortest = case.model.dt or case.model.dt_min or 0.0
    steps = math.inf if case.run.steps is None else case.run.steps
    latest = math.inf if case.run.end_time is None else case.run.end_time
    end = min(steps * shortest, latest) if shortest else 0.0
    return [0.0] if steady or not end else np.linspace(0.0, end, TIMES).tolist()


def fluxes_at(case: NavierStokesSettings, mesh: Mesh, t: float) -> dict[str, Flux]:
    """Return the flow through each side that gives the velocity, at a time, without sides of too many faces."""
    sides, rule = velocity_sides(case), gauss(POINTS)
    fluxes = {}
    for name in (name for name in sides if sides[name].value is not None and countable(mesh, name)):
        faces = Faces.of(mesh, name, rule)
        fluxes[name] = Flux.of(faces, faces.dirichlet_velocity(sides, t))
    return fluxes


def flux_problems(case: NavierStokesSettings) -> Iterator[Problem]:
    """Yield what is wrong with the flow through the sides.

    Velocities must be finite and along moving walls; without an outflow they must balance; a symmetry side must be
    flat. Raises ConfigError for a mapping that cannot be loaded.
    """
    mesh, sides = mesh_of(case), velocity_sides(case)
    if not all(countable(mesh, name) for name in mesh.sides):
        return
    fine, nodes = gauss(POINTS), gauss_lobatto(case.grid.order + 1)
    for name in sides_of(sides, "symmetry"):
        if not _is_flat(Faces.of(mesh, name, fine)):
            yield Problem(
                f"boundary.{name}.kind",
                "another kind, because a symmetry side must be flat and perpendicular to x, y or z",
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
    """Yield (key, sentence) for each given inflow through which nothing flows at any of `times_of`."""
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
                "nothing flows through this inflow, because its velocity is 0 or parallel to the side. Give it a "
                f'velocity through the side, or set boundary.{name}.kind = "moving-wall" or "wall".',
            )


def _at_time(
    sides: Mapping[str, VelocitySide], smooth: Mapping[str, Faces], discrete: Mapping[str, Faces], t: float
) -> Iterator[Problem]:
    """Yield what is wrong at a time. smooth, discrete: faces with the points of a fine rule, and of the mesh."""
    values = {name: faces.dirichlet_velocity(sides, t) for name, faces in smooth.items()}
    at_points = {name: faces.dirichlet_velocity(sides, t, edges=True) for name, faces in discrete.items()}
    for name in values:
        if not (np.isfinite(values[name]).all() and np.isfinite(at_points[name]).all()):
            yield Problem(f"boundary.{name}.value", f"finite everywhere on the side at t = {t:g}")
            return
    fluxes = {name: Flux.of(smooth[name], velocity) for name, velocity in values.items()}
    for name, flux in fluxes.items():
        if sides[name].kind == "moving-wall" and flux.moved > TOLERANCE * flux.most:
            yield Problem(f"boundary.{name}.value", 'parallel to the wall, unless kind = "inflow"')
            return
    if not fluxes or sides_of(sides, "outflow"):
        return
    key = f"boundary.{(sides_of(sides, 'inflow') or list(fluxes))[-1]}.value"
    net, most = sum(flux.net for flux in fluxes.values()), sum(flux.most for flux in fluxes.values())
    if abs(net) > TOLERANCE * most:
        yield Problem(
            key,
            "such that as much fluid enters as leaves through all sides, unless a side has "
            f'kind = "outflow". At t = {t:g} {_net_words(net)}',
        )
        return
    on_mesh = [Flux.of(discrete[name], velocity) for name, velocity in at_points.items()]
    net, most = sum(flux.net for flux in on_mesh), sum(flux.most for flux in on_mesh)
    if abs(net) > LEAK * most:
        yield Problem(
            key,
            "such that as much fluid enters as leaves also at the points of the mesh, where walls are at rest up to "
            "their edges. Give the side a velocity that equals that of the neighbouring sides at its edges, or set "
            f'kind = "outflow" on a side. At t = {t:g} {_net_words(net)}',
        )


def _net_words(net: float) -> str:
    return f"the net {'outflow' if net > 0 else 'inflow'} is {abs(net):.6g}"


def _is_flat(faces: Faces) -> bool:
    most = np.sort(np.abs(faces.normal).max(axis=(1, 2, 3)))
    return bool(most[1] <= FLAT * most[2])


def formula_problems(case: NavierStokesSettings) -> Iterator[Problem]:
    """Yield the formulas of the initial flow and of scalars that are not finite at a point of the mesh.

    Raises ConfigError for a mapping that cannot be loaded.
    """
    formulas: list[tuple[str, Sequence[str], bool]] = []  # key, texts, whether they are steady
    if case.initial.kind in ("uniform", "expression"):
        formulas.append(("initial.velocity", case.initial.velocity, True))
    formulas.append(("model.source", case.model.source, False))
    for i, scalar in enumerate(case.scalar):
        formulas += [
            (f"scalar.{i}.initial", (scalar.initial,), True),
            (f"scalar.{i}.source", (scalar.source,), False),
        ]
    for i, sponge in enumerate(case.sponge):
        formulas += [
            (f"sponge.{i}.strength", (sponge.strength,), False),
            (f"sponge.{i}.velocity", sponge.velocity or (), False),
            (f"sponge.{i}.scalars", sponge.scalar_targets(), False),
        ]
    coefficients = case.coefficient_formulas()
    formulas += [(key, (text,), False) for key, text in coefficients.items()]
    formulas = [(key, texts, steady) for key, texts, steady in formulas if not all(map(is_number, texts))]
    mesh = mesh_of(case)
    if formulas:
        places = some_points(mesh, case.grid.order)
        for key, texts, steady in formulas:
            yield from _not_finite(
                case, key, texts, places, steady, 0.0 if key in coefficients else -math.inf
            )

    for i, scalar in enumerate(case.scalar):
        sides = scalar_sides(case, i)
        for name in sides:
            text = scalar.boundary.side(name).value
            if sides[name].value is None or is_number(text) or not countable(mesh, name):
                continue
            faces = Faces.of(mesh, name, gauss_lobatto(case.grid.order + 1))
            used = np.ones(faces.places.shape[1:], np.bool_)
            if sides[name].kind == "fixed":
                for other in list(sides)[list(sides).index(name) + 1 :]:
                    if sides[other].kind == "fixed":  # where two sides fix the scalar, the later one does
                        used &= ~faces.edge(other)
            key = f"scalar.{i}.boundary.{name}.value"
            yield from _not_finite(case, key, (text,), faces.places[:, used], sides[name].steady)


def some_points(mesh: Mesh, order: int) -> Array:
    """Return coordinates (x, y, z) of points of the mesh, [3, m]: all of them, or at most about MOST_POINTS."""
    n = order + 1
    return mesh.places(mesh.spread(MOST_POINTS // n**3), gauss_lobatto(n)[0]).reshape(3, -1)


def _not_finite(
    case: NavierStokesSettings,
    key: str,
    texts: Sequence[str],
    places: Array,
    steady: bool,
    least: float = -math.inf,
) -> Iterator[Problem]:
    """Yield the first formula that is not finite, or below `least`, at one of the points [3, m], and where.

    A formula that holds the flow is evaluated with that of step 0.
    """
    n_scalars = len(case.scalar)
    for text in texts:
        formula = parse(text, source_names(n_scalars))
        of_flow = formula.variables.intersection(field_symbols(n_scalars))
        fields = initial_fields(case, places) if of_flow else np.empty((3 + n_scalars, 0))
        for t in [0.0] if of_flow else times_of(case, steady or formula.steady):
            values = values_of(places, t, fields)
            results = np.broadcast_to(formula.evaluate(values), places.shape[1:])
            bad = np.flatnonzero(~(np.isfinite(results) & (results >= least)))
            if len(bad):
                names = [*PLACES, *sorted(of_flow)]
                at = ", ".join(f"{name} = {values[name][bad[0]]:.6g}" for name in names)
                at += "" if formula.steady else f", t = {t:.6g}"
                rule = "finite" if least == -math.inf else "finite and not negative"
                yield Problem(
                    key, f"{rule} everywhere on the mesh. {toml(text)} is {results[bad[0]]:g} at {at}"
                )
                return


def plane_problems(case: NavierStokesSettings) -> Iterator[Problem]:
    """Yield why a flow has no streamfunction, for each that is to be written.

    Sides are along the axis of its planes, or planes across it, and the points of the elements lie in planes. Raises
    ConfigError for a mapping that cannot be loaded.
    """
    written = case.fields_written()
    for name, axis in (("streamfunction", 2), ("streamfunction_x", 0), ("streamfunction_y", 1)):
        fault = _not_in_planes(case, axis) if name in written else ""
        if fault:
            yield Problem(
                "output.variables",
                f"without {name}, which is that of the flow in planes {'xyz'[axis]} = const: {fault}",
            )


def _not_in_planes(case: NavierStokesSettings, axis: int) -> str:
    """Say which side, or which element, does not let the points of the mesh lie in planes; "" if they do."""
    mesh, name = mesh_of(case), "xyz"[axis]
    for side in velocity_sides(case):
        if not countable(mesh, side):
            continue
        size = np.abs(Faces.of(mesh, side, gauss(POINTS)).normal).max(axis=(1, 2, 3))
        across = np.delete(size, axis).max() <= FLAT * size[axis]
        if not (size[axis] <= FLAT * size.max() or across):
            return f"side {side} is neither along {name} nor a plane across {name}"
    if mesh.axis_aligned:
        return ""
    n = case.grid.order + 1
    positions = mesh.spread(MOST_POINTS // n**3)
    places = mesh.places(positions, gauss_lobatto(n)[0])[axis]
    extent = np.ptp(places.reshape(len(places), -1), axis=1)
    for direction in (1, 2, 3):  # of reference coordinates, in which the others may be along the planes
        others = tuple(other for other in (1, 2, 3) if other != direction)
        extent = np.where(np.ptp(places, axis=others).max(axis=1) <= FLAT_PLANE * extent, 0.0, extent)
    bent = np.flatnonzero(extent)
    return f"the points of {mesh.name_of(positions[bent[0]])} do not lie in such planes" if len(bent) else ""


def places_of(case: NavierStokesSettings) -> Array:
    """Return the places of a case, float64 [m, 3] of (x, y, z): those of its [[probe]], then those of its file.

    Raises ConfigError for a file that cannot be read, that is empty or that holds something else.
    """
    parts = [np.empty((0, 3))]
    for probe in case.probe:
        end = probe.place if probe.to is None else probe.to
        parts.append(np.linspace(probe.place, end, probe.points))
    if case.output.probes.file:
        parts.append(read_places(case.output.probes.file, "output.probes.file"))
    places = np.concatenate(parts)
    if not len(places):
        raise ConfigError(
            f'output.probes.file = "{case.output.probes.file}" contains no position. It must have at least one line '
            "x,y,z."
        )
    return places


def refuse_outside(places: Array, missing: NDArray[np.int64]) -> None:
    """Raise ConfigError if places, whose numbers are `missing`, lie outside the domain."""
    if not len(missing):
        return
    shown = ", ".join(f"probe {i} at {tuple(places[i].tolist())}" for i in missing[:SHOWN])
    more = f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
    raise ConfigError(
        f"[[probe]] and output.probes.file: of {len(places)} probes, {shown}{more} lie outside the domain. All "
        f"positions [x, y, z] must be inside it, even where it is periodic."
    )


def checked_places(case: NavierStokesSettings, mesh: Mesh) -> Array:
    """Return the places of a case. Raises ConfigError as `places_of`, and for places outside the mesh. No MPI."""
    places = places_of(case)
    if isinstance(mesh, BoxMesh) and mesh.axis_aligned:
        low, high = (np.array([mesh.edges[axis][end] for axis in (2, 1, 0)]) for end in (0, -1))
        slack = 1e-9 * (high - low)
        outside = ((places < low - slack) | (places > high + slack)).any(axis=1)
    else:
        outside = np.ones(len(places), np.bool_)
        n = case.grid.order + 1
        at_once = max(POINTS_AT_ONCE // n**3, 1)
        for first in range(0, mesh.n_elements, at_once):
            positions = mesh.range(first, min(at_once, mesh.n_elements - first))
            for _, numbers, _ in places_inside(mesh.places(positions, gauss_lobatto(n)[0]), places):
                outside[numbers] = False
    refuse_outside(places, np.flatnonzero(outside))
    return places
