"""A process's part of the system, and who shares its row and its column of the P x Q grid."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from mpi4py import MPI

from ridgeline.bench.hpl.block_cyclic import BlockCyclic, distribute, grid_place
from ridgeline.bench.hpl.record import HplSettings


class GridPlace(NamedTuple):
    """A process's part of the system, and the communicators of its row and its column of the grid."""

    place: BlockCyclic
    row_comm: MPI.Comm
    column_comm: MPI.Comm


@contextmanager
def make_grid(comm: MPI.Comm, settings: HplSettings) -> Iterator[GridPlace]:
    """Give this rank's place and the communicators of its row and its column. Collective over comm."""
    p, q = settings.p, settings.q
    row, column = grid_place(p, q, comm.rank, settings.order)
    row_comm, column_comm = comm.Split(row, column), comm.Split(column, row)
    try:
        yield GridPlace(distribute(settings.n, settings.nb, (p, q), (row, column)), row_comm, column_comm)
    finally:
        row_comm.Free()
        column_comm.Free()
