"""Flows on the elements of any number of ranks, which tests of the Navier-Stokes engine begin and advance."""

from navier_stokes_tools import make_start
from ridgeline.elements.mesh import ElementGrid
from ridgeline.models.navier_stokes.engine_cpu import CpuEngine
from ridgeline.models.navier_stokes.problem import HelmholtzSolver, PressureSolver

TIGHT = {
    "pressure": PressureSolver(tolerance=1e-13, projection=3),
    "velocity": HelmholtzSolver(tolerance=1e-13, projection=2),
}


def shared(comm, whole):
    """Return the grid of this rank's elements."""
    return ElementGrid(whole.mesh, whole.order, comm.size, comm.rank)


def begin(comm, whole, problem):
    grid = shared(comm, whole)
    engine = CpuEngine(comm, grid, problem)
    engine.start(make_start(grid, problem))
    return engine


def advance(engine, steps):
    for _ in range(steps):
        engine.advance()
