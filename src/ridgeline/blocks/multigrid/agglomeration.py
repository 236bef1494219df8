"""Move the values of a level between the ranks that computed them and the fewer ranks that own it."""

from __future__ import annotations

from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import DTypeLike, NDArray

from ridgeline.blocks.block import Block, BlockArray
from ridgeline.blocks.multigrid.levels import GridLevel
from ridgeline.parallel.partition import Triple

Bounds = list[tuple[int, int]]
TAG = 27  # the halo exchange uses those below


class Agglomeration:
    """The messages between natural blocks and the blocks of their owners, of one level.

    Parameters
    ----------
    comm : MPI.Comm
        The ranks of the natural process grid, in its order.
    level : GridLevel
        The level.
    coords : tuple of three ints
        This rank's coordinates in the finest process grid.
    layers : int
        Ghost layers that `scatter` fills; the owners' blocks need as many.
    dtype : dtype
        Of the values.
    nodes : bool
        Whether the values are at nodes.

    Attributes
    ----------
    messages, bytes_sent : int
        What this rank sends in one `gather`.

    Notes
    -----
    The sizes of all messages follow from the cuts, so no counts travel. Local, as the constructor only plans.
    """

    def __init__(
        self,
        comm: MPI.Comm,
        level: GridLevel,
        coords: Triple,
        layers: int,
        dtype: DTypeLike,
        nodes: bool = False,
    ) -> None:
        self._comm, self._layers, self._dtype = comm, layers, np.dtype(dtype)
        natural = level.natural_block(coords, layers, nodes)
        if natural is None:
            raise ValueError(f"The rank at {coords} owns no natural block of this level.")
        self._natural = natural
        owner = level.owner_of(coords)
        self._owner = _rank_of(level, owner)
        self._members: list[tuple[int, Bounds]] = []
        if owner == coords:
            group = level.group(coords)
            ranges = [range(part.start, part.stop) for part in group]
            for z in ranges[0]:
                for y in ranges[1]:
                    for x in ranges[2]:
                        member = _three(owners[c] for owners, c in zip(level.natural_owners, (z, y, x)))
                        part = level.natural_block(member, layers, nodes)
                        assert part is not None
                        self._members.append((_rank_of(level, member), _bounds(part)))
        self.messages = 0 if self._owner == comm.rank else 1
        self.bytes_sent = self.messages * int(np.prod(natural.shape_local)) * self._dtype.itemsize

    def gather(self, natural: NDArray[Any] | None, merged: BlockArray | None) -> None:
        """Fill the owned points of the owners' fields from the natural blocks.

        Parameters
        ----------
        natural : array [nz, ny, nx]
            The owned points of the natural block.
        merged : BlockArray or None
            The field on the owner's block; None on ranks that own nothing.

        Notes
        -----
        Collective over the communicator: one message from each rank to its owner.
        """
        assert natural is not None
        requests, arrivals = [], []
        for rank, bounds in self._members:
            if rank != self._comm.rank:
                buffer = np.empty([end - start for start, end in bounds], self._dtype)
                requests.append(self._comm.Irecv(buffer, rank, TAG))
                arrivals.append((buffer, bounds))
            else:
                arrivals.append((natural, bounds))
        if self._owner != self._comm.rank:
            self._comm.Send(np.ascontiguousarray(natural), self._owner, TAG)
        MPI.Request.Waitall(requests)
        for values, bounds in arrivals:
            assert merged is not None
            merged.ghosted[_inside(bounds, merged.block, 0)] = values

    def scatter(self, merged: BlockArray | None, natural: BlockArray) -> None:
        """Fill the natural blocks and their `layers` ghost layers from the owners' fields, whose ghosts are filled.

        Parameters
        ----------
        merged : BlockArray or None
            The field on the owner's block; None on ranks that own nothing.
        natural : BlockArray
            The field on the natural block, with at least `layers` layers of ghosts.

        Notes
        -----
        Collective over the communicator: one message from each owner to each of its natural blocks.
        """
        requests, kept = [], []
        shape = [n + 2 * self._layers for n in self._natural.shape_local]
        outer = natural.block.ghost - self._layers
        target = natural.ghosted[tuple(slice(outer, outer + n) for n in shape)]
        for rank, bounds in self._members:
            assert merged is not None
            values = merged.ghosted[_inside(bounds, merged.block, self._layers)]
            if rank == self._comm.rank:
                target[...] = values
            else:
                kept.append(np.ascontiguousarray(values))
                requests.append(self._comm.Isend(kept[-1], rank, TAG))
        if self._owner != self._comm.rank:
            buffer = np.empty(shape, self._dtype)
            self._comm.Recv(buffer, self._owner, TAG)
            target[...] = buffer
        MPI.Request.Waitall(requests)


def split_levels(comm: MPI.Comm, levels: list[GridLevel], coords: Triple) -> list[MPI.Comm | None]:
    """Return for each level the communicator of its owners, ranks in the order of its process grid.

    Parameters
    ----------
    comm : MPI.Comm
        The ranks of the finest blocks, in the order of their process grid; it remains the caller's.
    levels : list of GridLevel
        The plan.
    coords : tuple of three ints
        This rank's coordinates in the finest process grid.

    Returns
    -------
    list of MPI.Comm or None
        None where this rank owns nothing. A level with the same owners as the finer one has the same communicator;
        `free_levels` frees those that differ from `comm`.

    Notes
    -----
    Collective over comm.
    """
    current: MPI.Comm | None = comm
    comms: list[MPI.Comm | None] = []
    for level in levels:
        if current is not None and level.is_agglomerated:
            mine = level.block(coords, 0) is not None
            part = current.Split(0 if mine else MPI.UNDEFINED, current.rank)
            current = part if mine else None
        comms.append(current)
    return comms


def free_levels(comm: MPI.Comm, comms: list[MPI.Comm | None]) -> None:
    """Free the communicators that `split_levels` created. Collective over each."""
    created: list[MPI.Comm] = []
    for part in comms:
        if part is not None and part is not comm and all(part is not other for other in created):
            created.append(part)
    for part in created:
        part.Free()


def _rank_of(level: GridLevel, coords: Triple) -> int:
    """Return the rank of an owner in the communicator of the natural process grid."""
    z, y, x = (owners.index(c) for owners, c in zip(level.natural_owners, coords))
    _, py, px = (len(owners) for owners in level.natural_owners)
    return (z * py + y) * px + x


def _bounds(block: Block) -> Bounds:
    return [(start, start + n) for start, n in zip(block.offset_global, block.shape_local)]


def _inside(bounds: Bounds, block: Block, layers: int) -> tuple[slice, ...]:
    """Return where global bounds, widened by some layers, lie in the ghosted view of a block's field."""
    return tuple(
        slice(start - offset + block.ghost - layers, end - offset + block.ghost + layers)
        for (start, end), offset in zip(bounds, block.offset_global)
    )


def _three(values: Any) -> Triple:
    z, y, x = values
    return z, y, x
