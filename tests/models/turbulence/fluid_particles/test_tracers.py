"""Fluid particles in flows that are known at all times, against a high-accuracy solution of dx/dt = u(x, t)."""

import math

import numpy as np
import pytest
from mpi4py import MPI
from scipy.integrate import solve_ivp

from ridgeline.jit.kernel import compile_kernels
from ridgeline.models.turbulence.engine_cpu import CpuEngine
from ridgeline.models.turbulence.fluid_particles.interpolation import displacement, kernels_of_points
from ridgeline.models.turbulence.fluid_particles.tracers import Tracers
from ridgeline.models.turbulence.initial import abc, taylor_green_2d
from ridgeline.models.turbulence.particle_settings import ParticlesSection
from ridgeline.models.turbulence.problem import FlowParameters
from turbulence_tools import make_engine

TAU = 2 * math.pi
VISCOSITY = 0.05


@pytest.fixture(scope="module", autouse=True)
def kernels():
    for dtype in (np.float32, np.float64):
        compile_kernels([*CpuEngine.kernels(dtype), *kernels_of_points(dtype)])


def abc_velocity(t, x, y, z):
    """Beltrami flow: it decays, and does nothing else."""
    a, b, c = 1.0, 0.8, 0.6
    decay = math.exp(-VISCOSITY * t)
    return decay * np.array(
        [
            a * np.sin(z) + c * np.cos(y),
            b * np.sin(x) + a * np.cos(z),
            c * np.sin(y) + b * np.cos(x),
        ]
    )


def vortex_velocity(t, x, y, z):
    """Taylor and Green's vortices in a plane: an exact solution too."""
    decay = math.exp(-2 * VISCOSITY * t)
    return decay * np.array([np.sin(x) * np.cos(y), -np.cos(x) * np.sin(y), 0 * z])


FLOWS = {
    "abc": (abc_velocity, lambda fields, modes: abc(fields, modes, (1.0, 0.8, 0.6))),
    "vortices": (vortex_velocity, taylor_green_2d),
}


def engine_of(flow, scheme, shape=(8, 8, 8), dtype=np.float64, dealias="phase-shift"):
    parameters = FlowParameters(VISCOSITY, scheme, (), (), 3)
    return make_engine(shape, parameters, FLOWS[flow][1], dealias, dtype=dtype)


def followed(engine, scheme, n_steps, end, n=40, **settings):
    """The unwrapped places of particles in the order of identities, at first and at last, and the tracers."""
    tracers = Tracers(ParticlesSection(count=n, **settings), 5, engine.transform, MPI.COMM_SELF)
    if scheme == "rk4":
        engine.keep_stages()
    tracers.start(engine.fields)
    first = tracers.paths()
    for step in range(n_steps):
        dt = engine.advance(end / n_steps)
        stages = [(stage, displacement(engine.modes, shift)) for stage, shift in engine.stages()]
        tracers.advance(engine.fields, stages, dt, step + 1)
    return first, tracers.paths(), tracers


def exact(flow, start, end):
    def rate(t, x):
        return FLOWS[flow][0](t, *x.reshape(3, -1)).ravel()

    return solve_ivp(rate, (0, end), start.ravel(), "DOP853", rtol=1e-12, atol=1e-12).y[:, -1].reshape(3, -1)


@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize(("scheme", "order"), [("rk2", 2), ("rk4", 4)])
def test_order_in_time(flow, scheme, order):
    errors = []
    for n_steps in (10, 20):
        start, end, _ = followed(engine_of(flow, scheme), scheme, n_steps, 2.0, interpolation="fourier")
        errors.append(np.abs(end - exact(flow, start, 2.0)).max())
    assert order - 0.3 < math.log2(errors[0] / errors[1]) < order + 0.7
    assert np.abs(end - start).max() > 1.0


@pytest.mark.parametrize(("kind", "order"), [("spline", 4), ("trilinear", 2)])
def test_order_in_space(kind, order):
    errors = []
    for n in (12, 24):
        engine = engine_of("abc", "rk4", (n, n, n))
        start, end, _ = followed(engine, "rk4", 30, 1.5, interpolation=kind)
        errors.append(np.abs(end - exact("abc", start, 1.5)).max())
    assert order - 0.4 < math.log2(errors[0] / errors[1]) < order + 0.6


@pytest.mark.parametrize("dealias", ["two-thirds", "none"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_any_truncation_and_precision(dealias, dtype):
    engine = engine_of("abc", "rk4", (16, 16, 16), dtype, dealias)
    start, end, tracers = followed(engine, "rk4", 20, 1.0)
    np.testing.assert_allclose(end, exact("abc", start, 1.0), atol=2e-4)
    velocity = tracers.ranges.gather(tracers.particles, "velocity")
    np.testing.assert_allclose(velocity, abc_velocity(1.0, *end), atol=2e-4)
    assert (tracers.particles.position >= 0).all()
    assert (tracers.particles.position < TAU).all()


def test_pairs_and_tetrads_start_at_their_distance():
    engine = engine_of("abc", "rk2")
    start, _, _ = followed(engine, "rk2", 0, 1.0, placement="pairs", separation=0.25)
    np.testing.assert_allclose(np.linalg.norm(start[:, 1::2] - start[:, ::2], axis=0), 0.25, rtol=1e-12)
    start, _, _ = followed(engine, "rk2", 0, 1.0, placement="tetrads", separation=0.5)
    groups = start.reshape(3, -1, 4)
    for a in range(4):
        for b in range(a):
            distance = np.linalg.norm(groups[:, :, a] - groups[:, :, b], axis=0)
            np.testing.assert_allclose(distance, 0.5, rtol=1e-12)


def test_a_lattice_fills_the_box_evenly():
    start, _, _ = followed(engine_of("abc", "rk2"), "rk2", 0, 1.0, n=27, placement="lattice")
    assert sorted(set(np.round(start.ravel() / TAU * 6, 12))) == [1.0, 3.0, 5.0]
    assert len({tuple(place) for place in np.round(start.T, 9)}) == 27


def test_places_depend_on_the_seed_and_are_spread_over_the_box():
    engine = engine_of("abc", "rk2")
    first, _, _ = followed(engine, "rk2", 0, 1.0, n=4000)
    other, _, _ = followed(engine, "rk2", 0, 1.0, n=4000, seed=6)
    same, _, _ = followed(engine, "rk2", 0, 1.0, n=4000, seed=5)
    np.testing.assert_array_equal(first, same)
    assert not np.isclose(first, other).any()
    for row in first:
        counts, _ = np.histogram(row, 10, (0, TAU))
        assert abs(counts - 400).max() < 80


@pytest.mark.parametrize("axis", range(3))
def test_uniform_particles_have_the_mean_of_the_flow(axis):
    """<u_i^2> over a lattice of particles is that over the box: a lattice integrates few modes exactly."""
    engine = engine_of("abc", "rk2")
    _, _, tracers = followed(engine, "rk2", 0, 1.0, n=512, placement="lattice", interpolation="fourier")
    amplitudes = [(1.0, 0.6), (0.8, 1.0), (0.6, 0.8)][axis]
    mean = (tracers.particles["velocity"][axis] ** 2).mean()
    assert mean == pytest.approx(sum(a * a for a in amplitudes) / 2, rel=1e-12)
