"""The engine against the plain reference, step by step, for every kind of side, element and term."""

import tracemalloc

import numpy as np
import pytest
from mpi4py import MPI

from navier_stokes_tools import EVERYTHING, ethier_case, history, make_start, walsh_case
from ridgeline.elements.mappings import wavy
from ridgeline.krylov.operator import SolveResult
from ridgeline.models.contract import SolveCount
from ridgeline.models.navier_stokes.engine_cpu import CpuEngine
from ridgeline.models.navier_stokes.problem import HelmholtzSolver, PressureSolver
from ridgeline.models.navier_stokes.reference import ReferenceSolver
from ridgeline.runtime.errors import ConfigError, DivergedError

TIGHT = {
    "pressure": PressureSolver(tolerance=1e-11, projection=6),
    "velocity": HelmholtzSolver(tolerance=1e-12, projection=3),
}


def both(grid, problem, fields, before=()):
    """Return a reference solver and an engine that start alike."""
    reference = ReferenceSolver(grid, problem, fields[:3], fields[3:], history=before)
    engine = CpuEngine(MPI.COMM_SELF, grid, problem)
    engine.start(fields, history=before)
    return reference, engine


def agree(reference, engine, steps, tolerance=1e-9):
    for _ in range(steps):
        reference.step()
        engine.advance()
        np.testing.assert_allclose(engine.fields, reference.fields[0], atol=tolerance)
        np.testing.assert_allclose(engine.p, reference.p, atol=100 * tolerance)


def advance(engine, steps):
    for _ in range(steps):
        engine.advance()


@pytest.mark.parametrize("full_order", [pytest.param(False, marks=pytest.mark.full), True])
def test_given_velocities_on_boxes(full_order):
    grid, problem, velocity, _ = ethier_case(2, 5, 0.01, dealias=8, **TIGHT)
    before = history(grid, velocity, problem.dt) if full_order else []
    agree(*both(grid, problem, velocity(*grid.coordinates, 0.0), before), 4)


@pytest.mark.full
def test_given_velocities_on_curved_elements():
    bend = wavy((-1.0,) * 3, (2.0,) * 3, 0.02)
    grid, problem, velocity, _ = ethier_case(2, 4, 0.01, dealias=6, mapping=bend, **TIGHT)
    agree(*both(grid, problem, velocity(*grid.coordinates, 0.0)), 4)


def test_periodic_flow_at_the_points_of_the_elements():
    grid, problem, velocity, _ = walsh_case(3, 5, 0.01, **TIGHT)
    agree(*both(grid, problem, velocity(*grid.coordinates, 0.0)), 4)


@pytest.mark.parametrize("name", EVERYTHING)
def test_sides_scalars_and_forces(name):
    grid, problem = EVERYTHING[name](**TIGHT)
    agree(*both(grid, problem, make_start(grid, problem)), 4)


def test_solvers_without_memory_and_without_multigrid_find_the_same():
    grid, problem, velocity, _ = ethier_case(
        2, 5, 0.01,
        pressure=PressureSolver("cg", 1e-11, 500, preconditioner="jacobi", projection=0),
        velocity=HelmholtzSolver(1e-12, projection=0),
    )  # fmt: skip
    agree(*both(grid, problem, velocity(*grid.coordinates, 0.0)), 4)


def test_projection_saves_iterations():
    counts = {}
    for depth in (0, 12):
        grid, problem, velocity, _ = ethier_case(
            2, 5, 1e-3,
            pressure=PressureSolver(tolerance=1e-8, projection=depth),
            velocity=HelmholtzSolver(tolerance=1e-9, projection=min(depth, 8)),
        )  # fmt: skip
        engine = CpuEngine(MPI.COMM_SELF, grid, problem)
        engine.start(velocity(*grid.coordinates, 0.0), history=history(grid, velocity, problem.dt))
        for step in range(16):
            if step == 12:
                engine.solves.clear()
            engine.advance()
        counts[depth] = {name: count.iterations for name, count in engine.solves.items()}
    assert counts[12]["pressure"] <= 0.6 * counts[0]["pressure"], counts
    assert counts[12]["velocity"] <= 0.7 * counts[0]["velocity"], counts


def test_a_step_beyond_stability_ends_with_the_step_that_is_allowed():
    grid, problem, velocity, _ = ethier_case(2, 5, 0.05)
    engine = CpuEngine(MPI.COMM_SELF, grid, problem)
    engine.start(velocity(*grid.coordinates, 0.0))
    with pytest.raises(DivergedError, match=r"model.dt = 0.05 gives the Courant number 2\.\d+ at step 0"):
        engine.advance()


def test_a_flow_that_blows_up_is_stopped_before_it_has():
    grid, problem, velocity, _ = walsh_case(3, 5, 0.05, viscosity=1e-4)
    engine = CpuEngine(MPI.COMM_SELF, grid, problem)
    engine.start(velocity(*grid.coordinates, 0.0))
    told = r"Courant number 1\.\d+ at step \d, .* Set model.dt <= 0.0[12]\d*, for"
    with pytest.raises(DivergedError, match=told):
        advance(engine, 9)
    assert engine.courant_rate() * problem.dt < 2  # half a turn later it is 1e9


def test_a_solve_that_does_not_converge_is_named():
    grid, problem, velocity, _ = ethier_case(2, 5, 0.01, pressure=PressureSolver(max_iterations=1))
    engine = CpuEngine(MPI.COMM_SELF, grid, problem)
    engine.start(velocity(*grid.coordinates, 0.0))
    with pytest.raises(
        DivergedError, match=r"the pressure solve of step 1 did not converge\. Its residual is .* after 1 "
    ):
        engine.advance()


def test_solves_are_counted_and_not_kept():
    grid, problem, _, _ = ethier_case(1, 5, 0.01)
    engine = CpuEngine(MPI.COMM_SELF, grid, problem)
    engine.count_solve("velocity", SolveResult(3, 1e-9, 1.0, True))
    tracemalloc.start()
    for i in range(2000):
        engine.count_solve("pressure", SolveResult(i % 7, 1e-9, 1.0 + i, True))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 5000  # a result kept is 100 bytes and more
    iterations = sum(i % 7 for i in range(2000))
    assert engine.solves == {"velocity": SolveCount(1, 3, 3), "pressure": SolveCount(2000, iterations, 6)}
    assert engine.last_iterations == {"velocity": 3, "pressure": 1999 % 7}


def test_given_velocities_must_balance():
    grid, problem, _, _ = ethier_case(1, 5, 0.01)
    sides = dict(problem.sides)
    sides["x_min"] = type(sides["x_min"])("inflow", lambda x, y, z, t: (1.0, 0.0, 0.0))
    for name in ("x_max", "y_min", "y_max", "z_min", "z_max"):
        sides[name] = type(sides["x_min"])("wall")
    engine = CpuEngine(MPI.COMM_SELF, grid, type(problem)(0.1, 0.01, sides))
    with pytest.raises(ConfigError, match=r"flux of -3\.48 out of the domain"):
        engine.start(np.zeros((3, *grid.shape)))


def test_symmetry_needs_a_flat_side():
    bend = lambda x, y, z: (x + 0.1 * np.sin(3 * y), y, z)  # noqa: E731
    grid, problem, _, _ = ethier_case(1, 4, 0.01, mapping=bend)
    sides = {**problem.sides, "x_max": type(problem.sides["x_max"])("symmetry")}
    with pytest.raises(ConfigError, match=r'\[boundary.x_max\] has kind = "symmetry"'):
        CpuEngine(MPI.COMM_SELF, grid, type(problem)(0.1, 0.01, sides))
