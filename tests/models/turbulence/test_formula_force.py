"""Forces given by formulas, and forcing in a band: the reference, exact flows, errors, and what a run says."""

import math

import numpy as np
import pytest
from mpi4py import MPI

import ridgeline
from ridgeline.config.expressions import parse
from ridgeline.fourier.decomposition import PencilGrid
from ridgeline.models.turbulence.forcing import EswaranPope, FrozenShells, forced_modes
from ridgeline.models.turbulence.formula_force import FormulaForce
from ridgeline.models.turbulence.problem import Damping, FlowParameters
from ridgeline.models.turbulence.reference import ReferenceSolver
from ridgeline.models.turbulence.settings import TurbulenceCase
from ridgeline.runtime.errors import ConfigError
from ridgeline.simulation import report
from turbulence_tools import LONG, all_modes, make_engine, random_start

COMM = MPI.COMM_SELF
SHAPE = (12, 14, 16)
UNSTEADY = ("exp(sin(x))*cos(3*t)", "z*0.1*t", "cos(y) + t")
STEADY = ("exp(sin(x))", "sin(2*y)*cos(z)", "0.3 + cos(y)")


def at_rest(fields, modes):
    fields[...] = 0


def forced_engine(
    texts, flow, start=random_start, shape=SHAPE, lengths=LONG, dealias="phase-shift", **options
):
    formulas = tuple(map(parse, texts))
    engine = make_engine(shape, flow, start, dealias, lengths, **options)
    engine.forcing = FormulaForce(engine, PencilGrid(shape, dealias, (1, 1), 0), COMM, formulas)
    return engine, formulas


@pytest.mark.parametrize("scheme", ["rk2", "rk4"])
@pytest.mark.parametrize("texts", [STEADY, UNSTEADY], ids=["steady", "unsteady"])
def test_engine_is_the_reference(texts, scheme):
    flow = FlowParameters(0.02, scheme, (0.7,), ((1.0, 0.2, 0.3),), 3, damping=Damping(1e-4, 2, 0.2))
    engine, formulas = forced_engine(texts, flow)
    solver = ReferenceSolver(engine.modes, flow, engine.fields, formulas=formulas)
    for dt in (0.02, 0.03, None):
        assert engine.advance(dt, 0.4) == pytest.approx(solver.advance(dt, 0.4), rel=1e-12)
        assert np.abs(engine.fields - solver.fields).max() <= 1e-13 * np.abs(solver.fields).max()


def test_a_steady_force_is_evaluated_once_and_has_few_modes(monkeypatch):
    engine, _ = forced_engine(
        ("sin(4*y)", "0", "0"), FlowParameters(0.02), shape=(8, 16, 8), lengths=(2 * math.pi,) * 3
    )
    monkeypatch.setattr(FormulaForce, "_points_at", None)
    engine.advance(0.01)
    assert len(engine.forcing.indices) == 2
    np.testing.assert_allclose(np.abs(engine.forcing.values), [[0.5, 0.5], [0, 0], [0, 0]], atol=1e-15)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-13), (np.float32, 2e-5)])
def test_kolmogorov_flow_reaches_its_laminar_state(dtype, tolerance):
    """u = F / r sin(4 y), r = nu k^2 + nu_h k^4 + alpha; RK2 makes it (r dt/2) coth(r dt/2) times that."""
    force, nu, nu_h, alpha, dt = 2.0, 0.05, 1e-3, 0.3, 0.01
    flow = FlowParameters(nu, "rk2", damping=Damping(nu_h, 2, alpha))
    engine, _ = forced_engine(
        (f"{force}*sin(4*y)", "0", "0"), flow, at_rest, (8, 16, 8), (2 * math.pi,) * 3, dtype=dtype
    )
    rate = nu * 16 + nu_h * 256 + alpha
    n = 3000
    for _ in range(n):
        engine.advance(dt)
    laminar = force / rate
    discrete = laminar * (rate * dt / 2) / math.tanh(rate * dt / 2)
    assert discrete == pytest.approx(laminar, rel=2e-5)
    u_x = engine.transform.to_physical(engine.fields[:1])[0]
    y = np.arange(16) * 2 * math.pi / 16
    expected = np.broadcast_to((discrete * np.sin(4 * y))[:, np.newaxis], u_x.shape)
    np.testing.assert_allclose(u_x, expected, atol=tolerance * discrete)
    # What the force puts in, viscosity, hyperviscosity and drag take.
    power = engine.forcing.injection(engine.forced_velocity(), 0.0)
    assert power == pytest.approx(rate * discrete**2 / 2 * laminar / discrete, rel=10 * tolerance)


def test_an_unsteady_force_is_of_second_order():
    """A uniform force cos t gives u = sin t."""
    errors = []
    for n in (20, 40):
        engine, _ = forced_engine(("cos(t)", "0", "0"), FlowParameters(0.02), at_rest, (4, 4, 4))
        for _ in range(n):
            engine.advance(1.0 / n)
        errors.append(abs(engine.fields[0, 0].real - math.sin(1.0)))
    assert math.log2(errors[0] / errors[1]) == pytest.approx(2, abs=0.01)


def test_the_first_step_from_rest_is_short_enough():
    engine, _ = forced_engine(("1000*cos(y)", "0", "0"), FlowParameters(0.02), shape=(8, 16, 8))
    engine.fields[...] *= 1e-3
    dt = engine.advance(courant=0.5)
    after = engine.advance(courant=0.5)
    assert dt * engine.last_courant_rate <= 1.01  # at most twice the Courant number
    assert after > 0


def test_a_band_forces_only_its_modes():
    modes = all_modes((16,) * 3)
    forcing = EswaranPope(modes, COMM, 5.0, 1.0, 1.0, 0, 4.0)
    k = np.sqrt(sum(each.astype(float) ** 2 for each in forcing.key.T))
    assert (k.min(), k.max()) == (4.0, 5.0)
    whole, inner = (len(forced_modes(modes.truncation, modes.unit, radius)) for radius in (5.0, 4.0))
    on_the_inner_sphere = int((k == 4.0).sum())
    assert len(forcing.key) == whole - inner + on_the_inner_sphere
    assert forcing.settings_of_state()["forcing.inner_radius"] == 4.0


def test_a_frozen_band_keeps_its_shells_alone():
    engine = make_engine((16,) * 3, FlowParameters(0.1), random_start, "two-thirds")
    engine.forcing = FrozenShells(engine.modes, COMM, 4.0, 3.0)
    below = FrozenShells(engine.modes, COMM, 2.0)
    engine.forcing.start(engine.fields)
    kept, free = engine.forcing.energies(engine.fields), below.energies(engine.fields)
    assert len(kept) == 2
    for _ in range(3):
        engine.advance(0.02)
    np.testing.assert_allclose(engine.forcing.energies(engine.fields), kept, rtol=1e-12)
    assert (np.abs(below.energies(engine.fields) / free - 1) > 1e-3).all()


def test_an_empty_band_is_refused():
    modes = all_modes((16,) * 3)
    message = r"forcing.inner_radius = 1.1 and forcing.shell_radius = 1.2 contain no mode .* wider band"
    with pytest.raises(ConfigError, match=message):
        EswaranPope(modes, COMM, 1.2, 1, 1, 0, 1.1)


def settings(**forcing):
    return {
        "run": {"model": "turbulence", "steps": 1},
        "grid": {"shape": [8, 8, 8]},
        "model": {"viscosity": 0.01, "dt": 0.01},
        "forcing": {"kind": "formula", **forcing},
    }


@pytest.mark.parametrize(
    ("formula", "words"),
    [
        (["sin(w)", "0", "0"], r"w is unknown; the known names are x, y, z, t"),
        (["sin(xx)", "0", "0"], r"xx is unknown \(did you mean x\?\)"),
        (["0", "1/x", "0"], r'"1/x", it is inf at x = 0, y = 0, z = 0 and t = 0'),
        (["0", "0", "sin(x)/t"], r"it is nan at x = 0, y = 0, z = 0 and t = 0"),
    ],
)
def test_formulas_that_cannot_be_used_are_refused_before_a_run(formula, words):
    with pytest.raises(ridgeline.RidgelineError, match=words):
        ridgeline.Case("turbulence", 1, parameters={"viscosity": 0.01, "dt": 0.01}, grid={"shape": [8] * 3},
                       forcing={"kind": "formula", "formula": formula})  # fmt: skip


def test_a_force_that_becomes_infinite_says_where_and_when():
    engine, _ = forced_engine(("1/(1.005 - t)*sin(y)", "0", "0"), FlowParameters(0.02), shape=(4, 4, 4))
    engine.time = 1.0
    with pytest.raises(
        ConfigError, match=r'forcing.formula: "1/\(1.005 - t\)\*sin\(y\)" is .* and t = 1.005'
    ):
        engine.advance(0.01)


def test_a_formula_is_required_by_its_kind():
    with pytest.raises(ValueError, match=r"three formulas of x, y, z, t with forcing\.kind"):
        TurbulenceCase.model_validate(settings())


def test_a_run_goes_on_from_a_checkpoint_to_the_bit(tmp_path, monkeypatch):
    """Adaptive steps, an unsteady force, hyperviscosity and drag; the series has the columns of the budget."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(report, "measure_limits", lambda *arguments: {})

    def case(steps, name):
        return ridgeline.Case(
            "turbulence",
            steps,
            grid={"shape": (8, 12, 10)},
            parameters={
                "viscosity": 0.02, "courant": 0.4, "hyperviscosity": 1e-4, "drag": 0.3, "drag_radius": 2.0,
                "fft": {"effort": "estimate"},
            },
            initial={"kind": "spectrum", "energy": 0.5, "peak_wavenumber": 2.0},
            forcing={"kind": "formula", "formula": ["cos(2*y)*cos(t)", "0", "sin(x)"]},
            output={"path": f"{name}.bp", "series": f"{name}.csv", "series_every": 1},
            checkpoint={"every": 2, "path": name},
        )  # fmt: skip

    def simulate(case, **options):
        with ridgeline.Simulation(case, progress=False, **options) as simulation:
            simulation.advance(simulation.steps)
            state = {name: part.copy() for name, part in simulation.state().items()}
            simulation.run()
        return state

    whole = simulate(case(4, "whole"))
    simulate(case(2, "parts"))
    parts = simulate(case(4, "parts"), resume="auto")
    for name in whole:
        np.testing.assert_array_equal(parts[name], whole[name])
    text = (tmp_path / "whole.csv").read_text()
    assert (tmp_path / "parts.csv").read_text() == text
    for column in ("dissipation", "hyperdissipation", "drag_dissipation", "injection"):
        assert f",{column}," in text or text.startswith(column) or f",{column}\n" in text
