"""Halos, spectra and pictures of particles on several ranks: as on one, bit for bit where it is promised."""

import numpy as np
import pytest
from mpi4py import MPI

from halo_toys import LENGTH, chain, clumps, labels_of_all, snake
from ridgeline.fourier.decomposition import PencilGrid
from ridgeline.fourier.modes import Modes
from ridgeline.models.n_body.halos import friends_of_friends, halo_catalogue
from ridgeline.models.n_body.structure import power_spectrum, surface_density
from ridgeline.particles.boxes import even_boxes
from ridgeline.runtime.errors import DecompositionError
from spectral_toys import part, whole_modes

RANKS = (1, 2, 3, 4)
QUICK_RANKS = (3,)
TIMEOUT = 120
PERIODIC = (True, True, True)


def grids(comm):
    """Boxes of all ranks: cut in x, in y, in z, and, for four ranks, in two directions; not numbered in order."""
    shapes = [(1, 1, comm.size), (1, comm.size, 1), (comm.size, 1, 1)]
    if comm.size == 4:
        shapes.append((2, 1, 2))
    for shape in shapes:
        ranks = np.roll(np.arange(comm.size), 1).reshape(shape)
        yield even_boxes((0.0,) * 3, (LENGTH,) * 3, ranks, PERIODIC)


def mine_of(comm, boxes, positions):
    """The indices of this rank's particles, in an order of its own."""
    mine = np.flatnonzero(boxes.owners(positions, comm.rank)[0] == comm.rank)
    return np.random.default_rng(comm.rank).permutation(mine)


def labels_on_ranks(comm, boxes, positions, linking_length):
    mine = mine_of(comm, boxes, positions)
    found = friends_of_friends(comm, boxes, positions[:, mine], mine, linking_length)
    np.testing.assert_array_equal(found.anchor, positions[:, found.halo])
    labels = np.full(positions.shape[1], -1)
    for theirs, halo in comm.allgather((mine, found.halo)):
        labels[theirs] = halo
    return labels


@pytest.mark.parametrize("linking_length", [0.1, 0.35, 0.9])
def test_halos_are_those_of_all_distances(comm, linking_length):
    positions = clumps()
    expected = labels_of_all(positions, linking_length)
    for boxes in grids(comm):
        np.testing.assert_array_equal(labels_on_ranks(comm, boxes, positions, linking_length), expected)


def test_halos_span_all_ranks_and_come_back(comm):
    """Rings around the box, and a line that crosses every cut a dozen times: each is one halo."""
    for boxes in grids(comm):
        for positions, linking_length in (*((chain(axis, 0.4), 0.41) for axis in range(3)), (snake(), 0.7)):
            for order in (slice(None), slice(None, None, -1)):
                assert not labels_on_ranks(comm, boxes, positions[:, order], linking_length).any()
    spans = comm.allgather(len(mine_of(comm, next(grids(comm)), chain(0, 0.4))))
    assert min(spans) > 0
    cut = np.delete(chain(0, 0.4), [5, 15], axis=1)
    for boxes in grids(comm):
        assert np.unique(labels_on_ranks(comm, boxes, cut, 0.41)).tolist() == [0, 5]


def test_both_ends_agree_on_a_link_that_rounding_decides(comm):
    """Across the sides, x - (y - L) and (x + L) - y round apart: both ends must find the link, or neither."""
    rng = np.random.default_rng(6)
    low, high = rng.random(500) * 0.2, LENGTH - rng.random(500) * 0.2
    one, other = low - (high - LENGTH), (low + LENGTH) - high
    for pair in np.flatnonzero(one != other)[:3]:
        positions = np.array([[low[pair], high[pair]], [5.0, 5.0], [5.0, 5.0]])
        longest = max(one[pair], other[pair])
        linked = {
            labels_on_ranks(comm, boxes, positions[:, order], longest)[1] == 0
            for order in ([0, 1], [1, 0])
            for boxes in grids(comm)
        }
        assert len(linked) == 1


def test_all_may_be_on_one_rank(comm):
    positions = clumps() * 0.09 + 0.05
    for boxes in grids(comm):
        assert (labels_on_ranks(comm, boxes, positions, 0.03) == labels_of_all(positions, 0.03)).all()


def catalogue(comm, boxes, positions, momenta):
    mine = mine_of(comm, boxes, positions)
    found = friends_of_friends(comm, boxes, positions[:, mine], mine, 0.35)
    return halo_catalogue(comm, boxes, positions[:, mine], momenta[:, mine], found, positions.shape[1], 5)


def test_the_catalogue_has_the_same_bits_on_any_ranks(comm):
    positions, momenta = clumps(), np.random.default_rng(3).standard_normal((3, 400)) * 1e3
    one = even_boxes((0.0,) * 3, (LENGTH,) * 3, np.zeros((1, 1, 1), np.int64), PERIODIC)
    expected = catalogue(MPI.COMM_SELF, one, positions, momenta)
    assert len(expected.size) >= 5
    for boxes in grids(comm):
        found = catalogue(comm, boxes, positions, momenta)
        for name in ("identity", "size", "centre", "momentum"):
            assert getattr(found, name).tobytes() == getattr(expected, name).tobytes(), name


def test_boxes_thinner_than_the_linking_length_are_refused_on_all(comm):
    nothing = np.empty((3, 0)), np.empty(0, np.int64)
    for boxes in grids(comm):
        too_long = LENGTH / max(boxes.ranks.shape) * 1.01
        with pytest.raises(DecompositionError):
            friends_of_friends(comm, boxes, *nothing, too_long)
        assert comm.allreduce(1) == comm.size


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_pictures_have_the_same_bits_on_any_ranks(comm, axis):
    positions = clumps(3000)
    lengths = (LENGTH,) * 3
    expected = surface_density(MPI.COMM_SELF, positions, lengths, axis, (2.0, 5.5), (30, 23))
    assert expected.std() > 0.1
    for boxes in grids(comm):
        mine = mine_of(comm, boxes, positions)
        found = surface_density(comm, positions[:, mine], lengths, axis, (2.0, 5.5), (30, 23))
        assert found.tobytes() == expected.tobytes()


def test_spectra_agree_on_any_ranks(comm):
    shape, lengths = (12, 14, 16), (9.0, 10.0, 11.0)
    whole = whole_modes(shape, lengths, "none")
    values = np.random.default_rng(2).standard_normal((2, whole.n_modes))
    density = (values[0] + 1j * values[1])[np.newaxis]
    expected = power_spectrum(MPI.COMM_SELF, whole, density[0], 77)
    assert expected.modes.sum() > 500
    for rows in (n for n in range(1, comm.size + 1) if comm.size % n == 0):
        modes = Modes.of(PencilGrid(shape, "none", (rows, comm.size // rows), comm.rank), lengths)
        found = power_spectrum(comm, modes, part(density, modes.lines)[0], 77)
        np.testing.assert_array_equal(found.modes, expected.modes)
        for name in ("wavenumber", "power", "shot_noise"):
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-12)
        again = power_spectrum(comm, modes, part(density, modes.lines)[0], 77)
        assert again.power.tobytes() == found.power.tobytes()
        assert len(set(comm.allgather(found.power.tobytes()))) == 1
