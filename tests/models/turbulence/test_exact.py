"""Solvers of turbulence against exact solutions, identities and orders of accuracy. References: see each test."""

import math

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.models.turbulence import initial
from ridgeline.models.turbulence.diagnostics import Diagnostics
from ridgeline.models.turbulence.forcing import Forcing, LinearForcing
from ridgeline.models.turbulence.passes import HostPasses
from ridgeline.models.turbulence.problem import FlowParameters
from turbulence_tools import (
    LONG,
    SOLVERS,
    all_modes,
    divergence,
    energy,
    enstrophy,
    flat_spectrum,
    make_engine,
    series,
)

each_solver = pytest.mark.parametrize("make", SOLVERS.values(), ids=SOLVERS.keys())
each_scheme = pytest.mark.parametrize("scheme", ["rk2", "rk4"])
each_dealias = pytest.mark.parametrize("dealias", ["phase-shift", "two-thirds", "none"])


def advance(solver, end, steps):
    for _ in range(steps):
        solver.advance(end / steps)
    return solver


@each_solver
@pytest.mark.parametrize("dealias", ["phase-shift", "two-thirds"])
@pytest.mark.parametrize("reynolds", [10, 100, 1600])
def test_taylor_green_follows_its_exact_series(make, reynolds, dealias):
    solver = make((24, 24, 24), FlowParameters(1 / reynolds, "rk4"), initial.taylor_green, dealias)
    advance(solver, 0.1, 10)
    found = energy(solver.fields, solver.modes), enstrophy(solver.fields, solver.modes)
    assert found[0] == pytest.approx(series("E", 0.1, reynolds), abs=1e-11)
    assert found[1] == pytest.approx(series("Z", 0.1, reynolds), abs=1e-11)
    assert divergence(solver.fields, solver.modes) <= 1e-12


@each_solver
@each_scheme
@each_dealias
def test_two_dimensional_taylor_green_decays_exactly(make, scheme, dealias):
    viscosity = 0.1
    solver = make((8, 12, 16), FlowParameters(viscosity, scheme), initial.taylor_green_2d, dealias, LONG)
    start = solver.fields.copy()
    advance(solver, 0.5, 5)
    _, ky, kx = solver.modes.unit
    wanted = start * math.exp(-viscosity * (kx**2 + ky**2) * 0.5)
    assert np.abs(solver.fields - wanted).max() <= 1e-11


@each_solver
@each_scheme
@each_dealias
def test_abc_flow_decays_exactly(make, scheme, dealias):
    def start(fields, modes):
        initial.abc(fields, modes, (1.0, 0.7, 0.4), 2)

    solver = make((12, 16, 12), FlowParameters(0.05, scheme), start, dealias)
    wanted = solver.fields * math.exp(-0.05 * 4 * 0.5)
    advance(solver, 0.5, 5)
    assert np.abs(solver.fields - wanted).max() <= 1e-11


@each_solver
@pytest.mark.parametrize(("scheme", "order"), [("rk2", 2), ("rk4", 4)])
def test_order_in_time_of_velocity_and_scalar(make, scheme, order):
    """By the differences of solutions whose steps halve, of a smooth field that the grid resolves."""
    flow = FlowParameters(0.02, scheme, (0.7,), ((1.0, -0.5, 0.3),))
    solutions = []
    for steps in (8, 16, 32):
        solver = make((16, 16, 16), flow, flat_spectrum(1.5, 3.6), "two-thirds")
        solutions.append(advance(solver, 0.2, steps).fields.copy())
    first, second = np.abs(np.diff(solutions, axis=0))
    for field in (slice(0, 3), slice(3, 4)):
        assert math.log2(first[field].max() / second[field].max()) == pytest.approx(order, abs=0.1)


def energy_change(make, start, steps, scheme, dealias, shape=(16, 16, 16), seed=0):
    solver = make(shape, FlowParameters(0.0, scheme, seed=seed), start, dealias)
    before = energy(solver.fields, solver.modes)
    advance(solver, 0.16, steps)
    return abs(energy(solver.fields, solver.modes) - before)


@each_solver
@pytest.mark.parametrize(("scheme", "order"), [("rk2", 2), ("rk4", 4)])
def test_inviscid_energy_is_conserved_to_the_time_order(make, scheme, order):
    """Every mode carries energy, so that any aliasing would change it."""
    coarse, fine = (energy_change(make, flat_spectrum(1.5), n, scheme, "two-thirds") for n in (8, 16))
    assert math.log2(coarse / fine) >= order - 0.1


@each_solver
@pytest.mark.parametrize(("scheme", "order"), [("rk2", 2), ("rk4", 4)])
def test_phase_shifts_conserve_the_energy_of_a_resolved_field_to_the_time_order(make, scheme, order):
    start = flat_spectrum(1.5, 2.6)
    coarse, fine = (energy_change(make, start, n, scheme, "phase-shift", (24, 24, 24)) for n in (5, 10))
    assert math.log2(coarse / fine) >= order - 0.1


@each_solver
@each_scheme
def test_phase_shifts_leave_a_residue_of_first_order_where_all_modes_are_full(make, scheme):
    """Substeps see different velocities, so their aliasing cancels to dt^2 of a step only."""

    def change(steps):
        seeds = range(3)
        return sum(
            energy_change(make, flat_spectrum(1.5), steps, scheme, "phase-shift", seed=s) for s in seeds
        )

    coarse, fine = change(8), change(16)
    assert math.log2(coarse / fine) >= 0.7
    assert fine / 3 < 0.01 * energy_change(make, flat_spectrum(1.5), 16, scheme, "none")


@each_solver
def test_inviscid_energy_drifts_at_any_step_without_dealiasing(make):
    """The counterpart: aliasing would have been seen."""
    coarse, fine = (energy_change(make, flat_spectrum(1.5), n, "rk2", "none") for n in (8, 16))
    assert fine > 0.9 * coarse > 0.01


@each_solver
def test_scalar_of_a_mean_gradient_in_a_shear_wave(make):
    """u_y = V sin(k x) decays alone; theta_t = -G_y u_y + D theta_xx has a closed solution."""
    viscosity, schmidt, gradient, t = 0.05, 0.4, 1.7, 0.6

    def start(fields, modes):
        initial.add_waves(fields, modes, 1, 0.8, ("sin", "1", "1"), 2)

    solver = make(
        (4, 6, 8), FlowParameters(viscosity, "rk4", (schmidt,), ((9.0, gradient, 4.0),)), start, "none", LONG
    )
    sine = solver.fields[1] / 0.8
    advance(solver, t, 40)
    k2 = (2 * solver.modes.unit[2]) ** 2
    d = viscosity / schmidt
    wanted = (
        -gradient * 0.8 * (math.exp(-viscosity * k2 * t) - math.exp(-d * k2 * t)) / ((d - viscosity) * k2)
    )
    assert np.abs(solver.fields[3] - wanted * sine).max() <= 1e-9


class SteadyShear(Forcing):
    """A steady force along x that varies with y alone: no nonlinear term, each mode by itself."""

    def __init__(self, modes) -> None:
        super().__init__(modes, MPI.COMM_SELF)
        jz, jy, jx = modes.lines.expand()
        self.indices = np.flatnonzero((jz == 0) & (jx == 0) & (np.abs(jy) == 2))
        self.values = np.zeros((3, 2), np.complex128)
        self.values[0] = 0.5


@each_solver
@pytest.mark.parametrize(("scheme", "order"), [("rk2", 2), ("rk4", 4)])
def test_a_force_that_is_in_every_substep_keeps_the_order(make, scheme, order):
    """u' = -nu k^2 u + f. In the predictor alone, as the paper has it, the force would be of first order."""
    viscosity, t = 0.5, 1.0
    errors = []
    for steps in (8, 16):
        flow = FlowParameters(viscosity, scheme)
        solver = make((8, 12, 8), flow, lambda fields, modes: None, lengths=LONG, forcing=SteadyShear)
        decay = viscosity * (2 * solver.modes.unit[1]) ** 2
        advance(solver, t, steps)
        exact = 0.5 * (1 - math.exp(-decay * t)) / decay
        errors.append(np.abs(solver.fields[0, solver.forcing.indices] - exact).max())
    assert math.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.1)


@each_solver
@each_scheme
def test_scalar_variance_and_energy_decay_by_their_budgets(make, scheme):
    """d<theta^2>/dt = -2 D <|grad theta|^2>, dE/dt = -2 nu Z, whatever the nonlinear terms do."""
    viscosity, schmidt, dt = 0.03, 0.7, 1e-3
    solver = make(
        (16, 16, 16), FlowParameters(viscosity, scheme, (schmidt,), ((0.0,) * 3,)), flat_spectrum(1.5)
    )
    modes = solver.modes
    k2 = sum(k * k for k in modes.expand())

    def figures():
        theta = modes.weight() * np.abs(solver.fields[3]) ** 2
        return np.array([energy(solver.fields, modes), theta.sum()]), np.array(
            [-2 * viscosity * enstrophy(solver.fields, modes), -2 * viscosity / schmidt * (k2 * theta).sum()]
        )

    (first, _) = figures()
    solver.advance(dt)
    (_, rate) = figures()
    solver.advance(dt)
    (last, _) = figures()
    np.testing.assert_allclose((last - first) / (2 * dt), rate, rtol=1e-4)


def test_the_energy_of_each_shell_changes_by_transfer_dissipation_and_force():
    """dE(k)/dt = T(k) - D(k) + F(k), by a central difference over two small steps."""
    dt = 5e-4
    solver = make_engine(
        (16, 16, 16),
        FlowParameters(0.03, "rk4"),
        flat_spectrum(1.5),
        forcing=lambda modes: LinearForcing(modes, MPI.COMM_SELF, 0.4),
    )
    diagnostics = Diagnostics(MPI.COMM_SELF, HostPasses(solver.modes, solver.transform), 0.03)
    found = []
    for _ in range(3):
        found.append({name: p.values for name, p in diagnostics.profiles(solver.fields).items()})
        solver.advance(dt)
    first, now, last = found
    rate = (last["energy_spectrum"] - first["energy_spectrum"]) / (2 * dt)
    wanted = now["transfer_spectrum"] - now["dissipation_spectrum"] + 2 * 0.4 * now["energy_spectrum"]
    assert np.abs(now["transfer_spectrum"]).max() > 0.1
    np.testing.assert_allclose(rate, wanted, rtol=0, atol=2e-5 * np.abs(wanted).max())


@each_solver
@each_scheme
@each_dealias
def test_velocity_stays_solenoidal_and_conjugate_symmetric(make, scheme, dealias):
    solver = make((12, 16, 20), FlowParameters(0.01, scheme), flat_spectrum(1.5), dealias, LONG)
    advance(solver, 0.1, 5)
    assert divergence(solver.fields, solver.modes) <= 1e-12
    jz, jy, jx = solver.modes.lines.expand()
    plane = np.flatnonzero(jx == 0)
    place = {(z, y): i for z, y, i in zip(jz[plane], jy[plane], plane)}
    opposite = [place[-z, -y] for z, y in zip(jz[plane], jy[plane])]
    fields = solver.fields
    assert np.abs(fields[:, plane] - fields[:, opposite].conj()).max() <= 1e-15


@each_solver
@each_scheme
def test_linear_forcing_enters_the_integrating_factor(make, scheme):
    coefficient, viscosity = 0.3, 0.1
    solver = make(
        (8, 8, 8),
        FlowParameters(viscosity, scheme),
        initial.taylor_green_2d,
        forcing=lambda modes: LinearForcing(modes, MPI.COMM_SELF, coefficient),
    )
    start = solver.fields.copy()
    advance(solver, 1.0, 4)
    assert np.abs(solver.fields - start * math.exp(coefficient - 2 * viscosity)).max() <= 1e-13


def test_flat_spectrum_fills_what_the_truncation_keeps():
    modes = all_modes((16, 16, 16), "phase-shift")
    fields = np.zeros((3, modes.n_modes), complex)
    flat_spectrum(1.5)(fields, modes)
    assert energy(fields, modes) == pytest.approx(1.5, rel=1e-14)
    assert (np.abs(fields).max(0) > 0).mean() > 0.8
