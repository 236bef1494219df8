"""The force that the mesh lacks: its fit, beside the mesh itself, beside HACC's numbers, and its potential."""

import numpy as np
import pytest

from ridgeline.models.n_body.force_law import Filter, filter_factor, force_law, influence, mesh_force, slope

# Public: the polynomial of HACC's kernel for short-range forces, in Argonne's micro-benchmark HACCmk.
HACC = (0.269327, -0.0750978, 0.0114808, -0.00109313, 0.0000605491, -0.00000147177)


def test_green_function_is_newtons_to_sixth_order_and_the_derivative_to_fourth() -> None:
    k = np.array([0.2, 0.4])
    zero = np.zeros(2)
    for axes in ((k, zero, zero), (k / np.sqrt(3),) * 3, (k * 0.6, k * 0.8, zero)):
        error = np.abs(influence(*axes) * k**2 + 1)
        assert error[1] < 2e-5
        assert error[1] / error[0] == pytest.approx(2**6, rel=0.05)
    error = np.abs(slope(k) / k - 1)
    assert error[1] / error[0] == pytest.approx(2**4, rel=0.05)
    assert influence(zero, zero, zero)[0] == 0


def test_filter_is_the_papers() -> None:
    """exp(-k^2 sigma^2 / 4) [(2 / k) sin(k / 2)]^n_s, 1 where k = 0."""
    k = np.array([1e-9, 1.0, np.pi])
    for width, power in ((0.8, 3), (1.2, 0), (0.0, 2)):
        expected = np.exp(-(k**2) * width**2 / 4) * (2 / k * np.sin(k / 2)) ** power
        np.testing.assert_allclose(filter_factor(k**2, Filter(width, power)), expected, rtol=1e-14)


def cloud_corners(place, n):
    """Points and weights of a cloud at a place [3]."""
    first = np.floor(place).astype(int)
    part = place - first
    for corner in np.ndindex(2, 2, 2):
        yield tuple((first + corner) % n), np.prod(np.where(corner, part, 1 - part))


def measured_forces(source, places, n, of):
    """Forces [m, 3] at places [m, 3] towards a particle of strength 1, by a mesh of n^3 cells, in NumPy alone."""
    k = 2 * np.pi * np.fft.fftfreq(n)
    axes = np.meshgrid(k, k, k, indexing="ij")
    mass = np.zeros((n, n, n))
    for point, weight in cloud_corners(source, n):
        mass[point] += weight
    inside = np.logical_and.reduce([np.abs(each) < np.pi - 1e-9 for each in axes])
    phi = (
        4
        * np.pi
        * influence(*axes)
        * filter_factor(sum(a * a for a in axes), of)
        * inside
        * np.fft.fftn(mass)
    )
    fields = [np.fft.ifftn(-1j * slope(each) * phi).real for each in axes]
    return np.array(
        [
            [sum(w * field[point] for point, w in cloud_corners(place, n)) for field in fields]
            for place in places
        ]
    )


def test_the_mean_force_is_what_a_mesh_has_over_places_and_directions() -> None:
    random = np.random.default_rng(2)
    n, of, distances = 32, Filter(), np.array([0.7, 2.0, 3.2, 5.0])
    found = np.zeros((12, len(distances)))
    for row in found:
        source = n / 2 + random.uniform(0, 1, 3)
        # Opposite directions along three orthogonal axes have less scatter than random ones.
        frame = np.linalg.qr(random.normal(size=(3, 3)))[0]
        towards = np.concatenate([frame, -frame])
        places = source + distances[:, None, None] * towards
        forces = measured_forces(source, places.reshape(-1, 3), n, of).reshape(places.shape)
        row[:] = -(forces * towards).sum(-1).mean(1)
    mean = found.mean(0) + 4 * np.pi / 3 * distances / n**3  # without the uniform background
    error = found.std(0) / np.sqrt(len(found))
    expected = mesh_force(distances, of)
    assert (np.abs(mean - expected) < 4 * error + 1e-4 * expected).all()
    assert (error < 0.02 * expected).all()


def test_the_matching_error_is_stated_and_below_half_a_percent() -> None:
    law = force_law(3.2, 0.1, Filter())
    assert law.error < 0.005
    r = np.linspace(0.3, 7, 300)
    total = r * law(r * r) + mesh_force(r, Filter())
    softened = np.where(r < law.radius, r * (r * r + law.softening**2) ** -1.5, r**-2)
    assert np.abs(total - softened).max() > 1e-5
    assert (np.abs(total - softened) * r * r).max() == pytest.approx(law.error, rel=0.05)
    assert force_law(2.5, 0.1, Filter()).error > 0.05, "two and a half cells are too few, and that is said"
    assert force_law(4.0, 0.1, Filter()).error < 0.004


def test_the_polynomial_is_near_haccs() -> None:
    """Beside Newton's force, from 0.2 cells to the matching radius: HACC's was fitted to samples of its own mesh."""
    ours = np.polynomial.Polynomial(force_law(3.2, 0.1, Filter()).coefficients)
    r = np.linspace(0.2, 3.1, 100)
    theirs = np.polynomial.Polynomial(HACC)(r * r)
    assert (np.abs(ours(r * r) - theirs) * r**3).max() < 0.02


def test_the_potential_has_the_force_for_its_slope() -> None:
    law = force_law(3.2, 0.2, Filter())
    r, h = np.linspace(0.05, 3.1, 40), 1e-5
    slope_of = (law.potential((r + h) ** 2) - law.potential((r - h) ** 2)) / (2 * h)
    np.testing.assert_allclose(slope_of, r * law(r * r), rtol=1e-6, atol=1e-7)
    assert law.potential(np.array([3.2**2]))[0] == 0
