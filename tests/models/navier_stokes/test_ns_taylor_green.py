"""The Taylor-Green vortex: its series, tables of Re = 100 and of Re = 1600, and our Fourier solver."""

import math

import numpy as np
import pytest
from mpi4py import MPI

from navier_stokes_tools import all_sides, periodic_mesh
from ridgeline.elements.mesh import ElementGrid
from ridgeline.models.navier_stokes.diagnostics import Diagnostics
from ridgeline.models.navier_stokes.engine_cpu import CpuEngine
from ridgeline.models.navier_stokes.problem import FlowProblem, HelmholtzSolver, PressureSolver
from ridgeline.models.turbulence.initial import taylor_green
from ridgeline.models.turbulence.problem import FlowParameters
from turbulence_tools import energy, enstrophy, make_engine, series, table, wavenumbers


def fourier(n, reynolds):
    """Return our Fourier solver with the vortex in it."""
    return make_engine((n,) * 3, FlowParameters(1 / reynolds, "rk4"), taylor_green)


def values_at(solver, points):
    """Return the velocity [3, E, n, n, n] of a Fourier solver at points [3, E, n, n, n], by the sum of its modes."""
    modes, fields = solver.modes, solver.fields[:3]
    seen = np.abs(fields).max(axis=0) > 1e-15
    k, weighted = wavenumbers(modes)[:, seen], (fields * modes.weight())[:, seen]
    found = np.zeros(points.shape)
    for wave, amplitude in zip(k.T, weighted.T):
        waves = np.exp(1j * np.einsum("c,cekji->ekji", wave, points))
        found += (amplitude[:, None, None, None, None] * waves).real
    return found


def levels_before(grid, reynolds, dt):
    """Return the velocity at -dt and -2 dt: the Fourier solver runs backwards in time, which few steps survive."""
    solver, found = fourier(24, reynolds), []
    for _ in range(2):
        for _ in range(2):
            solver.advance(-dt / 2)
        found.append(values_at(solver, grid.coordinates))
    return found


class Vortex:
    """The spectral-element solver with the vortex in it."""

    def __init__(self, elements, order, reynolds, dt, pressure=1e-7, velocity=1e-9):
        grid = ElementGrid(periodic_mesh((elements,) * 3, (2 * math.pi,) * 3), order)
        problem = FlowProblem(
            1 / reynolds, dt, all_sides("periodic"), dealias_points=-(-3 * (order + 1) // 2),
            pressure=PressureSolver(tolerance=pressure), velocity=HelmholtzSolver(tolerance=velocity),
        )  # fmt: skip
        self.engine = CpuEngine(MPI.COMM_SELF, grid, problem)
        self.figures = Diagnostics(MPI.COMM_SELF, grid, self.engine.geometry, 1 / reynolds)
        now = values_at(fourier(8, reynolds), grid.coordinates)
        self.engine.start(now, history=levels_before(grid, reynolds, dt))
        self.dt = dt

    def advance_to(self, time):
        for _ in range(round((time - self.engine.time) / self.dt)):
            self.engine.advance()

    def energy_and_enstrophy(self):
        row = self.figures.series(self.engine.u, self.engine.fields[3:], self.dt, 0.0)
        return row["kinetic_energy"], row["enstrophy"]


def row(data, time):
    """Return the row of a table at a time."""
    (found,) = np.flatnonzero(np.isclose(data["t"], time))
    return {name: float(column[found]) for name, column in data.items()}


def test_the_vortex_follows_its_series():
    """The series is exact to 1e-13 at t = 0.1. Found: 2.8e-9 and 8.8e-9, from the time step."""
    vortex = Vortex(4, 7, 100, 0.02)
    vortex.advance_to(0.1)
    found = vortex.energy_and_enstrophy()
    assert found[0] == pytest.approx(series("E", "0.1", 100), rel=0, abs=1e-8)
    assert found[1] == pytest.approx(series("Z", "0.1", 100), rel=0, abs=3e-8)


@pytest.mark.full
def test_the_fourier_solver_finds_the_same_vortex():
    """Re = 100 to t = 1, where both solvers are converged. Found: 4e-8 in energy, 2e-7 in enstrophy."""
    vortex, other, data = Vortex(4, 7, 100, 0.02), fourier(48, 100), table("tgv_re100.csv")
    for time in (0.5, 1.0):
        vortex.advance_to(time)
        while other.time < time - 1e-9:
            other.advance(0.05)
        found = vortex.energy_and_enstrophy()
        theirs = energy(other.fields, other.modes), enstrophy(other.fields, other.modes)
        known = row(data, time)
        np.testing.assert_allclose(found, theirs, rtol=0, atol=1e-6)
        np.testing.assert_allclose(found, (known["E_k"], known["enstrophy"]), rtol=0, atol=1e-6)


@pytest.mark.full
def test_short_vortex_at_re_1600():
    """28^3 points against 512^3, until the scales become too small for them at t = 3.

    Found: energy to 4e-8, 5e-7, 2.3e-5, dissipation to 3e-6, 5e-4, 1.2 %.
    """
    vortex, data = Vortex(4, 7, 1600, 0.02), table("tgv_re1600.csv")
    for time, of_energy, of_rate in ((1.0, 1e-7, 1e-5), (2.0, 1e-6, 1e-3), (3.0, 5e-5, 0.03)):
        vortex.advance_to(time)
        found, known = vortex.energy_and_enstrophy(), row(data, time)
        assert found[0] == pytest.approx(known["E_k"], rel=0, abs=of_energy)
        assert 2 * found[1] / 1600 == pytest.approx(known["eps_enstrophy"], rel=of_rate)


@pytest.mark.slow
def test_the_whole_decay_at_re_100():
    """66^3 points to t = 10 against the table, whose energy is known to 1e-8, and the Fourier solver at 64^3."""
    vortex, other, data = Vortex(6, 11, 100, 0.0125), fourier(64, 100), table("tgv_re100.csv")
    for time, of_enstrophy in ((2.5, 1e-6), (5.0, 1e-4), (7.5, 1e-4), (10.0, 1e-4)):
        vortex.advance_to(time)
        while other.time < time - 1e-9:
            other.advance(0.0125)
        found, known = vortex.energy_and_enstrophy(), row(data, time)
        assert found[0] == pytest.approx(energy(other.fields, other.modes), rel=0, abs=1e-6)
        assert found[0] == pytest.approx(known["E_k"], rel=0, abs=1e-6)
        assert found[1] == pytest.approx(enstrophy(other.fields, other.modes), rel=0, abs=of_enstrophy)
        assert found[1] == pytest.approx(known["enstrophy"], rel=2 * of_enstrophy)
