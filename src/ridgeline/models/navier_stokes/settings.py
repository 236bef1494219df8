"""The case of the Navier-Stokes model, and the rules between its sections: sides, scalars, initial flow.

The sections themselves are in case_sections/. Faults that show without MPI are found here and in mesh_rules.py; the
engine finds the others on the mesh.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import numpy as np

from ridgeline.config.case import Plain
from ridgeline.config.expressions import VARIABLES, faults
from ridgeline.config.fields import Problem
from ridgeline.config.part_selection import SelectionError, UniformGrid
from ridgeline.config.parts import PartExtent, PartSection
from ridgeline.config.size_law import ALL, GlobalGrid, Settings
from ridgeline.elements.mesh import SIDES
from ridgeline.io.mesh_file import mesh_digest
from ridgeline.models.navier_stokes.case_sections.output import InterpolatedPartSection
from ridgeline.models.navier_stokes.case_sections.sections import EXACT_KINDS, NavierStokesSettings
from ridgeline.models.navier_stokes.mesh_rules import (
    closed_inflows,
    flux_problems,
    formula_problems,
    mesh_problems,
    plane_problems,
)
from ridgeline.models.navier_stokes.part_places import (
    Box,
    domain_box,
    located_grid,
    reaches_domain,
    side_extent,
)
from ridgeline.models.navier_stokes.problem_of_case import mesh_of
from ridgeline.models.navier_stokes.sources import source_names
from ridgeline.runtime.errors import ConfigError

# Initial flows that are defined in a box without a map.
UNMAPPED_KINDS = ("duct", "perturbed-duct", "channel", "perturbed-channel")


def _sides(case: NavierStokesSettings) -> Iterator[Problem]:
    for name in case.side_names():
        side = case.boundary.side(name)
        if side.has_value and side.value == "exact" and case.initial.kind not in EXACT_KINDS:
            yield Problem(
                f"boundary.{name}.value",
                f"numbers or formulas unless initial.kind is an exact solution ({', '.join(EXACT_KINDS)})",
            )
    yield from _sides_of_file(case) if case.grid.mesh else _sides_of_box(case)


def _sides_of_box(case: NavierStokesSettings) -> Iterator[Problem]:
    for side in SIDES:
        kind, periodic = case.boundary.side(side).kind, case.is_periodic(side)
        axis = side[0]
        place = "zyx".index(axis)
        if periodic and kind not in (None, "periodic"):
            yield Problem(
                f"boundary.{side}.kind",
                f'"periodic" or left out, because grid.periodic[{place}] (direction {axis}) is true',
            )
        elif not periodic and kind == "periodic":
            yield Problem(
                f"boundary.{side}.kind",
                f"another kind, unless grid.periodic[{place}] (direction {axis}) is true",
            )
        elif not periodic and kind is None:
            yield Problem(
                f"boundary.{side}.kind",
                f'"wall", "moving-wall", "inflow", "outflow" or "symmetry" at side {side}, unless '
                f"grid.periodic[{place}] is true",
            )


def _sides_of_file(case: NavierStokesSettings) -> Iterator[Problem]:
    """Yield what is wrong with [boundary] without a look at the mesh file: kinds and partners."""
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
            other
            for other in boundary.given()
            if name == boundary.side(other).partner and case.is_periodic(other)
        ]
        if not partner and not named_by:
            yield Problem(f"boundary.{name}.partner", "the name of the side with which this one is periodic")
        elif partner:
            other = boundary.side(partner)
            if partner == name or other.kind != "periodic" or other.partner not in ("", name):
                yield Problem(
                    f"boundary.{name}.partner",
                    'another side of kind "periodic" whose partner is this side or is left out',
                )
            elif partners.setdefault(partner, name) != name:
                yield Problem(
                    f"boundary.{name}.partner",
                    f"a side that is not the partner of {partners[partner]} already",
                )


def _scalars(case: NavierStokesSettings) -> Iterator[Problem]:
    for number in range(len(case.scalar)):
        for side in case.side_names():
            kind, periodic = case.scalar_kind(number, side), case.is_periodic(side)
            key = f"scalar.{number}.boundary.{side}.kind"
            if kind is None:
                yield Problem(
                    key, f'"fixed", "flux" or "adiabatic" at side {side}, where the flow is not periodic'
                )
            elif periodic != (kind == "periodic"):
                yield Problem(
                    key,
                    '"periodic" or left out, because the flow is periodic here'
                    if periodic
                    else '"fixed", "flux" or "adiabatic", because the flow is not periodic here',
                )


def _initial(case: NavierStokesSettings) -> Iterator[Problem]:
    kind = case.initial.kind
    if kind not in UNMAPPED_KINDS:
        return
    if case.grid.mesh:
        yield Problem("initial.kind", f'another kind on a mesh from a file, because "{kind}" requires a box')
        return
    if case.grid.mapping != "none":
        yield Problem("initial.kind", f'another kind than "{kind}", unless grid.mapping = "none"')
    along = case.initial.direction
    if "channel" in kind:
        others = [axis for axis in "xyz" if axis != along]
        if len(case.walled_directions()) != 1 or sum(case.grid.periodic["zyx".index(a)] for a in others) != 1:
            yield Problem(
                "initial.direction",
                f'the direction along the channel with initial.kind = "{kind}": both sides of one other direction '
                'must have kind = "wall", and the third direction must be periodic',
            )
        return
    across = [side for side in SIDES if side[0] != along]
    if any(case.boundary.side(side).kind != "wall" for side in across):
        yield Problem(
            "initial.direction",
            f'the direction along the duct with initial.kind = "{kind}": the sides {", ".join(across)} must have '
            'kind = "wall"',
        )


def _buoyancy(case: NavierStokesSettings) -> Iterator[Problem]:
    gravity = case.model.gravity
    for i, scalar in enumerate(case.scalar):
        gradient = scalar.mean_gradient
        if not (any(gravity) and scalar.expansion):
            continue
        # Parallel but for rounding; a vector of zeros is parallel to all.
        lengths = float(np.linalg.norm(gradient) * np.linalg.norm(gravity))
        if float(np.linalg.norm(np.cross(gradient, gravity))) > 1e-12 * lengths:
            yield Problem(
                f"scalar.{i}.mean_gradient",
                "parallel to model.gravity if the scalar has an expansion, because no pressure can balance the "
                "buoyancy of any other gradient",
            )


def _sources(case: NavierStokesCase) -> Iterator[Problem]:
    names = source_names(len(case.scalar))
    yield from faults("model.source", case.model.source, variables=names)
    for i, scalar in enumerate(case.scalar):
        yield from faults(f"scalar.{i}.source", (scalar.source,), variables=names)
        for side in (*SIDES, *scalar.boundary.__pydantic_extra__):
            section = scalar.boundary.side(side)
            allowed = names if section.kind == "flux" else VARIABLES
            yield from faults(f"scalar.{i}.boundary.{side}.value", (section.value,), variables=allowed)
    for key, text in case.coefficient_formulas().items():
        yield from faults(key, (text,), variables=names)
        if case.run.device == "cuda":
            yield Problem(key, 'left out with run.device = "cuda", because there are no GPU kernels for it')
    for i, sponge in enumerate(case.sponge):
        if len(sponge.scalars) > len(case.scalar):
            yield Problem(f"sponge.{i}.scalars", f"at most as many targets as [[scalar]], {len(case.scalar)}")


def _others(case: NavierStokesSettings) -> Iterator[Problem]:
    least = case.grid.order + 1
    dealias = case.model.dealias_order
    if dealias != "none" and 0 < dealias < least:
        yield Problem("model.dealias_order", f'0, an integer >= grid.order + 1 = {least}, or "none"')
    if case.model.expected_re_tau is not None and (not case.wall_sides() or not case.is_plain_box):
        yield Problem(
            "model.expected_re_tau",
            'left out unless the domain is a box with grid.mapping = "none" that has sides of kind "wall"',
        )
    if case.model.viscosity_formula and case.output.statistics_of == "budgets":
        yield Problem(
            "output.statistics_of",
            "another value with model.viscosity_formula, because the budgets assume a constant viscosity",
        )
    if case.run.stop_when == "steady" and case.model.time_order == 1:
        yield Problem(
            "model.time_order", '2 or 3 with run.stop_when = "steady", which compares two levels in time'
        )
    forcing = case.model.forcing
    if (
        forcing.kind == "flow-rate"
        and not case.grid.mesh
        and not case.is_periodic(f"{forcing.direction}_min")
    ):
        yield Problem("model.forcing.direction", "a periodic direction (grid.periodic)")
    most = len(case.scalar) - 1
    if any(name.startswith("scalar_") and int(name[7:]) > most for name in case.output.variables):
        have = f"the case has {most + 1} [[scalar]]" if most >= 0 else "the case has no [[scalar]]"
        yield Problem("output.variables", f"a list without scalars that do not exist ({have})")
    for i, part in enumerate(case.output.part):
        if case.grid.mesh and part.points is None and case.output.uniform is None and not part.side:
            yield Problem(
                f"output.part.{i}.points", "three integers >= 1 as [nz, ny, nx] on a mesh from a file"
            )
    not_periodic = [d for d in case.output.homogeneous if not case.grid.periodic["zyx".index(d)]]
    if not_periodic and not case.grid.mesh:
        yield Problem("output.homogeneous", "a list of periodic directions (grid.periodic)")
    closed = [side for side in case.side_names() if not case.is_periodic(side)]
    if not {*case.output.forces.sides} <= {*closed}:
        yield Problem(
            "output.forces.sides",
            f"a list of sides that are not periodic, which are {', '.join(closed)}"
            if closed
            else "empty, because all sides are periodic",
        )
    if case.output.homogeneous and case.grid.mesh:
        yield Problem(
            "output.homogeneous",
            "empty with grid.mesh, because only a box has lines of points along x, y or z",
        )


def growing_directions(settings: Settings) -> tuple[int, ...]:
    """Return the directions in which a box grows with the ranks of a study: along a duct, not across it.

    They are the periodic directions with elements of one length, in which a longer box holds the same flow; all three
    if there is no such direction. Raises ConfigError for a mesh from a file and for edges that are listed, which do
    not grow.
    """
    mesh = settings.get("grid.mesh")
    if mesh:
        raise ConfigError(
            f'weak scaling changes grid.elements, but grid.mesh = "{mesh}" has a fixed size. Study the mesh with '
            f"--strong, or a box with --weak."
        )
    listed = [bool(settings.get(f"grid.edges.{axis}")) for axis in "zyx"]
    free = zip(settings["grid.periodic"], settings["grid.distribution"], listed)
    growing = tuple(
        d for d, (periodic, kind, fixed) in enumerate(free) if periodic and kind == "uniform" and not fixed
    )
    if not growing and any(listed):
        raise ConfigError(
            "weak scaling changes grid.elements in a periodic direction with elements of equal length, but "
            "grid.edges leaves none. Study the box with --strong, or replace grid.edges by grid.distribution."
        )
    return growing or ALL


class NavierStokesCase(NavierStokesSettings):
    """Settings of one run of the Navier-Stokes model."""

    SIZE_LAW = GlobalGrid("grid.elements", "grid.lengths", directions=growing_directions)

    @cached_property
    def mesh_contents(self) -> str:
        """The digest of the mesh file when the settings were checked; a file that changes later is the same run."""
        return mesh_digest(Path(self.grid.mesh))

    def step_length(self) -> float:
        """Return model.dt, or the first step that model.courant chooses for a flow that does not start suddenly."""
        return self._step_of_courant if self.model.dt is None else self.model.dt

    @cached_property
    def _step_of_courant(self) -> float:
        from ridgeline.models.navier_stokes.check_remarks import first_courant_rate  # it reads this case

        control = self.model.control()
        assert control is not None  # case_sections/sections.py: either dt or courant
        rate, _ = first_courant_rate(self, mesh_of(self))
        return control.first(rate) if rate or control.longest < math.inf else math.nan

    def assumption(self) -> str:
        return "" if self.model.courant is None else ", that of step 0 by model.courant,"

    @cached_property
    def domain(self) -> Box:
        """The box around the domain: its ends, each (z, y, x)."""
        return domain_box(mesh_of(self), self.grid.order)

    def part_grid(self, part: PartSection) -> UniformGrid:
        return located_grid(part, self.part_points(part), self.domain)

    def part_extent(self, part: PartSection) -> PartExtent:
        """Return how large a part is. Raises SelectionError, also for points that all lie outside the domain."""
        assert isinstance(part, InterpolatedPartSection)
        mesh = mesh_of(self)
        if part.side:
            return side_extent(self, mesh, part)
        extent = super().part_extent(part)
        grid = self.part_grid(part)
        if not reaches_domain(mesh, self.grid.order, grid, part.select(grid)):
            key = next((key for key in ("line", "plane", "box") if getattr(part, key)), "points")
            raise SelectionError(
                key, "such that a point of the part lies inside the domain, where all are outside"
            )
        return extent

    def identity(self) -> dict[str, Plain]:
        """Return the settings that decide the numbers, with the contents of a mesh file instead of its path."""
        settings = super().identity()
        return settings | {"grid.mesh": f"contents {self.mesh_contents}"} if self.grid.mesh else settings

    def doubts(self) -> Iterator[tuple[str, str]]:
        """Yield the inflows through which nothing flows, and statistics that begin after the end."""
        yield from closed_inflows(self)
        start = self.output.statistics_start
        if not start or not self.output.interval("statistics_every"):
            return
        end = self.run.end_time if self.assumption() else self.planned_end()
        if end is not None and start >= end:
            yield (
                "output.statistics_start",
                f"the run ends at time {end:.6g}, so that its statistics have no samples. Set an earlier start, or a "
                "later end.",
            )

    def problems(self) -> Iterator[Problem]:
        problems = list(_sides(self))
        if self.grid.mesh and not problems:
            problems += mesh_problems(self)
            assert self.mesh_contents  # read now, with the mesh
        if not self.grid.mesh or not problems:  # one fault is enough for sides that the mesh does not have
            problems += [*_scalars(self), *_initial(self), *_buoyancy(self), *_sources(self), *_others(self)]
        yield from problems
        if not problems:
            # These need the mesh, and functions that the rules above have checked.
            yield from flux_problems(self)
            yield from formula_problems(self)
            yield from plane_problems(self)


CASE = NavierStokesCase
