"""Indexing an axis of very many particles takes the memory of what is read, not of the axis."""

import tracemalloc

import numpy as np
import pytest
import xarray as xr
from mpi4py import MPI
from xarray.core import indexing

import ridgeline
from ridgeline.io.dataset import _Array
from ridgeline.io.particle_output import ParticleWriter
from ridgeline.io.store import StoredArray
from ridgeline.particles.identity_ranges import IdentityRanges
from ridgeline.particles.particles import ParticleField
from toy_data_set import STORES

MANY = 10**7
MOST = 10**6  # bytes, of which an array of so many integers takes 80


class Numbers:
    """A reader of an array whose values are the numbers of the particles."""

    steps = 2

    def read(self, name, selections):
        for piece in selections:
            first = piece.start[0]
            piece.out[...] = np.arange(first, first + len(piece.out))[:, None]


def peak_of(work):
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "key", [slice(5, 10), 7, [MANY - 1, 3], slice(MANY, MANY - 3, -1), slice(0, None, MANY // 4)]
)
def test_memory_is_that_of_what_is_read(key):
    array = _Array(Numbers(), StoredArray("position", np.dtype("f8"), (MANY, 3)))
    positions = xr.Variable(("step", "particle", "axis"), indexing.LazilyIndexedArray(array))
    got = []
    assert peak_of(lambda: got.append(positions[1, key].values)) < MOST
    assert got[0][..., 2].tolist() == np.arange(MANY)[key].tolist()


@pytest.mark.parametrize("store", STORES)
def test_identities_are_not_read(tmp_path, store):
    n = 300_000
    fields = {"position": ParticleField(np.float32, 3)}
    writer = ParticleWriter(
        tmp_path / f"p.{store}", MPI.COMM_SELF, IdentityRanges(MPI.COMM_SELF, n), fields, {}
    )
    writer.write(0, 0.0, {"position": np.zeros((3, n), np.float32)})
    writer.close()
    got = []
    with ridgeline.open(tmp_path / f"p.{store}") as data:
        pass
    assert peak_of(lambda: got.append(ridgeline.open(tmp_path / f"p.{store}"))) < 8 * n // 2
    with got[0] as data:
        assert data.position.isel(particle=[n - 1, 4]).particle.values.tolist() == [n - 1, 4]
        assert data.particle.attrs["long_name"] == "identity"
        assert data.sel(particle=77).position.shape == (1, 3)
