"""Lattice starts on one rank: against formulas, against derivatives by np.fft, and their statistics."""

import math

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.fourier.decomposition import PencilGrid
from ridgeline.fourier.transform import FourierTransform
from ridgeline.fourier.tuning import TransformTuning
from ridgeline.models.n_body.cosmology import Cosmology
from ridgeline.models.n_body.initial import (
    density_modes,
    lattice_particles,
    lattice_points,
    pancake,
    pancake_exact,
)
from ridgeline.models.n_body.power_spectra import bbks, from_table, power_law
from ridgeline.runtime.errors import ConfigError
from spectral_toys import backward, dictionary, mode_keys, whole_modes

EDS, LAMBDA = Cosmology(1.0), Cosmology(0.3)
LENGTHS = (80.0, 100.0, 120.0)
SHAPE = (12, 16, 20)


def make_transform(shape=SHAPE, lengths=LENGTHS, dealias="none"):
    grid = PencilGrid(shape, dealias, (1, 1), 0)
    return FourierTransform(grid, lengths, MPI.COMM_SELF, np.float64, TransformTuning(effort="estimate"))


@pytest.fixture(scope="module")
def transform():
    made = make_transform()
    yield made
    made.free()


def displacement(position, points, lengths):
    """The shortest way from the lattice point, (3, n)."""
    box = np.array(lengths[::-1])[:, np.newaxis]
    return (position - points + box / 2) % box - box / 2


def wave(amplitudes):
    """A spectrum and a density are replaced by given modes: {(j_z, j_y, j_x): delta}."""

    def modes_of(modes, spectrum, seed):
        density = np.zeros(modes.n_modes, complex)
        for place, key in enumerate(map(tuple, mode_keys(modes).tolist())):
            opposite = tuple(-j for j in key)
            density[place] = amplitudes.get(key, np.conj(amplitudes.get(opposite, 0.0)))
        return density

    return modes_of


def test_points_are_numbered_with_x_fastest():
    position, identity = lattice_points(PencilGrid(SHAPE, "none", (1, 1), 0), LENGTHS)
    np.testing.assert_array_equal(identity, np.arange(math.prod(SHAPE)))
    np.testing.assert_allclose(position[:, 1 + 20 * (2 + 16 * 3)], (6.0, 2 * 6.25, 3 * 80 / 12))


@pytest.mark.parametrize("second_order", [False, True])
@pytest.mark.parametrize("universe", [EDS, LAMBDA])
def test_one_wave_is_a_pancake(transform, monkeypatch, universe, second_order):
    """delta = A cos(k y) today crosses where D A = 1; psi2 of one wave is nothing."""
    amplitude, start, crossing = 1 / float(universe.growth(0.4)), 0.05, 0.4
    monkeypatch.setattr("ridgeline.models.n_body.initial.density_modes", wave({(0, 2, 0): amplitude / 2}))
    found = lattice_particles(transform, universe, power_law(-1, 1.0), start, 1, second_order)
    expected = pancake(transform.grid, LENGTHS, universe, start, crossing, axis=1, waves=2)
    moved = displacement(found[0], expected[0], LENGTHS)
    np.testing.assert_allclose(moved, 0, atol=1e-12)
    np.testing.assert_allclose(found[1], expected[1], atol=1e-13)
    np.testing.assert_array_equal(found[2], expected[2])
    assert np.abs(expected[1][1]).max() > 0.1
    assert not expected[1][[0, 2]].any()


def test_two_waves_have_the_second_order_by_hand(transform, monkeypatch):
    """delta = A cos(k x) + B cos(l z): phi1,xx phi1,zz = A B cos cos is the only product."""
    a, b, start = 0.8, 1.1, 0.2
    monkeypatch.setattr(
        "ridgeline.models.n_body.initial.density_modes", wave({(0, 0, 3): a / 2, (1, 0, 0): b / 2})
    )
    k, m = 3 * 2 * np.pi / LENGTHS[2], 2 * np.pi / LENGTHS[0]
    points, _ = lattice_points(transform.grid, LENGTHS)
    x, _, z = points
    potential = a * b / (k * k + m * m)  # phi2 = -potential cos cos
    psi2 = potential * np.stack([k * np.sin(k * x) * np.cos(m * z), 0 * x, m * np.cos(k * x) * np.sin(m * z)])
    for universe in (EDS, LAMBDA):
        first = lattice_particles(transform, universe, power_law(-1, 1.0), start, 1, second_order=False)
        both = lattice_particles(transform, universe, power_law(-1, 1.0), start, 1)
        growth, rate = universe.second_growth(start), universe.second_growth_rate(start)
        moved = displacement(both[0], first[0], LENGTHS)
        np.testing.assert_allclose(moved, growth * psi2, atol=1e-12)
        speed = start**2 * universe.expansion_rate(start)
        np.testing.assert_allclose(both[1] - first[1], speed * rate * growth * psi2, atol=1e-13)
    np.testing.assert_allclose(EDS.second_growth(start) * EDS.second_growth_rate(start), -6 / 7 * start**2)


def test_displacements_of_a_random_start_are_those_of_numpy(transform):
    """psi1 and psi2 from whole arrays: derivatives by np.fft, products point by point."""
    spectrum, start = bbks(LAMBDA, 0.96, 0.8), 0.1
    modes = whole_modes(SHAPE, LENGTHS, "none")
    density = density_modes(modes, spectrum, 5)
    kz, ky, kx = modes.expand()
    k, square = (kx, ky, kz), kx**2 + ky**2 + kz**2
    scaled = np.where(square > 0, density / np.where(square > 0, square, 1), 0)

    def field(values):
        return backward(values[np.newaxis], modes)[0]

    def psi(modes_of_laplacian, sign):
        return np.stack([field(sign * 1j * component * modes_of_laplacian).ravel() for component in k])

    tide = [[field(a * b * scaled) for b in k] for a in k]
    source = sum(tide[i][i] * tide[j][j] - tide[i][j] ** 2 for i, j in ((0, 1), (0, 2), (1, 2)))
    jz, jy, jx = modes.lines.expand()
    second = np.fft.rfftn(source, norm="forward")[jz, jy, jx]
    psi1 = psi(scaled, 1)
    psi2 = psi(np.where(square > 0, second / np.where(square > 0, square, 1), 0), -1)
    position, momentum, _ = lattice_particles(transform, LAMBDA, spectrum, start, 5)
    points, _ = lattice_points(transform.grid, LENGTHS)
    d, d2 = LAMBDA.growth(start), LAMBDA.second_growth(start)
    np.testing.assert_allclose(displacement(position, points, LENGTHS), d * psi1 + d2 * psi2, atol=1e-12)
    speed = start**2 * LAMBDA.expansion_rate(start)
    rates = LAMBDA.growth_rate(start) * d * psi1 + LAMBDA.second_growth_rate(start) * d2 * psi2
    np.testing.assert_allclose(momentum, speed * rates, atol=1e-13)
    assert position.min() >= 0
    assert (position < np.array(LENGTHS[::-1])[:, np.newaxis]).all()
    np.testing.assert_allclose(momentum.sum(1), 0, atol=1e-9 * np.abs(momentum).sum())


def test_a_finer_lattice_has_the_modes_of_a_coarser_one():
    spectrum = bbks(LAMBDA, 1.0, 0.8)
    coarse = whole_modes((8, 10, 12), LENGTHS, "none")
    fine = whole_modes((16, 20, 30), LENGTHS, "none")
    some = dictionary(density_modes(coarse, spectrum, 3)[np.newaxis], coarse)
    more = dictionary(density_modes(fine, spectrum, 3)[np.newaxis], fine)
    assert some.keys() < more.keys()
    assert all(some[key] == more[key] for key in some)
    other = dictionary(density_modes(coarse, spectrum, 4)[np.newaxis], coarse)
    assert sum(some[key] != other[key] for key in some) == len(some) - 1


def test_modes_are_those_of_a_real_field_with_the_spectrum():
    """Both of a pair are conjugates; |delta|^2 volume / P is 1 on average, and its square 2: a Gaussian field."""
    modes = whole_modes((32, 32, 32), (50.0, 50.0, 50.0), "none")
    spectrum = power_law(-1.0, 1.0)
    density = density_modes(modes, spectrum, 9)
    by_key = dictionary(density[np.newaxis], modes)
    for (jz, jy, jx), value in by_key.items():
        if jx == 0:
            assert value[0] == np.conj(by_key[-jz, -jy, 0][0])
    assert by_key[0, 0, 0] == 0
    k = np.sqrt(sum(component**2 for component in modes.expand()))
    there = (k > 0) & (modes.weight() == 2)
    ratio = np.abs(density[there]) ** 2 * 50.0**3 / spectrum(k[there])
    assert abs(ratio.mean() - 1) < 4 / np.sqrt(there.sum())
    assert abs((ratio**2).mean() - 2) < 4 * np.sqrt(20 / there.sum())


@pytest.mark.parametrize("universe", [EDS, LAMBDA])
def test_the_exact_pancake_obeys_its_equation(universe):
    """x'' from p along time is the force of the density between the sheet and where it began."""
    q = np.linspace(0, 30.0, 41)
    crossing, a, da = 0.9, 0.5, 1e-5
    now, p = pancake_exact(q, 30.0, universe, a, crossing, waves=2)
    before, p_before = pancake_exact(q, 30.0, universe, a - da, crossing, waves=2)
    after, p_after = pancake_exact(q, 30.0, universe, a + da, crossing, waves=2)
    speed = a * universe.expansion_rate(a)  # da / dt
    np.testing.assert_allclose(p, a**2 * speed * (after - before) / (2 * da), atol=1e-8)
    # grad phi = 1.5 Omega_m (mass passed - mean density x) = 1.5 Omega_m (q - x); dp / dt = -grad phi / a
    force = -1.5 * universe.omega_m * (q - now) / a
    np.testing.assert_allclose(speed * (p_after - p_before) / (2 * da), force, atol=1e-8)
    late, _ = pancake_exact(q, 30.0, universe, crossing, crossing, waves=2)
    assert (np.diff(late) > -1e-12).all()


def test_a_pancake_cannot_start_after_its_crossing(transform):
    for start in (0.0, 0.5, 0.7, math.nan):
        with pytest.raises(ConfigError, match=r"cross at 0\.5"):
            pancake(transform.grid, LENGTHS, EDS, start, 0.5)


def test_a_table_that_is_too_short_is_refused(transform, tmp_path):
    path = tmp_path / "short"
    path.write_text("0.1 1\n0.2 2\n")
    with pytest.raises(ConfigError, match="Use a longer table"):
        lattice_particles(transform, EDS, from_table(path), 0.02, 1)
