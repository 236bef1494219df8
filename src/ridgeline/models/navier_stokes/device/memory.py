"""What a Navier-Stokes run takes on a GPU, counted before anything is allocated; no device is needed to count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ridgeline.config.expressions import Expression
from ridgeline.elements.device.memory import advection_bytes, geometry_bytes
from ridgeline.models.navier_stokes.problem import FlowProblem, TransportedScalar

WORD = 8  # bytes


@dataclass(frozen=True)
class DeviceParts:
    """What of a rank's mesh takes memory on its GPU.

    n: points per direction; elements: of the rank; at_sides: those that have a surface integral; lifted: those with
    Dirichlet values that can differ from 0, times components, of all solves; given: Dirichlet values of all solves;
    free_pressure: points where the pressure is given; gather, multigrid: bytes of the gather-scatter and of the
    Schwarz multigrid.
    """

    n: int
    elements: int
    axis_aligned: bool
    at_sides: int
    lifted: int
    given: int
    free_pressure: int
    gather: float
    multigrid: float = 0.0

    @property
    def points(self) -> int:
        """Stored points of the rank."""
        return self.elements * self.n**3


def axes_of_sources(scalars: Sequence[TransportedScalar]) -> list[int]:
    """Return the axes whose coordinates the sources of scalars have, ascending; 0 = x."""
    names = {
        name
        for scalar in scalars
        if isinstance(scalar.source, Expression)
        for name in scalar.source.variables
    }
    return [axis for axis, name in enumerate("xyz") if name in names]


def _krylov_vectors(problem: FlowProblem) -> float:
    """Return the vectors of the solves' workspace, which velocity and scalars share."""
    pressure, velocity = problem.pressure, problem.velocity
    single = pressure.preconditioner == "schwarz" and pressure.precision == "float32"
    z = 0.5 if single else 1.0  # words of what the preconditioner gives
    found = 9.0 + 6 if velocity.projection else 9.0  # residual, left, dx; p, w of conjugate gradients
    if not velocity.projection and any(side.value is not None for side in problem.sides.values()):
        found += 6  # of lifted values
    left = 3 if pressure.projection else 0  # residual, left, dx
    if pressure.solver == "cg":
        return found + left + (3 if pressure.projection else 4) + z  # r is `left`
    steps = max(1, min(pressure.restart, pressure.max_iterations))
    return found + left + steps + 1 + single + (steps * z if pressure.preconditioner != "none" else 0)


def device_bytes(parts: DeviceParts, problem: FlowProblem) -> dict[str, float]:
    """Return the bytes of one rank on its device by what they are for, but for tables of a few KiB."""
    c, order, field = 3 + len(problem.scalars), problem.time_order, WORD * parts.points
    flow_rate = 0 if problem.flow_rate is None else 4
    diagonals = 1 + len(problem.scalars) + (problem.pressure.preconditioner == "jacobi")
    boxes = 4 * WORD * parts.elements if parts.axis_aligned else 0
    depths = problem.pressure.projection + 2, problem.velocity.projection + 2
    packed = c * parts.at_sides + parts.lifted
    found = {
        "fields": field * (2 * order * c + c + 6 + flow_rate),
        "inner products": 4 * field,
        "geometry": geometry_bytes(parts.points, parts.axis_aligned) + boxes,
        "advection": advection_bytes(parts.n, problem.dealias_points, parts.elements, parts.axis_aligned),
        "sources": len(axes_of_sources(problem.scalars)) * field,
        "diagonals": diagonals * field,
        "projection": field * (depths[0] + c * depths[1]),
        "Krylov vectors": field * _krylov_vectors(problem),
        "multigrid": parts.multigrid,
        "sides": WORD * (packed * parts.n**3 + 3 * parts.given + parts.free_pressure),
        "gather-scatter": parts.gather,
    }
    return {name: float(size) for name, size in found.items()}
