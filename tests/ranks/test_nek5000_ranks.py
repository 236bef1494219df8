"""Nek5000 field files are the same, byte for byte, on any number of ranks."""

import hashlib

import numpy as np
import pytest

from ridgeline.elements.mesh import BoxMesh, ElementGrid
from ridgeline.io import nek5000
from ridgeline.io.nek5000 import Nek5000Writer
from ridgeline.io.nek5000_read import read_field_file
from ridgeline.runtime.errors import OutputError

RANKS = (1, 2, 3, 4)
QUICK_RANKS = (3,)
TIMEOUT = 120


def fields_of(grid: ElementGrid):
    """Functions of the place, so that they do not depend on ranks."""
    x, y, z = grid.coordinates
    u = np.stack([np.sin(x + y), np.cos(y * z), np.sin(z - x)])
    return u, x * y * z, np.stack([x + 2 * y + 3 * z, np.cos(x)])


@pytest.mark.parametrize("round_bytes", [32 << 20, 3000])
def test_files_do_not_depend_on_ranks(comm, folder, monkeypatch, round_bytes):
    monkeypatch.setattr(nek5000, "ROUND_BYTES", round_bytes)
    mesh = BoxMesh.box((2, 3, 3), (1.0, 1.0, 2.0), distribution=("sine", "uniform", "uniform"))
    grid = ElementGrid(mesh, 4, comm.size, comm.rank)
    writer = Nek5000Writer(comm, folder / "box", grid, grid.coordinates, precision="float64")
    fields = fields_of(grid)
    for step in (3, 4):
        writer.write(step, 0.1 * step, *fields)
    comm.Barrier()
    whole = ElementGrid(mesh, 4)
    for number in (1, 2):
        found = read_field_file(writer.name(number))
        order = np.argsort(whole.number)
        u, p, s = fields_of(whole)
        np.testing.assert_array_equal(found.velocity, u[:, order])
        np.testing.assert_array_equal(found.pressure, p[order])
        np.testing.assert_array_equal(found.scalars, s[1:, order])
    # The files that one rank writes alone: the same bytes.
    if comm.rank == 0:
        from mpi4py import MPI

        alone = Nek5000Writer(MPI.COMM_SELF, folder / "alone", whole, whole.coordinates, precision="float64")
        for step in (3, 4):
            alone.write(step, 0.1 * step, *fields_of(whole))
        for number in (1, 2):
            digests = {hashlib.sha256(w.name(number).read_bytes()).hexdigest() for w in (writer, alone)}
            assert len(digests) == 1
    comm.Barrier()


def test_a_rank_that_cannot_write_stops_all(comm, folder):
    grid = ElementGrid(BoxMesh.box((2, 2, 2), (1.0,) * 3), 2, comm.size, comm.rank)
    if comm.rank == 0:
        (folder / "here").write_text("a file")
    comm.Barrier()
    with pytest.raises(OutputError, match=r"cannot write Nek5000 files"):
        Nek5000Writer(comm, folder / "here" / "box", grid, grid.coordinates)
