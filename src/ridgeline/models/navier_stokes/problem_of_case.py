"""What settings say, as functions: the mesh, the sides of velocity and scalars, and the problem to solve.

Functions of space and time take arrays (x, y, z) of equal shape, float64, and the time t.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ridgeline.config.expressions import Expression, parse
from ridgeline.elements.mappings import MAPPINGS
from ridgeline.elements.mesh import ElementMesh
from ridgeline.elements.mesh import Mapping as BoxMapping
from ridgeline.elements.meshes.hexahedra import HexahedralMesh, build_mesh
from ridgeline.io.meshes.read import read_mesh
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
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.user_code import load_function, user_errors

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class FormulaVector:
    """Three formulas as one vector field: (x, y, z, t) -> [3, *shape of x], float64."""

    components: tuple[Expression, Expression, Expression]

    @classmethod
    def of(cls, texts: Sequence[str]) -> FormulaVector:
        """Parse three formulas; ExpressionError if one is none."""
        u, v, w = (parse(text) for text in texts)
        return cls((u, v, w))

    @property
    def steady(self) -> bool:
        """Whether no component depends on time."""
        return all(component.steady for component in self.components)

    def __call__(self, x: Array, y: Array, z: Array, t: float) -> Array:
        """Return the values."""
        return np.stack([component(x, y, z, t) for component in self.components])


@dataclass(frozen=True)
class FlowVelocity:
    """The velocity of a flow as a vector field: (x, y, z, t) -> [3, *shape of x], float64."""

    flow: Flow

    def __call__(self, x: Array, y: Array, z: Array, t: float) -> Array:
        """Return the values."""
        return np.stack(self.flow(x, y, z, t)[:3])


def box_mapping(case: NavierStokesSettings) -> BoxMapping | None:
    """Return the map of the case's box, None if there is none; ConfigError if it cannot be had."""
    grid = case.grid
    if grid.mapping == "none":
        return None
    if grid.mapping in MAPPINGS:
        return MAPPINGS[grid.mapping](grid.origin, grid.lengths, grid.mapping_amplitude)
    function = load_function("grid.mapping", grid.mapping)

    def mapped(x: Array, y: Array, z: Array) -> tuple[Array, Array, Array]:
        with user_errors(f'grid.mapping = "{grid.mapping}": mapping {x.size} points'):
            x_new, y_new, z_new = (np.broadcast_to(np.asarray(c, float), x.shape) for c in function(x, y, z))
        return x_new, y_new, z_new

    return mapped


@lru_cache(maxsize=1)
def _mesh_of_file(path: Path, stamp: tuple[int, int], pairs: tuple[tuple[str, str], ...]) -> HexahedralMesh:
    """Return the mesh of a file; stamp: its time and size, so that a file that changed is read anew."""
    raw = read_mesh(path)
    missing = [name for pair in pairs for name in pair if name not in raw.sides]
    if missing:
        raise raw.error(
            f'has no side "{missing[0]}", which is periodic in the settings',
            f"it has {', '.join(raw.sides) or 'none'}",
        )
    return build_mesh(raw, dict(pairs))


def forget_mesh() -> None:
    """Give the memory of a mesh from a file back, which is kept for those who ask again."""
    _mesh_of_file.cache_clear()


def mesh_of(case: NavierStokesSettings) -> ElementMesh | HexahedralMesh:
    """Return the mesh of a case, whole: plain data, equal on all ranks.

    Raises ConfigError for a map that cannot be had, and for a file with a mesh that cannot be used.
    """
    grid = case.grid
    if grid.mesh:
        path = Path(grid.mesh)
        try:
            stat = path.stat()
        except OSError as error:
            started = "" if path.is_absolute() else f", from {Path.cwd()}, where the run starts"
            raise ConfigError(
                f'grid.mesh = "{path}" cannot be read: {error.strerror}; need a mesh file{started}'
            ) from None
        return _mesh_of_file(path, (stat.st_mtime_ns, stat.st_size), case.boundary.periodic_pairs())
    assert grid.elements is not None  # settings/grid.py
    return ElementMesh.box(
        grid.elements,
        grid.lengths,
        grid.origin,
        grid.distribution,
        grid.distribution_parameter,
        grid.periodic,
        box_mapping(case),
    )


def velocity_sides(case: NavierStokesSettings) -> dict[str, VelocitySide]:
    """Return what the flow meets at each side of the mesh, by name."""
    found = {}
    for name in case.side_names():
        side = case.boundary.side(name)
        kind: Any = side.kind
        if case.is_periodic(name):
            if not case.grid.mesh:  # of a mesh from a file, periodic sides are none
                found[name] = VelocitySide("periodic")
        elif side.value is None or not side.has_value:
            found[name] = VelocitySide(kind)
        elif side.value == "exact":
            flow = exact_flow(case)
            assert flow is not None  # settings.py: "exact" goes with kinds that have one
            found[name] = VelocitySide(kind, FlowVelocity(flow), case.initial.kind in STEADY_KINDS)
        else:
            value = FormulaVector.of(side.value)
            found[name] = VelocitySide(kind, value, value.steady)
    return found


STEADY_KINDS = ("uniform", "kovasznay", "duct", "channel")


def scalar_sides(case: NavierStokesSettings, number: int) -> dict[str, ScalarSide]:
    """Return what scalar `number` meets at each side of the mesh, by name."""
    found = {}
    for name in case.side_names():
        kind: Any = case.scalar_kind(number, name)
        if kind == "periodic" and case.grid.mesh:
            continue
        if kind in ("fixed", "flux"):
            value = parse(case.scalar[number].boundary.side(name).value)
            found[name] = ScalarSide(kind, value, value.steady)
        else:
            found[name] = ScalarSide(kind)
    return found


def scalar_of(case: NavierStokesSettings, number: int) -> TransportedScalar:
    """Return scalar `number` of a case."""
    section = case.scalar[number]
    return TransportedScalar(
        section.diffusivity,
        scalar_sides(case, number),
        parse(section.source) if section.has_source else None,
        section.mean_gradient,
        section.expansion,
        section.reference,
    )


def dealias_points(case: NavierStokesSettings) -> int:
    """Return the Gauss points per direction of the advection; 0 for those of the elements."""
    chosen = case.model.dealias_order
    if chosen == "none":
        return 0
    return chosen or -(-3 * (case.grid.order + 1) // 2)


def problem_of(case: NavierStokesSettings, dt: float) -> FlowProblem:
    """Return the problem that a case describes, with time step dt; NaN where model.courant sets it."""
    model = case.model
    forcing, pressure, velocity = model.forcing, model.pressure, model.velocity
    rate = None
    if forcing.kind == "flow-rate":
        assert forcing.bulk_velocity is not None
        rate = FlowRate("xyz".index(forcing.direction), forcing.bulk_velocity)
    return FlowProblem(
        viscosity=model.viscosity,
        dt=dt,
        sides=velocity_sides(case),
        time_order=model.time_order,
        control=model.control(),
        dealias_points=dealias_points(case),
        scalars=tuple(scalar_of(case, number) for number in range(len(case.scalar))),
        force=forcing.value if forcing.kind == "force" else (0.0, 0.0, 0.0),
        gravity=model.gravity,
        flow_rate=rate,
        filter_weight=model.filter.weight,
        filter_modes=model.filter.modes,
        pressure=PressureSolver(**pressure.model_dump(), projection=model.projection.pressure),
        velocity=HelmholtzSolver(**velocity.model_dump(), projection=model.projection.velocity),
        products=model.products,
        overlap=model.overlap,
    )
