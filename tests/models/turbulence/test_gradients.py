"""Gradients, pressure and output fields in physical space, against plain NumPy on whole arrays and known flows."""

import math

import numpy as np
import pytest

from ridgeline.fourier.modes import Shells
from ridgeline.models.turbulence import kernels_diagnostics
from ridgeline.models.turbulence.diagnostics import Diagnostics
from ridgeline.models.turbulence.gradients import BIN_EDGES, gradient_statistics
from ridgeline.models.turbulence.passes import HostPasses
from ridgeline.models.turbulence.pressure import products
from ridgeline.models.turbulence.problem import FlowParameters
from ridgeline.models.turbulence.recorders import output_field, output_names
from ridgeline.runtime.errors import ConfigError
from spectral_toys import mode_keys, shell_of_modes
from whole_box import (
    COMM,
    WholeTransform,
    beltrami,
    curl,
    gradient,
    make_modes,
    points,
    random_velocity,
    taylor_green,
)

SHAPE = (24, 32, 20)
LENGTHS = (2 * math.pi, 3.0, 7.5)  # L_z, L_y, L_x
CUBE = (2 * math.pi,) * 3
DEALIAS = ("phase-shift", "two-thirds", "none")
NU = 0.03


@pytest.fixture(params=DEALIAS)
def modes(request):
    return make_modes(SHAPE, LENGTHS, request.param)


def given(flow, dealias="phase-shift", shape=(16, 20, 24)):
    """Return modes, transform, spectral velocity and values of a flow in the cube."""
    modes = make_modes(shape, CUBE, dealias)
    values = flow(*points(modes))
    transform = WholeTransform(modes)
    return modes, transform, transform.to_spectral(values), values


def test_gradient_statistics(modes):
    fields = random_velocity(modes)
    u = WholeTransform(modes).to_physical(fields)
    g = gradient(u, modes)
    found = gradient_statistics(COMM, fields, HostPasses(modes, WholeTransform(modes)))
    longitudinal = [g[i, i] for i in range(3)]
    pooled = np.stack(longitudinal)
    assert found.skewness == pytest.approx((pooled**3).mean() / (pooled**2).mean() ** 1.5, rel=1e-10)
    assert found.flatness == pytest.approx((pooled**4).mean() / (pooled**2).mean() ** 2, rel=1e-11)
    strain = (g + g.swapaxes(0, 1)) / 2
    for distribution, values in (
        (found.dissipation, (strain**2).sum((0, 1))),
        (found.enstrophy, (curl(u, modes) ** 2).sum(0)),
    ):
        assert distribution.mean == pytest.approx(values.mean(), rel=1e-12)
        for p, moment in zip((2, 3, 4), distribution.moments):
            assert moment == pytest.approx((values**p).mean() / values.mean() ** p, rel=1e-11)
        counts = np.histogram(values / values.mean(), BIN_EDGES)[0]
        # A value within rounding of an edge may fall to either side.
        np.testing.assert_allclose(distribution.density * np.diff(BIN_EDGES) * values.size, counts, atol=1.5)
        assert (distribution.density * np.diff(BIN_EDGES)).sum() == pytest.approx(
            1 - sum(distribution.outside)
        )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_octaves_are_cut_into_equal_bins(dtype):
    edges = kernels_diagnostics.octave_edges(-2, 3, 2)
    assert edges[:9].tolist() == [0.25, 0.3125, 0.375, 0.4375, 0.5, 0.625, 0.75, 0.875, 1.0]
    assert (len(edges), edges[-1]) == (21, 8.0)
    inside = np.exp(np.random.default_rng(2).normal(0, 1.5, 500))
    values = np.concatenate([inside, edges, [0.0, 1e-30, 1e30, np.inf]]).astype(dtype).reshape(35, 15)
    counts = np.ones(22, np.int64)
    kernels_diagnostics.count_octaves(4 * values, 0.25, -2, 2, counts)
    where = np.digitize(values.astype(float), edges)
    assert (counts - 1).tolist() == np.bincount(where.ravel(), minlength=22).tolist()
    assert counts[0] > 3, "some lie below"
    assert counts[-1] > 3, "some lie above"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_powers_of_rows_are_summed_in_double_precision(dtype):
    rows = np.random.default_rng(3).normal(1, 1, (7, 50)).astype(dtype)
    sums = np.empty((4, 7))
    kernels_diagnostics.sum_powers(rows, sums)
    for p in range(4):
        np.testing.assert_allclose(sums[p], (rows.astype(float) ** (p + 1)).sum(1), rtol=1e-14)


def test_courant_number(modes):
    fields = random_velocity(modes)
    u = WholeTransform(modes).to_physical(fields)
    spacing = [length / n for length, n in zip(LENGTHS[::-1], SHAPE[::-1])]
    expected = sum(np.abs(u[i]) / h for i, h in enumerate(spacing)).max()
    transform = WholeTransform(modes)
    assert products(COMM, fields, HostPasses(modes, transform)).courant_rate == pytest.approx(
        expected, rel=1e-13
    )
    d = Diagnostics(COMM, HostPasses(modes, transform), NU)
    assert d.series(fields, dt=0.02)["courant"] == pytest.approx(0.02 * expected, rel=1e-13)
    assert list(d.series(fields, 0.02)) == list(d.series(0 * fields, 0.0)), "columns never change"


@pytest.mark.parametrize("dealias", DEALIAS)
def test_pressure_of_the_taylor_green_vortex(dealias):
    modes, transform, velocity, _ = given(taylor_green, dealias)
    z, y, x = points(modes)
    exact = (np.cos(2 * x) + np.cos(2 * y)) * (np.cos(2 * z) + 2) / 16
    found = output_field("pressure", COMM, velocity, HostPasses(modes, transform), FlowParameters(NU))
    np.testing.assert_allclose(found, exact, atol=1e-15)


@pytest.mark.parametrize("dealias", DEALIAS)
def test_pressure_of_beltrami_flow_and_of_vortices_in_a_plane(dealias):
    modes, transform, velocity, values = given(beltrami, dealias)
    square = (values**2).sum(0)
    found = output_field("pressure", COMM, velocity, HostPasses(modes, transform), FlowParameters(NU))
    np.testing.assert_allclose(found, -(square - square.mean()) / 2, atol=1e-14)

    def plane_vortices(z, y, x):
        return np.array([-np.cos(x) * np.sin(y), np.sin(x) * np.cos(y), 0 * z])

    modes, transform, velocity, _ = given(plane_vortices, dealias)
    _, y, x = points(modes)
    found = output_field("pressure", COMM, velocity, HostPasses(modes, transform), FlowParameters(NU))
    np.testing.assert_allclose(found, -(np.cos(2 * x) + np.cos(2 * y)) / 4, atol=1e-15)


def exact_products(fields, modes):
    """Return pressure and transfer, as modes, from products on a grid so fine that nothing aliases."""
    fine = make_modes(tuple(2 * n for n in modes.shape), modes.lengths, "none")
    key = {tuple(mode): place for place, mode in enumerate(mode_keys(fine).tolist())}
    places = [key[tuple(mode)] for mode in mode_keys(modes).tolist()]
    padded = np.zeros((3, fine.n_modes), complex)
    padded[:, places] = fields
    transform = WholeTransform(fine)
    u = transform.to_physical(padded)
    kz, ky, kx = modes.expand()
    k = np.array([kx, ky, kz])
    k2 = np.where((k**2).sum(0) > 0, (k**2).sum(0), 1)
    pressure, transfer = 0, 0
    for i in range(3):
        for j in range(3):
            stress = transform.to_spectral((u[i] * u[j])[np.newaxis])[0][places]
            pressure = pressure - k[i] * k[j] / k2 * stress
            transfer = transfer + (fields[j].conj() * -1j * k[i] * stress).real
    return pressure, transfer * modes.weight()


@pytest.mark.parametrize("dealias", ["phase-shift", "two-thirds"])
def test_pressure_and_transfer_are_free_of_aliasing(dealias):
    modes = make_modes(SHAPE, LENGTHS, dealias)
    fields = random_velocity(modes)
    pressure, transfer = exact_products(fields, modes)
    found = products(COMM, fields, HostPasses(modes, WholeTransform(modes)))
    np.testing.assert_allclose(found.pressure, pressure, atol=1e-15 * np.abs(pressure).max() * 20)
    shells = Shells(modes)
    expected = np.bincount(shell_of_modes(shells), transfer, shells.n_shells) / shells.width
    scale = np.abs(expected).sum()
    np.testing.assert_allclose(found.transfer_spectrum, expected, atol=1e-14 * scale)
    assert abs(found.transfer_spectrum.sum()) < 1e-14 * scale, "nonlinear terms keep the energy"


def test_without_dealiasing_products_alias():
    modes = make_modes(SHAPE, LENGTHS, "none")
    fields = random_velocity(modes)
    pressure, _ = exact_products(fields, modes)
    error = products(COMM, fields, HostPasses(modes, WholeTransform(modes))).pressure - pressure
    assert np.abs(error).max() > 1e-6 * np.abs(pressure).max()


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_output_fields(modes, dtype):
    fields = random_velocity(modes, n_scalars=2).astype(dtype)
    exact = WholeTransform(modes)
    values = exact.to_physical(fields)
    u = values[:3]
    g, w = gradient(u, modes), curl(u, modes)
    strain = (g + g.swapaxes(0, 1)) / 2
    expected = {
        **{f"velocity_{axis}": u[i] for i, axis in enumerate("xyz")},
        **{f"vorticity_{axis}": w[i] for i, axis in enumerate("xyz")},
        "vorticity_magnitude": np.sqrt((w**2).sum(0)),
        "dissipation": 2 * NU * (strain**2).sum((0, 1)),
        "pressure": exact.to_physical(products(COMM, fields[:3], HostPasses(modes, exact)).pressure[None])[0],
        "scalar_0": values[3],
        "scalar_1": values[4],
    }
    assert list(expected) == [name for name in output_names(2) if "streamfunction" not in name]
    small = 1e-5 if dtype == np.complex64 else 1e-13
    for name, field in expected.items():
        found = output_field(
            name, COMM, fields, HostPasses(modes, WholeTransform(modes, dtype)), FlowParameters(NU)
        )
        assert found.dtype == np.zeros(0, dtype).real.dtype
        np.testing.assert_allclose(found, field, atol=small * np.abs(field).max(), err_msg=name)
    with pytest.raises(ConfigError, match=r"'scalar_2'.*Did you mean 'scalar_"):
        output_field("scalar_2", COMM, fields, HostPasses(modes, exact), FlowParameters(NU))


@pytest.mark.parametrize(
    ("name", "axis"), [("streamfunction", 2), ("streamfunction_x", 0), ("streamfunction_y", 1)]
)
def test_streamfunctions_solve_the_poisson_equation_in_their_planes(name, axis):
    """lap psi = -w in each plane, by differences that are exact for the modes; only the mean flow is left out."""
    shape, lengths = (12, 10, 14), (2 * np.pi, 3.0, 7.5)
    modes = make_modes(shape, lengths, "two-thirds")
    fields, passes = random_velocity(modes), HostPasses(modes, WholeTransform(modes))
    psi = output_field(name, COMM, fields, passes, FlowParameters(NU))
    vorticity = output_field("vorticity_" + "xyz"[axis], COMM, fields, passes, FlowParameters(NU))
    planes = [place for place in range(3) if place != 2 - axis]  # of the arrays [z, y, x]
    waves = [
        (2 * np.pi * np.fft.fftfreq(shape[a], lengths[a] / shape[a])).reshape(
            [-1 if b == a else 1 for b in range(3)]
        )
        for a in planes
    ]
    laplacian = np.fft.ifft2(-sum(k**2 for k in waves) * np.fft.fft2(psi, axes=planes), axes=planes).real
    assert np.abs(vorticity).max() > 0.1
    np.testing.assert_allclose(laplacian, -vorticity, atol=1e-10 * np.abs(vorticity).max())
    np.testing.assert_allclose(psi.mean(axis=tuple(planes)), 0, atol=1e-14)


def test_streamfunction_of_vortices_in_planes():
    """u = dpsi/dy, v = -dpsi/dx for psi = (2 + cos z) cos x cos y, beside a mean flow and a potential, left out."""
    modes = make_modes((8, 8, 8), (2 * np.pi,) * 3, "two-thirds")
    transform = WholeTransform(modes)
    z, y, x = np.meshgrid(*[2 * np.pi * np.arange(8) / 8] * 3, indexing="ij")
    strength = 2 + np.cos(z)
    u = [0.7 - strength * np.cos(x) * np.sin(y), strength * np.sin(x) * np.cos(y), 0 * x]
    u[0] += np.cos(x) * np.cos(z)  # the gradient in the planes of sin x cos z, which w balances
    u[2] += np.sin(x) * np.sin(z)
    fields = transform.to_spectral(np.stack(u))
    psi = output_field("streamfunction", COMM, fields, HostPasses(modes, transform), FlowParameters(NU))
    np.testing.assert_allclose(psi, strength * np.cos(x) * np.cos(y), atol=1e-13)
