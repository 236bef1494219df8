"""The engine against exact solutions, in Nek5000's own set-ups (short_tests/NekTests.py)."""

import numpy as np
import pytest
from mpi4py import MPI

from navier_stokes_tools import ethier_case, history, walsh_case
from ridgeline.models.navier_stokes.engine_cpu import CpuEngine
from ridgeline.models.navier_stokes.problem import HelmholtzSolver, PressureSolver

TOLERANCES = {"pressure": PressureSolver(tolerance=1e-8), "velocity": HelmholtzSolver(tolerance=1e-11)}


def run(case, steps):
    """Return an engine after some steps from the exact flow, with the exact levels before."""
    grid, problem, velocity, _ = case
    engine = CpuEngine(MPI.COMM_SELF, grid, problem)
    engine.start(velocity(*grid.coordinates, 0.0), history=history(grid, velocity, problem.dt))
    for _ in range(steps):
        engine.advance()
    return engine


def errors(engine, case):
    """Return the errors of u, v, w and p at all points, with the pressure's mean taken away."""
    _, _, velocity, pressure = case
    at, mass = engine.geometry.coordinates, engine.geometry.mass
    exact = pressure(*at, engine.time)
    exact = exact - (exact * mass).sum() / mass.sum()
    return np.stack([*(engine.u - velocity(*at, engine.time)), engine.p - exact])


def largest(found):
    return np.abs(found).reshape(4, -1).max(axis=1)


def integral_norms(engine, found):
    return np.sqrt((found**2 * engine.geometry.mass).reshape(4, -1).sum(axis=1))


@pytest.mark.full
def test_walsh_eddies_stay_below_what_nek5000_asks():
    case = walsh_case(16, 7, 1e-4, dealias=12, **TOLERANCES)
    engine = run(case, 1)
    engine.solves.clear()
    for _ in range(19):
        engine.advance()
    assert (largest(errors(engine, case)) < [6.0e-7, 6.5e-7, 1e-11, 1.45e-5]).all()
    assert engine.solves["pressure"].most <= 12


@pytest.mark.slow
def test_walsh_eddies_after_the_thousand_steps_of_nek5000():
    case = walsh_case(16, 7, 1e-4, dealias=12, **TOLERANCES)
    engine = run(case, 1000)
    assert (
        largest(errors(engine, case)) < [6.007702e-7 + 1e-8, 6.489061e-7 + 1e-8, 1e-11, 1.448024e-5 + 1e-6]
    ).all()


@pytest.mark.full
def test_ethier_steinman_stays_below_what_nek5000_asks():
    case = ethier_case(3, 7, 1e-4, dealias=12, **TOLERANCES)
    engine = run(case, 20)
    norms = integral_norms(engine, errors(engine, case))
    assert (norms < [2.407549e-6, 2.407549e-6, 2.407549e-6, 7.554325e-5]).all()


@pytest.mark.full
def test_third_order_in_time_where_nothing_bounds_the_flow():
    found = []
    for dt in (5e-3, 2.5e-3):
        case = walsh_case(16, 7, dt, dealias=12, **TOLERANCES)
        engine = run(case, round(0.1 / dt))
        norms = integral_norms(engine, errors(engine, case))
        found.append([np.hypot(*norms[:2]), norms[3]])
    orders = np.log2(np.divide(*found))
    assert (abs(orders - 3.0) < 0.2).all(), orders


def test_errors_fall_exponentially_with_the_order():
    found = []
    for order in (5, 7):
        case = ethier_case(2, order, 5e-4, dealias=12 if order == 7 else 8, **TOLERANCES)
        engine = run(case, 8)
        found.append(integral_norms(engine, errors(engine, case)))
    assert (found[1] < 0.03 * found[0]).all(), found


def test_the_divergence_is_that_of_the_space():
    case = walsh_case(16, 7, 1e-4, dealias=12, **TOLERANCES)
    engine = run(case, 5)
    b = np.zeros(engine.grid.shape)
    mass = engine.geometry.mass * engine.u
    engine.gather.sum(mass)
    engine.kernels.force_divergence(mass, engine.inverse_mass, b)
    engine.gather.sum(b)
    shift = 11 / 6 / engine.problem.dt
    assert float(engine.inner.norm(b)[0]) * shift < 1e-2
