"""Hyperviscosity and drag: exact rates, the reference, budgets, and that no step is limited by them."""

import math

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.models.turbulence.diagnostics import Diagnostics, scalar_parameters
from ridgeline.models.turbulence.forcing import EswaranPope
from ridgeline.models.turbulence.problem import Damping, FlowParameters
from turbulence_tools import (
    LONG,
    SOLVERS,
    WAVE_FLOWS,
    energy,
    injection,
    make_engine,
    make_reference,
    random_start,
)

COMM = MPI.COMM_SELF
SHAPE = (12, 14, 16)
ALL = Damping(2e-4, 3, 0.3, 3.0)
SCALAR = {"schmidt": (0.3,), "mean_gradients": ((1.0, 0.2, 0.3),)}
FLOWS = {"plain": {}, "a scalar": SCALAR, **WAVE_FLOWS}
each_solver = pytest.mark.parametrize("make", SOLVERS.values(), ids=SOLVERS.keys())
each_scheme = pytest.mark.parametrize("scheme", ["rk2", "rk4"])


@each_scheme
@pytest.mark.parametrize("name", FLOWS)
def test_engine_is_the_reference(name, scheme):
    """With waves too, whose factor holds the damping of the fields that they couple; then an adaptive step."""
    for damping in (ALL, Damping(drag=0.4), Damping(1e-4, 2)):
        if name == "both" and damping.drag:
            continue  # refused by the settings
        flow = FlowParameters(0.02, scheme, seed=3, damping=damping, **FLOWS[name])
        solvers = [
            make(SHAPE, flow, random_start, "phase-shift", LONG) for make in (make_reference, make_engine)
        ]
        for dt in (0.02, 0.02, None):
            for solver in solvers:
                solver.advance(dt, 0.4)
        expected, found = (solver.fields for solver in solvers)
        assert np.abs(found - expected).max() <= 1e-13 * np.abs(expected).max()


def one_mode(j, along):
    """A start with cos(k.x) in a direction across k, and in the scalars; the nonlinear term is zero."""

    def start(fields, modes):
        jz, jy, jx = (number.astype(int) for number in modes.lines.expand())
        here = (jx == j[0]) & (np.abs(jy) == j[1]) & (jz == j[2])
        here &= (jy >= 0) | (jx == 0)  # with j_x = 0 both signs are stored
        fields[:3, here] = np.array(along)[:, np.newaxis]
        fields[3:, here] = 0.5

    return start


@each_solver
@each_scheme
@pytest.mark.parametrize(
    ("j", "along"), [((1, 0, 0), (0, 1, 2)), ((2, 1, 3), (1, -2, 0)), ((0, 4, 0), (1, 0, -1))]
)
def test_a_single_mode_decays_at_the_exact_rate(make, scheme, j, along):
    """To rounding, in steps of any length: of viscosity, nu_h k^(2p), and alpha up to its radius."""
    viscosity, schmidt, k2 = 0.02, 0.7, sum(each**2 for each in j)
    damping = Damping(3e-3, 3, 0.25, math.sqrt(14.0))  # the second mode is on the sphere
    flow = FlowParameters(viscosity, scheme, (schmidt,), ((0.0,) * 3,), damping=damping)
    solver = make((12, 12, 12), flow, one_mode(j, along))
    before = solver.fields.copy()
    for dt in (0.01, 0.2, 0.07):
        solver.advance(dt)
    hyper = viscosity * k2 + 3e-3 * k2**3
    drag = 0.25 if k2 <= 14 else 0.0
    for rows, rate in ((slice(0, 3), hyper + drag), (slice(3, 4), hyper / schmidt)):
        expected = before[rows] * math.exp(-rate * 0.28)
        np.testing.assert_allclose(solver.fields[rows], expected, rtol=1e-13, atol=1e-15)


@each_scheme
def test_no_hyperviscosity_limits_an_adaptive_step(scheme):
    """The bracket of the Courant number is the only bound, though explicit steps would need dt < 1e-12."""
    flow = FlowParameters(1e-3, scheme, seed=3, damping=Damping(1e-2, 8, 0.1))
    engine = make_engine((12, 12, 12), flow, random_start, "phase-shift")
    for _ in range(4):
        dt = engine.advance(courant=0.5)
        assert dt == pytest.approx(0.5 / engine.last_courant_rate, rel=1e-14)
        assert np.isfinite(engine.fields).all()


def test_the_budget_of_energy_and_variance_closes():
    """dE/dt = injection - dissipation by viscosity, hyperviscosity and drag: RK4, a force in a band."""
    damping, dt = Damping(1e-4, 2, 0.5, 3.5), 1e-3
    flow = FlowParameters(0.02, "rk4", (0.7,), ((0.0,) * 3,), damping=damping)
    engine = make_engine(
        (16,) * 3, flow, random_start, forcing=lambda modes: EswaranPope(modes, COMM, 5.0, 0.5, 0.8, 3, 4.0)
    )
    figures = Diagnostics(
        COMM, engine.passes, flow.viscosity, scalar_parameters(flow), flow.waves, flow.damping
    ).mode_figures
    for _ in range(3):
        start, before = engine.fields.copy(), figures(engine.stored)
        engine.advance(dt)
        after = figures(engine.stored)
        power = (injection(engine.forcing, start) + injection(engine.forcing, engine.fields)) / 2
        mean = {name: (before[name] + after[name]) / 2 for name in after}
        taken = [mean[name] for name in ("dissipation", "hyperdissipation", "drag_dissipation")]
        assert min(taken) > 1e-2
        change = energy(engine.fields, engine.modes) - energy(start, engine.modes)
        assert change == pytest.approx(dt * (power - sum(taken)), abs=1e-4 * dt * sum(taken))
        change = after["scalar_0_variance"] - before["scalar_0_variance"]
        lost = mean["scalar_0_dissipation"] + mean["scalar_0_hyperdissipation"]
        assert change == pytest.approx(-dt * lost, rel=1e-4)


def test_a_drag_on_all_modes_takes_twice_its_rate_from_the_energy():
    flow = FlowParameters(0.02, damping=Damping(drag=0.4))
    engine = make_engine((12,) * 3, flow, random_start)
    figures = Diagnostics(COMM, engine.passes, 0.02, damping=flow.damping).mode_figures(engine.stored)
    assert figures["drag_dissipation"] == pytest.approx(0.8 * figures["energy"], rel=1e-14)
    assert "hyperdissipation" not in figures
