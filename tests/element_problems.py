"""Poisson and Helmholtz problems on small meshes of spectral elements, boxes and wavy ones."""

import numpy as np
from mpi4py import MPI

from ridgeline.elements.gather_scatter import GatherScatter
from ridgeline.elements.geometry import ElementGeometry
from ridgeline.elements.mappings import wavy
from ridgeline.elements.mesh import SIDES, BoxMesh, ElementGrid
from ridgeline.elements.one_pass import OnePassStiffness, find_kinds
from ridgeline.elements.operator import ElementOperator
from ridgeline.krylov.cg import cg
from ridgeline.runtime.regions import Regions

Array = np.ndarray
ELEMENTS = (2, 2, 3)
LENGTHS = (1.0, 1.2, 1.5)


class Problem:
    """h1 (-laplacian) + h2 on a box or a wavy one, solved on all ranks of a communicator."""

    def __init__(
        self, comm: MPI.Comm, order: int, curved: bool, h1: float, h2: float, sides=(SIDES,), periodic=False
    ) -> None:
        mapping = wavy((0.0, 0.0, 0.0), LENGTHS, 0.015) if curved else None
        mesh = BoxMesh.box(
            ELEMENTS,
            LENGTHS,
            distribution=("uniform", "geometric", "sine"),
            parameter=(1.0, 1.3, 1.2),
            mapping=mapping,
            periodic=(periodic,) * 3,
        )
        self.grid = ElementGrid(mesh, order, comm.size, comm.rank)
        self.geometry = ElementGeometry(self.grid)
        self.gather_scatter = GatherScatter(comm, self.grid.ids)
        self.regions = Regions()
        points = [self.grid.side_points(group) for group in sides]
        self.operator = ElementOperator(
            self.grid, self.geometry, self.gather_scatter, h1, h2, points, regions=self.regions
        )

    def right_hand_side(self, source: Array) -> Array:
        """Return Q^T B f with constrained points zero. source: [c, E, n, n, n]."""
        b = source * self.geometry.mass
        self.gather_scatter.sum(b)
        self.operator.mask(b)
        return b

    def one_pass(self, comm: MPI.Comm, make=OnePassStiffness, *options):
        """Return the first component of -laplacian, all elements curved, as an operator that fuses its pass."""
        constrained = np.zeros(self.grid.shape, bool)
        constrained.reshape(-1)[self.operator.constrained[0]] = True
        shared = GatherScatter(comm, np.where(constrained, -1, self.grid.ids), max_fields=1)
        return make(shared, find_kinds(shared, constrained), self.geometry.factors, 0.0, *options)


def exact(coordinates: Array) -> Array:
    x, y, z = coordinates
    return np.asarray(np.sin(1.3 * x + 0.4) * np.cos(0.9 * y) * np.exp(0.5 * z))


FACTOR = 1.3**2 + 0.9**2 - 0.5**2  # -laplacian of `exact` over itself


def solve_dirichlet(comm: MPI.Comm, order: int, curved: bool, h1: float, h2: float) -> tuple[Problem, Array]:
    """Return the solution with the exact one lifted from the boundary."""
    problem = Problem(comm, order, curved, h1, h2)
    operator, u = problem.operator, exact(problem.geometry.coordinates)
    lifted = np.zeros_like(u)
    points = operator.constrained[0]
    lifted.reshape(-1)[points] = u.reshape(-1)[points]
    b, applied = problem.right_hand_side(((h1 * FACTOR + h2) * u)[None])[0], np.empty_like(u)
    operator.apply(lifted, applied)
    b -= applied
    x = np.empty_like(u)
    result = cg(operator, b, x, operator.inverse_diagonal(), 1e-10, 600, zero_guess=True)
    assert result.converged, result
    return problem, x + lifted
