"""The picture of a slab: every particle once, in the right pixels, periodic."""

from itertools import pairwise

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.models.n_body.structure import surface_density

COMM = MPI.COMM_SELF
LENGTHS = (8.0, 6.0, 10.0)  # z, y, x


def test_a_particle_is_shared_by_the_four_pixels_around_it():
    place = np.array([[2.25], [5.75], [3.0]])  # x, y, z
    picture = surface_density(COMM, place, LENGTHS, 2, (0.0, 8.0), (6, 10))
    expected = np.zeros((6, 10))
    expected[5, 2], expected[5, 3] = 0.25 * 0.75, 0.25 * 0.25
    expected[0, 2], expected[0, 3] = 0.75 * 0.75, 0.75 * 0.25
    np.testing.assert_array_equal(picture, expected * 60)
    picture = surface_density(COMM, place, LENGTHS, 0, (2.0, 4.5), (8, 6))  # z, y
    expected = np.zeros((8, 6))
    expected[3, 5], expected[3, 0] = 0.25, 0.75
    np.testing.assert_array_equal(picture, expected * 48 / 0.25)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_slabs_make_up_the_box(axis):
    """Each slab has the particles that are in it; the sums over slabs and pixels are those of all."""
    n = 500
    positions = np.random.default_rng(1).random((3, n)) * np.array(LENGTHS[::-1])[:, None]
    length, cuts = LENGTHS[2 - axis], np.array([0.0, 1.5, 2.0, LENGTHS[2 - axis]])
    whole = surface_density(COMM, positions, LENGTHS, axis, (0.0, length), (7, 9))
    assert whole.mean() == pytest.approx(1.0, rel=1e-14)
    parts = np.zeros((7, 9))
    for begin, end in pairwise(cuts):
        part = surface_density(COMM, positions, LENGTHS, axis, (begin, end), (7, 9))
        inside = (begin <= positions[axis]) & (positions[axis] < end)
        assert part.mean() * (end - begin) / length == pytest.approx(inside.mean(), rel=1e-14)
        parts += part * (end - begin) / length
    np.testing.assert_allclose(parts, whole, rtol=1e-12)


def test_a_lattice_is_even():
    z, y, x = np.indices((8, 6, 10)).reshape(3, -1).astype(float)
    picture = surface_density(COMM, np.stack([x, y, z]), LENGTHS, 1, (0.0, 3.0), (8, 10))
    np.testing.assert_array_equal(picture, 1.0)


def test_the_last_place_of_the_box_is_beside_the_first():
    last = np.nextafter(np.array(LENGTHS[::-1]), 0)[:, None]
    picture = surface_density(COMM, last, LENGTHS, 2, (0.0, 8.0), (6, 10))
    assert picture[0, 0] == 60
    assert picture.sum() == 60
