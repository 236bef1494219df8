"""Steps of varying length: the order in time, the engine beside the reference, and steps by the Courant number."""

from dataclasses import replace

import numpy as np
import pytest
from mpi4py import MPI

import ridgeline
from navier_stokes_flows import advance
from navier_stokes_tools import EVERYTHING, all_sides, ethier_case, history, make_start, periodic_mesh
from ridgeline.elements.mesh import ElementGrid
from ridgeline.krylov.projection import Projection
from ridgeline.models.navier_stokes.engine_cpu import CpuEngine
from ridgeline.models.navier_stokes.problem import FlowProblem, FlowRate, HelmholtzSolver, PressureSolver
from ridgeline.models.navier_stokes.reference import ReferenceSolver
from ridgeline.models.navier_stokes.restart import EngineState
from ridgeline.models.navier_stokes.time_stepping import BAND, StepControl
from ridgeline.runtime.errors import ConfigError, DivergedError
from ridgeline.simulation import report

PATTERN = np.array([1.0, 1.3, 0.9, 0.6, 0.8, 1.4])  # of mean 1
TIGHT = {
    "pressure": PressureSolver(tolerance=1e-11, projection=6),
    "velocity": HelmholtzSolver(tolerance=1e-12, projection=3),
}


@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_order_in_time_is_at_least_that_of_equal_steps(order):
    found = []
    for steps in (12, 24):
        dt = 0.4 / steps
        grid, problem, velocity, _ = ethier_case(1, 8, dt, viscosity=1.0, dealias=12, time_order=order)
        start = velocity(*grid.coordinates, 0.0)
        solver = ReferenceSolver(grid, problem, start, history=history(grid, velocity, dt, levels=order - 1))
        for step in range(steps):
            solver.step((0.8, 1.2)[step % 2] * dt)
        off = solver.u - velocity(*grid.coordinates, solver.time)
        found.append(np.sqrt((off**2 * solver.elements.mass).sum()))
        assert solver.time == pytest.approx(0.4)
    # Found: 1.7, 2.8 and 2.9.
    assert np.log2(found[0] / found[1]) > order - 0.1, found


@pytest.mark.parametrize(
    "name", [name if name == "duct" else pytest.param(name, marks=pytest.mark.full) for name in EVERYTHING]
)
def test_the_engine_is_the_reference_with_any_steps(name):
    grid, problem = EVERYTHING[name](**TIGHT)
    fields = make_start(grid, problem)
    reference = ReferenceSolver(grid, problem, fields[:3], fields[3:])
    engine = CpuEngine(MPI.COMM_SELF, grid, problem)
    engine.start(fields)
    for factor in PATTERN:
        reference.step(factor * problem.dt)
        engine.advance(factor * problem.dt)
        np.testing.assert_allclose(engine.fields, reference.fields[0], atol=1e-9)
        np.testing.assert_allclose(engine.p, reference.p, atol=1e-7)


def wind(control, speed=1.0, force=0.0):
    """Return an engine of a uniform wind along x in a periodic box, which a force accelerates."""
    grid = ElementGrid(periodic_mesh((1, 1, 2), (2.0, 2.0, 4.7)), 5)
    problem = FlowProblem(0.1, np.nan, all_sides("periodic"), control=control, force=(force, 0.0, 0.0))
    engine = CpuEngine(MPI.COMM_SELF, grid, problem)
    engine.start(np.full((3, *grid.shape), speed) * np.array([1.0, 0, 0])[:, None, None, None, None])
    return engine


def steps_of(engine, count):
    """Advance; return the lengths of the steps and the Courant numbers after them."""
    found = []
    for _ in range(count):
        advance(engine, 1)
        dt = engine.time_levels.steps[0]
        found.append((dt, dt * engine.courant_rate()))
    return np.array(found).T


def test_a_flow_that_accelerates_keeps_its_courant_number_in_the_band():
    engine = wind(StepControl(0.4), force=1.0)
    lengths, numbers = steps_of(engine, 70)
    assert engine.u[0].max() > 3.5  # at first 1
    assert (abs(numbers / 0.4 - 1) <= BAND + 0.15).all(), numbers  # in a step the flow gains a ninth at most
    assert (abs(numbers[20:] / 0.4 - 1) <= BAND + 0.05).all(), numbers
    changes = np.diff(lengths) != 0
    assert (np.diff(lengths) <= 0).all()
    assert changes.sum() <= 12
    np.testing.assert_allclose(engine.u[0], 1 + engine.time, rtol=1e-8)


def test_a_step_that_is_too_long_is_repeated_as_if_it_had_never_been_made():
    control = StepControl(0.4, longest=0.5)
    engine = wind(control, speed=0.3, force=20.0)
    other = wind(control, speed=0.3, force=20.0)
    first, rate = engine.dt, engine.courant_rate()
    assert first * rate == pytest.approx(0.4, rel=0.01)
    advance(engine, 1)
    made = engine.time_levels.steps[0]
    assert engine.repeated > 0
    assert made < first / 2
    assert made * engine.courant_rate() <= 1.0
    assert (engine.time, engine.step_index) == (made, 1)
    other.advance(made)
    np.testing.assert_allclose(engine.fields, other.fields, rtol=0, atol=1e-10)
    for level, same in zip(engine.time_levels.fields, other.time_levels.fields):
        np.testing.assert_allclose(level, same, rtol=0, atol=1e-10)
    advance(engine, 5)
    np.testing.assert_allclose(engine.u[0], 0.3 + 20.0 * engine.time, rtol=1e-8)


def test_a_step_is_not_repeated_below_the_shortest():
    engine = wind(StepControl(0.4, shortest=0.4, longest=0.5), speed=0.3, force=20.0)
    with pytest.raises(DivergedError, match=r"Set a smaller model\.dt_min"):
        advance(engine, 3)


def test_a_flow_that_starts_suddenly_begins_with_small_steps():
    assert StepControl(0.4).first(7.0, sudden=True) == pytest.approx(0.00571)
    grid = ElementGrid(periodic_mesh((1, 1, 2), (2.0, 2.0, 4.7)), 5)
    for speed, sides, flow_rate, sudden in (
        (1.0, all_sides("periodic"), FlowRate(0, 1.0), False),
        (0.0, all_sides("periodic"), FlowRate(0, 1.0), True),
        (0.0, all_sides("periodic"), None, False),
    ):
        problem = FlowProblem(0.1, np.nan, sides, control=StepControl(0.4), flow_rate=flow_rate)
        engine = CpuEngine(MPI.COMM_SELF, grid, problem)
        velocity = np.zeros((3, *grid.shape))
        velocity[0] = speed
        assert engine._starts_suddenly(velocity) == sudden
    grid, problem = EVERYTHING["duct"]()
    engine = CpuEngine(MPI.COMM_SELF, grid, replace(problem, control=StepControl(0.4)))
    velocity = np.ones((3, *grid.shape))  # at walls at rest too
    assert engine._starts_suddenly(velocity)


def test_the_bounds_of_the_step_are_kept():
    lengths, numbers = steps_of(wind(StepControl(0.3, shortest=0.04, longest=0.05), force=3.0), 14)
    assert lengths.min() == 0.04
    assert lengths.max() <= 0.05
    assert numbers[-1] > 0.36  # which is what the shortest step costs
    lengths, _ = steps_of(wind(StepControl(0.3, longest=0.01, change=1.05), speed=0.0, force=1.0), 30)
    assert lengths.max() == 0.01
    with pytest.raises(ConfigError, match=r"Set model\.dt_max"):
        wind(StepControl(0.3), speed=0.0, force=1.0)


def test_a_step_that_may_not_change_has_the_bits_of_a_fixed_one():
    found = []
    for control in (None, StepControl(0.1, shortest=5e-3, longest=5e-3)):
        grid, problem = EVERYTHING["duct"]()
        engine = CpuEngine(MPI.COMM_SELF, grid, replace(problem, control=control))
        engine.start(make_start(grid, problem))
        advance(engine, 5)
        found.append([engine.time, *engine.fields.ravel(), *engine.p.ravel()])
    assert found[0] == found[1]


def test_a_change_of_the_step_keeps_the_space_of_solutions(monkeypatch):
    """Iterations of the velocity when the step becomes a tenth longer, which changes b_0/dt in three steps."""
    counts = {}
    for kept in (True, False):
        if not kept:
            monkeypatch.setattr(Projection, "shift", lambda self, change: self.reset())
        solvers = {"pressure": PressureSolver(tolerance=1e-7), "velocity": HelmholtzSolver(tolerance=1e-9)}
        grid, problem = EVERYTHING["duct"](**solvers)
        engine = CpuEngine(MPI.COMM_SELF, grid, problem)
        engine.start(make_start(grid, problem))
        advance(engine, 16)
        counts[kept] = []
        for _ in range(4):
            engine.advance(1.1 * problem.dt)
            counts[kept].append(engine.last_iterations["velocity"])
    assert sum(counts[True]) <= 0.7 * sum(counts[False]), counts


def resumed(engine, problem, without=()):
    """Return a new engine that continues from the state of another, but for some arrays."""
    saved = {key: array.local.copy() for key, array in EngineState(engine).arrays().items()}
    other = CpuEngine(MPI.COMM_SELF, engine.grid, problem)
    state = EngineState(other)
    for key, array in state.arrays().items():
        if key not in without:
            array.local[...] = saved[key]
    state.restored()
    return other


def test_checkpoints_of_before_go_on():
    grid, problem = EVERYTHING["channel"](**TIGHT)
    engine = CpuEngine(MPI.COMM_SELF, grid, problem)
    engine.start(make_start(grid, problem))
    advance(engine, 4)
    same = resumed(engine, problem, without=("time_steps",))
    longer = resumed(engine, replace(problem, dt=2.5e-3), without=("time_steps",))
    chosen = resumed(engine, replace(problem, dt=np.nan, control=StepControl(0.1)), without=("time_steps",))
    np.testing.assert_allclose([*longer.time_levels.steps, *chosen.time_levels.steps], problem.dt, rtol=1e-14)
    assert chosen.dt == pytest.approx(problem.dt)  # it then changes by the factor
    advance(engine, 1)
    advance(same, 1)
    np.testing.assert_array_equal(same.fields, engine.fields)
    # Of a first step, which has another order, b_0/dt does not tell the length: the scheme begins anew.
    engine.start(make_start(grid, problem))
    advance(engine, 1)
    assert resumed(engine, problem, without=("time_steps",)).time_levels.known == 2
    first = resumed(engine, replace(problem, dt=np.nan, control=StepControl(0.1)), without=("time_steps",))
    assert first.time_levels.known == 1
    assert first.dt * first.courant_rate() == pytest.approx(0.1, rel=0.01)


def test_a_run_that_goes_on_with_another_step_knows_those_before():
    """As if the engine itself had been told to: a checkpoint holds how long its steps were."""
    grid, problem = EVERYTHING["forced"](**TIGHT)
    engine = CpuEngine(MPI.COMM_SELF, grid, problem)
    engine.start(make_start(grid, problem))
    advance(engine, 3)
    other = resumed(engine, replace(problem, dt=1.5 * problem.dt))
    advance(other, 2)
    for _ in range(2):
        engine.advance(1.5 * problem.dt)
    np.testing.assert_array_equal(other.fields, engine.fields)


def simulate(steps=8, **parameters):
    return ridgeline.Simulation(
        ridgeline.Case(
            "navier_stokes",
            steps,
            grid={"elements": (1, 2, 2), "order": 5, "lengths": (2.0, 6.283, 6.283), "periodic": [True] * 3},
            parameters={"viscosity": 0.05, **parameters},
            initial={"kind": "taylor_green_2d"},
        ),
        progress=False,
    )


def test_the_courant_number_is_steered(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(report, "measure_limits", lambda *arguments: {})
    with simulate(courant=0.2) as simulation:
        simulation.advance(4)
        first = simulation.time / 4
        assert first * simulation._run.model._engine.courant_rate() == pytest.approx(0.2, rel=0.1)
        simulation.change({"model.courant": 0.4})
        simulation.advance(2)  # by a quarter longer each, after one that was chosen before
        assert simulation.time == pytest.approx(first * (4 + 1 + 1.25))
        simulation.change({"model.courant": None, "model.dt": 0.01})
        before = simulation.time
        simulation.advance()
        assert simulation.time == pytest.approx(before + 0.01)
        with pytest.raises(ConfigError, match=r"model\.courant .* must be set if model\.dt is left out"):
            simulation.change({"model.courant": 0.4})
        simulation.change({"model.courant": 0.4, "model.dt": None})
        simulation.advance()
        assert simulation.time == pytest.approx(before + 0.02)
