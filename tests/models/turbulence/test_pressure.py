"""Statistics of the pressure, against exact solutions and against plain NumPy on whole arrays."""

import math

import numpy as np
import pytest

from ridgeline.fourier.modes import Shells
from ridgeline.models.turbulence import kernels_diagnostics
from ridgeline.models.turbulence.diagnostics import Diagnostics
from ridgeline.models.turbulence.passes import HostPasses
from ridgeline.models.turbulence.pressure import (
    BINS_PER_RMS,
    DEVIATIONS,
    pressure_spectrum,
    pressure_statistics,
    products,
)
from ridgeline.models.turbulence.problem import FlowParameters, Waves
from ridgeline.models.turbulence.recorders import output_field
from whole_box import (
    COMM,
    WholeTransform,
    beltrami,
    make_modes,
    points,
    random_velocity,
    taylor_green,
    wavevector,
)

SHAPE = (18, 14, 22)
LENGTHS = (2 * math.pi, 3.0, 7.5)  # L_z, L_y, L_x
CUBE = (2 * math.pi,) * 3
DEALIAS = ("phase-shift", "two-thirds", "none")
NU = 0.03


@pytest.fixture(params=DEALIAS)
def modes(request):
    return make_modes(SHAPE, LENGTHS, request.param)


def given(flow, dealias):
    """Return modes, figures, profiles and grid points of a flow in the cube."""
    modes = make_modes((16, 20, 24), CUBE, dealias)
    transform = WholeTransform(modes)
    velocity = transform.to_spectral(flow(*points(modes)))
    figures = Diagnostics(COMM, HostPasses(modes, transform), NU)
    return modes, figures.series(velocity, 0.01), figures.profiles(velocity)


@pytest.mark.parametrize("dealias", DEALIAS)
def test_taylor_green_vortex_at_the_start(dealias):
    """p = (cos 2x + cos 2y)(cos 2z + 2) / 16: a factor of variance 1, one of mean square 9/2."""
    modes, figures, profiles = given(taylor_green, dealias)
    assert figures["pressure_variance"] == pytest.approx(9 / 2 / 256, rel=1e-13)
    assert figures["pressure_skewness"] == pytest.approx(0, abs=1e-12)
    fourth = (2 * 3 / 8 + 6 / 4) * (3 / 8 + 24 / 2 + 16)
    assert figures["pressure_flatness"] == pytest.approx(fourth / (9 / 2) ** 2, rel=1e-12)
    expected = np.zeros(Shells(modes).n_shells)
    expected[2] = 2 * (2 / 16) ** 2 / 2  # cos 2x and cos 2y, |k| = 2
    expected[3] = 2 * (1 / 16) ** 2 / 4  # their products with cos 2z, |k| = sqrt(8)
    np.testing.assert_allclose(profiles["pressure_spectrum"].values, expected, atol=1e-17)


@pytest.mark.parametrize("dealias", DEALIAS)
def test_pressure_of_a_beltrami_flow_has_its_shape(dealias):
    """p = -(|u|^2 - <|u|^2>) / 2."""
    modes, figures, _ = given(beltrami, dealias)
    square = (beltrami(*points(modes)) ** 2).sum(0)
    p = (square.mean() - square) / 2
    assert figures["pressure_variance"] == pytest.approx((p**2).mean(), rel=1e-12)
    assert figures["pressure_skewness"] == pytest.approx(0, abs=1e-12)
    assert figures["pressure_flatness"] == pytest.approx((p**4).mean() / (p**2).mean() ** 2, rel=1e-11)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_statistics_are_those_of_the_field_that_is_written(modes, dtype):
    fields = random_velocity(modes).astype(dtype)
    small = 1e-5 if dtype == np.complex64 else 1e-12
    transform = WholeTransform(modes, dtype)
    d = Diagnostics(COMM, HostPasses(modes, transform), NU)
    p = output_field("pressure", COMM, fields, HostPasses(modes, transform), FlowParameters(NU)).astype(float)
    figures, profiles = d.series(fields, 0.01), d.profiles(fields)
    rms = math.sqrt((p**2).mean())
    assert abs(p.mean()) < small * rms
    expected = {"variance": p.var(), "skewness": (p**3).mean() / rms**3, "flatness": (p**4).mean() / rms**4}
    for name, value in expected.items():
        assert figures[f"pressure_{name}"] == pytest.approx(value, rel=small, abs=small), name
    assert abs(expected["skewness"]) > 0.1, "low in vortices"
    deviation, density = (profiles[name].values for name in ("deviation", "pressure_density"))
    width = deviation[1] - deviation[0]
    counts = np.histogram(p / rms, np.append(deviation - width / 2, deviation[-1] + width / 2))[0]
    # A value within rounding of an edge may fall to either side.
    np.testing.assert_allclose(density * width * p.size, counts, atol=1.5)
    assert (density * width).sum() == pytest.approx(1)
    assert (density * width * deviation**2).sum() == pytest.approx(1, rel=0.02), "over its root mean square"


def test_spectrum_is_the_sum_over_shells_and_sums_to_the_variance(modes):
    fields = random_velocity(modes)
    transform = WholeTransform(modes)
    pressure = products(COMM, fields, HostPasses(modes, transform)).pressure
    found = pressure_spectrum(COMM, pressure, HostPasses(modes, transform))
    shells = Shells(modes)
    p = transform.to_physical(pressure[np.newaxis])[0]
    square = np.abs(np.fft.fftn(p) / p.size) ** 2
    k = np.sqrt((wavevector(modes) ** 2).sum(0))
    shell = np.floor(np.round(k / shells.width, 6) + 0.5).astype(int).ravel()
    expected = np.bincount(shell, square.ravel())[: shells.n_shells] / shells.width
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-14 * expected.max())
    statistics = pressure_statistics(COMM, pressure, HostPasses(modes, transform))
    assert found.sum() * shells.width == pytest.approx(statistics.variance, rel=1e-13)
    assert statistics.variance == pytest.approx((p**2).mean(), rel=1e-13)


def test_rotation_and_buoyancy_have_their_part_of_the_pressure(modes):
    """lap p = ... - div(2 Omega x u) + N d theta / dz."""
    fields, waves = random_velocity(modes, n_scalars=1), Waves((0.4, -0.7, 1.9), 3.0)
    transform = WholeTransform(modes)
    plain = products(COMM, fields, HostPasses(modes, transform)).pressure
    found = products(COMM, fields, HostPasses(modes, transform), waves).pressure - plain
    k = np.stack(modes.expand()[::-1])
    force = -2 * np.cross(waves.rotation, fields[:3], axis=0)
    force[2] += waves.brunt_vaisala * fields[3]
    np.testing.assert_allclose(-(k * k).sum(0) * found, 1j * (k * force).sum(0), atol=1e-13 * np.abs(k).max())


def test_a_row_and_its_spectra_transform_no_more_than_they_say(modes):
    fields = random_velocity(modes)
    transform = WholeTransform(modes)
    d = Diagnostics(COMM, HostPasses(modes, transform), NU)
    evaluations = 2 if modes.dealias == "phase-shift" else 1
    expected = {"to_physical": 9 + 3 * evaluations + 1, "to_spectral": 6 * evaluations}
    d.series(fields, 0.01)
    assert transform.calls == expected
    d.profiles(fields)
    assert transform.calls == {
        name: 2 * calls + 3 * (name == "to_physical") for name, calls in expected.items()
    }


def test_a_fluid_at_rest_has_no_pressure_and_a_broken_one_none_that_is_finite(modes):
    pressure = np.zeros(modes.n_modes, complex)
    found = pressure_statistics(COMM, pressure, HostPasses(modes, WholeTransform(modes)))
    assert (found.variance, found.skewness, found.flatness) == (0.0, 0.0, 0.0)
    assert (found.density == 0).all()
    pressure[modes.n_modes // 2] = np.nan
    found = pressure_statistics(COMM, pressure, HostPasses(modes, WholeTransform(modes)))
    assert np.isnan([found.variance, found.skewness, found.flatness, *found.density]).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_are_counted_in_bins_of_one_width(dtype):
    edges = np.arange(-3, 6) / 4
    inside = np.random.default_rng(2).normal(0.2, 0.5, 500)
    values = np.concatenate([inside, edges, [0.0, -0.0, -1e30, 1e30, -np.inf, np.inf]]).astype(dtype)
    counts = np.ones(10, np.int64)
    kernels_diagnostics.count_evenly(values.reshape(5, -1), 4.0, 3, counts)
    where = np.digitize(values.astype(float), edges)
    assert (counts - 1).tolist() == np.bincount(where, minlength=10).tolist()
    assert counts[0] > 3, "some lie below"
    assert counts[-1] > 3, "some lie above"


def test_bins_lie_evenly_about_zero():
    np.testing.assert_array_equal(DEVIATIONS, -DEVIATIONS[::-1])
    np.testing.assert_array_equal(np.diff(DEVIATIONS), 1 / BINS_PER_RMS)
