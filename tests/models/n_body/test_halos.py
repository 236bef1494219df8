"""Friends of friends on one rank: against all distances, at the sides of the box, and what is made of halos."""

import numpy as np
import pytest
from mpi4py import MPI

from halo_toys import LENGTH, chain, clumps, labels_of_all, snake
from ridgeline.models.n_body.halos import (
    Halos,
    Membership,
    friends_of_friends,
    halo_catalogue,
    mass_function,
)
from ridgeline.particles.boxes import even_boxes
from ridgeline.runtime.errors import DecompositionError

COMM = MPI.COMM_SELF
BOXES = even_boxes((0.0,) * 3, (LENGTH,) * 3, np.zeros((1, 1, 1), np.int64), (True, True, True))


def find(positions, linking_length, identities=None):
    identities = np.arange(positions.shape[1]) if identities is None else identities
    return friends_of_friends(COMM, BOXES, positions, identities, linking_length)


@pytest.mark.parametrize("linking_length", [0.1, 0.3, 0.45, 0.9, 2.0])
def test_halos_are_those_of_all_distances(linking_length):
    positions = clumps()
    found = find(positions, linking_length)
    expected = labels_of_all(positions, linking_length)
    np.testing.assert_array_equal(found.halo, expected)
    np.testing.assert_array_equal(found.anchor, positions[:, expected])
    assert 1 < len(np.unique(expected)) < 400 or linking_length == 2.0


def test_identities_name_halos_whatever_the_order():
    positions = clumps()
    order = np.random.default_rng(2).permutation(400)
    expected = labels_of_all(positions, 0.4)
    found = find(positions[:, order], 0.4, order)
    np.testing.assert_array_equal(found.halo, expected[order])
    np.testing.assert_array_equal(find(positions, 0.4, 7 * np.arange(400)).halo, 7 * expected)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_chain_closes_across_the_sides(axis):
    """A ring is one halo even where one link is missing; where two are, it is two."""
    ring = chain(axis, 0.4)
    assert not find(ring, 0.41).halo.any()
    assert not find(ring[:, 1:], 0.41).halo.any()
    cut = np.delete(ring, [5, 15], axis=1)
    assert np.unique(find(cut, 0.41).halo).tolist() == [0, 5]
    assert len(np.unique(find(ring, 0.39).halo)) == 25


def test_links_are_shorter_than_the_linking_length():
    pair = np.array([[1.0, 1.5], [2.0, 2.0], [3.0, 3.0]])
    assert find(pair, 0.5).halo.tolist() == [0, 1]
    assert find(pair, 0.5000001).halo.tolist() == [0, 0]
    across = np.array([[0.25, 9.75], [2.0, 2.0], [3.0, 3.0]])
    assert find(across, 0.5).halo.tolist() == [0, 1]
    assert find(across, 0.5000001).halo.tolist() == [0, 0]


def test_no_particles_and_one():
    nothing = find(np.empty((3, 0)), 0.3)
    assert nothing.halo.shape == (0,)
    halos = halo_catalogue(COMM, BOXES, np.empty((3, 0)), np.empty((3, 0)), nothing, 0, 1)
    assert halos.size.shape == (0,)
    assert halos.centre.shape == (3, 0)
    one = np.full((3, 1), 9.999)
    assert find(one, 0.3).halo.tolist() == [0]
    halos = halo_catalogue(COMM, BOXES, one, 0 * one, find(one, 0.3), 1, 1)
    np.testing.assert_allclose(halos.centre, one)
    np.testing.assert_array_equal(halos.momentum, 0)


def test_a_linking_length_beyond_the_box_is_refused():
    with pytest.raises(DecompositionError, match="which is less than the"):
        find(clumps(), 11.0)


def test_the_catalogue_has_sizes_centres_and_momenta():
    positions = clumps()
    momenta = np.random.default_rng(5).standard_normal((3, 400))
    found = find(positions, 0.35)
    halos = halo_catalogue(COMM, BOXES, positions, momenta, found, 400, least_size=5)
    names, sizes = np.unique(found.halo, return_counts=True)
    large = sizes >= 5
    np.testing.assert_array_equal(halos.identity, names[large])
    np.testing.assert_array_equal(halos.size, sizes[large])
    assert large.sum() >= 5
    wrapped = 0
    for place, name in enumerate(halos.identity):
        members = found.halo == name
        from_first = positions[:, members] - positions[:, [name]]
        from_first -= LENGTH * np.round(from_first / LENGTH)
        centre = (positions[:, name] + from_first.mean(1)) % LENGTH
        np.testing.assert_allclose(halos.centre[:, place], centre, atol=1e-12)
        np.testing.assert_allclose(halos.momentum[:, place], momenta[:, members].mean(1), atol=1e-13)
        wrapped += np.ptp(positions[:, members], axis=1).max() > LENGTH / 2
    assert wrapped >= 1
    assert halos.centre.min() >= 0
    assert halos.centre.max() < LENGTH


def test_a_long_halo_is_one():
    assert not find(snake(), 0.7).halo.any()


def halos_of(sizes):
    sizes = np.array(sizes, np.int64)
    return Halos(np.arange(len(sizes)), sizes, np.zeros((3, len(sizes))), np.zeros((3, len(sizes))))


def test_the_mass_function_counts_every_halo_once():
    sizes = [20, 20, 35, 36, 199, 200, 201, 2000]
    found = mass_function(halos_of(sizes), 1e10, 1e3, least_size=20, bins_per_decade=4)
    np.testing.assert_allclose(found.edges, 20e10 * 10 ** (np.arange(10) / 4))
    assert found.count.tolist() == [3, 1, 0, 1, 2, 0, 0, 0, 1]  # 20 * 10^(1/4) = 35.6; 200 opens a bin
    np.testing.assert_allclose(found.density, found.count / 1e3 * 4)
    empty = mass_function(halos_of([]), 1e10, 1e3)
    assert empty.count.tolist() == [0]


def test_members_of_a_membership_without_friends_are_halos_of_one():
    positions = chain(0, 1.0)
    found = find(positions, 0.5)
    assert isinstance(found, Membership)
    np.testing.assert_array_equal(found.halo, np.arange(10))
