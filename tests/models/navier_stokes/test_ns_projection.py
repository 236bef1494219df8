"""Initial guesses from the space of past solutions: how many iterations they save, and that they change nothing."""

import math

import numpy as np
import pytest
from mpi4py import MPI

from navier_stokes_tools import all_sides, duct, make_start, periodic_mesh
from ridgeline.elements.mesh import ElementGrid
from ridgeline.models.navier_stokes.engine_cpu import CpuEngine
from ridgeline.models.navier_stokes.problem import FlowProblem, HelmholtzSolver, PressureSolver

STEPS = 40
COUNTED = 20  # the last of them, when the spaces are full


def taylor_green(**solvers):
    grid = ElementGrid(periodic_mesh((4, 4, 4), (2 * math.pi,) * 3), 7)
    problem = FlowProblem(1 / 100, 0.02, all_sides("periodic"), dealias_points=12, **solvers)
    x, y, z = grid.coordinates
    start = [np.sin(x) * np.cos(y) * np.cos(z), -np.cos(x) * np.sin(y) * np.cos(z), np.zeros_like(x)]
    return grid, problem, np.stack(start)


def forced_duct(**solvers):
    grid, problem = duct(**solvers)
    return grid, problem, make_start(grid, problem)


def run(case, pressure, velocity):
    """Return the velocity at the end and mean iterations of pressure and velocity, with depths of projection."""
    grid, problem, start = case(
        pressure=PressureSolver(tolerance=1e-7, projection=pressure),
        velocity=HelmholtzSolver(tolerance=1e-9, projection=velocity),
    )
    engine = CpuEngine(MPI.COMM_SELF, grid, problem)
    engine.start(start)
    for step in range(STEPS):
        if step == STEPS - COUNTED:
            engine.solves.clear()
        engine.advance()
    counts = [engine.solves[name] for name in ("pressure", "velocity")]
    return engine.u, np.array([count.iterations / count.solves for count in counts])


@pytest.mark.parametrize(
    ("case", "factors"),
    [
        (taylor_green, (5.0, 4.0)),  # found: 7.0 -> 0.95 and 6.0 -> 1.0
        (forced_duct, (2.5, 2.0)),  # found: 7.6 -> 2.2 and 12.75 -> 4.7
    ],
)
def test_projection_cuts_iterations(case, factors):
    (without, many), (with_it, few) = run(case, 0, 0), run(case, 20, 8)
    np.testing.assert_allclose(with_it, without, rtol=0, atol=1e-8)
    assert (many >= factors * np.maximum(few, 0.5)).all(), (many, few)
