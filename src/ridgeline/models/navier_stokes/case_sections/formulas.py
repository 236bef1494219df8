"""Formulas that have no finite value somewhere on the mesh of a case: found before a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ridgeline.config.expressions import is_number, parse
from ridgeline.config.fields import Problem, toml
from ridgeline.elements.mesh_protocol import Mesh
from ridgeline.elements.quadrature import gauss_lobatto
from ridgeline.models.navier_stokes.case_sections.fluxes import Faces, countable, times_of
from ridgeline.models.navier_stokes.case_sections.sections import NavierStokesSettings
from ridgeline.models.navier_stokes.exact import Array
from ridgeline.models.navier_stokes.problem_of_case import mesh_of, scalar_sides

MOST_POINTS = 300_000  # that are looked at; of larger meshes those of evenly spread elements, ends included


def formula_problems(case: NavierStokesSettings) -> Iterator[Problem]:
    """Yield the formulas of the initial flow and of scalars that are not finite at a point of the mesh.

    Raises ConfigError for a mapping that cannot be had.
    """
    asked: list[tuple[str, Sequence[str], bool]] = []
    if case.initial.kind in ("uniform", "expression"):
        asked.append(("initial.velocity", case.initial.velocity, True))
    for i, scalar in enumerate(case.scalar):
        asked += [
            (f"scalar.{i}.initial", (scalar.initial,), True),
            (f"scalar.{i}.source", (scalar.source,), False),
        ]
    asked = [(key, texts, steady) for key, texts, steady in asked if not all(map(is_number, texts))]
    mesh = mesh_of(case)
    if asked:
        places = some_points(mesh, case.grid.order)
        for key, texts, steady in asked:
            yield from _faults(case, key, texts, places, steady)
    for i in range(len(case.scalar)):
        yield from _scalar_sides(case, mesh, i)


def some_points(mesh: Mesh, order: int) -> Array:
    """Return coordinates (x, y, z) of points of the mesh, [3, m]: all of them, or at most about MOST_POINTS."""
    n = order + 1
    return mesh.places(mesh.spread(MOST_POINTS // n**3), gauss_lobatto(n)[0]).reshape(3, -1)


def _scalar_sides(case: NavierStokesSettings, mesh: Mesh, number: int) -> Iterator[Problem]:
    """Yield the values of a scalar at sides that are not finite; where two sides fix it, the later one does."""
    sides = scalar_sides(case, number)
    for name in sides:
        text = case.scalar[number].boundary.side(name).value
        if sides[name].value is None or is_number(text) or not countable(mesh, name):
            continue
        faces = Faces.of(mesh, name, gauss_lobatto(case.grid.order + 1))
        used = np.ones(faces.places.shape[1:], np.bool_)
        if sides[name].kind == "fixed":
            for other in list(sides)[list(sides).index(name) + 1 :]:
                if sides[other].kind == "fixed":
                    used &= ~faces.edge(other)
        key = f"scalar.{number}.boundary.{name}.value"
        yield from _faults(case, key, (text,), faces.places[:, used], sides[name].steady)


def _faults(
    case: NavierStokesSettings, key: str, texts: Sequence[str], places: Array, steady: bool
) -> Iterator[Problem]:
    """Yield the first of some formulas that is not finite at points [3, m], and where."""
    for text in texts:
        formula = parse(text)
        for t in times_of(case, steady or formula.steady):
            found = formula(places[0], places[1], places[2], t)
            bad = np.flatnonzero(~np.isfinite(found))
            if len(bad):
                value, (x, y, z) = found[bad[0]], places[:, bad[0]]
                at = f"x = {x:.6g}, y = {y:.6g}, z = {z:.6g}" + ("" if formula.steady else f", t = {t:.6g}")
                yield Problem(key, f"finite values all over the mesh: {toml(text)} is {value:g} at {at}")
                return
