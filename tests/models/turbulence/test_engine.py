"""The engine against the np.fft reference, step for step, on a grid and a box with three different edges."""

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.models.turbulence.forcing import EswaranPope, FrozenShells, LinearForcing
from ridgeline.models.turbulence.problem import FlowParameters
from turbulence_tools import courant_numbers_after_steps, injection, make_engine, make_reference, random_start

COMM = MPI.COMM_SELF
SHAPE = (24, 32, 20)
LENGTHS = (5.0, 7.0, 4.0)
FORCINGS = {
    "none": None,
    "linear": lambda modes: LinearForcing(modes, COMM, 0.8),
    "frozen": lambda modes: FrozenShells(modes, COMM, 3.0),
    "eswaran-pope": lambda modes: EswaranPope(modes, COMM, 3.0, 2.0, 0.4, 6),
}


def follow(flow, dealias, forcing=None, steps=5, dt=0.02, **options):
    """Both solvers side by side; compared after every step. Returns the engine."""
    engine = make_engine(SHAPE, flow, random_start, dealias, LENGTHS, FORCINGS[forcing or "none"], **options)
    reference = make_reference(SHAPE, flow, random_start, dealias, LENGTHS, FORCINGS[forcing or "none"])
    for _ in range(steps):
        taken = engine.advance(dt), reference.advance(dt)
        assert taken[0] == pytest.approx(taken[1], rel=1e-12)
        assert engine.last_courant_rate == pytest.approx(reference.last_courant_rate, rel=1e-12)
        assert engine.time == pytest.approx(reference.time, rel=1e-12)
        difference = np.abs(engine.fields - reference.fields).max(1)
        assert (difference <= 1e-12 * np.abs(reference.fields).max(1)).all()
        if forcing:
            found, wanted = (injection(s.forcing, s.fields) for s in (engine, reference))
            assert found == pytest.approx(wanted, rel=1e-10)
    assert engine.step_index == reference.step_index == steps
    return engine


@pytest.mark.parametrize("scheme", ["rk2", "rk4"])
@pytest.mark.parametrize("dealias", ["phase-shift", "two-thirds", "none"])
@pytest.mark.parametrize("forcing", FORCINGS)
def test_engine_is_the_reference(scheme, dealias, forcing):
    follow(FlowParameters(0.02, scheme, seed=3), dealias, forcing)


@pytest.mark.parametrize("scheme", ["rk2", "rk4"])
@pytest.mark.parametrize("dealias", ["phase-shift", "two-thirds", "none"])
def test_engine_is_the_reference_with_scalars(scheme, dealias):
    gradients = (1.0, -0.5, 2.0), (0.0, 0.0, 0.0)
    follow(FlowParameters(0.02, scheme, (0.7, 5.0), gradients, 3), dealias, "eswaran-pope")


@pytest.mark.parametrize("dealias", ["phase-shift", "two-thirds"])
def test_engine_takes_the_time_step_of_the_courant_number(dealias):
    engine = follow(FlowParameters(0.02, "rk2", (1.0,), ((0.0, 1.0, 0.0),), 3), dealias, dt=None)
    assert engine.last_dt == pytest.approx(0.5 / engine.last_courant_rate)


@pytest.mark.parametrize("scheme", ["rk2", "rk4"])
@pytest.mark.parametrize("forcing", ["eswaran-pope", "linear"])
def test_slow_flows_that_are_forced_begin_with_small_steps(scheme, forcing):
    """A rate of 800 has the flow double in less than the first steps that the Courant number asks for."""
    forcings = FORCINGS | {"linear": lambda modes: LinearForcing(modes, COMM, 800.0)}
    flow = FlowParameters(0.02, scheme, seed=3)
    engine = make_engine(SHAPE, flow, random_start, "two-thirds", LENGTHS, forcings[forcing])
    numbers = courant_numbers_after_steps(engine, 0.5, 12)
    assert max(numbers) < 1.0, numbers


def test_a_developed_flow_takes_the_step_of_its_courant_number():
    engine = make_engine(
        SHAPE, FlowParameters(0.02, seed=3), random_start, "two-thirds", LENGTHS, FORCINGS["eswaran-pope"]
    )
    for _ in range(3):
        assert engine.advance(courant=0.5) == 0.5 / engine.last_courant_rate


@pytest.mark.parametrize("options", [{"threads": 2}, {"layout": "packed"}, {"layout": "strided"}], ids=str)
def test_threads_and_layouts_agree_with_the_reference(options):
    flow = FlowParameters(0.02, "rk4", (0.7,), ((1.0, -0.5, 2.0),), 3)
    follow(flow, "phase-shift", "eswaran-pope", steps=2, **options)


@pytest.mark.parametrize("scheme", ["rk2", "rk4"])
def test_single_precision_follows_to_its_rounding(scheme):
    """5 steps with scalars and forcing; a step adds some roundings of 6e-8."""
    flow = FlowParameters(0.02, scheme, (0.7,), ((1.0, -0.5, 2.0),), 3)
    forcing = FORCINGS["eswaran-pope"]
    engine = make_engine(SHAPE, flow, random_start, "phase-shift", LENGTHS, forcing, np.float32)
    reference = make_reference(SHAPE, flow, random_start, "phase-shift", LENGTHS, forcing)
    for _ in range(5):
        engine.advance(0.02)
        reference.advance(0.02)
    difference = np.abs(engine.fields - reference.fields).max(1)
    assert engine.fields.dtype == np.complex64
    assert (difference <= 2e-6 * np.abs(reference.fields).max(1)).all()
