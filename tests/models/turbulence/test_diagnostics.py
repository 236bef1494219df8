"""Figures of spectral fields, against plain NumPy on whole arrays and against known flows."""

import math

import numpy as np
import pytest

from ridgeline.kernels import mode_sums, point_sums
from ridgeline.models.turbulence.compile_diagnostics import compile_diagnostics
from ridgeline.models.turbulence.diagnostics import Diagnostics, Scalar
from ridgeline.models.turbulence.gradients import BIN_EDGES, courant_rate, gradient_statistics
from ridgeline.models.turbulence.output_fields import output_field, output_names
from ridgeline.models.turbulence.pressure import products
from ridgeline.models.turbulence.spectra import Shells, largest_sphere, sum_over_modes
from ridgeline.runtime.errors import ConfigError
from whole_box import COMM, WholeTransform, derivative, make_modes, points, random_velocity, wavevector

SHAPE = (24, 32, 20)
LENGTHS = (2 * math.pi, 3.0, 7.5)  # L_z, L_y, L_x
CUBE = (2 * math.pi,) * 3
DEALIAS = ("phase-shift", "two-thirds", "none")
NU = 0.03


@pytest.fixture(params=DEALIAS)
def modes(request):
    return make_modes(SHAPE, LENGTHS, request.param)


def diagnostics(modes, dtype=complex, viscosity=NU, scalars=()) -> Diagnostics:
    return Diagnostics(COMM, modes, WholeTransform(modes, dtype), viscosity, scalars)


def gradient(u, modes) -> np.ndarray:
    """Return du_i/dx_j [3, 3, nz, ny, nx] of values [3, nz, ny, nx]."""
    return np.array([[derivative(u[i], j, modes) for j in range(3)] for i in range(3)])


def curl(u, modes) -> np.ndarray:
    g = gradient(u, modes)
    return np.array([g[2, 1] - g[1, 2], g[0, 2] - g[2, 0], g[1, 0] - g[0, 1]])


def mean(values) -> np.ndarray:
    return values.mean(axis=(-3, -2, -1))


def taylor_green(z, y, x):
    return np.array([np.sin(x) * np.cos(y) * np.cos(z), -np.cos(x) * np.sin(y) * np.cos(z), 0 * x])


def beltrami(z, y, x, a=1.0, b=0.7, c=-0.4):
    return np.array(
        [
            a * np.sin(z) + c * np.cos(y),
            b * np.sin(x) + a * np.cos(z),
            c * np.sin(y) + b * np.cos(x),
        ]
    )


def given(flow, dealias="phase-shift", shape=(16, 20, 24)):
    """Return modes, transform, spectral velocity and values of a flow in the cube."""
    modes = make_modes(shape, CUBE, dealias)
    values = flow(*points(modes))
    transform = WholeTransform(modes)
    return modes, transform, transform.to_spectral(values), values


def test_stand_in_transform_is_a_transform(modes):
    transform = WholeTransform(modes)
    fields = random_velocity(modes)
    np.testing.assert_allclose(transform.to_spectral(transform.to_physical(fields)), fields, atol=1e-15)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_averages_over_the_box(modes, dtype):
    fields = random_velocity(modes, n_scalars=2).astype(dtype)
    u, t = np.split(WholeTransform(modes).to_physical(fields), [3])
    figures = diagnostics(modes, scalars=(Scalar(0.02), Scalar(0.5, (1.0, -2.0, 0.25)))).mode_figures(fields)
    w, g = curl(u, modes), gradient(u, modes)
    fluctuation = u - mean(u)[:, None, None, None]
    expected = {
        "energy": mean(u**2).sum() / 2,
        "enstrophy": mean(w**2).sum() / 2,
        "dissipation": NU * mean(w**2).sum(),
        "helicity": mean(u * w).sum(),
        "u_rms": np.sqrt(mean(fluctuation**2).sum() / 3),
        **{f"energy_{axis}": mean(fluctuation[i] ** 2) / 2 for i, axis in enumerate("xyz")},
    }
    strain = (g + g.swapaxes(0, 1)) / 2
    assert 2 * NU * mean(strain**2).sum() == pytest.approx(expected["dissipation"], rel=1e-6)
    for s, (diffusivity, mean_gradient) in enumerate(((0.02, (0, 0, 0)), (0.5, (1.0, -2.0, 0.25)))):
        theta = t[s] - mean(t[s])
        slopes = np.array([derivative(t[s], j, modes) for j in range(3)])
        expected[f"scalar_{s}_variance"] = mean(theta**2)
        expected[f"scalar_{s}_dissipation"] = 2 * diffusivity * mean(slopes**2).sum()
        expected[f"scalar_{s}_production"] = -2 * np.dot(mean_gradient, mean(fluctuation * theta))
    for name, value in expected.items():
        assert figures[name] == pytest.approx(value, rel=1e-12, abs=1e-14), name
    assert figures["divergence"] < (1e-6 if dtype == np.complex64 else 1e-15)


def test_scales_follow_from_the_averages():
    modes = make_modes((32, 32, 32), CUBE, "phase-shift")
    fields = random_velocity(modes)
    figures = diagnostics(modes).mode_figures(fields)
    u = WholeTransform(modes).to_physical(fields)
    u -= mean(u)[:, None, None, None]
    rms = np.sqrt(mean(u**2).sum() / 3)
    eps = 2 * NU * mean(curl(u, modes) ** 2).sum() / 2
    k = np.sqrt((wavevector(modes) ** 2).sum(0))
    energy = (np.abs(np.fft.fftn(u, axes=(1, 2, 3)) / 32**3) ** 2).sum(0) / 2
    integral = math.pi / (2 * rms**2) * (energy[k > 0] / k[k > 0]).sum()
    taylor = rms * math.sqrt(15 * NU / eps)
    eta = (NU**3 / eps) ** 0.25
    expected = {
        "u_rms": rms,
        "integral_scale": integral,
        "eddy_turnover_time": integral / rms,
        "taylor_scale": taylor,
        "kolmogorov_scale": eta,
        "reynolds_taylor": rms * taylor / NU,
        "k_max_eta": math.sqrt(2) / 3 * 32 * eta,
    }
    assert {name: figures[name] for name in expected} == pytest.approx(expected, rel=1e-12)


def test_divergence_of_a_field_that_has_some(modes):
    fields = random_velocity(modes)
    fields[1] *= 1.1
    u = WholeTransform(modes).to_physical(fields)
    g = gradient(u, modes)
    expected = np.sqrt(mean(np.trace(g) ** 2) / mean(g**2).sum())
    assert diagnostics(modes).mode_figures(fields)["divergence"] == pytest.approx(expected, rel=1e-12)


def test_spectra_are_sums_over_shells(modes):
    fields = random_velocity(modes, n_scalars=2)
    sums = sum_over_modes(COMM, fields, modes)
    shells = Shells(modes)
    assert shells.width == 2 * math.pi / 7.5
    whole = np.fft.fftn(WholeTransform(modes).to_physical(fields), axes=(1, 2, 3)) / np.prod(SHAPE)
    k = np.sqrt((wavevector(modes) ** 2).sum(0))
    assert ((k / shells.width) % 1 == 0.5).any(), "some modes lie between two shells"
    shell = np.floor(np.round(k / shells.width, 6) + 0.5).astype(int).ravel()
    square = np.abs(whole) ** 2

    def spectrum(density):
        return np.bincount(shell, density.ravel(), shell.max() + 1) / shells.width

    energy = square[:3].sum(0) / 2
    assert shells.n_shells == len(sums.energy_spectrum) == len(shells.wavenumbers)
    assert spectrum(energy)[shells.n_shells :].sum() < 1e-25, "no retained mode lies beyond the last shell"
    keep = slice(shells.n_shells)
    np.testing.assert_allclose(sums.energy_spectrum, spectrum(energy)[keep], rtol=1e-12, atol=1e-20)
    np.testing.assert_allclose(
        sums.gradient_spectrum, spectrum(2 * k**2 * energy)[keep], rtol=1e-12, atol=1e-18
    )
    for s in range(2):
        np.testing.assert_allclose(
            sums.scalar_spectra[s], spectrum(square[3 + s])[keep], rtol=1e-12, atol=1e-20
        )
    assert sums.energy_spectrum.sum() * shells.width == pytest.approx(sums.energy, rel=1e-13)
    assert sums.energy_spectrum[-1] > 0, "the last shell holds modes"


def test_shells_of_modes_are_those_of_the_spectra(modes):
    shells = Shells(modes)
    fields = random_velocity(modes)
    energy = 0.5 * (np.abs(fields) ** 2).sum(0) * modes.weight()
    expected = np.bincount(shells.of_modes(), energy, shells.n_shells) / shells.width
    np.testing.assert_allclose(sum_over_modes(COMM, fields, modes).energy_spectrum, expected, rtol=1e-13)


def test_largest_sphere_is_retained_whole_and_no_larger_one_is(modes):
    k = np.sqrt((wavevector(modes) ** 2).sum(0))
    jz, jy, jx = modes.lines.expand()
    retained = np.zeros(SHAPE, bool)
    retained[jz, jy, jx] = retained[-jz, -jy, -jx] = True
    first_left_out = k[~retained].min()
    assert first_left_out - max(modes.unit) <= largest_sphere(modes) <= first_left_out * (1 + 1e-15)


def test_averages_have_the_same_bits_however_the_lines_are_cut(modes):
    """One call over all lines, and one for each half: what each rank of two would compute."""
    fields = random_velocity(modes, n_scalars=1)
    lines = modes.lines
    whole, halves = np.empty((14, lines.n_lines)), np.empty((14, lines.n_lines))
    shells = np.zeros((3, 60))
    arguments = modes.unit[1], 0.7
    mode_sums.sum_modes(fields, lines.start, modes.kz, modes.kx, modes.line_weight, *arguments, whole, shells)
    cut = lines.n_lines // 3
    for first, end in ((0, cut), (cut, lines.n_lines)):
        part = slice(first, end)
        start = lines.start[first : end + 1] - lines.start[first]
        mine = np.ascontiguousarray(fields[:, lines.start[first] : lines.start[end]])
        of_lines = np.empty((14, end - first))
        per_line = modes.kz[part], modes.kx[part], modes.line_weight[part]
        mode_sums.sum_modes(mine, start, *per_line, *arguments, of_lines, shells)
        halves[:, part] = of_lines
    np.testing.assert_array_equal(halves, whole)


def test_taylor_green_vortex_at_the_start():
    modes, transform, velocity, _ = given(taylor_green)
    figures = Diagnostics(COMM, modes, transform, NU).series(velocity, dt=0.01)
    assert figures["energy"] == pytest.approx(1 / 8, rel=1e-14)
    assert figures["enstrophy"] == pytest.approx(3 / 8, rel=1e-14)
    assert figures["dissipation"] == pytest.approx(2 * NU * 3 / 8, rel=1e-14)
    assert figures["helicity"] == pytest.approx(0, abs=1e-15)
    assert figures["energy_z"] == 0
    assert figures["skewness"] == pytest.approx(0, abs=1e-14)
    # du/dx = cos x cos y cos z, dv/dy = -du/dx, dw/dz = 0: <g^4> / <g^2>^2 = 2/3 (3/8)^3 / (2/3 (1/2)^3)^2
    assert figures["flatness"] == pytest.approx(2 / 3 * (3 / 8) ** 3 / (2 / 3 / 8) ** 2, rel=1e-12)
    spectrum = sum_over_modes(COMM, velocity, modes).energy_spectrum
    expected = np.zeros(len(spectrum))
    expected[2] = 1 / 8  # |k| = sqrt(3) is nearest to 2
    np.testing.assert_allclose(spectrum, expected, atol=1e-15)


def test_beltrami_flow_is_its_own_curl():
    modes, _, velocity, _ = given(beltrami)
    figures = diagnostics(modes).mode_figures(velocity)
    energy = (1 + 0.7**2 + 0.4**2) / 2
    for name, expected in {"energy": energy, "enstrophy": energy, "helicity": 2 * energy}.items():
        assert figures[name] == pytest.approx(expected, rel=1e-14)
    assert figures["integral_scale"] == pytest.approx(3 * math.pi / 4, rel=1e-14)  # all at k = 1


@pytest.mark.parametrize("viscosity", [NU, 0.0])
def test_fluid_at_rest_has_figures(modes, viscosity):
    fields = np.zeros((4, modes.n_modes), complex)
    d = diagnostics(modes, viscosity=viscosity, scalars=(Scalar(0.1),))
    assert all(value == 0 for name, value in d.series(fields, dt=0.1).items() if name != "dt")
    assert all((profile.values == 0).all() for n, profile in d.profiles(fields).items() if "spectrum" in n)


def test_gradient_statistics(modes):
    fields = random_velocity(modes)
    u = WholeTransform(modes).to_physical(fields)
    g = gradient(u, modes)
    found = gradient_statistics(COMM, fields, modes, WholeTransform(modes))
    longitudinal = [g[i, i] for i in range(3)]
    for i, values in enumerate(longitudinal):
        assert found.skewness_of[i] == pytest.approx(
            (values**3).mean() / (values**2).mean() ** 1.5, rel=1e-10
        )
        assert found.flatness_of[i] == pytest.approx((values**4).mean() / (values**2).mean() ** 2, rel=1e-11)
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
    edges = point_sums.octave_edges(-2, 3, 2)
    assert edges[:9].tolist() == [0.25, 0.3125, 0.375, 0.4375, 0.5, 0.625, 0.75, 0.875, 1.0]
    assert (len(edges), edges[-1]) == (21, 8.0)
    inside = np.exp(np.random.default_rng(2).normal(0, 1.5, 500))
    values = np.concatenate([inside, edges, [0.0, 1e-30, 1e30, np.inf]]).astype(dtype).reshape(35, 15)
    counts = np.ones(22, np.int64)
    point_sums.count_octaves(4 * values, 0.25, -2, 2, counts)
    where = np.digitize(values.astype(float), edges)
    assert (counts - 1).tolist() == np.bincount(where.ravel(), minlength=22).tolist()
    assert counts[0] > 3, "some lie below"
    assert counts[-1] > 3, "some lie above"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_powers_of_rows_are_summed_in_double_precision(dtype):
    rows = np.random.default_rng(3).normal(1, 1, (7, 50)).astype(dtype)
    sums = np.empty((4, 7))
    point_sums.sum_powers(rows, sums)
    for p in range(4):
        np.testing.assert_allclose(sums[p], (rows.astype(float) ** (p + 1)).sum(1), rtol=1e-14)


def test_courant_number(modes):
    fields = random_velocity(modes)
    u = WholeTransform(modes).to_physical(fields)
    spacing = [length / n for length, n in zip(LENGTHS[::-1], SHAPE[::-1])]
    expected = sum(np.abs(u[i]) / h for i, h in enumerate(spacing)).max()
    transform = WholeTransform(modes)
    assert courant_rate(COMM, fields, modes, transform) == pytest.approx(expected, rel=1e-13)
    d = diagnostics(modes)
    assert d.series(fields, dt=0.02)["courant"] == pytest.approx(0.02 * expected, rel=1e-13)
    assert d.series(fields, dt=0.02, rate=3.0)["courant"] == pytest.approx(0.06)
    assert list(d.series(fields, 0.02, 3.0)) == list(d.series(0 * fields, 0.0)), "columns never change"


@pytest.mark.parametrize("dealias", DEALIAS)
def test_pressure_of_the_taylor_green_vortex(dealias):
    modes, transform, velocity, _ = given(taylor_green, dealias)
    z, y, x = points(modes)
    exact = (np.cos(2 * x) + np.cos(2 * y)) * (np.cos(2 * z) + 2) / 16
    found = output_field("pressure", COMM, velocity, modes, transform, NU)
    np.testing.assert_allclose(found, exact, atol=1e-15)


@pytest.mark.parametrize("dealias", DEALIAS)
def test_pressure_of_beltrami_flow_and_of_vortices_in_a_plane(dealias):
    modes, transform, velocity, values = given(beltrami, dealias)
    square = (values**2).sum(0)
    found = output_field("pressure", COMM, velocity, modes, transform, NU)
    np.testing.assert_allclose(found, -(square - square.mean()) / 2, atol=1e-14)

    def plane_vortices(z, y, x):
        return np.array([-np.cos(x) * np.sin(y), np.sin(x) * np.cos(y), 0 * z])

    modes, transform, velocity, _ = given(plane_vortices, dealias)
    _, y, x = points(modes)
    found = output_field("pressure", COMM, velocity, modes, transform, NU)
    np.testing.assert_allclose(found, -(np.cos(2 * x) + np.cos(2 * y)) / 4, atol=1e-15)


def exact_products(fields, modes):
    """Return pressure and transfer, as modes, from products on a grid so fine that nothing aliases."""
    fine = make_modes(tuple(2 * n for n in modes.shape), modes.lengths, "none")
    key = {tuple(mode): place for place, mode in enumerate(fine.mode_key().tolist())}
    places = [key[tuple(mode)] for mode in modes.mode_key().tolist()]
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
    found = products(COMM, fields, modes, WholeTransform(modes))
    np.testing.assert_allclose(found.pressure, pressure, atol=1e-15 * np.abs(pressure).max() * 20)
    shells = Shells(modes)
    expected = np.bincount(shells.of_modes(), transfer, shells.n_shells) / shells.width
    scale = np.abs(expected).sum()
    np.testing.assert_allclose(found.transfer_spectrum, expected, atol=1e-14 * scale)
    assert abs(found.transfer_spectrum.sum()) < 1e-14 * scale, "nonlinear terms keep the energy"


def test_without_dealiasing_products_alias():
    modes = make_modes(SHAPE, LENGTHS, "none")
    fields = random_velocity(modes)
    pressure, _ = exact_products(fields, modes)
    error = products(COMM, fields, modes, WholeTransform(modes)).pressure - pressure
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
        "vorticity_magnitude": np.sqrt((w**2).sum(0)),
        "dissipation": 2 * NU * (strain**2).sum((0, 1)),
        "pressure": exact.to_physical(products(COMM, fields[:3], modes, exact).pressure[None])[0],
        "scalar_0": values[3],
        "scalar_1": values[4],
    }
    assert tuple(expected) == output_names(2)
    small = 1e-5 if dtype == np.complex64 else 1e-13
    for name, field in expected.items():
        found = output_field(name, COMM, fields, modes, WholeTransform(modes, dtype), NU)
        assert found.dtype == np.zeros(0, dtype).real.dtype
        np.testing.assert_allclose(found, field, atol=small * np.abs(field).max(), err_msg=name)
    with pytest.raises(ConfigError, match=r"'scalar_2'.*try scalar_"):
        output_field("scalar_2", COMM, fields, modes, exact, NU)


def test_profiles_have_their_places_and_integrals(modes):
    fields = random_velocity(modes, n_scalars=1)
    d = diagnostics(modes, scalars=(Scalar(0.1),))
    profiles = d.profiles(fields)
    figures = d.series(fields, 0.0)
    for profile in profiles.values():
        (axis,) = profile.dims
        assert profiles[axis].values.shape == profile.values.shape
        assert profile.values.dtype == np.float64
    dk = profiles["k"].values[1]
    assert profiles["energy_spectrum"].values.sum() * dk == pytest.approx(figures["energy"])
    assert profiles["dissipation_spectrum"].values.sum() * dk == pytest.approx(figures["dissipation"])
    ratio, width = profiles["ratio"].values, profiles["ratio_width"].values
    for name in ("dissipation_density", "enstrophy_density"):
        density = profiles[name].values
        assert (density * width).sum() == pytest.approx(1)
        assert (density * width * ratio).sum() == pytest.approx(1, rel=0.01), "relative to the mean"


def test_place_of_a_bad_mode(modes):
    fields = random_velocity(modes, n_scalars=1)
    d = diagnostics(modes, scalars=(Scalar(0.1),))
    assert d.locate_nonfinite(fields) is None
    keys = modes.mode_key()
    for field, name in ((3, "scalar_0"), (1, "velocity_y")):
        for mode in (modes.n_modes - 1, 25):
            fields[field, mode] = complex(0, np.nan)
            jz, jy, jx = keys[mode]
            assert d.locate_nonfinite(fields) == f"{name} at mode j = (z {jz}, y {jy}, x {jx})"
    figures = d.series(fields, 0.1)
    assert all(math.isnan(figures[name]) for name in ("energy", "enstrophy", "scalar_0_variance", "skewness"))


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_everything_is_compiled_beforehand(dtype):
    compile_diagnostics(dtype)
    kernels = [k for m in (mode_sums, point_sums) for k in vars(m).values() if hasattr(k, "signatures")]
    before = {k.__name__: len(k.signatures) for k in kernels}
    assert len(before) == 10
    modes = make_modes((8, 8, 8), CUBE, "phase-shift")
    fields = random_velocity(modes, n_scalars=1).astype(dtype)
    d = diagnostics(modes, dtype, scalars=(Scalar(0.1),))
    d.series(fields, 0.1)
    d.profiles(fields)
    d.locate_nonfinite(fields)
    for name in output_names(1):
        output_field(name, COMM, fields, modes, d.transform, NU)
    assert {k.__name__: len(k.signatures) for k in kernels} == before
