"""Figures of spectral fields, against plain NumPy on whole arrays and against known flows."""

import math

import numpy as np
import pytest

from ridgeline.fourier.modes import Shells
from ridgeline.jit.kernel import compile_kernels
from ridgeline.models.turbulence import kernels_diagnostics
from ridgeline.models.turbulence.diagnostics import Diagnostics, ScalarParameters, kernels_of_diagnostics
from ridgeline.models.turbulence.passes import HostPasses
from ridgeline.models.turbulence.problem import FlowParameters
from ridgeline.models.turbulence.recorders import output_field, output_names
from ridgeline.models.turbulence.spectra import largest_sphere, sum_over_modes
from spectral_toys import mode_keys, shell_of_modes
from whole_box import (
    COMM,
    WholeTransform,
    beltrami,
    curl,
    derivative,
    gradient,
    make_modes,
    mean,
    points,
    random_velocity,
    taylor_green,
    wavevector,
)

SHAPE = (24, 32, 20)
LENGTHS = (2 * math.pi, 3.0, 7.5)  # L_z, L_y, L_x
CUBE = (2 * math.pi,) * 3
DEALIAS = ("phase-shift", "two-thirds", "none")
NU = 0.03


@pytest.fixture(params=DEALIAS)
def modes(request):
    return make_modes(SHAPE, LENGTHS, request.param)


def diagnostics(modes, dtype=complex, viscosity=NU, scalars=()) -> Diagnostics:
    return Diagnostics(COMM, HostPasses(modes, WholeTransform(modes, dtype)), viscosity, scalars)


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
    figures = diagnostics(
        modes, scalars=(ScalarParameters(0.02), ScalarParameters(0.5, (1.0, -2.0, 0.25)))
    ).mode_figures(fields)
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
    sums = sum_over_modes(COMM, fields, HostPasses(modes, WholeTransform(modes)))
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
    expected = np.bincount(shell_of_modes(shells), energy, shells.n_shells) / shells.width
    np.testing.assert_allclose(
        sum_over_modes(COMM, fields, HostPasses(modes, WholeTransform(modes))).energy_spectrum,
        expected,
        rtol=1e-13,
    )


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
    kernels_diagnostics.sum_modes(
        fields, lines.start, modes.kz, modes.kx, modes.line_weight, *arguments, whole, shells
    )
    cut = lines.n_lines // 3
    for first, end in ((0, cut), (cut, lines.n_lines)):
        part = slice(first, end)
        start = lines.start[first : end + 1] - lines.start[first]
        mine = np.ascontiguousarray(fields[:, lines.start[first] : lines.start[end]])
        of_lines = np.empty((14, end - first))
        per_line = modes.kz[part], modes.kx[part], modes.line_weight[part]
        kernels_diagnostics.sum_modes(mine, start, *per_line, *arguments, of_lines, shells)
        halves[:, part] = of_lines
    np.testing.assert_array_equal(halves, whole)


def test_taylor_green_vortex_at_the_start():
    modes, transform, velocity, _ = given(taylor_green)
    figures = Diagnostics(COMM, HostPasses(modes, transform), NU).series(velocity, dt=0.01)
    assert figures["energy"] == pytest.approx(1 / 8, rel=1e-14)
    assert figures["enstrophy"] == pytest.approx(3 / 8, rel=1e-14)
    assert figures["dissipation"] == pytest.approx(2 * NU * 3 / 8, rel=1e-14)
    assert figures["helicity"] == pytest.approx(0, abs=1e-15)
    assert figures["energy_z"] == 0
    assert figures["skewness"] == pytest.approx(0, abs=1e-14)
    # du/dx = cos x cos y cos z, dv/dy = -du/dx, dw/dz = 0: <g^4> / <g^2>^2 = 2/3 (3/8)^3 / (2/3 (1/2)^3)^2
    assert figures["flatness"] == pytest.approx(2 / 3 * (3 / 8) ** 3 / (2 / 3 / 8) ** 2, rel=1e-12)
    spectrum = sum_over_modes(COMM, velocity, HostPasses(modes, transform)).energy_spectrum
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
    d = diagnostics(modes, viscosity=viscosity, scalars=(ScalarParameters(0.1),))
    assert all(value == 0 for name, value in d.series(fields, dt=0.1).items() if name != "dt")
    assert all((profile.values == 0).all() for n, profile in d.profiles(fields).items() if "spectrum" in n)


def test_profiles_have_their_places_and_integrals(modes):
    fields = random_velocity(modes, n_scalars=1)
    d = diagnostics(modes, scalars=(ScalarParameters(0.1),))
    profiles = d.profiles(fields)
    figures = d.series(fields, 0.0)
    for profile in profiles.values():
        (axis,) = profile.dims
        assert profiles[axis].values.shape == profile.values.shape
        assert profile.values.dtype == np.float64
    dk = profiles["k"].values[1]
    assert profiles["energy_spectrum"].values.sum() * dk == pytest.approx(figures["energy"])
    assert profiles["dissipation_spectrum"].values.sum() * dk == pytest.approx(figures["dissipation"])
    flux, transfer = profiles["energy_flux"].values, profiles["transfer_spectrum"].values
    np.testing.assert_allclose(np.diff(flux), -transfer[1:] * dk, atol=1e-14 * np.abs(flux).max())
    if modes.dealias != "none":
        assert abs(flux[-1]) <= 1e-13 * np.abs(flux).max()
    ratio, width = profiles["ratio"].values, profiles["ratio_width"].values
    for name in ("dissipation_density", "enstrophy_density"):
        density = profiles[name].values
        assert (density * width).sum() == pytest.approx(1)
        assert (density * width * ratio).sum() == pytest.approx(1, rel=0.01), "relative to the mean"


def test_place_of_a_bad_mode(modes):
    fields = random_velocity(modes, n_scalars=1)
    d = diagnostics(modes, scalars=(ScalarParameters(0.1),))
    assert d.locate_nonfinite(fields) is None
    keys = mode_keys(modes)
    for field, name in ((3, "scalar_0"), (1, "velocity_y")):
        for mode in (modes.n_modes - 1, 25):
            fields[field, mode] = complex(0, np.nan)
            jz, jy, jx = keys[mode]
            assert d.locate_nonfinite(fields) == f"{name} at mode j = (z {jz}, y {jy}, x {jx})"
    figures = d.series(fields, 0.1)
    assert all(math.isnan(figures[name]) for name in ("energy", "enstrophy", "scalar_0_variance", "skewness"))


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_everything_is_compiled_beforehand(dtype):
    compile_kernels(kernels_of_diagnostics(dtype))
    kernels = [k for k in vars(kernels_diagnostics).values() if hasattr(k, "signatures")]
    before = {k.__name__: len(k.signatures) for k in kernels}
    assert len(before) == 14
    modes = make_modes((8, 8, 8), CUBE, "phase-shift")
    fields = random_velocity(modes, n_scalars=1).astype(dtype)
    d = diagnostics(modes, dtype, scalars=(ScalarParameters(0.1),))
    d.series(fields, 0.1)
    d.profiles(fields)
    d.locate_nonfinite(fields)
    for name in output_names(1):
        output_field(name, COMM, fields, d.passes, FlowParameters(NU))
    assert {k.__name__: len(k.signatures) for k in kernels} == before
