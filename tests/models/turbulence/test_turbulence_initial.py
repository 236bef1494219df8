"""Initial fields: their formulas, their spectra, isotropy, realisability, and independence of the grid."""

import math

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.fourier.modes import Shells
from ridgeline.models.turbulence import initial
from ridgeline.models.turbulence.passes import HostPasses
from ridgeline.models.turbulence.reference import Wavenumbers, from_ragged
from ridgeline.models.turbulence.settings import TurbulenceCase
from ridgeline.models.turbulence.spectra import largest_sphere, sum_over_modes
from ridgeline.runtime.errors import ConfigError
from spectral_toys import mode_keys, shell_of_modes
from turbulence_tools import CUBE, all_modes, divergence
from whole_box import WholeTransform

COMM = MPI.COMM_SELF
LENGTHS = (2.0, 3.0, 5.0)
SPECTRA = ["power-law", "von-karman-pao", "comte-bellot-corrsin"]


def make_case(
    shape=(32, 32, 32), dealias="phase-shift", lengths=CUBE, scalars=(), seed=3, precision="float64", **keys
):
    return TurbulenceCase.model_validate(
        {
            "run": {"model": "turbulence", "steps": 1, "seed": seed, "precision": precision},
            "grid": {"shape": list(shape), "lengths": list(lengths)},
            "model": {"viscosity": 0.01, "dt": 0.01, "dealias": dealias},
            "initial": {"kind": "spectrum", **keys},
            "scalar": [{"schmidt": 1.0, "variance": v} for v in scalars],
        }
    )


def draw(**settings):
    """A case's initial fields and modes, on one rank."""
    case = make_case(**settings)
    modes = all_modes(case.grid.shape, case.model.dealias, case.grid.lengths)
    dtype = np.complex64 if case.run.precision == "float32" else np.complex128
    fields = np.full((3 + len(case.scalar), modes.n_modes), np.nan, dtype)
    initial.set_initial_modes(fields, case, modes, None, None, COMM, None)
    return fields, modes, case


def points(fields, modes):
    """Values of the fields [n, z, y, x] and the points' coordinates x, y, z."""
    values = Wavenumbers(modes).to_physical(from_ragged(fields, modes.lines, modes.shape), np.zeros(3))
    z, y, x = np.meshgrid(
        *(length * np.arange(n) / n for length, n in zip(modes.lengths, modes.shape)), indexing="ij"
    )
    return values, x, y, z


@pytest.mark.parametrize("waves", [1, 2])
def test_taylor_green_is_its_formula(waves):
    fields, modes, _ = draw(
        kind="taylor_green", velocity=1.5, waves=waves, shape=(8, 12, 10), lengths=LENGTHS
    )
    (u, v, w), x, y, z = points(fields, modes)
    x, y, z = (2 * np.pi * waves * c / length for c, length in zip((x, y, z), LENGTHS[::-1]))
    np.testing.assert_allclose(u, 1.5 * np.sin(x) * np.cos(y) * np.cos(z), atol=1e-14)
    np.testing.assert_allclose(v, -1.5 * 3 / 5 * np.cos(x) * np.sin(y) * np.cos(z), atol=1e-14)
    np.testing.assert_array_equal(w, 0)
    assert divergence(fields, modes) <= 1e-15


def test_two_dimensional_taylor_green_is_its_formula():
    fields, modes, _ = draw(kind="taylor_green_2d", velocity=2.0, shape=(4, 12, 10))
    (u, v, w), x, y, _ = points(fields, modes)
    np.testing.assert_allclose(u, 2 * np.sin(x) * np.cos(y), atol=1e-14)
    np.testing.assert_allclose(v, -2 * np.cos(x) * np.sin(y), atol=1e-14)
    np.testing.assert_array_equal(w, 0)


def test_abc_is_its_formula():
    a, b, c = 1.0, 0.7, -0.4
    fields, modes, _ = draw(kind="abc", A=a, B=b, C=c, waves=2, shape=(12, 16, 12))
    (u, v, w), x, y, z = points(fields, modes)
    np.testing.assert_allclose(u, a * np.sin(2 * z) + c * np.cos(2 * y), atol=1e-14)
    np.testing.assert_allclose(v, b * np.sin(2 * x) + a * np.cos(2 * z), atol=1e-14)
    np.testing.assert_allclose(w, c * np.sin(2 * y) + b * np.cos(2 * x), atol=1e-14)


def test_waves_that_the_grid_does_not_hold_are_refused():
    with pytest.raises(ConfigError, match=r"initial.waves = 3 .* \[8, 8, 8\]"):
        draw(kind="taylor_green", waves=3, shape=(8, 8, 8), dealias="two-thirds")


@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize("dealias", ["phase-shift", "two-thirds"])
@pytest.mark.parametrize("lengths", [CUBE, (2 * math.pi, 4 * math.pi, 3 * math.pi)], ids=["cube", "brick"])
def test_spectrum_drawn_is_the_one_asked_for_in_every_shell(spectrum, dealias, lengths):
    fields, modes, case = draw(
        spectrum=spectrum,
        dealias=dealias,
        lengths=lengths,
        shape=(24, 32, 20),
        energy=2.5,
        scalars=(0.5, 3.0),
    )
    shells = Shells(modes)
    sums = sum_over_modes(COMM, fields, HostPasses(modes, WholeTransform(modes)))
    energies = initial.shell_energies(case, modes, 2.5)
    k = shells.wavenumbers
    filled = energies > 0
    asked = initial.initial_spectrum(case.initial, k[filled], modes)
    np.testing.assert_allclose(energies[filled] / energies[filled][0], asked / asked[0], rtol=1e-14)
    assert k[filled][0] == shells.width
    assert k[filled][-1] + 1.5 * shells.width > largest_sphere(modes)
    np.testing.assert_allclose(sums.energy_spectrum * shells.width, energies, rtol=1e-12, atol=1e-300)
    assert sums.energy == pytest.approx(2.5, rel=1e-13)
    for spectrum_of_scalar, variance in zip(sums.scalar_spectra, (0.5, 3.0)):
        np.testing.assert_allclose(
            spectrum_of_scalar * shells.width, energies * (variance / 2.5), rtol=1e-12, atol=1e-300
        )


def test_random_velocity_is_solenoidal_real_and_of_zero_mean():
    fields, modes, _ = draw(shape=(20, 24, 16), lengths=LENGTHS, peak_wavenumber=6.0, scalars=(1.0,))
    assert divergence(fields, modes) <= 1e-15
    array = from_ragged(fields, modes.lines, modes.shape)
    mirrored = np.roll(array[:, ::-1, ::-1, ::-1], 1, axis=(1, 2, 3))
    np.testing.assert_array_equal(array, mirrored.conj())
    assert not array[:, 0, 0, 0].any()


def test_random_velocity_is_isotropic():
    """No component, direction or handedness is preferred, to the sampling error of some 6000 modes."""
    fields, modes, _ = draw()
    filled = np.abs(fields).max(0) > 0
    k = np.stack(modes.expand()[::-1])[:, filled]
    k_unit = k / np.sqrt((k * k).sum(0))
    vectors = fields[:, filled] / np.sqrt((np.abs(fields[:, filled]) ** 2).sum(0))
    n = vectors.shape[1]
    assert n > 5000
    error = 5 / math.sqrt(n)  # five times the standard deviation of a mean, if that of one value is 1

    def mean(values):
        return np.average(values, weights=modes.weight()[filled], axis=-1)

    np.testing.assert_allclose(mean(np.abs(vectors) ** 2), 1 / 3, atol=error / 3)
    np.testing.assert_allclose(mean((vectors * np.roll(vectors, 1, 0).conj()).real), 0, atol=error / 3)
    helicity = (vectors.conj() * 1j * np.cross(k_unit, vectors, axis=0)).sum(0).real
    assert abs(mean(helicity)) <= error
    np.testing.assert_allclose(
        mean(np.abs(k_unit * vectors) ** 2), 1 / 15, atol=error / 10
    )  # <(du_i/dx_i)^2>
    np.testing.assert_allclose(mean(vectors), 0, atol=error)


def test_random_velocity_is_realisable_and_nearly_normal():
    """|u_hat_i|^2 within the energy of the mode; values at points like sums of many modes."""
    fields, modes, case = draw(peak_wavenumber=5.0, slope=-1.0, energy=1.5)
    energies = initial.shell_energies(case, modes, 1.5)
    shell = shell_of_modes(Shells(modes))
    share = 2 * energies / initial.modes_in_shells(modes, COMM)
    assert ((np.abs(fields) ** 2).sum(0) <= share[shell] * (1 + 1e-12)).all()
    velocity, *_ = points(fields, modes)
    assert np.abs(velocity.mean((1, 2, 3))).max() <= 1e-14
    np.testing.assert_allclose((velocity**2).mean((1, 2, 3)), 1.0, rtol=0.15)
    flatness = (velocity**4).mean((1, 2, 3)) / (velocity**2).mean((1, 2, 3)) ** 2
    np.testing.assert_allclose(flatness, 3.0, atol=0.3)


def test_modes_of_two_grids_have_the_same_phases():
    small, small_modes, _ = draw(shape=(16, 12, 20), scalars=(1.0,))
    large, large_modes, _ = draw(shape=(32, 32, 32), scalars=(1.0,))
    place = {tuple(key): i for i, key in enumerate(mode_keys(large_modes).tolist())}
    common = [place[tuple(key)] for key in mode_keys(small_modes).tolist()]
    filled = np.abs(small[3]) > 0
    assert filled.sum() > 100
    # The share of the total energy that the small grid leaves out scales all of it alike.
    first = np.flatnonzero(filled)[0]
    ratio = (small[3, first] / large[3, common[first]]).real
    np.testing.assert_allclose(small[:, filled], ratio * large[:, common][:, filled], rtol=1e-12, atol=1e-16)


def test_seeds_and_scalars_have_numbers_of_their_own():
    one, modes, _ = draw(scalars=(1.0, 1.0))
    again, _, _ = draw(scalars=(1.0, 1.0))
    other, _, _ = draw(scalars=(1.0, 1.0), seed=4)
    np.testing.assert_array_equal(one, again)
    filled = np.abs(one[3]) > 0
    for a, b in ((one[0], other[0]), (one[3], one[4]), (one[3], other[3])):
        correlation = (a[filled] * b[filled].conj()).real.sum() / (
            np.abs(a[filled]) * np.abs(b[filled])
        ).sum()
        assert abs(correlation) < 0.1
    assert modes.n_modes == len(one[0])


def test_single_precision_rounds_the_same_numbers():
    single, _, _ = draw(precision="float32", scalars=(1.0,))
    double, _, _ = draw(scalars=(1.0,))
    assert single.dtype == np.complex64
    np.testing.assert_array_equal(single, double.astype(np.complex64))


def test_scalars_without_variance_start_from_zero():
    fields, _, _ = draw(kind="taylor_green", scalars=(0.0, 1.0))
    assert not fields[3].any()
    assert np.abs(fields[4]).max() > 0


def test_a_spectrum_without_energy_on_the_grid_is_refused():
    with pytest.raises(ConfigError, match=r"no energy in the shells .* finer grid"):
        draw(spectrum="von-karman-pao", kolmogorov_length=1e6, peak_wavenumber=1.0)


def test_comte_bellot_corrsin_is_its_table():
    k = np.array([0.2, 1.0, 20.0])
    np.testing.assert_allclose(initial.comte_bellot_corrsin(k, 42), [129, 270, 0.8], rtol=1e-13)
    np.testing.assert_allclose(initial.comte_bellot_corrsin(k[1:2], 171), [39.4], rtol=1e-13)
    between = initial.comte_bellot_corrsin(np.array([math.sqrt(8.0)]), 98)
    assert 23.1 < between[0] < 28.6
    low, high = initial.comte_bellot_corrsin(np.array([0.1, 25.0]), 42)
    assert low == pytest.approx(129 * (230 / 129) ** (math.log(0.5) / math.log(1.25)), rel=1e-12)
    assert high == pytest.approx(0.8 * (0.8 / 1.34) ** (math.log(1.25) / math.log(20 / 17.5)), rel=1e-12)
    fine = np.geomspace(0.2, 20, 4001)
    variance = 2 / 3 * np.trapezoid(initial.comte_bellot_corrsin(fine, 42), fine)
    assert math.sqrt(variance) == pytest.approx(22.2, rel=0.05)  # u' that the paper gives, cm/s


def test_von_karman_pao_has_its_maximum_and_its_inertial_range():
    k = np.geomspace(1e-2, 1e4, 20001)
    no_cut_off = initial.von_karman_pao(k, 3.0, 0.0)
    assert k[no_cut_off.argmax()] == pytest.approx(3.0, rel=1e-3)
    slope = np.gradient(np.log(no_cut_off), np.log(k))
    assert slope[0] == pytest.approx(4, abs=1e-3)
    assert slope[-1] == pytest.approx(-5 / 3, abs=1e-3)
    cut = initial.von_karman_pao(np.array([100.0]), 3.0, 0.01) / initial.von_karman_pao(
        np.array([100.0]), 3.0, 0.0
    )
    assert cut[0] == pytest.approx(math.exp(-2.25))
