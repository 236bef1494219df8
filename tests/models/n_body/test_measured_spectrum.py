"""The spectrum of particles: shot noise, window and normalisation, by deposits written to be read."""

import math

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.fourier.decomposition import PencilGrid
from ridgeline.fourier.transform import FourierTransform
from ridgeline.fourier.tuning import TransformTuning
from ridgeline.models.n_body.cosmology import Cosmology
from ridgeline.models.n_body.initial import lattice_particles
from ridgeline.models.n_body.power_spectra import power_law
from ridgeline.models.n_body.structure import power_spectrum
from spectral_toys import forward, whole_modes

COMM = MPI.COMM_SELF


def deposit(position, shape, lengths):
    """Density over its mean, cloud in cell, [z, y, x]; position: (3, n), x, y, z."""
    density = np.zeros(math.prod(shape))
    place = position[::-1] / np.array(lengths)[:, None] * np.array(shape)[:, None]
    low = np.floor(place).astype(int)
    part = place - low
    for corner in np.ndindex(2, 2, 2):
        offset = np.array(corner)[:, None]
        weight = np.where(offset, part, 1 - part).prod(0)
        cell = (low + offset) % np.array(shape)[:, None]
        density += np.bincount(np.ravel_multi_index(tuple(cell), shape), weight, density.size)
    return (density * (density.size / position.shape[1])).reshape(shape)


def spectrum_of(position, shape, lengths):
    modes = whole_modes(shape, lengths, "none")
    density = forward(deposit(position, shape, lengths)[None], modes)[0]
    return power_spectrum(COMM, modes, density, position.shape[1])


def test_particles_at_random_have_nothing_but_shot_noise():
    """The mean over many draws is zero at every wavenumber, up to Nyquist, within what the modes allow."""
    shape, lengths, n = (16, 12, 20), (40.0, 30.0, 50.0), 700
    rng = np.random.default_rng(4)
    draws = [
        spectrum_of(rng.random((3, n)) * np.array(lengths[::-1])[:, None], shape, lengths) for _ in range(60)
    ]
    noise = math.prod(lengths) / n
    mean = np.mean([draw.power - draw.shot_noise for draw in draws], axis=0)
    expected = draws[0].shot_noise * np.sqrt(2 / draws[0].modes / len(draws))
    assert (np.abs(mean) < 5 * expected).all()
    np.testing.assert_allclose(draws[0].shot_noise[0], noise, rtol=0.02)
    assert draws[0].shot_noise[-1] > 1.1 * noise  # over W^2


def test_shells_count_all_modes_and_have_their_mean_wavenumber():
    shape, lengths = (12, 12, 12), (2 * np.pi,) * 3
    found = power_spectrum(COMM, (modes := whole_modes(shape, lengths, "none")), np.zeros(modes.n_modes), 10)
    j = np.stack(np.meshgrid(*[np.arange(-5, 6)] * 3)).reshape(3, -1)
    k = np.sqrt((j * j).sum(0))
    shell = np.rint(k)
    assert len(found.modes) == 5  # shell 6 is cut by the planes of Nyquist
    for number, (count, mean) in enumerate(zip(found.modes, found.wavenumber), 1):
        assert count == (shell == number).sum()
        assert mean == pytest.approx(k[shell == number].mean(), rel=1e-12)


def test_a_wave_has_its_power_at_any_place_of_the_grid():
    """delta = A cos(k x) of many particles: volume A^2 / 2, shared by the modes of its shell, the window undone."""
    shape, length, n, amplitude = (12, 12, 32), 32.0, 4000, 0.3
    lengths = (length, length, length)
    for wave in (1, 5):
        k = 2 * np.pi * wave / length
        q = (np.arange(n) + 0.37) / n * length
        x = q.copy()
        for _ in range(60):  # x with the cumulative mass of 1 + A cos(k x)
            x = q - amplitude * np.sin(k * x) / k
        yz = np.stack(np.meshgrid(*[np.arange(12) / 12 * length] * 2)).reshape(2, -1)
        position = np.stack([np.tile(x, 144), *np.repeat(yz, n, axis=1)]) % length
        found = spectrum_of(position, shape, lengths)
        whole = found.power[wave - 1] * found.modes[wave - 1]
        assert whole == pytest.approx(length**3 * amplitude**2 / 2, rel=1e-3)


def test_a_linear_start_has_the_spectrum_that_it_was_drawn_from():
    """Zel'dovich displacements, small: D^2 times the power of the modes that were drawn, within what is nonlinear."""
    shape, lengths = (32, 32, 32), (100.0,) * 3
    grid = PencilGrid(shape, "none", (1, 1), 0)
    transform = FourierTransform(grid, lengths, COMM, np.float64, TransformTuning(effort="estimate"))
    universe, spectrum = Cosmology(0.3), power_law(-1.5, 0.8)
    a = 0.001
    position, *_ = lattice_particles(transform, universe, spectrum, a, 2)
    found = spectrum_of(position, shape, lengths)
    power = found.power / universe.growth(a) ** 2
    low = slice(0, 8)
    scatter = np.sqrt(2 / found.modes[low])
    assert (np.abs(power[low] / spectrum(found.wavenumber[low]) - 1) < 4 * scatter).all()
    transform.free()
