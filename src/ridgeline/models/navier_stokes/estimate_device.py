"""What a Navier-Stokes run takes on each GPU, before it runs: counted, but for lists of shared points."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ridgeline.elements.device.memory import multigrid_bytes
from ridgeline.elements.mesh_protocol import Mesh
from ridgeline.elements.multigrid.level import level_orders
from ridgeline.models.navier_stokes.device.memory import DeviceParts, device_bytes
from ridgeline.models.navier_stokes.problem import DIRICHLET, FlowProblem
from ridgeline.models.navier_stokes.problem_of_case import problem_of
from ridgeline.parallel.partition import split

if TYPE_CHECKING:
    from ridgeline.models.navier_stokes.settings import NavierStokesCase

# Whose neighbours are looked at one by one; else a part is taken for a cube at a corner.
MOST_ELEMENTS = 200_000
LIST, WORD = 4, 8  # bytes


def elements_at_sides(mesh: Mesh, n_ranks: int) -> int:
    """Return how many elements of a part have a face without a neighbour, of the part that has most."""
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
    """Return the bytes on the GPU of the rank that needs most, by what they are for; none without a GPU.

    most: elements of the largest part; faces: between parts, of all ranks (`shared_faces`).
    """
    if case.run.device == "cpu":
        return {}
    problem = problem_of(case, 1.0)
    return device_bytes(_parts(case, problem, mesh, most, faces, n_ranks), problem)
