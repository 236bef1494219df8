"""The particles of one rank: growing, leaving and coming, sorting along the curve."""

import numpy as np
import pytest

from ridgeline.particles.particles import BITS, ParticleField, Particles, morton_keys, sort_along_curve

FIELDS = {"mass": ParticleField(np.float32), "velocity": ParticleField(np.float64, 3)}


def particles_with(identities):
    """Particles whose fields follow from their identities."""
    identity = np.asarray(identities, np.int64)
    found = Particles(FIELDS)
    found.add(
        {
            "identity": identity,
            "position": identity + np.array([[0.0], [0.25], [0.5]]),
            "mass": identity.astype(np.float32),
            "velocity": -identity * np.ones((3, 1)),
        }
    )
    return found


def assert_whole(particles, identities):
    """Every field is that of the particle's identity."""
    identity = particles.identity
    assert sorted(identity) == sorted(identities)
    np.testing.assert_array_equal(particles.position, identity + np.array([[0.0], [0.25], [0.5]]))
    np.testing.assert_array_equal(particles["mass"], identity)
    np.testing.assert_array_equal(particles["velocity"], -identity * np.ones((3, 1)))


def test_fields_grow_with_room_to_spare():
    particles = particles_with(range(10))
    capacity = particles.capacity
    assert capacity > 10
    assert particles.n == 10
    particles.add({name: particles[name][..., :0] for name in particles.fields})
    assert particles.capacity == capacity
    assert particles.bytes_each == 8 + 24 + 4 + 24
    assert all(row.flags.c_contiguous for row in particles.rows())
    assert_whole(particles, range(10))


@pytest.mark.parametrize(
    ("leave", "come"), [([], 0), ([0, 4, 9], 0), ([1, 2], 5), ([0, 3, 8, 9], 1), (range(10), 2)]
)
def test_leaving_and_coming_keep_every_particle_whole(leave, come):
    particles = particles_with(range(10))
    places = particles.replace(np.array(leave, np.int64), come)
    assert len(places) == come
    assert particles.n == 10 - len(leave) + come
    new = particles_with(range(100, 100 + come))
    for row, other in zip(particles.rows(), new.rows(), strict=True):
        row[places] = other
    assert_whole(particles, [*set(range(10)) - set(leave), *range(100, 100 + come)])


def test_wrong_fields_are_refused():
    with pytest.raises(ValueError, match="4 or 8 bytes, unlike flag"):
        Particles({"flag": ParticleField(np.int8)})
    with pytest.raises(ValueError, match="must have the fields identity, position, mass"):
        particles_with([1]).add({"identity": np.zeros(1, np.int64)})


def interleaved(x, y, z):
    """Morton's key by its definition."""
    return sum(
        ((c >> bit) & 1) << (3 * bit + axis) for axis, c in enumerate((x, y, z)) for bit in range(BITS)
    )


def test_morton_keys_interleave_the_bits_of_cells():
    rng = np.random.default_rng(1)
    cells = rng.integers(0, 2**BITS, (3, 50))
    places = (cells + rng.random((3, 50))) * 0.125 - 7.0
    keys = np.empty(50, np.uint64)
    morton_keys(*np.clip(places, -7.0, None), np.full(3, -7.0), np.full(3, 8.0), keys)
    expected = [interleaved(*(int(c) for c in cell)) for cell in cells.T]
    np.testing.assert_array_equal(keys, np.array(expected, np.uint64))


def test_sorted_particles_are_whole_and_along_the_curve():
    rng = np.random.default_rng(2)
    place, order = rng.random((3, 200)) * 4, rng.permutation(200)
    particles = particles_with(order)
    particles.position[...] = place[:, order]
    sort_along_curve(particles, np.zeros(3), np.ones(3))
    np.testing.assert_array_equal(particles.position, place[:, particles.identity])
    cells = np.floor(particles.position).astype(int)
    keys = [interleaved(*(int(c) for c in cell)) for cell in cells.T]
    assert keys == sorted(keys)
    assert len(set(keys)) > 50
