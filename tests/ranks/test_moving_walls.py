"""Flow between walls that move along themselves: no side lets anything through, and that is no imbalance."""

import numpy as np
import pytest

from ridgeline.elements.mesh import SIDES, BoxMesh, ElementGrid
from ridgeline.models.navier_stokes.engine_cpu import CpuEngine
from ridgeline.models.navier_stokes.problem import FlowProblem, HelmholtzSolver, PressureSolver, VelocitySide
from ridgeline.runtime.errors import ConfigError

RANKS = (1, 2, 3)
TIMEOUT = 300


def couette(comm, value=(1.0, 0.0, 0.0)):
    """Return an engine of the flow between a wall at y = 0 and one at y = 1 that has a velocity, and its y."""
    mesh = BoxMesh.box((1, 2, 2), (1.0, 1.0, 1.0), periodic=(True, False, True))
    sides = {name: VelocitySide("periodic") for name in SIDES}
    sides["y_min"] = VelocitySide("wall")
    sides["y_max"] = VelocitySide("moving-wall", lambda x, y, z, t: value)
    exact = {"pressure": PressureSolver(tolerance=1e-12), "velocity": HelmholtzSolver(tolerance=1e-13)}
    grid = ElementGrid(mesh, 4, comm.size, comm.rank)
    return CpuEngine(comm, grid, FlowProblem(1.0, 0.02, sides, time_order=2, **exact)), grid.coordinates[1]


def test_plane_couette_flow_stays_linear(comm):
    engine, y = couette(comm)
    engine.start(np.stack([y, 0 * y, 0 * y]))
    for _ in range(5):
        engine.advance()
    np.testing.assert_allclose(engine.u, np.stack([y, 0 * y, 0 * y]), atol=1e-12)


def test_a_wall_that_starts_at_once_makes_it_linear(comm):
    engine, y = couette(comm)
    engine.start(np.zeros((3, *y.shape)))
    assert engine.courant_rate() == 0
    for _ in range(160):  # to nu t = 3.2, where what is left has fallen by exp(-pi^2 nu t) = 2e-14
        engine.advance()
    np.testing.assert_allclose(engine.u, np.stack([y, 0 * y, 0 * y]), atol=1e-11)


def test_a_wall_that_blows_into_the_box_is_refused(comm):
    engine, y = couette(comm, (1.0, -0.01, 0.0))
    with pytest.raises(ConfigError, match=r"volume flux of -0\.01 out of the domain"):
        engine.start(np.zeros((3, *y.shape)))
