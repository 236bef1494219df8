"""Turbulence that forcing keeps alive, by the engine at 32^3: stationary, in balance, and repeatable."""

import math

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.fourier.modes import Shells
from ridgeline.models.turbulence import initial
from ridgeline.models.turbulence.forcing import EswaranPope, FrozenShells
from ridgeline.models.turbulence.problem import FlowParameters
from ridgeline.models.turbulence.spectra import largest_sphere, sum_over_modes
from turbulence_tools import make_engine

COMM = MPI.COMM_SELF
VISCOSITY, SIGMA, CORRELATION_TIME, RADIUS = 0.02, 0.05, 1.0, 2.5


def random_start(fields, modes):
    """Energy 1.2, falling as k^-2."""
    k = Shells(modes).wavenumbers
    energies = np.where((k > 0) & (k < 0.9 * largest_sphere(modes)), 1 / np.maximum(k, 1) ** 2, 0)
    initial.random_velocity(fields, modes, COMM, energies * (1.2 / energies.sum()), 2)


def eswaran_pope(seed):
    return lambda modes: EswaranPope(modes, COMM, RADIUS, SIGMA, CORRELATION_TIME, seed)


def follow(forcing, until, spin_up=4.0):
    """Columns of time, energy, dissipation, injection and turnover time L/u', every 5 steps after the spin-up."""
    engine = make_engine(
        (32, 32, 32), FlowParameters(VISCOSITY), random_start, "phase-shift", forcing=forcing
    )
    rows = []
    while engine.time < spin_up + until:
        engine.advance(courant=0.6)
        if engine.step_index % 5 == 0 and engine.time > spin_up:
            sums = sum_over_modes(COMM, engine.stored, engine.passes)
            square = 2 / 3 * sums.energy  # u'^2
            turnover = math.pi / (2 * square) * sums.flow["energy_length"] / math.sqrt(square)
            dissipation = 2 * VISCOSITY * sums.flow["enstrophy"]
            power = engine.forcing.injection(engine.forced_velocity(), sums.energy)
            rows.append((engine.time, sums.energy, dissipation, power, turnover))
    return np.array(rows).T


def windows(values, n):
    return np.array([part.mean() for part in np.array_split(values, n)])


def test_stochastic_forcing_is_stationary_over_ten_turnover_times():
    time, energy, dissipation, power, turnover = follow(eswaran_pope(1), 14.0)
    assert (time[-1] - time[0]) / turnover.mean() > 10
    by_turnover = windows(energy, 10)
    assert (np.abs(by_turnover / energy.mean() - 1) < 0.25).all()
    halves = windows(energy, 2)
    assert halves[0] == pytest.approx(halves[1], rel=0.15)
    # What is put in is dissipated: the mean budget, up to the change of energy.
    change = (energy[-1] - energy[0]) / (time[-1] - time[0])
    assert power.mean() == pytest.approx(dissipation.mean() + change, rel=0.05)
    # Eswaran and Pope's estimate, 4 eps* N_F / (1 + T* N_F^(1/3) / 0.8), eps* = sigma^2 T, T* = T eps*^(1/3).
    n_forced, eps_star = 80, SIGMA**2 * CORRELATION_TIME
    t_star = CORRELATION_TIME * eps_star ** (1 / 3)
    estimate = 4 * eps_star * n_forced / (1 + t_star * n_forced ** (1 / 3) / 0.8)
    assert dissipation.mean() == pytest.approx(estimate, rel=0.2)
    # Resolved well enough to mean something: k_max eta near 1.
    assert 15 * (VISCOSITY**3 / dissipation.mean()) ** 0.25 > 0.9


def test_frozen_shells_keep_turbulence_stationary():
    time, energy, dissipation, power, turnover = follow(lambda modes: FrozenShells(modes, COMM, 2.0), 8.0)
    assert (time[-1] - time[0]) / turnover.mean() > 3
    assert (np.abs(windows(energy, 4) / energy.mean() - 1) < 0.05).all()
    assert power.mean() == pytest.approx(dissipation.mean(), rel=0.1)


def test_seeds_repeat_exactly_and_differ_from_each_other():
    def fields(seed):
        engine = make_engine(
            (32, 32, 32),
            FlowParameters(VISCOSITY, seed=seed),
            random_start,
            "phase-shift",
            forcing=eswaran_pope(seed),
        )
        for _ in range(20):
            engine.advance(courant=0.6)
        return engine.fields

    one, again, other = fields(1), fields(1), fields(2)
    np.testing.assert_array_equal(one, again)
    assert np.abs(one - other).max() > 1e-3 * np.abs(one).max()
