"""The NumPy reference against what is known in closed form and in print (references: see each test)."""

import numpy as np
import pytest

from ridgeline.models.gray_scott.physics import coefficients
from ridgeline.models.gray_scott.reference import advance


def box_start(n, half_width=6):
    u, v = np.ones((n, n, n)), np.zeros((n, n, n))
    box = (slice(n // 2 - half_width, n // 2 + half_width),) * 3
    u[box], v[box] = 0.25, 0.33
    return u, v


@pytest.mark.parametrize(
    ("steps", "u_min", "v_max", "u_mean", "v_mean"),
    [  # noise-free values recorded from an independent C program, 64^3, periodic
        (1, 0.21055, 0.34485, 0.994796105957, 0.00227318115234),
        (10, 0.104001758058, 0.600690505794, 0.993057626738, 0.00246192285684),
    ],
)
def test_recorded_values(steps, u_min, v_max, u_mean, v_mean):
    u, v = advance(*box_start(64), coefficients(0.2, 0.1, 0.01, 0.05, 0.0, 2.0), steps)
    assert [u.min(), v.max(), u.mean(), v.mean()] == pytest.approx([u_min, v_max, u_mean, v_mean], rel=1e-11)


@pytest.mark.parametrize("boundary", ["periodic", "fixed"])
def test_resting_state_stays(boundary):
    u, v = np.ones((4, 3, 5)), np.zeros((4, 3, 5))
    new_u, new_v = advance(u, v, coefficients(0.2, 0.1, 0.02, 0.048, 0.0, 1.0), 10, boundary)
    np.testing.assert_array_equal(new_u, u)
    np.testing.assert_array_equal(new_v, v)


def test_uniform_state_obeys_the_ordinary_equation():
    F, k, dt = 0.03, 0.06, 0.5
    u, v = 0.6, 0.3
    fields = np.full((3, 4, 5), u), np.full((3, 4, 5), v)
    fields = advance(*fields, coefficients(0.2, 0.1, F, k, 0.0, dt), 20)
    for _ in range(20):
        u, v = u + dt * (-u * v * v + F * (1 - u)), v + dt * (u * v * v - (F + k) * v)
    np.testing.assert_allclose(fields[0], u, rtol=1e-13)
    np.testing.assert_allclose(fields[1], v, rtol=1e-13)


def test_cosine_mode_decays_at_its_rate():
    shape, m = (8, 12, 16), (1, 2, 3)
    Du, Dv, F, k, dt = 0.2, 0.1, 0.02, 0.05, 0.8
    phase = sum(2 * np.pi * mi * i / n for mi, i, n in zip(m, np.indices(shape), shape))
    mode = 1e-9 * np.cos(phase)
    u, v = advance(1 + mode, mode, coefficients(Du, Dv, F, k, 0.0, dt), 10)
    eigenvalue = (2 / 6) * (sum(np.cos(2 * np.pi * mi / n) for mi, n in zip(m, shape)) - 3)
    np.testing.assert_allclose(u - 1, mode * (1 + dt * (Du * eigenvalue - F)) ** 10, atol=1e-14)
    np.testing.assert_allclose(v, mode * (1 + dt * (Dv * eigenvalue - F - k)) ** 10, atol=1e-15)


def test_diffusion_and_reaction_conserve_the_total():
    rng = np.random.default_rng(5)
    u, v = rng.random((2, 6, 7, 8))
    new_u, new_v = advance(u, v, coefficients(0.2, 0.2, 0.0, 0.0, 0.0, 1.0), 50)
    assert (new_u + new_v).sum() == pytest.approx((u + v).sum(), rel=1e-14)


def test_fixed_boundary_pulls_towards_its_values():
    u, v = np.zeros((1, 1, 1)), np.ones((1, 1, 1))
    new_u, new_v = advance(u, v, coefficients(0.6, 0.3, 0.0, 0.0, 0.0, 0.5), 1, "fixed")
    assert (new_u.item(), new_v.item()) == pytest.approx((0.3, 0.85))


def test_noise_enters_u_only_and_by_step():
    u, v = np.full((3, 4, 5), 0.5), np.zeros((3, 4, 5))
    c = coefficients(0.2, 0.1, 0.0, 0.0, 0.1, 1.0)
    one, still = advance(u, v, c, 1, seed=3, first_step=6)
    other, _ = advance(u, v, c, 1, seed=3, first_step=7)
    np.testing.assert_array_equal(still, v)
    assert np.abs(one - u).max() <= 0.1
    assert not np.any(one == other)
