"""From the settings of a case to what is solved: its mesh, the sides of velocity and scalars, and the problem.

    mesh_of(case), own_mesh(case, comm)               the whole mesh; the mesh that a rank keeps during a run
    velocity_sides(case), scalar_sides(case, number)  the conditions at the sides, formulas as functions
    problem_of(case, dt)                              the `FlowProblem` of problem.py

Functions of space and time take arrays (x, y, z) of equal shape, float64, and the time t.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ridgeline.config.expressions import VARIABLES, Expression, Formula, is_zero, parse
from ridgeline.elements.mappings import MAPPINGS
from ridgeline.elements.mesh import BoxMesh, ElementGrid
from ridgeline.elements.mesh import Mapping as BoxMapping
from ridgeline.elements.mesh_protocol import Mesh
from ridgeline.elements.meshes.hexahedra import HexahedralMesh, build_mesh, scatter_mesh
from ridgeline.io.mesh_file import read_mesh
from ridgeline.models.navier_stokes.case_sections.boundary import ALONE
from ridgeline.models.navier_stokes.case_sections.sections import NavierStokesSettings
from ridgeline.models.navier_stokes.exact import Array, Flow
from ridgeline.models.navier_stokes.initial import exact_flow
from ridgeline.models.navier_stokes.problem import (
    FlowProblem,
    FlowRate,
    HelmholtzSolver,
    PressureSolver,
    ScalarSide,
    TransportedScalar,
    VelocitySide,
)
from ridgeline.models.navier_stokes.sources import Sponge, source_names
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.user_code import load_function, user_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mpi4py import MPI

STEADY_KINDS = ("uniform", "kovasznay", "duct", "channel")  # exact solutions that do not change in time


@dataclass(frozen=True)
class FormulaVector:
    """Three formulas as one vector field: (x, y, z, t) -> [3, *shape of x], float64."""

    components: tuple[Expression, Expression, Expression]

    @classmethod
    def of(cls, texts: Sequence[str]) -> FormulaVector:
        """Parse three formulas. Raises ExpressionError if one of them is not a formula."""
        u, v, w = (parse(text) for text in texts)
        return cls((u, v, w))

    @property
    def steady(self) -> bool:
        """Whether no component depends on time."""
        return all(component.steady for component in self.components)

    def __call__(self, x: Array, y: Array, z: Array, t: float) -> Array:
        return np.stack([component(x, y, z, t) for component in self.components])


@dataclass(frozen=True)
class FlowVelocity:
    """The velocity of a flow as a vector field: (x, y, z, t) -> [3, *shape of x], float64."""

    flow: Flow

    def __call__(self, x: Array, y: Array, z: Array, t: float) -> Array:
        return np.stack(self.flow(x, y, z, t)[:3])


def box_mapping(case: NavierStokesSettings) -> BoxMapping | None:
    """Return the map of the case's box, None without one. ConfigError if it cannot be loaded."""
    grid = case.grid
    if grid.mapping == "none":
        return None
    if grid.mapping in MAPPINGS:
        return MAPPINGS[grid.mapping](grid.origin, grid.lengths, grid.mapping_amplitude)
    function = load_function("grid.mapping", grid.mapping)

    def mapped(x: Array, y: Array, z: Array) -> tuple[Array, Array, Array]:
        with user_errors(
            f'grid.mapping = "{grid.mapping}": mapping {x.size} points', grid.mapping.rpartition(":")[0]
        ):
            x_new, y_new, z_new = (np.broadcast_to(np.asarray(c, float), x.shape) for c in function(x, y, z))
        return x_new, y_new, z_new

    return mapped


# Kept, because the rules of the settings, the estimate and the set-up of a run all ask for the mesh. `own_mesh` frees
# it, when each rank has its part.
@lru_cache(maxsize=1)
def _mesh_of_file(path: Path, stamp: tuple[int, int], pairs: tuple[tuple[str, str], ...]) -> HexahedralMesh:
    """Return the mesh of a file. stamp: time and size of the file, so that a changed file is read again."""
    raw = read_mesh(path)
    missing = [name for pair in pairs for name in pair if name not in raw.sides]
    if missing:
        raise raw.error(
            f'the mesh has no side "{missing[0]}", which is periodic in the settings',
            f"Its sides are {', '.join(raw.sides)}" if raw.sides else "It has no sides",
        )
    return build_mesh(raw, dict(pairs))


def mesh_of(case: NavierStokesSettings) -> BoxMesh | HexahedralMesh:
    """Return the whole mesh of a case: plain data, equal on all ranks.

    Raises ConfigError for a map that cannot be loaded, and for a file with a mesh that cannot be used.
    """
    grid = case.grid
    if grid.mesh:
        path = Path(grid.mesh)
        try:
            stat = path.stat()
        except OSError as error:
            started = (
                "" if path.is_absolute() else f" The path is relative to {Path.cwd()}, where the run starts."
            )
            raise ConfigError(f'grid.mesh = "{path}" cannot be read: {error.strerror}.{started}') from None
        return _mesh_of_file(path, (stat.st_mtime_ns, stat.st_size), case.boundary.periodic_pairs())
    assert grid.elements is not None  # case_sections/grid.py
    return BoxMesh.box(
        grid.elements,
        grid.lengths,
        grid.origin,
        grid.distribution,
        grid.distribution_parameter,
        grid.periodic,
        box_mapping(case),
        (grid.edges.z, grid.edges.y, grid.edges.x),
    )


def own_mesh(case: NavierStokesSettings, comm: MPI.Comm) -> Mesh:
    """Return the mesh that a rank keeps: a whole box, or its elements of a file, sent by rank 0. Collective.

    Raises DecompositionError for more ranks than elements, ConfigError for a file or a map that cannot be used.
    """
    whole = mesh_of(case)
    if isinstance(whole, BoxMesh):
        return whole
    ElementGrid(whole, case.grid.order, comm.size, comm.rank)  # raises on all ranks if there are too many
    _mesh_of_file.cache_clear()
    return scatter_mesh(comm, whole if comm.rank == 0 else None)


def velocity_sides(case: NavierStokesSettings) -> dict[str, VelocitySide]:
    """Return what the flow meets at each side of the mesh, by name."""
    sides = {}
    for name in case.side_names():
        side = case.boundary.side(name)
        kind: Any = side.kind
        if case.is_periodic(name):
            if not case.grid.mesh:  # the periodic sides of a mesh from a file are no sides of it
                sides[name] = VelocitySide("periodic")
        elif side.value is None or not side.has_value:
            sides[name] = VelocitySide(kind)
        elif side.value == "exact":
            flow = exact_flow(case)
            assert flow is not None  # settings.py requires a kind that has one for "exact"
            sides[name] = VelocitySide(kind, FlowVelocity(flow), case.initial.kind in STEADY_KINDS)
        else:
            value = FormulaVector.of(side.value)
            sides[name] = VelocitySide(kind, value, value.steady)
    return sides


def scalar_sides(case: NavierStokesSettings, number: int) -> dict[str, ScalarSide]:
    """Return what scalar `number` meets at each side of the mesh, by name."""
    sides = {}
    for name in case.side_names():
        kind: Any = case.scalar_kind(number, name)
        if kind == "periodic" and case.grid.mesh:
            continue
        if kind in ("fixed", "flux"):
            names = source_names(len(case.scalar)) if kind == "flux" else VARIABLES
            value = parse(case.scalar[number].boundary.side(name).value, names)
            sides[name] = ScalarSide(kind, value, value.steady)
        else:
            sides[name] = ScalarSide(kind)
    return sides


def source_formula(case: NavierStokesSettings, text: str) -> Formula | None:
    """Return the formula of a source, None for 0."""
    return None if is_zero(text) else parse(text, source_names(len(case.scalar)))


def sponges_of(case: NavierStokesSettings) -> tuple[Sponge, ...]:
    """Return the sponges of a case."""
    return tuple(
        Sponge(
            parse(section.strength),
            tuple(map(parse, section.velocity or ())),
            tuple(None if text == ALONE else parse(text) for text in section.scalars),
        )
        for section in case.sponge
    )


def scalar_of(case: NavierStokesSettings, number: int) -> TransportedScalar:
    """Return scalar `number` of a case."""
    section = case.scalar[number]
    return TransportedScalar(
        section.diffusivity,
        scalar_sides(case, number),
        source_formula(case, section.source),
        section.mean_gradient,
        section.expansion,
        section.reference,
        _coefficient(case, section.diffusivity_formula),
    )


def _coefficient(case: NavierStokesSettings, text: str) -> Formula | None:
    return parse(text, source_names(len(case.scalar))) if text else None


def dealias_points(case: NavierStokesSettings) -> int:
    """Return the Gauss points per direction of the advection; 0 for the points of the elements."""
    chosen = case.model.dealias_order
    if chosen == "none":
        return 0
    return chosen or -(-3 * (case.grid.order + 1) // 2)


def problem_of(case: NavierStokesSettings, dt: float) -> FlowProblem:
    """Return the problem that a case describes, with time step dt; NaN where model.courant sets it."""
    model = case.model
    forcing, pressure, velocity = model.forcing, model.pressure, model.velocity
    source_x, source_y, source_z = (source_formula(case, text) for text in model.source)
    rate = None
    if forcing.kind == "flow-rate":
        assert forcing.bulk_velocity is not None
        rate = FlowRate("xyz".index(forcing.direction), forcing.bulk_velocity)
    return FlowProblem(
        viscosity=model.viscosity,
        viscosity_formula=_coefficient(case, model.viscosity_formula),
        dt=dt,
        sides=velocity_sides(case),
        time_order=model.time_order,
        control=model.control(),
        dealias_points=dealias_points(case),
        scalars=tuple(scalar_of(case, number) for number in range(len(case.scalar))),
        force=forcing.value if forcing.kind == "force" else (0.0, 0.0, 0.0),
        source=(source_x, source_y, source_z),
        sponges=sponges_of(case),
        gravity=model.gravity,
        flow_rate=rate,
        filter_weight=model.filter.weight,
        filter_modes=model.filter.modes,
        pressure=PressureSolver(**pressure.model_dump(), projection=model.projection.pressure),
        velocity=HelmholtzSolver(**velocity.model_dump(), projection=model.projection.velocity),
        products=model.products,
        overlap=model.overlap,
    )
