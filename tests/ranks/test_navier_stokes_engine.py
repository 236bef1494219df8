"""The Navier-Stokes engine on any number of ranks: the same flow, and a resume that nobody notices."""

import numpy as np
import pytest
from mpi4py import MPI

from navier_stokes_flows import TIGHT, advance, begin, shared
from navier_stokes_tools import EVERYTHING, ethier_case
from ridgeline.models.navier_stokes.engine_cpu import CpuEngine
from ridgeline.models.navier_stokes.problem import HelmholtzSolver, PressureSolver
from ridgeline.models.navier_stokes.restart import EngineState
from ridgeline.models.navier_stokes.time_stepping import StepControl

RANKS = (1, 2, 3, 4)
TIMEOUT = 300


@pytest.mark.parametrize("name", ["channel", "duct", "convection", "sources", "variable"])
def test_any_number_of_ranks_finds_the_same_flow(comm, name):
    whole, problem = EVERYTHING[name](**TIGHT)
    alone, engine = begin(MPI.COMM_SELF, whole, problem), begin(comm, whole, problem)
    advance(alone, 4)
    advance(engine, 4)
    mine = slice(engine.grid.first, engine.grid.first + engine.grid.n_elements)
    np.testing.assert_allclose(engine.fields, alone.fields[:, mine], atol=1e-11)
    np.testing.assert_allclose(engine.p, alone.p[mine], atol=1e-9)
    if engine.flow_rate is not None:
        assert abs(engine.flow_rate.bulk(engine.u) - 0.7) < 1e-12
        assert engine.flow_rate.force == pytest.approx(alone.flow_rate.force, abs=1e-9)


@pytest.mark.parametrize("name", ["channel", "duct"])
def test_any_number_of_ranks_chooses_the_same_steps(comm, name):
    whole, problem = EVERYTHING[name](**TIGHT, control=StepControl(0.05))
    alone, engine = begin(MPI.COMM_SELF, whole, problem), begin(comm, whole, problem)
    assert engine.dt == alone.dt
    before = engine.dt = alone.dt = alone.dt / 3
    advance(alone, 6)
    advance(engine, 6)
    assert engine.time_levels.steps == alone.time_levels.steps
    assert engine.dt == alone.dt > before
    mine = slice(engine.grid.first, engine.grid.first + engine.grid.n_elements)
    np.testing.assert_allclose(engine.fields, alone.fields[:, mine], atol=1e-11)


@pytest.mark.parametrize(
    ("name", "growing"),
    [
        ("channel", False),
        ("duct", False),
        ("duct", True),
        ("convection", False),
        ("sources", True),
        ("variable", False),
    ],
)
def test_a_resumed_flow_goes_on_with_the_same_bits(comm, name, growing):
    whole, problem = EVERYTHING[name](
        pressure=PressureSolver(tolerance=1e-8, projection=3),
        velocity=HelmholtzSolver(tolerance=1e-9, projection=2),
        control=StepControl(0.1) if growing else None,
    )
    engine = begin(comm, whole, problem)
    if growing:
        engine.dt /= 20  # so that every step is longer than the one before
    advance(engine, 5)
    saved = {key: array.local.copy() for key, array in EngineState(engine).arrays().items()}
    advance(engine, 4)

    other = CpuEngine(comm, shared(comm, whole), problem)
    state = EngineState(other)
    for key, array in state.arrays().items():
        array.local[...] = saved[key]
    state.restored()
    assert other.step_index == 5
    advance(other, 4)
    assert other.time == engine.time
    assert other.time_levels.steps == engine.time_levels.steps
    assert len(set(engine.time_levels.steps)) == (3 if growing else 1)
    np.testing.assert_array_equal(other.fields, engine.fields)
    np.testing.assert_array_equal(other.p, engine.p)


@pytest.mark.parametrize("depth", [1, 3])
def test_a_flow_of_one_rank_goes_on_with_any_number(comm, depth):
    """From full spaces of past solutions: each rank takes its elements of them, and the same small numbers."""
    solvers = {
        "pressure": PressureSolver(tolerance=1e-11, projection=depth),
        "velocity": HelmholtzSolver(tolerance=1e-12, projection=depth),
    }
    whole, problem = EVERYTHING["duct"](**solvers)
    alone = begin(MPI.COMM_SELF, whole, problem)
    advance(alone, 6)
    saved = {key: array.local.copy() for key, array in EngineState(alone).arrays().items()}
    advance(alone, 3)

    engine = CpuEngine(comm, shared(comm, whole), problem)
    mine = slice(engine.grid.first, engine.grid.first + engine.grid.n_elements)
    state = EngineState(engine)
    for key, array in state.arrays().items():
        if array.local.ndim == 4:
            array.local[...] = saved[key][mine]
        elif comm.rank == 0:
            array.local[...] = saved[key]
    state.restored()
    assert engine.velocity.projection.size == depth + 1
    advance(engine, 3)
    assert engine.last_iterations == alone.last_iterations
    np.testing.assert_allclose(engine.fields, alone.fields[:, mine], atol=1e-11)
    np.testing.assert_allclose(engine.p, alone.p[mine], atol=1e-9)


def test_values_of_shared_points_stay_equal(comm):
    whole, problem, velocity, _ = ethier_case(2, 5, 0.01, dealias=8)
    grid = shared(comm, whole)
    engine = CpuEngine(comm, grid, problem)
    engine.start(velocity(*grid.coordinates, 0.0))
    advance(engine, 3)
    for field in (*engine.u, engine.p):
        low, high = field.copy(), field.copy()
        engine.gather.combine(low, "min")
        engine.gather.combine(high, "max")
        np.testing.assert_array_equal(low, high)
