"""Forcing: the statistics of its random processes, its power, what it keeps, and that it can be resumed."""

import math

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.fourier.decomposition import PencilGrid
from ridgeline.fourier.modes import Modes, Shells
from ridgeline.models.turbulence import initial
from ridgeline.models.turbulence.forcing import (
    EswaranPope,
    Forcing,
    FrozenShells,
    LinearForcing,
    forced_modes,
    make_forcing,
)
from ridgeline.models.turbulence.problem import FlowParameters
from ridgeline.models.turbulence.reference import from_ragged
from ridgeline.models.turbulence.settings import TurbulenceCase
from ridgeline.runtime.errors import CheckpointError, ConfigError
from turbulence_tools import SOLVERS, all_modes, energy, enstrophy, injection

COMM = MPI.COMM_SELF
each_solver = pytest.mark.parametrize("make", SOLVERS.values(), ids=SOLVERS.keys())


def make_case(**forcing):
    return TurbulenceCase.model_validate(
        {
            "run": {"model": "turbulence", "steps": 1, "seed": 5},
            "grid": {"shape": [16, 16, 16]},
            "model": {"viscosity": 0.01, "dt": 0.01},
            "forcing": forcing,
        }
    )


def random_start(energy_sum=1.5, seed=2):
    """A start with energy falling as k^-2."""

    def start(fields, modes):
        k = Shells(modes).wavenumbers
        energies = np.where((k > 0) & (k < 0.4 * min(modes.shape)), 1 / np.maximum(k, 1) ** 2, 0)
        initial.random_velocity(fields, modes, COMM, energies * (energy_sum / energies.sum()), seed)

    return start


def start_fields(modes, **settings):
    fields = np.zeros((3, modes.n_modes), complex)
    random_start(**settings)(fields, modes)
    return fields


def test_settings_make_the_forcing_they_name():
    modes = all_modes((16, 16, 16))
    kinds = {
        Forcing: {"kind": "none"},
        LinearForcing: {"kind": "linear", "coefficient": 0.2},
        FrozenShells: {"kind": "frozen", "shell_radius": 2.0},
        EswaranPope: {"kind": "eswaran-pope", "amplitude": 0.3, "correlation_time": 0.7, "shell_radius": 2.0},
    }
    for kind, settings in kinds.items():
        assert type(make_forcing(make_case(**settings), modes, COMM)) is kind
    forcing = make_forcing(make_case(**kinds[EswaranPope]), modes, COMM)
    assert (forcing.sigma, forcing.correlation_time, forcing.seed, forcing.n_modes) == (0.3, 0.7, 5, 32)
    assert make_forcing(make_case(**kinds[LinearForcing]), modes, COMM).factor_rate == 0.2


@pytest.mark.parametrize(("radius", "count"), [(2.0, 32), (math.sqrt(6), 80), (2 * math.sqrt(2), 92)])
def test_number_of_forced_modes_is_that_of_eswaran_and_pope(radius, count):
    forcing = EswaranPope(all_modes((16, 16, 16)), COMM, radius, 1.0, 1.0, 0)
    assert forcing.n_modes == count
    assert len(forcing.indices) == len(forcing.key)


def processes(n_steps, dt, sigma, correlation_time, seed=1):
    """b of every step, [steps, 3, forced modes]."""
    forcing = EswaranPope(all_modes((12, 12, 12)), COMM, 2 * math.sqrt(2), sigma, correlation_time, seed)
    history = np.empty((n_steps, *forcing.process.shape), complex)
    for step in range(n_steps):
        forcing.begin_step(step, dt[step] if np.ndim(dt) else dt)
        history[step] = forcing.process
    return history[:, :, ~forcing._mirrored]


@pytest.mark.parametrize("uneven", [False, True])
def test_process_has_the_moments_and_the_correlation_of_ornstein_and_uhlenbeck(uneven):
    """To five standard errors; 46 modes, three components, two parts, 4000 steps of which T/2 dt are independent."""
    sigma, correlation_time, n = 0.7, 0.5, 4000
    dt = np.where(np.arange(n) % 2, 0.15, 0.05) if uneven else np.full(n, 0.1)
    history = processes(n, dt, sigma, correlation_time)
    parts = np.stack([history.real, history.imag], axis=-1).reshape(n, -1)
    independent = parts.shape[1] * dt.sum() / (2 * correlation_time)
    error = 5 / math.sqrt(independent)
    assert abs(parts.mean()) <= error * sigma
    assert (parts**2).mean() == pytest.approx(sigma**2, rel=2 * error)
    # <b_i b_j*> = 2 sigma^2 delta_ij
    second = np.einsum("sim,sjm->ij", history, history.conj()).real / (n * history.shape[2])
    np.testing.assert_allclose(second, 2 * sigma**2 * np.eye(3), atol=8 * error * sigma**2)
    assert abs((history**2).mean()) <= 4 * error * sigma**2  # real and imaginary parts are independent
    assert (parts**4).mean() / (parts**2).mean() ** 2 == pytest.approx(3, abs=0.1)
    for lag in (2, 6, 10):
        time = dt[:lag].sum()
        found = (parts[lag:] * parts[:-lag]).mean() / (parts**2).mean()
        assert found == pytest.approx(math.exp(-time / correlation_time), abs=2 * error)


def test_process_is_stationary_from_the_start_and_exact_for_any_step():
    """Variance over many seeds: before the first step, after a tiny, a middling and a huge one."""
    modes = all_modes((12, 12, 12))
    for dt in (0.0, 1e-6, 0.4, 1e3):
        parts = []
        for seed in range(60):
            forcing = EswaranPope(modes, COMM, 2.0, 1.5, 0.5, seed)
            forcing.begin_step(0, dt)
            parts.append(forcing.process[:, ~forcing._mirrored])
        assert np.mean(np.abs(parts) ** 2) == pytest.approx(2 * 1.5**2, rel=0.1)


def test_force_is_solenoidal_real_and_the_projected_process():
    modes = all_modes((16, 12, 20), "phase-shift", (3.0, 4.0, 5.0))
    forcing = EswaranPope(modes, COMM, 4.0, 0.7, 0.5, 3)
    forcing.begin_step(0, 0.1)
    k = np.stack(modes.expand()[::-1])[:, forcing.indices]
    assert np.abs((k * forcing.values).sum(0)).max() <= 1e-14
    assert np.sqrt((k * k).sum(0)).max() <= 4.0
    ragged = np.zeros((3, modes.n_modes), complex)
    ragged[:, forcing.indices] = forcing.values
    array = from_ragged(ragged, modes.lines, modes.shape)
    np.testing.assert_array_equal(array, np.roll(array[:, ::-1, ::-1, ::-1], 1, axis=(1, 2, 3)).conj())
    along = (k * forcing.process).sum(0) / (k * k).sum(0)
    np.testing.assert_allclose(forcing.values, forcing.process - k * along, atol=1e-14)


def test_process_belongs_to_seed_step_and_mode_not_to_the_grid():
    one, two = (EswaranPope(all_modes((n,) * 3), COMM, 2.5, 0.7, 0.5, 3) for n in (12, 24))
    other = EswaranPope(all_modes((12,) * 3), COMM, 2.5, 0.7, 0.5, 4)
    for step in range(3):
        for forcing in (one, two, other):
            forcing.begin_step(step, 0.1)
    np.testing.assert_array_equal(one.key, two.key)
    np.testing.assert_array_equal(one.values, two.values)
    assert not np.any(one.process == other.process)


def test_resumed_process_goes_on_bit_for_bit():
    one, two = (EswaranPope(all_modes((12,) * 3), COMM, 2.5, 0.7, 0.5, 3) for _ in range(2))
    for step in range(5):
        one.begin_step(step, 0.1)
    two.restored(one.state())
    np.testing.assert_array_equal(two.values, one.values)
    for forcing in (one, two):
        forcing.begin_step(5, 0.2)
    np.testing.assert_array_equal(two.values, one.values)


def test_state_of_another_forcing_is_refused():
    modes = all_modes((12,) * 3)
    one, two = (EswaranPope(modes, COMM, radius, 0.7, 0.5, 3) for radius in (2.5, 2.0))
    with pytest.raises(CheckpointError, match=r"forcing_process of shape .* has one of shape"):
        two.restored(one.state())
    with pytest.raises(
        CheckpointError, match=r"forcing_energies of shape \[2\], but the checkpoint has none"
    ):
        FrozenShells(modes, COMM, 2.0).restored(one.state())


@pytest.mark.parametrize("make", [lambda *radius: EswaranPope(*radius, 1, 1, 0), FrozenShells])
def test_radius_below_the_first_mode_is_refused(make):
    with pytest.raises(ConfigError, match=r"forcing.shell_radius = 0.3 .* larger radius"):
        make(all_modes((12,) * 3), COMM, 0.3)


def test_power_is_what_the_forces_do():
    modes = all_modes((16,) * 3)
    fields = start_fields(modes)
    assert injection(Forcing(modes, COMM), fields) == 0
    assert injection(LinearForcing(modes, COMM, 0.4), fields) == pytest.approx(
        2 * 0.4 * energy(fields, modes), rel=1e-13
    )
    forcing = EswaranPope(modes, COMM, 2.5, 0.7, 0.5, 3)
    forcing.begin_step(0, 0.1)
    small = 1e-6
    pushed = fields.copy()
    pushed[:, forcing.indices] += small * forcing.values
    pulled = fields.copy()
    pulled[:, forcing.indices] -= small * forcing.values
    rate = (energy(pushed, modes) - energy(pulled, modes)) / (2 * small)
    assert injection(forcing, fields) == pytest.approx(rate, rel=1e-8)


@each_solver
@pytest.mark.parametrize("scheme", ["rk2", "rk4"])
def test_frozen_keeps_the_energy_of_its_shells(make, scheme):
    solver = make(
        (16,) * 3,
        FlowParameters(0.02, scheme),
        random_start(),
        forcing=lambda modes: FrozenShells(modes, COMM, 2.5),
    )
    forcing = solver.forcing
    before = forcing.energies(solver.fields)
    assert len(before) == 2
    lost = []
    for _ in range(20):
        total = energy(solver.fields, solver.modes)
        solver.advance(0.01)
        np.testing.assert_allclose(forcing.energies(solver.fields), before, rtol=1e-12)
        lost.append((energy(solver.fields, solver.modes) - total) / 0.01 - injection(forcing, solver.fields))
    assert max(lost) < 0  # without what the forcing gave, energy decays


def test_frozen_leaves_empty_shells_and_other_modes_alone():
    modes = all_modes((16,) * 3)
    fields = np.zeros((4, modes.n_modes), complex)
    initial.taylor_green(fields, modes)  # |k| = sqrt(3): shell 2
    fields[3] = fields[0]
    forcing = FrozenShells(modes, COMM, 3.0)
    forcing.start(fields)
    kept = fields.copy()
    fields *= 0.9
    forcing.begin_step(0, 0.5)
    forcing.end_step(fields)
    np.testing.assert_allclose(fields[:3], kept[:3], rtol=1e-15)
    np.testing.assert_array_equal(fields[3], 0.9 * kept[3])
    assert injection(forcing, fields) == pytest.approx((1 - 0.81) * 0.125 / 0.5, rel=1e-13)
    again = FrozenShells(modes, COMM, 3.0)
    again.restored(forcing.state())
    np.testing.assert_array_equal(again.kept, forcing.kept)


@each_solver
def test_energy_budget_holds_with_random_forcing(make):
    """dE/dt = -2 nu Z + power within the error of the scheme: the force is constant over a step."""
    viscosity, dt = 0.05, 2e-3
    solver = make(
        (16,) * 3,
        FlowParameters(viscosity, "rk4"),
        random_start(),
        forcing=lambda modes: EswaranPope(modes, COMM, 2.5, 0.5, 0.8, 3),
    )

    def rates(fields):
        """Power of the force of the latest step, and dissipation."""
        return np.array([injection(solver.forcing, fields), 2 * viscosity * enstrophy(fields, solver.modes)])

    for _ in range(5):
        start = solver.fields.copy()
        solver.advance(dt)
        power, dissipation = (rates(start) + rates(solver.fields)) / 2
        change = energy(solver.fields, solver.modes) - energy(start, solver.modes)
        assert change == pytest.approx(dt * (power - dissipation), abs=1e-4 * dt * dissipation)


def test_a_radius_beyond_all_modes_forces_those_that_there_are():
    modes = Modes.of(PencilGrid((16, 16, 16), "phase-shift", (1, 1), 0), (2 * np.pi,) * 3)
    most, many = (forced_modes(modes.truncation, modes.unit, radius) for radius in (1e30, 50.0))
    assert len(most) == len(many)
