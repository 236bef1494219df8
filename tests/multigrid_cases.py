"""Meshes and solves that the tests of multigrid share, on any number of ranks."""

import numpy as np

from ridgeline.elements import mappings
from ridgeline.elements.gather_scatter import GatherScatter
from ridgeline.elements.geometry import ElementGeometry
from ridgeline.elements.mesh import BoxMesh, ElementGrid
from ridgeline.elements.multigrid.cycle import SchwarzMultigrid
from ridgeline.elements.multigrid.level import PolynomialLevel
from ridgeline.elements.operator import ElementOperator
from ridgeline.krylov.gmres import gmres

UNIT = ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))


def box(elements, lengths=(1.0, 1.0, 1.0), **options):
    return BoxMesh.box(elements, lengths, **options)


def wavy(e, amplitude=0.05):
    return box((e, e, e), mapping=mappings.wavy(*UNIT, amplitude))


def annulus(e):
    origin = (0.0, 1.0, 0.0)
    ring = mappings.annulus(origin, (1.0, 1.0, 1.0), 0.0)
    return box((e, e, 2 * e), origin=origin, periodic=(False, False, True), mapping=ring)


def hill(e, amplitude=0.2):
    return box((e, e, e), periodic=(False, False, True), mapping=mappings.periodic_hill(*UNIT, amplitude))


def duct(e):
    return box(
        (e, e, e),
        distribution=("uniform", "sine", "sine"),
        parameter=(1.0, 1.5, 1.5),
        periodic=(True, False, False),
    )


def random_field(ids):
    """Return numbers of [-1, 1] that depend on the number of a point alone."""
    return np.sin(1.0 + 12.9898 * ids.astype(np.float64) % 6283.0) * np.cos(78.233 * (ids % 1000))


class Problem:
    """The stiffness matrix of a mesh, its right-hand side, and solves of it."""

    def __init__(self, comm, mesh, order, dirichlet=()):
        self.comm, self.dirichlet = comm, dirichlet
        self.grid = ElementGrid(mesh, order, comm.size, comm.rank)
        self.geometry = ElementGeometry(self.grid)
        level = PolynomialLevel(mesh, self.grid.positions, (order,) * 3, dirichlet)
        constrained = np.flatnonzero(level.constrained)
        self.operator = ElementOperator(
            self.grid, self.geometry, GatherScatter(comm, self.grid.ids), 1.0, 0.0, constrained
        )
        self.b = random_field(self.grid.ids)
        self.b.reshape(-1)[constrained] = 0.0
        if not dirichlet:
            inner = self.operator.inner
            count = inner.allreduce(np.array([inner.weights.sum()]))
            self.b -= inner.dot(self.b, np.ones_like(self.b)) / count

    def multigrid(self, **options):
        return SchwarzMultigrid(self.grid, self.geometry, self.comm, self.dirichlet, **options)

    def solve(self, preconditioner, tolerance=1e-8):
        """Return (x, iterations) of GMRES without restart to a relative residual."""
        x = np.zeros(self.grid.shape)
        size = float(self.operator.inner.norm(self.b)[0])
        result = gmres(self.operator, self.b, x, preconditioner, 60, tolerance * size, 60)
        return x, result.iterations if result.converged else 99

    def iterations(self, **options):
        return self.solve(self.multigrid(**options))[1]
