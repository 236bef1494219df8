"""Published and exact figures of the reactions in examples/: onset, growth rates, wavelengths and front speeds."""

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from reaction_diffusion_cases import owned, start
from ridgeline.config.expressions import parse
from ridgeline.config.load import load_case
from ridgeline.models import case_class
from ridgeline.models.reaction_diffusion.stability import jacobians

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
SMALL = 1e-6


def example(name, settings):
    """Return the case of an example with other settings."""
    return load_case(EXAMPLES / name / "settings.toml", case_class, settings).case


def initial(states, wave):
    """Return settings that start each species at its uniform state, with a small wave on the first."""
    return [
        f'model.species.{n}.initial="{state}{f" + {SMALL}*{wave}" if n == 0 else ""}"'
        for n, state in enumerate(states)
    ]


def growth(case, wavenumber):
    """Return the largest real part, and its eigenvalue, of the linearised equations for a wave, in the continuum."""
    jacobian = jacobians(case.system())[0]
    d = [each.constant_diffusivity(case.model.parameters)[2] for each in case.species]
    values = np.linalg.eigvals(jacobian - np.diag(d) * wavenumber**2)
    return values[np.argmax(values.real)]


def measured_growth(case, states, wave, from_time, to_time):
    """Return the rate at which the wave in the first species grows between two times."""
    model = start(case)
    sizes = []
    step = 0
    for until in (from_time, to_time):
        while model.time(step) < until:
            step += model.step(10**9, until)
        sizes.append(((owned(model)[0] - states[0]) * wave).mean())
    return np.log(sizes[1] / sizes[0]) / (to_time - from_time)


def line(n, length):
    return [f"grid.shape=[1, 1, {n}]", f"grid.lengths=[1.0, 1.0, {length!r}]", "output.every=0"]


BRUSSELATOR_WAVE = 2 * math.pi * 60**0.25 / math.sqrt(3)  # critical: k^2 = a/sqrt(Dx Dy)
ONSET = (1 + 3 * math.sqrt(5 / 12)) ** 2


@pytest.mark.full
@pytest.mark.parametrize("excess", [0.98, 1.02, 1.1])
def test_the_brusselator_has_its_turing_onset_and_growth_rates(excess):
    n, b = 64, excess * ONSET
    states = (3.0, b / 3.0)
    settings = [*line(n, BRUSSELATOR_WAVE), f"model.parameters.b={b}", "model.dt=0.001", 'model.scheme="rk2"']
    case = example("brusselator", settings + initial(("a", "b/a"), f"cos(2*pi*x/{BRUSSELATOR_WAVE!r})"))
    x = (np.arange(n) + 0.5) / n
    found = measured_growth(case, states, np.cos(2 * np.pi * x), 6.0, 12.0)
    expected = growth(case, 2 * np.pi / BRUSSELATOR_WAVE).real
    assert (found > 0) == (excess > 1)
    assert found == pytest.approx(expected, rel=0.01)
    # No other wave that fits into a long box grows faster at onset.
    at_onset = example("brusselator", [f"model.parameters.b={ONSET}", *initial(("a", "b/a"), "0")])
    waves = np.linspace(0.1, 2.0, 400)
    rates = [growth(at_onset, k).real for k in waves]
    assert max(rates) == pytest.approx(0.0, abs=1e-3)
    assert waves[np.argmax(rates)] == pytest.approx(2 * np.pi / BRUSSELATOR_WAVE, rel=0.01)


@pytest.mark.full
def test_waves_of_schnakenberg_grow_between_walls_as_the_dispersion_relation_says():
    n, length, halves = 64, 24.0, 3  # half waves between the walls
    wave = f"cos({halves}*pi*x/{length})"
    sides = ['boundary.y_min.kind="periodic"', 'boundary.y_max.kind="periodic"']
    settings = [f"grid.shape=[1, 1, {n}]", f"grid.cell_size={length / n}", "output.every=0", *sides]
    settings += ["model.dt=0.0008", 'model.scheme="rk2"']
    case = example("schnakenberg", settings + initial(("a + b", "b/(a + b)**2"), wave))
    x = (np.arange(n) + 0.5) / n
    found = measured_growth(case, (1.0, 0.9), np.cos(halves * np.pi * x), 2.0, 6.0)
    expected = growth(case, halves * np.pi / length).real
    assert expected > 0.1
    assert found == pytest.approx(expected, rel=0.01)


@pytest.mark.full
def test_cyclic_competition_grows_and_turns_as_may_and_leonard_say():
    """Eigenvalues s/(2 (3 + s)) (1 +- i sqrt(3)) around 1/(3 + s) with s = 1: 1/8 and sqrt(3)/8."""
    case = example("cyclic_competition", ["grid.shape=[1, 1, 4]", "output.every=0", "model.dt=0.01",
        'model.scheme="rk2"', *initial(("0.25", "0.25", "0.25"), "1")])  # fmt: skip
    value = growth(case, 0.0)
    assert (value.real, abs(value.imag)) == pytest.approx((1 / 8, np.sqrt(3) / 8), rel=1e-4)
    model = start(case)
    phases, sizes, times = [], [], []
    turn = np.exp(2j * np.pi * np.arange(3) / 3)
    for until in (20.0, 40.0):
        while model.time(0) < until - 1e-9:
            model.step(10**9, until)
        mode = sum(w * (field[0, 0, 0] - 0.25) for w, field in zip(turn, owned(model)))
        phases.append(np.angle(mode))
        sizes.append(abs(mode))
        times.append(model.time(0))
    span = times[1] - times[0]
    assert np.log(sizes[1] / sizes[0]) / span == pytest.approx(1 / 8, rel=0.01)
    turned = (abs(phases[1] - phases[0]) / span) % (2 * np.pi / span)
    expected = (np.sqrt(3) / 8) % (2 * np.pi / span)
    assert min(abs(turned - expected), abs(2 * np.pi / span - turned - expected)) < 0.01 * np.sqrt(3) / 8


@pytest.mark.full
def test_the_front_of_nagumo_has_its_exact_speed():
    """Without recovery, U' = D lap U + U (1 - U)(U - a) has a front of the speed sqrt(D/2) (1 - 2 a)."""
    n, length = 1000, 200.0
    settings = [
        f"grid.shape=[1, 1, {n}]",
        f"grid.lengths=[1.0, 1.0, {length}]",
        "output.every=0",
        "model.dt=0.015",
    ]
    settings += ['model.species.1.initial="0"', "model.parameters.eps=0.0", "model.parameters.a=0.2"]
    settings += [f'model.species.0.initial="1/(1 + exp((abs(x - {length / 2}) - 20)/sqrt(2)))"']
    model = start(example("fitzhugh_nagumo", settings))
    widths, step = [], 0
    for until in (20.0, 100.0):
        while model.time(step) < until:
            step += model.step(10**9, until)
        widths.append(owned(model)[0].sum() * length / n)
    speed = (widths[1] - widths[0]) / 2 / 80.0
    assert speed == pytest.approx(np.sqrt(0.5) * 0.6, rel=0.01)


def test_the_examples_say_which_step_is_stable():
    for name in ("brusselator", "fitzhugh_nagumo", "cyclic_competition", "schnakenberg"):
        case = example(name, [])
        assert not list(case.doubts()), name
        limit = case.stable.both
        assert (case.model.dt > limit) == (name == "schnakenberg")


def period_of_a_ring(length, waves, until):
    """Return the period of a wave train of FitzHugh-Nagumo on a ring, by Fourier modes and SciPy's DOP853."""
    x = np.arange(waves) * length / waves
    squares = (2 * np.pi * np.fft.rfftfreq(waves, length / waves)) ** 2

    def rates(_, state):
        u, v = state[:waves], state[waves:]
        spreading = np.fft.irfft(-squares * np.fft.rfft(u), waves)
        return np.concatenate((spreading + u * (1 - u) * (u - 0.1) - v, 0.01 * (0.5 * u - v)))

    start = np.concatenate([parse(text, ("x",)).evaluate({"x": x}) for text in ring_start(length)])

    def passes(_, state):
        return state[0] - 0.5

    passes.direction = 1
    found = solve_ivp(rates, (0, until), start, "DOP853", rtol=1e-8, atol=1e-10, events=passes)
    times = found.t_events[0]
    assert len(times) >= 3
    return times[-1] - times[-2]


def ring_start(length):
    """Return initial formulas: an excited stretch, with a refractory tail on one side of it."""
    return (
        f"0.5*(tanh((x - {0.3 * length})/2) - tanh((x - {0.4 * length})/2))",
        f"0.1*(tanh((x - {0.05 * length})/2) - tanh((x - {0.3 * length})/2))",
    )


@pytest.mark.full
def test_a_wave_train_has_the_period_of_its_dispersion_relation():
    """A period for a wavelength, as an independent integration of the ring finds it."""
    length, until = 120.0, 900.0
    settings = [*line(240, length), "model.dt=0.05"]
    settings += [f'model.species.{n}.initial="{text}"' for n, text in enumerate(ring_start(length))]
    model = start(example("fitzhugh_nagumo", settings))
    times, before, step = [], math.inf, 0
    while model.time(step) < until:
        step += model.step(5)
        now = owned(model)[0][0, 0, 0] - 0.5
        if before < 0 <= now:
            times.append(model.time(step) - 0.25 * now / (now - before))
        before = now
    assert len(times) >= 3
    assert times[-1] - times[-2] == pytest.approx(period_of_a_ring(length, 192, until), rel=0.01)
