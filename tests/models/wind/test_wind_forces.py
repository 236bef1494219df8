"""Forces: kernels against the plain version, balances, the controller, and Ekman's layer."""

import math

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.blocks.block import Block, BlockArray
from ridgeline.jit.kernel import compile_kernels
from ridgeline.models.wind.forcing import (
    HubHeightControl,
    add_damping,
    control_force,
    ekman_profile,
    force_numbers,
    forces_reference,
    kernels,
    make_profiles,
    step_rates,
    theta_profile,
)
from ridgeline.models.wind.settings_physics import (
    DampingSection,
    DrivingSection,
    RotationSection,
    TemperatureSection,
)

GHOST, SHAPE = 3, (5, 4, 7)
AIR = TemperatureSection(enabled=True, heights=(0.0, 100.0, 200.0), values=(300.0, 300.0, 308.0))
TURNING = RotationSection(latitude=45.0, components="full")
WEST = DrivingSection(kind="geostrophic", geostrophic_wind=(8.0, -3.0))
NO_TEMPERATURE = TemperatureSection()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_damping_has_the_bits_of_the_plain_version(dtype):
    random = np.random.default_rng(8)
    block = Block.of_rank(SHAPE, (1, 1, 1), 0, ghost=GHOST)
    w, out = (BlockArray.allocate(block, dtype) for _ in range(2))
    for array in (w, out):
        array.ghosted[...] = random.uniform(-3, 3, array.ghosted.shape)
    compile_kernels(kernels(dtype))
    heights = (np.arange(SHAPE[0]) + 0.5) * 40.0
    profiles = make_profiles(AIR, DampingSection(depth=90.0, time=5.0), WEST, heights, 200.0)
    rate = step_rates(profiles.rate, 0.5)
    assert (rate > 0).sum() == 2
    before, outside = out.owned.copy(), out.ghosted[0].copy()
    add_damping(w.flat, (w.origin, w.row_pitch, w.plane_pitch), SHAPE, np.full(5, 0.7), rate, out.flat)
    change = rate[:, None, None] * (0.7 - w.owned.astype(np.float64))
    assert np.array_equal(out.owned, (before + change).astype(dtype))
    assert np.array_equal(out.ghosted[0], outside)


def test_the_geostrophic_wind_is_in_balance():
    numbers = force_numbers(TURNING, WEST, NO_TEMPERATURE)
    one = np.ones((1, 1, 1))
    for rate in forces_reference(8.0 * one, -3.0 * one, 0 * one, one, np.ones(1), numbers):
        np.testing.assert_allclose(rate, 0.0, atol=1e-18)


def test_coriolis_does_no_work_and_turns_to_the_right():
    numbers = force_numbers(TURNING, DrivingSection(), NO_TEMPERATURE)
    u, v, w = np.random.default_rng(0).uniform(-1, 1, (3, 4, 4, 4))
    rates = forces_reference(u, v, w, u, u[:, 0, 0], numbers)
    np.testing.assert_allclose(u * rates[0] + v * rates[1] + w * rates[2], 0.0, atol=1e-19)
    f = numbers[0]
    assert f == pytest.approx(2 * 7.2921159e-5 * math.sin(math.pi / 4))
    assert forces_reference(*[np.ones((1, 1, 1))] * 4, np.ones(1), numbers)[1] == -f


def test_an_undisturbed_atmosphere_has_no_buoyancy():
    heights = np.linspace(10, 190, 10)
    profiles = make_profiles(AIR, DampingSection(), WEST, heights, 200.0)
    theta = theta_profile(AIR, heights)[:, None, None]
    numbers = force_numbers(RotationSection(), DrivingSection(), AIR)
    zero = np.zeros_like(theta)
    assert not forces_reference(zero, zero, zero, theta, profiles.theta, numbers)[2].any()
    warm = forces_reference(zero, zero, zero, theta + 3.0, profiles.theta, numbers)[2]
    np.testing.assert_allclose(warm, 9.81 * 3.0 / 300.0)
    assert theta_profile(AIR, np.array([-1.0, 150.0, 1e4])).tolist() == [300.0, 304.0, 308.0]


def test_damping_is_exact_in_time_and_smooth():
    rate, w, dt = 0.7, 1.0, 0.4
    for _ in range(5):
        w += dt * step_rates(np.array([rate]), dt)[0] * (0.0 - w)
    assert w == pytest.approx(math.exp(-rate * 5 * dt))
    heights = np.array([0.0, 100.0, 150.0, 200.0])
    rates = make_profiles(AIR, DampingSection(depth=100.0, time=2.0), WEST, heights, 200.0).rate
    np.testing.assert_allclose(rates, [0.0, 0.0, 0.25, 0.5], atol=1e-15)


def test_the_controller_finds_the_force_against_drag_and_rotation():
    """A mean wind with drag and rotation comes within drag * time of its target, and decays as exp(-t/time) to it."""
    wind, target, f, dt = np.array([2.0, 1.0]), (8.0, 0.0), 1e-2, 0.1
    for _ in range(3000):
        force = control_force((wind[0], wind[1]), target, 5.0, f)
        wind = wind + dt * (np.array([f * wind[1], -f * wind[0]]) + force)
    np.testing.assert_allclose(wind, target, atol=1e-12)


def test_the_mean_at_hub_height_lies_between_two_planes():
    block = Block.of_rank((4, 3, 5), (1, 1, 1), 0)
    u, v = np.random.default_rng(2).uniform(5, 9, (2, 4, 3, 5))
    driving = DrivingSection(kind="hub-height", target=(8.0, 0.0), height=21.0, relaxation_time=4.0)
    control = HubHeightControl(driving, 0.0, 10.0, block, MPI.COMM_SELF)
    force = control.force(u, v, 0.1)
    mean = 0.4 * u[1].mean() + 0.6 * u[2].mean()
    assert control.mean[0] == pytest.approx(mean)
    assert force[0] == pytest.approx((8.0 - mean) / 4.0)
    assert control.force(u, v, 8.0)[0] == pytest.approx((8.0 - mean) / 8.0)  # a step longer than the time
    top = DrivingSection(kind="hub-height", target=(8.0, 0.0), height=35.0)
    assert HubHeightControl(top, 0.0, 10.0, block, MPI.COMM_SELF).force(u, v, 0.5)[1] == pytest.approx(
        -v[3].mean() / 0.5
    )


@pytest.mark.parametrize("f", [1e-4, -1e-4])
def test_the_ekman_layer_balances_diffusion_and_rotation(f):
    nu, wind, z = 5.0, (10.0, 2.0), np.linspace(0, 3000, 3001)
    u, v = ekman_profile(z, nu, f, wind)
    assert (u[0], v[0]) == (0.0, 0.0)
    np.testing.assert_allclose((u[-1], v[-1]), wind, rtol=1e-3)
    curve_u, curve_v = (np.diff(c, 2) for c in (u, v))
    np.testing.assert_allclose(nu * curve_u, -f * (v[1:-1] - wind[1]), atol=1e-7)
    np.testing.assert_allclose(nu * curve_v, f * (u[1:-1] - wind[0]), atol=1e-7)
