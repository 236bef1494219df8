"""Rules between settings and a mesh from a file: its sides and those of [boundary], periodic pairs, flow rates."""

from __future__ import annotations

from collections.abc import Iterator

from ridgeline.config.check import nearest
from ridgeline.config.fields import Problem
from ridgeline.elements.meshes.hexahedra import HexahedralMesh
from ridgeline.models.navier_stokes.case_sections.sections import NavierStokesSettings
from ridgeline.models.navier_stokes.problem_of_case import mesh_of

ALONG = 1e-6  # of the length of a translation: less is not along a direction


def sides_of_file(case: NavierStokesSettings) -> Iterator[Problem]:
    """Yield what is wrong with [boundary] without looking at the file: kinds and partners."""
    boundary = case.boundary
    for name in boundary.__pydantic_extra__:
        if boundary.side(name).kind is None:
            yield Problem(
                f"boundary.{name}.kind",
                '"wall", "moving-wall", "inflow", "outflow", "symmetry" or "periodic"',
            )
    partners: dict[str, str] = {}
    for name in boundary.given():
        partner = boundary.side(name).partner
        if boundary.side(name).kind != "periodic":
            continue
        named_by = [
            one for one in boundary.given() if name == boundary.side(one).partner and case.is_periodic(one)
        ]
        if not partner and not named_by:
            yield Problem(f"boundary.{name}.partner", "the side with which this one is periodic")
        elif partner:
            other = boundary.side(partner)
            if partner == name or other.kind != "periodic" or other.partner not in ("", name):
                yield Problem(
                    f"boundary.{name}.partner",
                    'another side of kind "periodic", which names this one or none',
                )
            elif partners.setdefault(partner, name) != name:
                yield Problem(
                    f"boundary.{name}.partner", f"one that is not {partners[partner]}'s partner, too"
                )


def mesh_problems(case: NavierStokesSettings) -> Iterator[Problem]:
    """Yield what is wrong between the settings and the file. Raises ConfigError for a mesh that cannot be used."""
    mesh = mesh_of(case)
    assert isinstance(mesh, HexahedralMesh)
    given = [name for name in case.boundary.given() if not case.is_periodic(name)]
    has = ", ".join(mesh.sides) or "none that is not periodic"
    for name in given:
        if name not in mesh.sides:
            near = nearest(name, list(mesh.sides))
            hint = f" (did you mean {near}?)" if near else ""
            yield Problem(f"boundary.{name}.kind", f"a side that the mesh has: {has}{hint}")
    missing = [name for name in mesh.sides if name not in given]
    if missing:
        yield Problem(
            "grid.mesh",
            f"a [boundary.NAME] with a kind for each side of it: none is given for {', '.join(missing)}",
        )
    forcing = case.model.forcing
    axis = "xyz".index(forcing.direction)
    along = [t for t in mesh.translations if abs(t[axis]) > ALONG * max(map(abs, t))]
    if forcing.kind == "flow-rate" and not along:
        yield Problem("model.forcing.direction", "a direction along which two sides of the mesh are periodic")
