"""Scalars that act on the flow: exact balances and waves, order in time, and the onset of convection."""

import math
from dataclasses import replace

import numpy as np
import pytest
from mpi4py import MPI

from navier_stokes_tools import all_sides, convection, history, make_start, periodic_mesh
from ridgeline.elements.mappings import wavy
from ridgeline.elements.mesh import SIDES, BoxMesh, ElementGrid
from ridgeline.models.navier_stokes.engine_cpu import CpuEngine
from ridgeline.models.navier_stokes.problem import (
    FlowProblem,
    HelmholtzSolver,
    PressureSolver,
    ScalarSide,
    TransportedScalar,
    VelocitySide,
)
from ridgeline.models.navier_stokes.reference import ReferenceSolver

TIGHT = {
    "pressure": PressureSolver(tolerance=1e-12, projection=6),
    "velocity": HelmholtzSolver(tolerance=1e-13, projection=3),
}
ONSET_WALLS = 1707.762  # Chandrasekhar 1961, Chapter II, at the wavenumber 3.117
ONSET_FREE = 27 * math.pi**4 / 4  # Rayleigh 1916, at pi/sqrt(2)


def scalar_sides(fixed, default="adiabatic"):
    """Return six sides: fixed at the values given by name, of kind `default` else."""
    found = {name: ScalarSide(default) for name in SIDES}
    for name, value in fixed.items():
        found[name] = ScalarSide("fixed", lambda x, y, z, t, value=value: value)
    return found


def across_y(kind):
    """Return velocity sides of one kind at both ends of y, periodic else."""
    return {name: VelocitySide(kind if name[0] == "y" else "periodic") for name in SIDES}


def layer(low, high):
    """Return the sides of a scalar that is fixed at both ends of y and periodic else."""
    sides = scalar_sides({"y_min": low, "y_max": high})
    return sides | {name: ScalarSide("periodic") for name in SIDES if name[0] != "y"}


def begin(grid, problem, fields, before=()):
    engine = CpuEngine(MPI.COMM_SELF, grid, problem)
    engine.start(fields, history=before)
    return engine


def test_the_engine_is_the_reference_on_curved_elements():
    grid, problem = convection(wavy((0.0,) * 3, (1.0, 1.0, 2.0), 0.02), **TIGHT)
    fields = make_start(grid, problem)
    reference = ReferenceSolver(grid, problem, fields[:3], fields[3:])
    engine = begin(grid, problem, fields)
    for _ in range(4):
        reference.step()
        engine.advance()
        np.testing.assert_allclose(engine.fields, reference.fields[0], atol=1e-9)
        np.testing.assert_allclose(engine.p, reference.p, atol=1e-7)
    without = begin(grid, replace(problem, gravity=(0.0, 0.0, 0.0)), fields)
    assert not without.problem.buoyant
    for _ in range(4):
        without.advance()
    assert np.abs(without.u - engine.u).max() > 1e-3


def test_a_stratified_fluid_at_rest_stays_at_rest():
    """T = y and b = B (T - 1/4) are balanced by p = B (y^2/2 - y/4), less its mean."""
    mesh = BoxMesh.box((1, 2, 2), (0.5, 1.0, 1.0), periodic=(True, False, False))
    grid = ElementGrid(mesh, 5)
    pull = 40.0
    sides = scalar_sides({"y_min": 0.0, "y_max": 1.0})
    sides |= {name: ScalarSide("periodic") for name in ("z_min", "z_max")}
    scalar = TransportedScalar(0.01, sides, expansion=2.0, reference=0.25)
    walls = {name: VelocitySide("periodic" if name[0] == "z" else "wall") for name in SIDES}
    problem = FlowProblem(0.01, 0.01, walls, scalars=(scalar,), gravity=(0.0, -pull / 2, 0.0), **TIGHT)
    y = grid.coordinates[1]
    engine = begin(grid, problem, np.stack([0 * y, 0 * y, 0 * y, y]))
    for _ in range(10):
        engine.advance()
    assert np.abs(engine.u).max() < 1e-11
    np.testing.assert_allclose(engine.p, pull * (y**2 / 2 - y / 4 - (1 / 6 - 1 / 8)), atol=1e-9)


def test_convection_in_a_vertical_slot_is_a_cubic():
    """Between walls at x = -1/2 and 1/2, one degree apart: nu v'' = B x, so v = B (4 x^3 - x)/(24 nu)."""
    mesh = BoxMesh.box((1, 1, 2), (0.5, 0.5, 1.0), (0.0, 0.0, -0.5), periodic=(True, True, False))
    grid = ElementGrid(mesh, 4)
    sides = scalar_sides({"x_min": 301.0, "x_max": 300.0}, "periodic")
    scalar = TransportedScalar(0.7, sides, expansion=0.01, reference=300.5)
    walls = {name: VelocitySide("wall" if name[0] == "x" else "periodic") for name in SIDES}
    problem = FlowProblem(0.5, 0.02, walls, 2, scalars=(scalar,), gravity=(0.0, -600.0, 0.0), **TIGHT)
    x = grid.coordinates[0]
    engine = begin(grid, problem, np.stack([0 * x, 0 * x, 0 * x, 300.5 - x]))
    for _ in range(150):
        engine.advance()
    exact = 6.0 * (4 * x**3 - x) / (24 * 0.5)
    np.testing.assert_allclose(engine.u[1], exact, atol=1e-8)
    np.testing.assert_allclose(engine.u[0], 0.0, atol=1e-10)


def wave(viscosity, buoyancy_frequency, wind=(0.7, 0.0)):
    """Return fields(x, y, z, t), [4, ...]: a plane internal wave in a uniform stratification, carried by a wind.

    All depends on one phase, across which nothing flows: it solves the full equations. With nu = k it decays by
    exp(-nu K^2 t) and has the frequency N k/K, N^2 = beta G |g|. Here k = 2, m = 1, g = (0, -2, 0), beta = 3.
    """
    k, m, amplitude = 2.0, 1.0, 0.4
    frequency = buoyancy_frequency * k / math.hypot(k, m)
    gradient = buoyancy_frequency**2 / 6

    def fields(x, y, z, t):
        decay = amplitude * math.exp(-viscosity * (k * k + m * m) * t)
        phase = k * (x - wind[0] * t) + m * (y - wind[1] * t) - frequency * t
        u, v = m * decay * np.cos(phase), -k * decay * np.cos(phase)
        theta = -gradient * k * decay / frequency * np.sin(phase)
        return np.stack([wind[0] + u, wind[1] + v, 0 * u, theta])

    return fields, gradient


@pytest.mark.full
def test_an_internal_wave_has_its_frequency_and_third_order_in_time():
    viscosity, frequency = 0.05, 3.0
    exact, gradient = wave(viscosity, frequency)
    width = 2 * np.pi
    grid = ElementGrid(periodic_mesh((1, 2, 3), (width / 3, width, width)), 9)
    scalar = TransportedScalar(
        viscosity,
        {name: ScalarSide("periodic") for name in SIDES},
        mean_gradient=(0.0, gradient, 0.0),
        expansion=3.0,
    )
    errors = []
    for dt in (0.04, 0.02):
        problem = FlowProblem(
            viscosity, dt, all_sides("periodic"), scalars=(scalar,), gravity=(0.0, -2.0, 0.0), **TIGHT
        )
        x, y, z = grid.coordinates
        engine = begin(grid, problem, exact(x, y, z, 0.0), history(grid, exact, dt))
        for _ in range(round(0.48 / dt)):
            engine.advance()
        errors.append(np.abs(engine.fields - exact(x, y, z, engine.time)).max())
    assert errors[1] < 1e-3, errors
    assert math.log2(errors[0] / errors[1]) > 2.8, errors


def growth(kind, wavenumber, rayleigh, elements=(1, 1, 2), order=9, prandtl=1.0):
    """Return the growth rate of rolls in a layer heated from below, in diffusion times of its height."""
    mesh = BoxMesh.box(elements, (0.5, 1.0, 2 * math.pi / wavenumber), periodic=(True, False, True))
    grid = ElementGrid(mesh, order)
    scalar = TransportedScalar(1.0, layer(1.0, 0.0), expansion=1.0, reference=0.5)
    problem = FlowProblem(
        prandtl, 4e-3, across_y(kind), scalars=(scalar,), gravity=(0.0, -rayleigh * prandtl, 0.0),
        pressure=PressureSolver(tolerance=1e-11), velocity=HelmholtzSolver(tolerance=1e-12),
    )  # fmt: skip
    x, y, _ = grid.coordinates
    rolls = 1e-4 * np.sin(np.pi * y) * np.cos(wavenumber * x)
    engine = begin(grid, problem, np.stack([0 * x, 0 * x, 0 * x, 1 - y + rolls]))
    energies = []
    for _ in range(2):
        for _ in range(75):
            engine.advance()
        energies.append(float((engine.geometry.mass * engine.u**2).sum()))
    return 0.5 * math.log(energies[1] / energies[0]) / (75 * problem.dt)


@pytest.mark.parametrize(
    ("kind", "wavenumber", "onset"),
    [
        pytest.param("symmetry", math.pi / math.sqrt(2), ONSET_FREE, marks=pytest.mark.full),
        pytest.param("wall", 3.117, ONSET_WALLS, marks=pytest.mark.full),
    ],
)
def test_convection_begins_at_the_critical_rayleigh_number(kind, wavenumber, onset):
    below, above = (growth(kind, wavenumber, share * onset) for share in (0.99, 1.01))
    assert below < 0 < above
    crossing = 0.99 + 0.02 * below / (below - above)
    assert crossing == pytest.approx(1.0, abs=1e-3)
    if kind == "symmetry":  # Rayleigh's growth rate at Pr = 1
        square = wavenumber**2 + math.pi**2
        assert above == pytest.approx(math.sqrt(1.01 * onset / square) * wavenumber - square, rel=1e-2)
