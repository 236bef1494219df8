"""Structure functions against a vortex in closed form, NumPy and the spectrum of the same field."""

import math

import numpy as np
import pytest

from ridgeline.models.turbulence.kernels_diagnostics import offsets_along
from ridgeline.models.turbulence.passes import HostPasses
from ridgeline.models.turbulence.spectra import structure_functions
from whole_box import COMM, WholeTransform, make_modes, random_velocity, taylor_green
from whole_box import points as points_of

CUBE = (2 * math.pi,) * 3


def test_separations_are_whole_cells_up_to_half_the_box():
    assert offsets_along(4).tolist() == [1, 2]
    assert offsets_along(20).tolist() == [1, 2, 3, 4, 6, 8, 10]
    assert offsets_along(64).tolist() == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32]


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_taylor_green_vortex_in_closed_form(dtype):
    """u_x = sin x cos y cos z, u_y = -cos x sin y cos z: an increment is 2 sin(r/2) times a shifted wave."""
    modes = make_modes((16, 20, 24), CUBE, "two-thirds")
    transform = WholeTransform(modes, dtype)
    velocity = transform.to_spectral(taylor_green(*points_of(modes)))
    found = structure_functions(COMM, velocity.astype(dtype), HostPasses(modes, transform))
    half = np.sin(found.separation / 2)
    tolerance = 1e-6 if dtype == np.complex64 else 1e-14
    second, third, fourth = found.longitudinal
    np.testing.assert_allclose(found.separation, offsets_along(24) * 2 * math.pi / 24, rtol=1e-15)
    np.testing.assert_allclose(second, half**2 / 2, rtol=0, atol=tolerance)
    np.testing.assert_allclose(third, 0, atol=tolerance)
    np.testing.assert_allclose(fourth, 16 * half**4 * (3 / 8) ** 3, rtol=0, atol=tolerance)
    np.testing.assert_allclose(found.transverse[0], half**2 / 4, rtol=0, atol=tolerance)
    np.testing.assert_allclose(found.transverse[1], 8 * half**4 * (3 / 8) ** 3, rtol=0, atol=tolerance)


@pytest.mark.parametrize("dealias", ["phase-shift", "two-thirds"])
def test_second_order_is_the_sum_over_the_spectrum_and_others_are_those_of_numpy(dealias):
    modes = make_modes((24, 32, 20), (2 * math.pi, 3.0, 7.5), dealias)
    velocity, transform = random_velocity(modes), WholeTransform(modes)
    found = structure_functions(COMM, velocity, HostPasses(modes, transform))
    _, _, kx = modes.expand()
    u = transform.to_physical(velocity)
    for n, r in zip(offsets_along(20), found.separation):
        wanted = (modes.weight() * 2 * np.abs(velocity) ** 2 * (1 - np.cos(kx * r))).sum(1)
        place = int(np.flatnonzero(found.separation == r)[0])
        assert found.longitudinal[0][place] == pytest.approx(wanted[0], rel=1e-12)
        assert found.transverse[0][place] == pytest.approx((wanted[1] + wanted[2]) / 2, rel=1e-12)
        steps = np.roll(u, -n, axis=-1) - u
        assert found.longitudinal[1][place] == pytest.approx((steps[0] ** 3).mean(), rel=1e-10, abs=1e-14)
        assert found.longitudinal[2][place] == pytest.approx((steps[0] ** 4).mean(), rel=1e-12)
        assert found.transverse[1][place] == pytest.approx((steps[1:] ** 4).mean(), rel=1e-12)
