"""Rules between the settings of a Navier-Stokes case: sides, time step, scalars, initial flow.

Whatever can be known without MPI is found here; the engine checks the rest on the mesh.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ridgeline.config.fields import Problem
from ridgeline.elements.mesh import SIDES, side_axis

if TYPE_CHECKING:
    from ridgeline.models.navier_stokes.config import NavierStokesCase

# Initial flows that are exact solutions of the equations: "exact" values and histories exist for them.
EXACT_KINDS = ("uniform", "taylor_green_2d", "abc", "walsh", "ethier_steinman", "kovasznay", "duct")
# Of these and the others, those that are written for the box as it is.
UNMAPPED_KINDS = ("duct", "perturbed-duct")


def is_periodic(case: NavierStokesCase, side: str) -> bool:
    """Say whether the flow is periodic across a side."""
    return case.grid.periodic[side_axis(side)[0]]


def scalar_kind(case: NavierStokesCase, number: int, side: str) -> str | None:
    """Return what a scalar meets at a side, defaults put in; None if it is not said."""
    kind: str | None = getattr(case.scalar[number].boundary, side).kind
    if kind is not None:
        return kind
    if is_periodic(case, side):
        return "periodic"
    flow = getattr(case.boundary, side).kind
    return "adiabatic" if flow in ("outflow", "symmetry") else None


def _sides(case: NavierStokesCase) -> Iterator[Problem]:
    for side in SIDES:
        kind, periodic = getattr(case.boundary, side).kind, is_periodic(case, side)
        axis = side[0]
        place = "zyx".index(axis)
        if periodic and kind not in (None, "periodic"):
            yield Problem(
                f"boundary.{side}.kind",
                f'"periodic" or none, as grid.periodic[{place}] (direction {axis}) is true',
            )
        elif not periodic and kind == "periodic":
            yield Problem(
                f"boundary.{side}.kind", f"another kind, or grid.periodic[{place}] (direction {axis}) = true"
            )
        elif not periodic and kind is None:
            yield Problem(
                f"boundary.{side}.kind",
                f'"wall", "moving-wall", "inflow", "outflow" or "symmetry" at side {side}, or grid.periodic[{place}] '
                "= true",
            )
        if getattr(case.boundary, side).value == "exact" and case.initial.kind not in EXACT_KINDS:
            yield Problem(
                f"boundary.{side}.value",
                f'an initial.kind that is an exact solution ({", ".join(EXACT_KINDS)}) with value = "exact"',
            )


def _scalars(case: NavierStokesCase) -> Iterator[Problem]:
    for number in range(len(case.scalar)):
        for side in SIDES:
            kind, periodic = scalar_kind(case, number, side), is_periodic(case, side)
            key = f"scalar.{number}.boundary.{side}.kind"
            if kind is None:
                yield Problem(
                    key, f'"fixed", "flux" or "adiabatic" at side {side}, where the flow is not periodic'
                )
            elif periodic != (kind == "periodic"):
                yield Problem(
                    key,
                    '"periodic" or none, as the flow is' if periodic else '"fixed", "flux" or "adiabatic"',
                )


def _initial(case: NavierStokesCase) -> Iterator[Problem]:
    kind = case.initial.kind
    if kind not in UNMAPPED_KINDS:
        return
    if case.grid.mapping != "none":
        yield Problem("initial.kind", f'another kind on a mapped box, or grid.mapping = "none" with "{kind}"')
    across = [side for side in SIDES if side[0] != case.initial.direction]
    if any(getattr(case.boundary, side).kind != "wall" for side in across):
        yield Problem(
            "initial.direction",
            f'the direction along a duct: kind = "wall" at {", ".join(across)} with "{kind}"',
        )


def problems_between_sections(case: NavierStokesCase) -> Iterator[Problem]:
    """Yield the rules between sections that a case breaks."""
    problems = [*_sides(case), *_scalars(case), *_initial(case)]
    least = case.grid.order + 1
    dealias = case.model.dealias_order
    if dealias != "none" and 0 < dealias < least:
        problems.append(
            Problem("model.dealias_order", f'0, an integer >= grid.order + 1 = {least}, or "none"')
        )
    forcing = case.model.forcing
    if forcing.kind == "flow-rate" and not case.grid.periodic["zyx".index(forcing.direction)]:
        problems.append(Problem("model.forcing.direction", "a direction that is periodic (grid.periodic)"))
    most = len(case.scalar) - 1
    if any(name.startswith("scalar_") and int(name[7:]) > most for name in case.output.variables):
        have = f"the case has {most + 1} [[scalar]]" if most >= 0 else "the case has no [[scalar]]"
        problems.append(Problem("output.variables", f"scalars that exist: {have}"))
    not_periodic = [d for d in case.output.homogeneous if not case.grid.periodic["zyx".index(d)]]
    if not_periodic:
        problems.append(Problem("output.homogeneous", "directions that are periodic (grid.periodic)"))
    if not problems:
        # These ask for the mesh, and for functions that the settings before make valid.
        from ridgeline.models.navier_stokes.finite import formula_problems
        from ridgeline.models.navier_stokes.fluxes import flux_problems

        problems += [*flux_problems(case), *formula_problems(case)]
    yield from problems
