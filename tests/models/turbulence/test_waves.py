"""Inertial and internal gravity waves: the dispersion relation, orders in time, and what is conserved."""

import math
from itertools import product

import numpy as np
import pytest
import scipy.linalg
from mpi4py import MPI

from ridgeline.models.turbulence.forcing import EswaranPope, LinearForcing
from ridgeline.models.turbulence.problem import FlowParameters, Waves
from ridgeline.models.turbulence.reference import exponential
from turbulence_tools import (
    FREQUENCY,
    LONG,
    NO_GRADIENT,
    ROTATION,
    SOLVERS,
    WAVE_FLOWS,
    divergence,
    energy,
    flat_spectrum,
    make_engine,
    make_reference,
    random_start,
    wavenumbers,
)

SHAPE = (8, 12, 10)
MODE = (1, 2, 1)  # j_z, j_y, j_x
SCHEMES = ("rk2", "rk4")


def one_mode(wanted):
    """A start of one mode and its conjugate; wanted(k) returns (u_x, u_y, u_z, theta)."""

    def start(fields, modes):
        place = place_of_mode(modes)
        values = np.array(wanted(wavenumbers(modes)[:, place]), complex)
        fields[:, place] = values[: len(fields)]

    return start


def place_of_mode(modes):
    return int(np.flatnonzero((np.stack(modes.lines.expand()) == np.array(MODE)[:, None]).all(0))[0])


def frame(k):
    """Directions e = k / |k|, t = e_z x e and h = e x t, the last two of length k_h / k."""
    e = k / np.linalg.norm(k)
    t = np.cross((0.0, 0.0, 1.0), e)
    return e, t, np.cross(e, t)


def advance(solver, end, steps):
    for _ in range(steps):
        solver.advance(end / steps)
    return solver


def assert_mode(solver, wanted, case):
    """All is zero but one mode (and a conjugate that is not stored)."""
    expected = np.zeros_like(solver.fields)
    expected[:, place_of_mode(solver.modes)] = np.array(wanted)[: len(expected)]
    assert np.abs(solver.fields - expected).max() <= 2e-14, case


def check_inertial_wave(name, scheme, sign, dealias):
    """A helical mode, i e x u = sign u, turns by exp(i sign omega t) whatever the step is; viscosity damps it."""
    viscosity, t = 0.05, 9.0

    def helical(k):
        e, side, _ = frame(k)
        return *(side + sign * 1j * np.cross(e, side)), 0.0

    flow = FlowParameters(viscosity, scheme, waves=Waves(ROTATION))
    solver = SOLVERS[name](SHAPE, flow, one_mode(helical), dealias, LONG)
    k = wavenumbers(solver.modes)[:, place_of_mode(solver.modes)]
    omega = 2 * np.dot(ROTATION, k) / np.linalg.norm(k)
    advance(solver, t, 3)
    factor = np.exp((sign * 1j * omega - viscosity * (k @ k)) * t)
    assert_mode(solver, factor * np.array(helical(k)), f"{name}, {scheme=}, {sign=}, {dealias=}")


def test_an_inertial_wave_has_the_frequency_2_omega_k_over_k():
    for name, scheme, sign, dealias in product(SOLVERS, SCHEMES, [1, -1], ["phase-shift", "two-thirds"]):
        check_inertial_wave(name, scheme, sign, dealias)


def check_internal_wave(name, scheme, sign):
    """u = h theta / (i sign |h|): velocity and buoyancy exchange their energy."""
    viscosity, t = 0.05, 9.0

    def standing(k):
        _, _, h = frame(k)
        return *(h / (sign * 1j * np.linalg.norm(h))), 1.0

    flow = FlowParameters(viscosity, scheme, (1.0,), (NO_GRADIENT,), waves=Waves(brunt_vaisala=FREQUENCY))
    solver = SOLVERS[name](SHAPE, flow, one_mode(standing), lengths=LONG)
    k = wavenumbers(solver.modes)[:, place_of_mode(solver.modes)]
    omega = FREQUENCY * np.hypot(k[0], k[1]) / np.linalg.norm(k)
    advance(solver, t, 3)
    factor = np.exp((sign * 1j * omega - viscosity * (k @ k)) * t)
    assert_mode(solver, factor * np.array(standing(k)), f"{name}, {scheme=}, {sign=}")


def test_an_internal_wave_has_the_frequency_n_k_h_over_k():
    for name, scheme, sign in product(SOLVERS, SCHEMES, [1, -1]):
        check_internal_wave(name, scheme, sign)


def check_wave_of_both(name, balanced):
    """omega^2 = (2 Omega.k)^2 / k^2 + N^2 k_h^2 / k^2; (N t, 2 Omega.e) does not move."""
    t, viscosity = 4.0, 0.05

    def start(k):
        e, side, up = frame(k)
        c = 2 * np.dot(ROTATION, e)
        if balanced:
            return *(0.1 * FREQUENCY * side), 0.1 * c
        omega = math.hypot(c, FREQUENCY * np.linalg.norm(side))
        # An eigenvector of u' = - c e x u + N theta h, theta' = - N h.u with i omega: across the balanced mode.
        return *(0.1 * (c * side + 1j * omega * up)), -0.1 * FREQUENCY * (side @ side)

    flow = FlowParameters(viscosity, "rk4", (1.0,), (NO_GRADIENT,), waves=Waves(ROTATION, FREQUENCY))
    solver = SOLVERS[name](SHAPE, flow, one_mode(start), lengths=LONG)
    k = wavenumbers(solver.modes)[:, place_of_mode(solver.modes)]
    e, side, _ = frame(k)
    omega = 0.0 if balanced else math.hypot(2 * np.dot(ROTATION, e), FREQUENCY * np.linalg.norm(side))
    advance(solver, t, 4)
    factor = np.exp((1j * omega - viscosity * (k @ k)) * t)
    assert_mode(solver, factor * np.array(start(k)), f"{name}, {balanced=}")


def test_a_wave_of_both_has_the_frequency_of_both_and_the_balanced_mode_stays():
    for name, balanced in product(SOLVERS, [True, False]):
        check_wave_of_both(name, balanced)


def test_matrix_exponentials_of_the_reference_are_those_of_scipy():
    matrices = (
        np.random.default_rng(2).normal(size=(3, 2, 4, 4)) * np.array([1e-3, 1.0, 30.0])[:, None, None, None]
    )
    matrices[2] -= matrices[2].swapaxes(-1, -2)  # turns, which stay finite
    np.testing.assert_allclose(exponential(matrices), scipy.linalg.expm(matrices), rtol=1e-11, atol=1e-12)


def test_engine_is_the_reference_with_waves():
    """The reference takes matrix exponentials, the engine formulas."""

    def forcing(modes):
        return EswaranPope(modes, MPI.COMM_SELF, 3.0, 2.0, 0.4, 6)

    for case, scheme, dealias in product(WAVE_FLOWS, SCHEMES, ["phase-shift", "two-thirds"]):
        follow(FlowParameters(0.02, scheme, seed=3, **WAVE_FLOWS[case]), dealias, forcing, 1e-12)


def test_damping_of_any_ratio_and_strength_is_exact():
    """Overdamped and underdamped modes, with a linear force, which makes the rates differ too."""
    for viscosity, schmidt in product([0.02, 3.0, 300.0], [0.05, 20.0]):
        flow = FlowParameters(viscosity, "rk4", (schmidt,), (NO_GRADIENT,), 3, Waves(brunt_vaisala=FREQUENCY))
        follow(flow, "two-thirds", lambda modes: LinearForcing(modes, MPI.COMM_SELF, 0.8), 1e-11)


@pytest.mark.full
def test_single_precision_follows_with_waves():
    for case in WAVE_FLOWS:
        follow(FlowParameters(0.02, "rk2", seed=3, **WAVE_FLOWS[case]), "phase-shift", None, 2e-6, np.float32)


def follow(flow, dealias, forcing, tolerance, dtype=np.float64):
    engine = make_engine(SHAPE, flow, random_start, dealias, LONG, forcing, dtype)
    reference = make_reference(SHAPE, flow, random_start, dealias, LONG, forcing)
    for _ in range(2):
        engine.advance(0.02)
        reference.advance(0.02)
    difference = np.abs(engine.fields - reference.fields).max(1)
    assert (difference <= tolerance * np.abs(reference.fields).max(1)).all(), f"{flow=}, {dealias=}"


def test_waves_keep_the_order_in_time():
    """By the differences of solutions whose steps halve."""
    for case, (scheme, order) in product(WAVE_FLOWS, [("rk2", 2), ("rk4", 4)]):
        flow = FlowParameters(0.02, scheme, seed=3, **WAVE_FLOWS[case])
        solutions = []
        for steps in (8, 16, 32):
            solver = make_engine((16, 16, 16), flow, flat_spectrum(1.5, 3.6), "two-thirds")
            solutions.append(advance(solver, 0.2, steps).fields.copy())
        first, second = np.abs(np.diff(solutions, axis=0))
        for field in range(len(first)):
            found = math.log2(first[field].max() / second[field].max())
            assert found == pytest.approx(order, abs=0.15), f"{case}, {scheme=}, {field=}"


def check_no_work(case, scheme, order):
    """Of no viscosity: energy and, with stratification, that of buoyancy keep their sum to the order of the step."""
    flow = FlowParameters(0.0, scheme, seed=3, **WAVE_FLOWS[case])

    def change(steps):
        solver = make_engine((12, 12, 12), flow, flat_spectrum(1.5), "two-thirds")

        def total():
            theta = solver.fields[3:4] if flow.waves.stratified else solver.fields[3:3]
            potential = 0.5 * float((solver.modes.weight() * np.abs(theta) ** 2).sum())
            return energy(solver.fields, solver.modes) + potential

        before = total()
        advance(solver, 0.16, steps)
        assert divergence(solver.fields, solver.modes) <= 1e-12, f"{case}, {scheme=}, {steps=}"
        return abs(total() - before)

    assert math.log2(change(4) / change(16)) >= 2 * (order - 0.05), f"{case}, {scheme=}"


def test_waves_do_no_work():
    for case, (scheme, order) in product(["rotation", "stratification", "both"], [("rk2", 3), ("rk4", 4)]):
        check_no_work(case, scheme, order)


def test_without_waves_no_bit_changes():
    """Waves of no strength are none: no factor but the tables of the step."""
    assert not Waves()
    assert Waves().n_coupled == 0
    flow = FlowParameters(0.02, "rk2", waves=Waves())
    assert flow == FlowParameters(0.02)
