"""The blocks of all ranks moved to rank 0, slab by slab, for an ADIOS2 without MPI."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.io.store import Shape, Variable

if TYPE_CHECKING:
    from mpi4py import MPI

SLAB = 64 * 2**20  # bytes that rank 0 receives at a time


def stored_dtype(variable: Variable) -> np.dtype[Any]:
    """Return the dtype of a variable in the files: ADIOS2 has no float16, whose bits are stored as uint16."""
    return np.dtype(np.uint16 if variable.dtype == np.float16 else variable.dtype)


class BlocksAtRank0:
    """Moves the blocks of all ranks to rank 0. Creating it is collective.

    Slabs pass through one buffer that is allocated here, because a rank that ran out of memory in the middle of a
    transfer would leave its partner waiting.
    """

    def __init__(self, comm: MPI.Comm, variables: Sequence[Variable]) -> None:
        self._comm = comm
        self._dtypes = {v.name: stored_dtype(v) for v in variables}
        local = {v.name: (v.offset_global, v.shape_local) for v in variables}
        self._blocks = comm.gather(local) or [local]
        largest = max(
            (
                (z1 - z0) * prod(shape[1:]) * self._dtypes[name].itemsize
                for blocks in self._blocks
                for name, (_, shape) in blocks.items()
                for z0, z1 in slabs(shape, self._dtypes[name].itemsize)
            ),
            default=0,
        )
        self._buffer = np.empty(largest, np.uint8)

    def _slab(self, name: str, shape: Shape) -> NDArray[Any]:
        """Return a contiguous array in the buffer."""
        dtype = self._dtypes[name]
        return self._buffer[: prod(shape) * dtype.itemsize].view(dtype).reshape(shape)

    def send(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Send this rank's blocks to rank 0, which iterates over `receive` with the same names in the same order."""
        for name, array in arrays.items():
            for z0, z1 in slabs(array.shape, self._dtypes[name].itemsize):
                slab = self._slab(name, (z1 - z0, *array.shape[1:]))
                slab[...] = array[z0:z1]
                self._comm.Send(slab, dest=0)

    def receive(self, arrays: Mapping[str, NDArray[Any]]) -> Iterator[tuple[str, Shape, NDArray[Any]]]:
        """Yield (name, global offset, contiguous array) of each slab of each rank, rank 0's `arrays` first.

        An array is valid until the next one is yielded.
        """
        for rank, blocks in enumerate(self._blocks):
            for name in arrays:
                offset, shape = blocks[name]
                for z0, z1 in slabs(shape, self._dtypes[name].itemsize):
                    slab = self._slab(name, (z1 - z0, *shape[1:]))
                    if rank == 0:
                        slab[...] = arrays[name][z0:z1]
                    else:
                        self._comm.Recv(slab, source=rank)
                    yield name, (offset[0] + z0, *offset[1:]), slab


def slabs(shape: Shape, itemsize: int) -> Iterator[tuple[int, int]]:
    """Yield (begin, end) along the first axis of parts of a block that have at most SLAB bytes, or are one plane."""
    plane = prod(shape[1:]) * itemsize
    if not plane:
        return
    planes = max(1, SLAB // plane)
    for start in range(0, shape[0], planes):
        yield start, min(start + planes, shape[0])
