"""The sentences of `ridgeline check` on a case, without a run: its mesh, first time step and convection.

    mesh_remarks(case, mesh)              order of the mesh, worst element, flow through the sides
    first_courant_rate(case, mesh)        Courant number of the flow of step 0, over the time step
    first_step_remark(rate, dt, ...)      what it says of the first step; `ends_at_once`: whether a run refuses that
    sponge_remarks(case, mesh)            the longest step for which sponges are stable
    flux_remarks(case, mesh)              the same for fluxes that depend on their scalar
    diffusion_remarks(case, mesh)         the longest step for which a viscosity of a formula is stable
    convection_remarks(case)              Rayleigh and Prandtl numbers between two sides of a box

Those on wall units are in wall_resolution.py. No function communicates. Meshes that are too large for one machine are
looked at in parts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ridgeline.config.expressions import is_number, parse
from ridgeline.elements.courant import inverse_spacing
from ridgeline.elements.geometry import ElementGeometry
from ridgeline.elements.mesh import ElementGrid
from ridgeline.elements.mesh_protocol import Mesh
from ridgeline.elements.meshes.checks import worst_element
from ridgeline.elements.meshes.hexahedra import HexahedralMesh
from ridgeline.elements.quadrature import gauss_lobatto
from ridgeline.models.navier_stokes.case_sections.sections import NavierStokesSettings
from ridgeline.models.navier_stokes.exact import Array
from ridgeline.models.navier_stokes.initial import initial_fields, initial_velocity
from ridgeline.models.navier_stokes.mesh_rules import TOLERANCE, countable, fluxes_at, some_points, times_of
from ridgeline.models.navier_stokes.problem import DIRICHLET, VelocitySide, sides_of
from ridgeline.models.navier_stokes.problem_of_case import scalar_sides, velocity_sides
from ridgeline.models.navier_stokes.sources import relaxation_limit, source_names, values_of
from ridgeline.models.navier_stokes.time_stepping import (
    DIGITS,
    FREE_RATIOS,
    JUMP,
    ROUNDING,
    SAFE_COURANT,
    STABLE_COURANT,
    StepControl,
    diffusion_limit,
)

MOST_JUDGED = (
    4096  # elements of a mapped box whose Jacobians are computed; a box may be larger than this machine
)
MOST_CHOSEN = (
    512  # elements whose Courant number is computed; in a larger mesh also some at each side with a value
)
DIFFERENCE = 1e-6  # relative, of a scalar in a difference that stands for a derivative
RATIOS = 33  # of a coefficient over its reference, from its smallest to its largest value
GROUP = 64  # elements that are computed at a time


def mesh_remarks(case: NavierStokesSettings, mesh: Mesh) -> Iterator[str]:
    """Yield sentences on the mesh. Raises ConfigError that names an element whose map folds."""
    if isinstance(mesh, HexahedralMesh):
        order = len(mesh.points) - 1
        if order == 1:
            yield (
                "the mesh has order 1, so its elements have straight edges and a curved wall becomes a polygon (for "
                "curved walls, write the mesh in Gmsh with Mesh.ElementOrder = 2 or higher, or with curved edges as "
                ".re2)"
            )
        else:
            yield f"the mesh has order {order}, so the edges of its elements are polynomials of this degree"
        if mesh.counts.mirrored:
            yield (
                f"{mesh.counts.mirrored} of the {mesh.n_elements} elements of the file are left-handed, and were "
                "turned into right-handed ones"
            )
    if not mesh.axis_aligned:
        of_file = isinstance(mesh, HexahedralMesh)
        positions = mesh.range(0, mesh.n_elements) if of_file else mesh.spread(MOST_JUDGED)
        worst = worst_element(mesh, positions, case.grid.order)
        x, y, z = worst.place
        some = (
            "" if len(positions) == mesh.n_elements else f" of {len(positions)} elements that were examined"
        )
        yield (
            f"worst scaled Jacobian{some}: {worst.scaled:.3g} at x={x:.6g}, y={y:.6g}, z={z:.6g} in {worst.element} "
            "(1 has right angles, 0 is flat)"
        )
    yield from _fluxes(case, mesh)


def _fluxes(case: NavierStokesSettings, mesh: Mesh) -> Iterator[str]:
    """Yield the flow through each side, at the start and, if it depends on time, at the end."""
    sides = velocity_sides(case)
    given = [name for name, side in sides.items() if side.value is not None]
    outflows = sides_of(sides, "outflow")
    if not outflows and not sides_of(sides, "inflow"):
        return
    times = times_of(case, all(sides[name].steady for name in given))
    for t in sorted({times[0], times[-1]}):
        fluxes = fluxes_at(case, mesh, t)
        through = {
            name: 0.0 if abs(flux.net) <= TOLERANCE * flux.most else flux.net for name, flux in fluxes.items()
        }
        words = [f"{name} {net:.6g}" for name, net in through.items()]
        words += [f"{name} not computed (too many faces)" for name in given if name not in fluxes]
        if outflows and len(fluxes) == len(given):
            words.append(f"{' + '.join(outflows)} {0.0 - sum(through.values()):.6g}")
        closed = [
            name for name in sides if name not in {*given, *outflows} and sides[name].kind != "periodic"
        ]
        words += [f"{name} 0" for name in closed]
        yield f"outward volume flux through each side at t = {t:g}: {', '.join(words)}"
        for name in sides_of(sides, "inflow"):
            if through.get(name, 0.0) > 0:
                yield (
                    f"at t = {t:g} the fluid leaves through the side {name}, which is an inflow (if it should enter "
                    f"there, change the sign of boundary.{name}.value)"
                )


@dataclass(frozen=True, eq=False)
class ChosenElements(ElementGrid):
    """Any elements of a mesh, as if they were those of a rank. chosen: their positions."""

    chosen: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 3), np.int64))

    @property
    def n_elements(self) -> int:
        return len(self.chosen)

    @property
    def positions(self) -> NDArray[np.int64]:
        return self.chosen


def _groups(mesh: Mesh, sides: Mapping[str, VelocitySide]) -> Iterator[NDArray[np.int64]]:
    """Yield positions of elements: all, or evenly spread elements and some at each side with a value."""
    total = mesh.n_elements
    parts = -(-total // GROUP)
    for part in np.unique(np.linspace(0, parts - 1, min(parts, MOST_CHOSEN // GROUP)).astype(np.int64)):
        first = int(part) * GROUP
        yield mesh.range(first, min(GROUP, total - first))
    if total <= MOST_CHOSEN:
        return
    for name in (name for name, side in sides.items() if side.value is not None):
        yield mesh.side_positions(name, GROUP)


def first_courant_rate(case: NavierStokesSettings, mesh: Mesh) -> tuple[float, bool]:
    """Return the largest |u_r|/dr + |u_s|/ds + |u_t|/dt before step 1, 1/time, and whether the flow starts suddenly.

    Both are as the engine computes them: the rate is that of the flow of step 0 with the values of the sides, or that
    of the bulk velocity of a flow rate if that is larger, over the elements of `_groups`. A flow starts suddenly if
    these values or the bulk velocity differ from the flow of step 0.
    """
    sides, forcing = velocity_sides(case), case.model.forcing
    along = np.zeros(3)
    if forcing.kind == "flow-rate":
        along["xyz".index(forcing.direction)] = forcing.bulk_velocity or 0.0
    largest = jump = 0.0
    moved, volume = np.zeros(3), 0.0
    for positions in _groups(mesh, sides):
        grid = _chosen(mesh, case, positions)
        geometry = ElementGeometry(grid)
        velocity = initial_velocity(case, *grid.coordinates)
        before = velocity.copy()
        moved += (geometry.mass * velocity).sum(axis=(1, 2, 3, 4))
        volume += float(geometry.mass.sum())
        _write_dirichlet(velocity, geometry, sides)
        jump = max(jump, _rate(geometry, velocity - before))
        for u in (velocity, np.broadcast_to(along[:, None, None, None, None], velocity.shape)):
            largest = max(largest, _rate(geometry, u))
    missing = float(np.abs(np.where(along != 0, along - moved / volume, 0.0)).max())
    return largest, jump > JUMP * largest or missing > JUMP * float(np.abs(along).max())


def _write_dirichlet(velocity: Array, geometry: ElementGeometry, sides: Mapping[str, VelocitySide]) -> None:
    """Put the Dirichlet velocities at time 0 into a field [3, e, n, n, n]."""
    grid = geometry.grid
    for name in sides_of(sides, "symmetry"):
        across = int(np.argmax(np.abs(geometry.sides[name].normal_area).sum(axis=(0, 2, 3))))
        velocity[across].reshape(-1)[grid.side_points([name])] = 0.0
    for name in sides_of(sides, *DIRICHLET):
        places, value = grid.side_points([name]), sides[name].value
        x, y, z = grid.coordinates.reshape(3, -1)[:, places]
        velocity.reshape(3, -1)[:, places] = 0.0 if value is None else np.asarray(value(x, y, z, 0.0))


def _rate(geometry: ElementGeometry, u: Array) -> float:
    inverse = inverse_spacing(gauss_lobatto(geometry.grid.n)[0])
    rate = np.zeros(u.shape[1:])
    for axis in range(3):
        if geometry.axis_aligned:
            across = u[axis] * geometry.scale[:, axis, None, None, None]
        else:
            across = (u.swapaxes(0, 1) * geometry.metrics[:, 3 * axis : 3 * axis + 3]).sum(axis=1)
        shape = [1, 1, 1, 1]
        shape[3 - axis] = len(inverse)
        rate += np.abs(across) * inverse.reshape(shape)
    return float(rate.max())


def advice(number: float, dt: float) -> str:
    """Return the advice on the Courant number of step 0 with a fixed dt, "" if it is safe."""
    if number <= SAFE_COURANT * (1.0 + ROUNDING):
        return ""
    longest = dt * SAFE_COURANT / number
    unit = 10.0 ** (math.floor(math.log10(longest)) - DIGITS + 1)
    safe = f"model.dt <= {math.floor(longest / unit) * unit:.{DIGITS}g}"
    if number > STABLE_COURANT:
        return f", above the stability limit ({STABLE_COURANT:g}), so a run ends at once. Set {safe}."
    return f", above the limit that is safe for most flows ({SAFE_COURANT:g}). Try {safe}."


def first_step_remark(
    rate: float, dt: float | None, control: StepControl | None, sudden: bool = False
) -> str:
    """Return the sentence of `ridgeline check` on the first step. rate, sudden: as `first_courant_rate` returns."""
    if control is None:
        assert dt is not None  # case_sections/sections.py: either dt or courant
        return f"Courant number of step 0: {rate * dt:.3g}{advice(rate * dt, dt)}"
    if rate == 0.0 and control.longest == math.inf:
        return "time step of step 0: none, because the fluid is at rest, so a run ends at once. Set model.dt_max."
    dt = control.first(rate, sudden)
    number = rate * dt
    words = f"time step of step 0: {dt:.3g}, with the Courant number {number:.3g}"
    words += ", small as the flow starts suddenly" if sudden and number < control.courant else ""
    key = "model.dt_min" if dt == control.shortest else "model.courant"
    if number > STABLE_COURANT:
        return f"{words}, above the stability limit ({STABLE_COURANT:g}), so a run ends at once. Set a smaller {key}."
    judged = number if dt in (control.shortest, control.longest) else control.courant
    if judged > SAFE_COURANT * (1.0 + ROUNDING):
        return (
            f"{words}, above the limit that is safe for most flows ({SAFE_COURANT:g}). Try a smaller {key}."
        )
    return words


def ends_at_once(rate: float, dt: float | None, control: StepControl | None, sudden: bool = False) -> bool:
    """Say whether a run refuses its first step. Arguments as in `first_step_remark`."""
    if control is None:
        assert dt is not None
        return rate * dt > STABLE_COURANT
    if rate == 0.0 and control.longest == math.inf:
        return True
    return rate * control.first(rate, sudden) > STABLE_COURANT


def sponge_remarks(case: NavierStokesSettings, mesh: Mesh) -> Iterator[str]:
    """Yield a sentence on the stability of each sponge, from its strength at points of the mesh and at some times."""
    limit = relaxation_limit(case.model.time_order)
    for n, section in enumerate(case.sponge):
        strength, (x, y, z) = parse(section.strength), some_points(mesh, case.grid.order)
        most = max(float(strength(x, y, z, t).max()) for t in times_of(case, strength.steady))
        if most <= 0:
            continue
        longest = limit / most
        words = f"sponge {n}: the largest strength is {most:.4g}, stable for time steps up to {longest:.3g}"
        if case.model.dt is not None and case.model.dt > longest:
            words += f", which model.dt = {case.model.dt:g} exceeds. Set model.dt <= {longest:.3g}"
        elif case.model.dt is None and (case.model.dt_max or math.inf) > longest:
            words += f". Set model.dt_max <= {longest:.3g}, because model.courant does not see the sponge"
        yield words


def diffusion_remarks(case: NavierStokesSettings, mesh: Mesh) -> Iterator[str]:
    """Yield a sentence on the stability of each viscosity and diffusivity that is a formula.

    It is evaluated with the flow of step 0. The size of k dt is that of the fastest mode of one element.
    """
    formulas = case.coefficient_formulas()
    if not formulas:
        return
    order, places = case.model.time_order, some_points(mesh, case.grid.order)
    fields, names = initial_fields(case, places), source_names(len(case.scalar))
    fastest = max(fastest_mode(ElementGeometry(_chosen(mesh, case, part))) for part in _groups(mesh, {}))
    for key, text in formulas.items():
        formula, reference = parse(text, names), case.reference_coefficient(key)
        values = [formula.evaluate(values_of(places, t, fields)) for t in times_of(case, formula.steady)]
        least, most = (float(end(values)) for end in (np.min, np.max))
        # The limit is not monotonic between the extremes.
        limits = [diffusion_limit(order, value / reference) for value in np.linspace(least, most, RATIOS)]
        longest = min(limits) / (reference * fastest)
        words = f"{key} is from {least:.4g} to {most:.4g} in the flow of step 0"
        if longest == math.inf:
            yield f"{words}, stable for all time steps with the reference {reference:g}"
            continue
        words += f", stable for time steps up to {longest:.3g} with the reference {reference:g}"
        given = case.model.dt or case.model.dt_max or math.inf
        if given > longest:
            name = "dt_max" if case.model.dt is None else "dt"
            words += (
                f", which model.{name} exceeds" if given < math.inf else ", which model.courant does not see"
            )
            words += f". Set model.{name} <= {longest:.3g}{_better_reference(key, order, least, most)}"
        yield words


def _better_reference(key: str, order: int, least: float, most: float) -> str:
    """Return which reference makes all time steps stable, as advice."""
    low, high = FREE_RATIOS[order - 1]
    key = key.removesuffix("_formula")
    if least >= most / high * low:
        return f", or {key} = {most / high:.3g}, with which all time steps are stable"
    return f", or model.time_order = 2 and {key} = {most:.3g}, with which all time steps are stable"


def _chosen(mesh: Mesh, case: NavierStokesSettings, positions: NDArray[np.int64]) -> ChosenElements:
    return ChosenElements(mesh, case.grid.order, chosen=positions)


def fastest_mode(geometry: ElementGeometry) -> float:
    """Return a bound of the largest eigenvalue of -lap on these elements, 1/length^2.

    It is that of one element in one dimension, over (dx/dr)^2 and summed over r, s, t; neighbours only lower it.
    """
    d, w = geometry.derivative, geometry.weights
    root = np.sqrt(w)
    largest = float(np.linalg.eigvalsh(d.T @ np.diag(w) @ d / np.outer(root, root)).max())
    size = (geometry.scale**2).sum(axis=1) if geometry.axis_aligned else (geometry.metrics**2).sum(axis=1)
    return largest * float(size.max())


def flux_remarks(case: NavierStokesSettings, mesh: Mesh) -> Iterator[str]:
    """Yield a sentence on the stability of each flux of a scalar that falls with the scalar, as that of a cold bath.

    It relaxes the scalar at the points of the side at the rate -dflux/dscalar area/volume, in the flow of step 0.
    """
    for number in range(len(case.scalar)):
        for name, condition in scalar_sides(case, number).items():
            if not condition.sees_flow or not countable(mesh, name):
                continue
            grid = _chosen(mesh, case, mesh.side_positions(name, GROUP))
            geometry = ElementGeometry(grid)
            side = geometry.sides[name]
            places = side.take(grid.coordinates)
            low = initial_fields(case, places)
            step = DIFFERENCE * max(1.0, float(np.abs(low[3 + number]).max()))
            high = low.copy()
            high[3 + number] += step
            before, after = (
                condition.value_at(places, 0.0, partial(np.asarray, flow)) for flow in (low, high)
            )
            falls = np.asarray(before - after) / step
            most = float((falls * side.area / side.take(geometry.mass)).max(initial=0.0))
            if most <= 0:
                continue
            longest = relaxation_limit(case.model.time_order) / most
            words = f"scalar {number} at {name}: its flux is surely stable for time steps up to {longest:.3g}"
            if case.model.dt is not None and case.model.dt > longest:
                words += (
                    f", which model.dt = {case.model.dt:g} exceeds; diffusion may make longer ones stable"
                )
            yield words


def convection_remarks(case: NavierStokesSettings) -> Iterator[str]:
    """Yield a sentence on each pair of sides with two values of a scalar: Ra = |g beta dT| L^3/(nu k)."""
    gravity = math.hypot(*case.model.gravity)
    for number, scalar in enumerate(case.scalar):
        for axis in case.conduction_axes(number):
            sides = [f"{'xyz'[axis]}_{end}" for end in ("min", "max")]
            values = [getattr(scalar.boundary, side).value for side in sides]
            if not all(is_number(value) for value in values):
                continue
            length = case.grid.lengths[2 - axis]
            pull = gravity * abs(scalar.expansion * (float(values[1]) - float(values[0])))
            if not pull:
                continue
            rayleigh = pull * length**3 / (case.model.viscosity * scalar.diffusivity)
            fall = math.sqrt(length / pull)
            steps = f" ({fall / case.model.dt:.3g} steps)" if case.model.dt else ""
            yield (
                f"scalar {number} between {sides[0]} and {sides[1]}: Rayleigh number {rayleigh:.6g}, Prandtl number "
                f"{case.model.viscosity / scalar.diffusivity:.4g}, free-fall time {fall:.3g}{steps}"
            )
