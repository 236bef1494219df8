"""Particles of a lattice start on several ranks: each once, the modes bit for bit, the rest to rounding."""

import math

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.fourier.decomposition import PencilGrid
from ridgeline.fourier.transform import FourierTransform
from ridgeline.fourier.tuning import TransformTuning
from ridgeline.models.n_body.cosmology import Cosmology
from ridgeline.models.n_body.initial import density_modes, lattice_particles, lattice_points, pancake
from ridgeline.models.n_body.power_spectra import bbks, from_table
from ridgeline.runtime.errors import ConfigError
from spectral_toys import part, whole_modes

RANKS = (1, 2, 3, 4)
QUICK_RANKS = (3,)
TIMEOUT = 120
SHAPE, LENGTHS = (10, 12, 14), (50.0, 60.0, 70.0)
UNIVERSE = Cosmology(0.3)
SPECTRUM = bbks(UNIVERSE, 0.96, 0.8)


def make(comm, process_grid=None):
    grid = PencilGrid(SHAPE, "none", process_grid or (1, comm.size), comm.rank)
    tuning = TransformTuning("alltoallv", effort="estimate", layout="packed")
    return FourierTransform(grid, LENGTHS, comm, np.float64, tuning)


def whole(comm, start):
    """Positions and momenta of all particles in the order of identities, (6, N)."""
    position, momentum, identity = start
    values = np.full((6, math.prod(SHAPE)), np.nan)
    for theirs, x, p in comm.allgather((identity, position, momentum)):
        assert np.isnan(values[0, theirs]).all()
        values[:, theirs] = np.concatenate([x, p])
    assert not np.isnan(values).any()
    return values


def test_a_start_does_not_depend_on_ranks(comm):
    alone = make(MPI.COMM_SELF)
    expected = whole(MPI.COMM_SELF, lattice_particles(alone, UNIVERSE, SPECTRUM, 0.05, 3))
    modes = density_modes(whole_modes(SHAPE, LENGTHS, "none"), SPECTRUM, 3)[np.newaxis]
    for rows in (n for n in range(1, comm.size + 1) if comm.size % n == 0):
        transform = make(comm, (rows, comm.size // rows))
        mine = density_modes(transform.modes, SPECTRUM, 3)
        assert mine.tobytes() == part(modes, transform.modes.lines).tobytes()
        found = whole(comm, lattice_particles(transform, UNIVERSE, SPECTRUM, 0.05, 3))
        box = np.array(LENGTHS[::-1])[:, np.newaxis]
        moved = (found[:3] - expected[:3] + box / 2) % box - box / 2
        np.testing.assert_allclose(moved, 0, atol=1e-12)
        np.testing.assert_allclose(found[3:], expected[3:], atol=1e-13)
        transform.free()
    alone.free()


def test_pancakes_and_points_are_the_same_on_any_ranks(comm):
    alone = PencilGrid(SHAPE, "none", (1, 1), 0)
    grid = PencilGrid(SHAPE, "none", (1, comm.size), comm.rank)
    position, identity = lattice_points(grid, LENGTHS)
    np.testing.assert_array_equal(position, lattice_points(alone, LENGTHS)[0][:, identity])
    for axis in range(3):
        found = whole(comm, pancake(grid, LENGTHS, UNIVERSE, 0.1, 0.5, axis, 2))
        expected = whole(MPI.COMM_SELF, pancake(alone, LENGTHS, UNIVERSE, 0.1, 0.5, axis, 2))
        np.testing.assert_array_equal(found, expected)


def test_a_short_table_is_refused_on_all_ranks(comm, folder):
    path = folder / "table"
    if comm.rank == 0:
        path.write_text("0.001 1\n0.2 2\n")
    comm.barrier()
    transform = make(comm)
    with pytest.raises(ConfigError, match="longer table"):
        lattice_particles(transform, UNIVERSE, from_table(path), 0.05, 3)
    assert comm.allreduce(1) == comm.size
    transform.free()
