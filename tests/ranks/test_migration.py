"""Particles move to their owners, and come through checkpoints on any ranks; nothing is lost."""

import numpy as np
import pytest

from ridgeline.io.checkpoint import CheckpointStore
from ridgeline.particles import identity_ranges
from ridgeline.particles.boxes import even_boxes
from ridgeline.particles.identity_ranges import IdentityRanges
from ridgeline.particles.migration import Migration
from ridgeline.particles.particles import ParticleField, Particles
from ridgeline.runtime.errors import CheckpointError, ParticleError, VerificationError

RANKS = (1, 2, 3, 4)
QUICK_RANKS = (3,)
TIMEOUT = 60
N = 157
FIELDS = {
    "mass": ParticleField(np.float32),
    "image": ParticleField(np.int32, 3),
    "velocity": ParticleField(np.float64, 3),
}
PERIODIC = (True, True, True)


def boxes_of(comm, periodic=PERIODIC):
    """A box of length 4 cut in y."""
    return even_boxes((0.0,) * 3, (4.0,) * 3, np.arange(comm.size).reshape(1, -1, 1), periodic)


def start_places():
    return np.random.default_rng(1).random((3, N)) * 4


def made(comm, boxes):
    """Each rank's particles of the same N, and the identities' velocity."""
    places = start_places()
    mine = np.flatnonzero(boxes.owners(places, comm.rank)[0] == comm.rank)
    particles = Particles(FIELDS)
    particles.add(
        {
            "identity": mine,
            "position": places[:, mine],
            "mass": mine.astype(np.float32),
            "image": np.zeros((3, len(mine)), np.int32),
            "velocity": velocity()[:, mine],
        }
    )
    return particles


def velocity():
    return np.random.default_rng(2).standard_normal((3, N))


@pytest.mark.parametrize("dt", [0.05, 0.9])
def test_particles_fly_on_any_ranks_as_on_one(comm, dt):
    """All fields travel, positions wrap, images count, and the order of identities shows no rank."""
    boxes = boxes_of(comm)
    particles = made(comm, boxes)
    migration = Migration(comm, boxes, particles)
    expected, image = start_places(), np.zeros((3, N), np.int32)
    for step in range(20):
        particles.position[...] += dt * particles["velocity"]
        migration(particles, step)
        expected += dt * velocity()
        turns = np.floor(expected / 4).astype(np.int32)
        image += turns
        expected -= 4.0 * turns
        assert not boxes.owners(particles.position, comm.rank)[1]
        identity = particles.identity
        np.testing.assert_array_equal(particles.position, expected[:, identity])
        np.testing.assert_array_equal(particles["image"], image[:, identity])
        np.testing.assert_array_equal(particles["mass"], identity)
        np.testing.assert_array_equal(particles["velocity"], velocity()[:, identity])
    assert comm.allreduce(particles.n) == N
    assert comm.size == 1 or comm.allreduce(migration.moved) > 20
    assert (migration.far > 0) == (comm.size > 3 and dt > 0.5)
    migration.free()


@pytest.mark.parametrize("dtype_of", ["position", "velocity", "mass", "image"])
def test_fields_come_in_the_order_of_identities(comm, dtype_of):
    boxes = boxes_of(comm)
    particles = made(comm, boxes)
    ranges = IdentityRanges(comm, N)
    mine = slice(ranges.first, ranges.first + ranges.n)
    found = ranges.gather(particles, dtype_of)
    whole = {"position": start_places(), "velocity": velocity(), "mass": np.arange(N)}
    np.testing.assert_array_equal(found, whole.get(dtype_of, np.zeros((3, N)))[..., mine])


def test_a_checkpoint_is_read_on_other_ranks(comm, folder):
    boxes = boxes_of(comm)
    particles = made(comm, boxes)
    particles["image"][...] = particles.identity
    ranges = IdentityRanges(comm, N)
    fields = {k: v for k, v in particles.fields.items() if k != "identity"}
    whole = {
        name: ranges.array(name, field, ranges.gather(particles, name)) for name, field in fields.items()
    }
    with CheckpointStore(comm, folder / "all") as store:
        store.save(whole, step=3, time=0.5, identity={})
    few = comm.Split(comm.rank % 2, -comm.rank)  # fewer ranks, in another order
    others = IdentityRanges(few, N)
    empty = others.arrays(fields)
    with CheckpointStore(few, folder / "all") as store:
        store.load(empty, {})
    boxes = boxes_of(few)
    read = Particles(FIELDS)
    others.scatter({name: array.local for name, array in empty.items()}, boxes, read)
    identity = read.identity
    np.testing.assert_array_equal(read.position, start_places()[:, identity])
    np.testing.assert_array_equal(read["image"], np.tile(identity, (3, 1)))
    np.testing.assert_array_equal(read["mass"], identity)
    assert not boxes.owners(read.position, few.rank)[1]
    assert few.allreduce(read.n) == N
    with CheckpointStore(few, folder / "all") as store, pytest.raises(CheckpointError, match="another case"):
        store.load(IdentityRanges(few, N + 1).arrays(fields), {})
    few.Free()


@pytest.mark.parametrize(("value", "words"), [(np.nan, "is not finite"), (9.0, "left the domain")])
def test_a_particle_that_is_nowhere_stops_all_ranks_with_its_identity(comm, value, words):
    boxes = boxes_of(comm, (True, True, False))
    particles = made(comm, boxes)
    migration = Migration(comm, boxes, particles)
    particles.position[0, np.isin(particles.identity, (17, 99))] = value
    with pytest.raises(
        ParticleError, match=rf"^particle 17 is at x = {value:g}, y = .* in step 42\. .*{words}"
    ):
        migration(particles, 42)
    migration.free()


def test_a_lost_particle_is_noticed(comm):
    boxes = boxes_of(comm)
    particles = made(comm, boxes)
    migration = Migration(comm, boxes, particles)
    if comm.rank == comm.size - 1:
        particles.replace(np.array([0]), 0)
    with pytest.raises(VerificationError, match=f"there are {N - 1} particles whose .* there were {N} whose"):
        migration(particles, 1)
    migration.free()


def test_who_sends_what_is_agreed_upon_once(comm, monkeypatch):
    """Until the particles of any rank are in another order."""
    particles, ranges, calls = made(comm, boxes_of(comm)), IdentityRanges(comm, N), []
    real = identity_ranges.exchange_counted
    monkeypatch.setattr(identity_ranges, "exchange_counted", lambda *args: calls.append(1) or real(*args))
    mine = ranges.identities
    np.testing.assert_array_equal(ranges.gather(particles, "mass"), mine)
    np.testing.assert_array_equal(ranges.gather(particles, "velocity"), velocity()[:, mine])
    assert len(calls) == 1 + 1 + 3
    if comm.rank == 0:
        particles.permute(np.arange(particles.n)[::-1].copy())
    np.testing.assert_array_equal(ranges.gather(particles, "mass"), mine)
    assert len(calls) == 5 + 2


def test_an_identity_that_is_there_twice_is_noticed(comm):
    particles = made(comm, boxes_of(comm))
    particles.identity[particles.identity == 5] = 6
    with pytest.raises(VerificationError, match="each once"):
        IdentityRanges(comm, N).gather(particles, "mass")
