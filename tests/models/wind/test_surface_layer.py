"""The wall model: profiles it must invert, its limits, its fluxes against the plain version."""

import itertools
import math

import numba
import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.blocks.block import Block
from ridgeline.jit.kernel import compile_kernels
from ridgeline.models.wind.settings_physics import SurfaceSection, TemperatureSection
from ridgeline.models.wind.surface_layer import (
    FREE_CONVECTION,
    STRONG_STABILITY,
    SurfaceLayer,
    similarity_numbers,
    similarity_reference,
    surface_reference,
)

AIR = TemperatureSection(enabled=True, reference=300.0)
HEATS = {
    "neutral": {},
    "stable flux": {"heat": "flux", "heat_flux": -0.01},
    "unstable flux": {"heat": "flux", "heat_flux": 0.2},
    "warm ground": {"heat": "temperature", "temperature": 303.0, "temperature_rate": 0.01},
    "cold ground": {"heat": "temperature", "temperature": 298.0, "temperature_rate": -0.01},
}


def solve(speed, excess=0.0, flux=0.0, height=10.0, **settings):
    surface = SurfaceSection(**settings)
    numbers = similarity_numbers(surface, AIR, height)
    found = similarity_reference(surface, numbers, np.array(speed), np.array(excess), flux)
    return tuple(float(each) for each in found)


def test_neutral_layer_is_the_logarithm():
    friction, flux, zeta = solve(8.0, roughness=0.05)
    assert math.isclose(friction, 0.4 * 8.0 / math.log(10.0 / 0.05))
    assert (flux, zeta) == (0.0, 0.0)


def test_stable_layer_is_log_linear():
    """From u* and L to the wind and the temperature, and back."""
    friction, length, z, rough = 0.3, 40.0, 5.0, 0.1
    flux = -(friction**3) * 300.0 / (0.4 * 9.81 * length)
    speed = friction / 0.4 * (math.log(z / rough) + 4.8 * (z - rough) / length)
    excess = -flux / friction / 0.4 * (math.log(z / rough) + 7.8 * (z - rough) / length)
    common = {"height": z, "roughness": rough, "stable": (4.8, 7.8)}
    expected = pytest.approx((friction, flux, z / length), rel=1e-10)
    assert solve(speed, excess, heat="temperature", temperature=300.0, **common) == expected
    assert solve(speed, flux=flux, heat="flux", heat_flux=flux, **common) == expected


def test_unstable_layer_integrates_the_gradients():
    """The psi functions are integrals of (1 - phi)/zeta: here by quadrature, not by their closed forms."""
    friction, length, z, rough = 0.3, -15.0, 5.0, 0.1
    s = np.linspace(math.log(rough), math.log(z), 20001)
    height = np.exp(s)
    speed = friction / 0.4 * np.trapezoid((1 - 16 * height / length) ** -0.25, s)
    flux = -(friction**3) * 300.0 / (0.4 * 9.81 * length)
    excess = -flux / friction / 0.4 * np.trapezoid((1 - 16 * height / length) ** -0.5, s)
    common = {"height": z, "roughness": rough}
    expected = pytest.approx((friction, flux, z / length), rel=1e-7)
    assert solve(speed, excess, heat="temperature", temperature=300.0, **common) == expected
    assert solve(speed, flux=flux, heat="flux", heat_flux=flux, **common) == expected


def test_limits():
    cold = {"heat": "temperature", "temperature": 300.0}
    friction, flux, zeta = solve(0.5, 10.0, **cold)  # far above the critical Richardson number
    assert zeta == pytest.approx(STRONG_STABILITY)
    assert 0 < friction < 0.02
    assert -0.01 < flux < 0
    friction, flux, zeta = solve(0.0, -10.0, **cold)  # free convection: the least speed carries the heat
    assert zeta == pytest.approx(FREE_CONVECTION)
    assert friction > 0
    assert flux > 0
    neutral = 0.4 * 1.0 / math.log(100.0)
    assert solve(1.0, flux=-1.0, heat="flux", heat_flux=-1.0)[0] == pytest.approx(neutral * 2 / 3)
    assert solve(1.0, flux=50.0, heat="flux", heat_flux=50.0)[2] == pytest.approx(FREE_CONVECTION)


@pytest.mark.parametrize("heat", HEATS)
@pytest.mark.parametrize("distribution", ["moeng", "local", "uniform"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_fluxes_are_those_of_the_plain_version(heat, distribution, dtype):
    surface = SurfaceSection(distribution=distribution, **HEATS[heat])
    numbers = np.random.default_rng(5)
    u, v = (numbers.uniform(-2, 8, (5, 7)).astype(dtype) for _ in range(2))
    theta = numbers.uniform(299, 301, (5, 7)).astype(dtype)
    layer = SurfaceLayer(surface, AIR, 4.0, Block.of_rank((6, 5, 7), (1, 1, 1), 0), MPI.COMM_SELF)
    compile_kernels(layer.kernels(numba.typeof(u)))
    state = layer.update(u, v, theta, 10.0)
    value = layer.surface_value(10.0)
    expected = surface_reference(
        surface, similarity_numbers(surface, AIR, 2.0), *(f.astype(float) for f in (u, v, theta)), value
    )
    for flux, plain in zip(layer.fluxes, expected):
        np.testing.assert_allclose(flux, plain, rtol=1e-11, atol=1e-13)
    assert state.wind == pytest.approx(np.hypot(u.mean(dtype=float), v.mean(dtype=float)))
    if distribution != "local":  # the means of the distribution are the fluxes of the means
        stress = np.hypot(layer.fluxes[0].mean(), layer.fluxes[1].mean())
        assert stress == pytest.approx(state.friction_velocity**2)
        assert layer.fluxes[2].mean() == pytest.approx(state.heat_flux)
    rates = [np.ones((5, 7), dtype) for _ in range(3)]
    layer.add(*rates)
    np.testing.assert_allclose(rates[2], 1 + expected[2] / 4.0, rtol=1e-6)


def test_bisection_never_leaves_its_bounds():
    """Every combination of weak and strong wind and heating has finite fluxes of the right sign."""
    speeds, excesses = (0.0, 1e-6, 0.1, 1.0, 50.0), (-100.0, -1e-9, 0.0, 1e-9, 0.5, 100.0)
    for speed, excess in itertools.product(speeds, excesses):
        friction, flux, zeta = solve(speed, excess, heat="temperature", temperature=300.0)
        assert math.isfinite(friction)
        assert friction > 0
        assert FREE_CONVECTION <= zeta <= STRONG_STABILITY
        assert flux * excess <= 0
    for speed, flux in itertools.product(speeds, excesses):
        friction, _, zeta = solve(speed, flux=flux, heat="flux", heat_flux=flux)
        assert math.isfinite(friction)
        assert friction > 0
        assert zeta * flux <= 0
