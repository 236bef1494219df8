"""Ghosts of fields in device memory: from other ranks, then around periodic axes that are not cut.

The second part reads any number of times around an axis, so that an axis may have fewer cells than layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from numba import cuda

from ridgeline.blocks.halo import Fields, HaloExchange, HaloPlan
from ridgeline.blocks.halo_cuda import CudaPacker
from ridgeline.blocks.rows_cuda import THREADS, layout_of, rows_launch
from ridgeline.jit.cuda_device import kernel, load, store
from ridgeline.parallel.devices import mpi_takes_device_buffers

if TYPE_CHECKING:
    from mpi4py import MPI


@kernel(THREADS)
def wrap_ghosts(values, layout, shape, layers, around):
    """Fill ghosts around axes that one block owns; launch `rows_launch(shape + 2 layers)`.

    shape, layers : owned cells and layers along z, y and x
    around : for each axis 1 if it wraps on this block, otherwise 0
    """
    origin, row, plane = layout
    nz, ny, nx = shape
    j, k = cuda.blockIdx.x - layers, cuda.blockIdx.y - layers
    from_k, from_j = k, j
    if around[0] == 1:
        from_k = k % nz
    if around[1] == 1:
        from_j = j % ny
    start, to = origin + from_k * plane + from_j * row, origin + k * plane + j * row
    if from_k != k or from_j != j:
        for i in range(cuda.threadIdx.x - layers, nx + layers, cuda.blockDim.x):
            from_i = i
            if around[2] == 1:
                from_i = i % nx
            store(values, to + i, load(values, start + from_i))
    elif around[2] == 1:
        for n in range(cuda.threadIdx.x, 2 * layers, cuda.blockDim.x):
            i = n - layers
            if n >= layers:
                i += nx
            store(values, to + i, load(values, start + i % nx))


class DeviceGhosts:
    """Fill the ghosts of sets of fields in device memory. Collective when it is made.

    Parameters
    ----------
    comm : the ranks of the blocks
    sets : the sets of fields, all of one layout
    stream : on which packing, copies and wrapping are put
    layers : of ghosts; None for all

    Attributes
    ----------
    messages, bytes_sent : int
        What this rank sends when it fills a set.
    """

    def __init__(
        self, comm: MPI.Comm, sets: Sequence[Fields], stream: Any, layers: int | None = None
    ) -> None:
        block = sets[0][0].block
        self._sets, self._stream = sets, stream
        self._layers = block.ghost if layers is None else layers
        self._around = tuple(int(block.periodic[axis] and block.process_grid[axis] == 1) for axis in range(3))
        self._exchange = None
        if block.n_ranks > 1:
            itemsize = sets[0][0].flat.dtype.itemsize
            plan = HaloPlan(
                block, len(sets[0]), itemsize, corners=True, wrap=(False, False, False), layers=self._layers
            )
            packer = CudaPacker(plan, sets, stream, mpi_takes_device_buffers())
            self._exchange = HaloExchange(comm, packer, "pack")
        self.messages = self.messages_sent = 0 if self._exchange is None else self._exchange.messages_sent
        self.bytes_sent = 0 if self._exchange is None else self._exchange.bytes_sent

    def fill(self, index: int = 0) -> None:
        """Fill the ghosts of a set. Communicates with neighbours; the last copies are only put on the stream."""
        if self._exchange is not None:
            self._exchange.exchange(index)
        if any(self._around):
            for field in self._sets[index]:
                shape, layers = field.block.shape_local, self._layers
                grid, threads = rows_launch((shape[0] + 2 * layers, shape[1] + 2 * layers, shape[2]))
                wrap_ghosts[grid, threads, self._stream](
                    field.flat, layout_of(field), shape, layers, self._around
                )

    __call__ = exchange = fill  # as the exchanges of host memory are called

    def free(self) -> None:
        """Free what belongs to MPI."""
        if self._exchange is not None:
            self._exchange.free()
