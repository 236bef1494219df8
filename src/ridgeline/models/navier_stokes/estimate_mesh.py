"""The mesh of a case in words, for `ridgeline check`: its order, its worst element, the flow through its sides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ridgeline.elements.mesh_protocol import Mesh
from ridgeline.elements.meshes.checks import worst_element
from ridgeline.elements.meshes.hexahedra import HexahedralMesh
from ridgeline.models.navier_stokes.case_sections.fluxes import TOLERANCE, fluxes_at, times_of
from ridgeline.models.navier_stokes.problem import sides_of
from ridgeline.models.navier_stokes.problem_of_case import velocity_sides

if TYPE_CHECKING:
    from ridgeline.models.navier_stokes.settings import NavierStokesCase

MOST_ELEMENTS = 4096  # of a mapped box, which may be larger than this machine holds, that are looked at


def mesh_remarks(case: NavierStokesCase, mesh: Mesh) -> Iterator[str]:
    """Yield sentences on the mesh. Raises ConfigError that names an element whose map folds."""
    if isinstance(mesh, HexahedralMesh):
        order = len(mesh.points) - 1
        if order == 1:
            yield (
                "the mesh has order 1: its elements have straight edges, so that a curved wall is a polygon; for "
                "curved walls write it in Gmsh with Mesh.ElementOrder = 2 or higher, or with curved edges as .re2"
            )
        else:
            yield f"the mesh has order {order}: the edges of its elements are polynomials of this degree"
        if mesh.counts.mirrored:
            yield (
                f"{mesh.counts.mirrored} of {mesh.n_elements} elements of the file are mirror images (left-handed): "
                "they were turned round"
            )
    if not mesh.axis_aligned:
        of_file = isinstance(mesh, HexahedralMesh)
        positions = mesh.range(0, mesh.n_elements) if of_file else mesh.spread(MOST_ELEMENTS)
        worst = worst_element(mesh, positions, case.grid.order)
        x, y, z = worst.place
        some = (
            "" if len(positions) == mesh.n_elements else f" of {len(positions)} elements that were looked at"
        )
        yield (
            f"worst scaled Jacobian{some}: {worst.scaled:.3g} at x={x:.6g}, y={y:.6g}, z={z:.6g} in {worst.element} "
            "(1: right angles, 0: flat)"
        )
    yield from _fluxes(case, mesh)


def _fluxes(case: NavierStokesCase, mesh: Mesh) -> Iterator[str]:
    """Yield what goes through each side, at the start and, where it depends on time, at the end."""
    sides = velocity_sides(case)
    given = [name for name, side in sides.items() if side.value is not None]
    outflows = sides_of(sides, "outflow")
    if not outflows and not sides_of(sides, "inflow"):
        return
    times = times_of(case, all(sides[name].steady for name in given))
    for t in sorted({times[0], times[-1]}):
        found = fluxes_at(case, mesh, t)
        through = {
            name: 0.0 if abs(flux.net) <= TOLERANCE * flux.most else flux.net for name, flux in found.items()
        }
        words = [f"{name} {net:.6g}" for name, net in through.items()]
        words += [f"{name} not integrated, it has too many faces" for name in given if name not in found]
        if outflows and len(found) == len(given):
            words.append(f"{' + '.join(outflows)} {0.0 - sum(through.values()):.6g}")
        closed = [
            name for name in sides if name not in {*given, *outflows} and sides[name].kind != "periodic"
        ]
        words += [f"{name} 0" for name in closed]
        yield f"volume that leaves through each side per time, at t = {t:g}: {', '.join(words)}"
        for name in sides_of(sides, "inflow"):
            if through.get(name, 0.0) > 0:
                yield (
                    f"the fluid leaves through the side {name}, which is an inflow, at t = {t:g}: if it should enter "
                    f"there, change the sign of boundary.{name}.value"
                )
