"""The memory of a Navier-Stokes run on a GPU, counted before anything is allocated and without a device.

device_bytes(parts, problem)      the bytes of a rank, by what they are for, from the sizes of its part of the mesh
device_memory(case, mesh, ...)    the same for the rank that needs most, before a run: lists of shared points are
                                  estimated
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ridgeline.elements.device.device_bytes import advection_bytes, geometry_bytes, multigrid_bytes
from ridgeline.elements.mesh_protocol import Mesh
from ridgeline.elements.multigrid.level import level_orders
from ridgeline.models.navier_stokes.problem import DIRICHLET, FlowProblem
from ridgeline.models.navier_stokes.problem_of_case import problem_of
from ridgeline.models.navier_stokes.sources import kept_formulas, used_places
from ridgeline.parallel.partition import split

if TYPE_CHECKING:
    from ridgeline.models.navier_stokes.settings import NavierStokesCase


LIST, WORD = 4, 8  # bytes of an entry of a list, and of a number
# The largest mesh whose neighbours are looked at one by one. In a larger one, a part counts as a cube at a corner.
MOST_ELEMENTS = 200_000


@dataclass(frozen=True)
class DeviceParts:
    """The sizes of a rank's part of the mesh, as far as its GPU's memory depends on them.

    n: points per direction of an element; elements: of the rank; at_sides: elements that have a surface integral;
    lifted: elements with Dirichlet values that can differ from 0, times components, in all solves; given: Dirichlet
    values of all solves; free_pressure: points where the pressure is given; gather, multigrid: bytes of the
    gather-scatter and of the Schwarz multigrid.
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


def _krylov_vectors(problem: FlowProblem) -> float:
    """Return how many fields the workspace of the solves takes, which velocity and scalars share."""
    pressure, velocity = problem.pressure, problem.velocity
    single = pressure.preconditioner == "schwarz" and pressure.precision == "float32"
    z = 0.5 if single else 1.0  # words of what the preconditioner gives
    vectors = 9.0 + 6 if velocity.projection else 9.0  # residual, left, dx; p, w of conjugate gradients
    if not velocity.projection and any(side.value is not None for side in problem.sides.values()):
        vectors += 6  # of lifted values
    left = 3 if pressure.projection else 0  # residual, left, dx
    if pressure.solver == "cg":
        return vectors + left + (3 if pressure.projection else 4) + z  # r is `left`
    steps = max(1, min(pressure.restart, pressure.max_iterations))
    return vectors + left + steps + 1 + single + (steps * z if pressure.preconditioner != "none" else 0)


def device_bytes(parts: DeviceParts, problem: FlowProblem) -> dict[str, float]:
    """Return the bytes of one rank on its device by what they are for, except for tables of a few KiB."""
    c, order, field = 3 + len(problem.scalars), problem.time_order, WORD * parts.points
    flow_rate = 0 if problem.flow_rate is None else 4
    spare = 0 if problem.control is None else c  # so that a step can be repeated
    diagonals = 1 + len(problem.scalars) + (problem.pressure.preconditioner == "jacobi")
    boxes = 4 * WORD * parts.elements if parts.axis_aligned else 0
    depths = problem.pressure.projection + 2, problem.velocity.projection + 2
    packed = c * parts.at_sides + parts.lifted
    terms = problem.source_terms
    sizes = {
        "fields": field * (2 * order * c + spare + c + 6 + flow_rate),
        "inner products": 4 * field,
        "geometry": geometry_bytes(parts.points, parts.axis_aligned) + boxes,
        "advection": advection_bytes(parts.n, problem.dealias_points, parts.elements, parts.axis_aligned),
        "sources": (len(used_places(terms)) + len(kept_formulas(terms))) * field,
        "diagonals": diagonals * field,
        "projection": field * (depths[0] + c * depths[1]),
        "Krylov vectors": field * _krylov_vectors(problem),
        "multigrid": parts.multigrid,
        "sides": WORD * (packed * parts.n**3 + 3 * parts.given + parts.free_pressure),
        "gather-scatter": parts.gather,
    }
    return {name: float(size) for name, size in sizes.items()}


def elements_at_sides(mesh: Mesh, n_ranks: int) -> int:
    """Return the number of elements with a face that has no neighbour, of the part that has most of them."""
    total = mesh.n_elements
    if total > MOST_ELEMENTS:
        largest = -(-total // n_ranks)
        return min(largest, int(6 * largest ** (2 / 3)))
    positions = mesh.range(0, total)
    alone = np.zeros(total, bool)
    alone[mesh.numbers(positions)] = (mesh.neighbours(positions) < 0).any(axis=1)
    parts = np.repeat(np.arange(n_ranks), [split(total, n_ranks, rank)[1] for rank in range(n_ranks)])
    return int(np.bincount(parts, alone, n_ranks).max())


def _parts(
    case: NavierStokesCase, problem: FlowProblem, mesh: Mesh, most: int, faces: float, n_ranks: int
) -> DeviceParts:
    n, scalars = case.grid.order + 1, problem.scalars
    c = 3 + len(scalars)
    near = elements_at_sides(mesh, n_ranks)
    moving = any(problem.sides[name].value is not None for name in problem.sides_of(*DIRICHLET))
    given = [
        any(s.kind == "fixed" and s.value is not None for s in scalar.sides.values()) for scalar in scalars
    ]
    surface = most * (n**3 - max(n - 2, 0) ** 3)
    sent = 2.0 * faces * n * n / n_ranks
    return DeviceParts(
        n=n,
        elements=most,
        axis_aligned=not _curved(case),
        at_sides=near,
        lifted=near * (3 * moving + sum(given)),
        given=near * n * n * c,
        free_pressure=near * n * n if problem.sides_of("outflow") else 0,
        gather=LIST * (surface + 4 * sent) + WORD * c * 3 * sent,
        multigrid=_multigrid(case, mesh, most) if problem.pressure.preconditioner == "schwarz" else 0.0,
    )


def _multigrid(case: NavierStokesCase, mesh: Mesh, most: int) -> float:
    lengths = (1.0, 1.0, 1.0)
    if mesh.regular and mesh.n_elements <= MOST_ELEMENTS:
        x, y, z = 1.0 / (1.0 / mesh.extents(mesh.range(0, mesh.n_elements))).sum(axis=0)
        lengths = z, y, x
    real = 4 if case.model.pressure.precision == "float32" else 8
    return multigrid_bytes(level_orders(case.grid.order, lengths), most, real, not _curved(case))


def _curved(case: NavierStokesCase) -> bool:
    return case.grid.mapping != "none" or bool(case.grid.mesh)


def device_memory(
    case: NavierStokesCase, mesh: Mesh, most: int, faces: float, n_ranks: int
) -> dict[str, float]:
    """Return the bytes on the GPU of the rank that needs most, by what they are for; empty for a run on CPUs.

    most: elements of the largest part; faces: element faces between parts, over all ranks (`shared_faces`).
    """
    if case.run.device == "cpu":
        return {}
    problem = problem_of(case, 1.0)
    return device_bytes(_parts(case, problem, mesh, most, faces, n_ranks), problem)
