"""Tests of waves on GPUs in numba-cuda's simulator; test_waves_cuda.py runs this file."""

from itertools import product

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.config.expressions import parse
from ridgeline.fourier.decomposition import PencilGrid
from ridgeline.jit.cuda_device import SIMULATED
from ridgeline.models.turbulence.device import waves_cuda
from ridgeline.models.turbulence.device.engine_cuda import CudaEngine
from ridgeline.models.turbulence.forcing import EswaranPope, FrozenShells, LinearForcing
from ridgeline.models.turbulence.formula_force import FormulaForce
from ridgeline.models.turbulence.problem import Damping, FlowParameters, Waves
from simulator import ON_GPU
from turbulence_on_devices import compare_diagnostics
from turbulence_tools import FREQUENCY, NO_GRADIENT, WAVE_FLOWS, make_engine, random_start

assert SIMULATED != ON_GPU, "run with NUMBA_ENABLE_CUDASIM=1"

COMM = MPI.COMM_SELF
SHAPE = (4, 6, 8)
LENGTHS = (5.0, 7.0, 4.0)
TOLERANCE = {np.float64: 1e-13, np.float32: 2e-6}
FORCINGS = {
    "linear": lambda modes: LinearForcing(modes, COMM, 0.8),
    "frozen": lambda modes: FrozenShells(modes, COMM, 3.0),
    "eswaran-pope": lambda modes: EswaranPope(modes, COMM, 3.0, 2.0, 0.4, 6),
}


def pair(flow, dealias="phase-shift", forcing=None, dtype=np.float64):
    """An engine of the host and one of the device with the same fields and forcing."""
    host = make_engine(SHAPE, flow, random_start, dealias, LENGTHS, FORCINGS.get(forcing), dtype)
    engine = CudaEngine(PencilGrid(SHAPE, dealias, (1, 1), 0), LENGTHS, COMM, dtype, flow)
    engine.fields[...] = host.fields
    engine.commit()
    if forcing:
        engine.forcing = FORCINGS[forcing](engine.modes)
        engine.forcing.start(engine.fields)
    return host, engine


def follow(flow, dealias="phase-shift", forcing=None, dtype=np.float64, dt=0.02, steps=2):
    """The engines side by side; both."""
    host, engine = pair(flow, dealias, forcing, dtype)
    for _ in range(steps):
        host.advance(dt)
        engine.advance(dt)
        assert engine.last_courant_rate == pytest.approx(host.last_courant_rate, rel=TOLERANCE[dtype])
        difference = np.abs(engine.fields - host.fields).max(1)
        assert (difference <= TOLERANCE[dtype] * np.abs(host.fields).max(1)).all()
    return host, engine


EACH = list(product(WAVE_FLOWS, ["rk2", "rk4"], ["phase-shift", "two-thirds"]))


@pytest.mark.parametrize(("case", "scheme", "dealias"), EACH)
def test_equals_the_cpu(case, scheme, dealias) -> None:
    follow(FlowParameters(0.02, scheme, seed=3, **WAVE_FLOWS[case]), dealias, "eswaran-pope")


@pytest.mark.parametrize("case", WAVE_FLOWS)
@pytest.mark.parametrize("scheme", ["rk2", "rk4"])
def test_single_precision_follows_to_its_rounding(case, scheme) -> None:
    follow(FlowParameters(0.02, scheme, seed=3, **WAVE_FLOWS[case]), dtype=np.float32)


def test_single_precision_has_factors_of_double() -> None:
    """In a step in which waves turn some hundred radians."""
    flow = FlowParameters(0.02, "rk2", waves=Waves((0.0, 0.0, 100.0)))
    follow(flow, "two-thirds", dtype=np.float32, dt=1.0, steps=1)


@pytest.mark.parametrize(
    ("case", "forcing"), [("rotation", "linear"), ("stratification", "linear"), ("both", "frozen")]
)
@pytest.mark.parametrize("scheme", ["rk2", "rk4"])
def test_forces_that_are_part_of_the_factor_or_hold_modes(case, forcing, scheme) -> None:
    follow(FlowParameters(0.02, scheme, seed=3, **WAVE_FLOWS[case]), forcing=forcing)


@pytest.mark.parametrize("viscosity", [0.02, 3.0, 300.0])
@pytest.mark.parametrize("schmidt", [0.05, 20.0])
def test_damping_of_any_ratio_and_strength(viscosity, schmidt) -> None:
    """Overdamped and underdamped modes: all branches of the factor."""
    flow = FlowParameters(viscosity, "rk4", (schmidt,), (NO_GRADIENT,), 3, Waves(brunt_vaisala=FREQUENCY))
    follow(flow, "two-thirds", "linear")


@pytest.mark.parametrize(
    ("case", "dealias", "dtype"),
    [
        ("rotation", "phase-shift", np.float64),
        ("stratification", "two-thirds", np.float64),
        ("both", "phase-shift", np.float64),
        ("both", "phase-shift", np.float32),
    ],
)
def test_all_diagnostics_equal_the_host_s(case, dealias, dtype) -> None:
    """Pressure among them, which has a part of waves; after a step, which sets phases of its own."""
    flow = FlowParameters(0.02, "rk2", seed=3, **WAVE_FLOWS[case])
    host, engine = pair(flow, dealias, None, dtype)
    for each in (host, engine):
        each.advance(0.01)
    compare_diagnostics(engine, host, COMM)


DAMPED = {"plain": {"schmidt": (0.3,), "mean_gradients": ((1.0, 0.2, 0.3),)}, **WAVE_FLOWS}


@pytest.mark.parametrize("scheme", ["rk2", "rk4"])
@pytest.mark.parametrize("case", DAMPED)
def test_damping_equals_the_cpu(case, scheme) -> None:
    """Without waves and with them, whose factor damps what they couple; drag needs equal rates in "both"."""
    damping = Damping(1e-3, 3, 0.0 if case == "both" else 0.5, 2.5)
    flow = FlowParameters(0.02, scheme, seed=3, damping=damping, **DAMPED[case])
    follow(flow, forcing="eswaran-pope")


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_figures_of_damping_equal_the_host_s(dtype) -> None:
    flow = FlowParameters(0.02, "rk2", seed=3, damping=Damping(1e-3, 3, 0.5, 2.5), **DAMPED["plain"])
    host, engine = pair(flow, dtype=dtype)
    engine.compile()
    for each in (host, engine):
        each.advance(0.01)
    compare_diagnostics(engine, host, COMM)


@pytest.mark.parametrize("texts", [("exp(sin(x))", "0", "0.3"), ("exp(sin(x))*cos(3*t)", "0", "t*sin(y)")])
def test_forces_of_formulas_equal_the_cpu(texts) -> None:
    host, engine = pair(FlowParameters(0.02, "rk2", seed=3))
    grid = PencilGrid(SHAPE, "phase-shift", (1, 1), 0)
    for each in (host, engine):
        each.forcing = FormulaForce(each, grid, COMM, tuple(map(parse, texts)))
    for dt in (0.02, None):
        assert engine.advance(dt) == pytest.approx(host.advance(dt), rel=1e-13)
        difference = np.abs(engine.fields - host.fields).max(1)
        assert (difference <= 1e-13 * np.abs(host.fields).max(1)).all()


def test_runs_go_on_with_the_other_engine() -> None:
    flow = FlowParameters(0.02, "rk4", seed=3, **WAVE_FLOWS["both"])
    whole, _ = pair(flow)
    parts = pair(flow)
    for step in range(4):
        whole.advance(0.02)
        here, there = parts[step % 2], parts[1 - step % 2]
        here.advance(0.02)
        there.fields[...] = here.fields
        there.commit()
        there.time, there.step_index = here.time, here.step_index
        difference = np.abs(here.fields - whole.fields).max(1)
        assert (difference <= 1e-13 * np.abs(whole.fields).max(1)).all()


def test_a_flow_without_waves_makes_and_launches_no_kernel_of_them(monkeypatch) -> None:
    class Refused:
        def __getitem__(self, launch):
            raise AssertionError("a kernel of waves")

    monkeypatch.setattr(waves_cuda, "make_turn", lambda *of: Refused())
    monkeypatch.setattr(waves_cuda, "add_wave_pressure", Refused())
    _, engine = pair(FlowParameters(0.02, "rk2", waves=Waves()))
    engine.compile()
    engine.advance(0.01)
    _, engine = pair(FlowParameters(0.02, "rk2", **WAVE_FLOWS["rotation"]))
    for launch in (engine.compile, lambda: engine.advance(0.01)):
        with pytest.raises(AssertionError, match="a kernel of waves"):
            launch()
