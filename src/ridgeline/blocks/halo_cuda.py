"""Halo exchange on GPUs: faces are packed on the device, and sent from there or through pinned memory.

One launch copies all boxes of a table, which is that of `box_copies`. Neighbouring threads copy neighbouring cells in
the order of the buffer, so accesses to the buffer are coalesced. On the side of the field, a face across x costs a
sector of 32 bytes per cell in any case.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from ridgeline.blocks.box_copies import BoxCopy, box_table
from ridgeline.blocks.halo import Fields, HaloPlan, check_field_sets, message_copies, wrap_copies
from ridgeline.jit.cuda_device import SIMULATED, kernel

THREADS = 256
CELLS_PER_THREAD = 4


@kernel(THREADS)
def copy_boxes(source, target, boxes):
    """Copy all boxes of a table; launch with the shape of `launch_shape`.

    Parameters
    ----------
    source, target : (n,) device arrays of one dtype; may be the same array if no boxes overlap
    boxes : (n_boxes, 9) uint64 device array, as in `blocks.box_copies`; a box has less than 2**32 cells
    """
    b = cuda.blockIdx.y
    s_start, s_plane, s_row = boxes[b, 0], boxes[b, 1], boxes[b, 2]
    t_start, t_plane, t_row = boxes[b, 3], boxes[b, 4], boxes[b, 5]
    ny, nx = np.uint32(boxes[b, 7]), np.uint32(boxes[b, 8])
    cells = boxes[b, 6] * boxes[b, 7] * boxes[b, 8]
    n = np.uint64(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    stride = np.uint64(cuda.gridDim.x * cuda.blockDim.x)
    while n < cells:
        row, i = np.uint32(n) // nx, np.uint32(n) % nx
        k, j = np.uint64(row // ny), np.uint64(row % ny)
        target[t_start + k * t_plane + j * t_row + np.uint64(i)] = source[
            s_start + k * s_plane + j * s_row + np.uint64(i)
        ]
        n += stride


def launch_shape(table: NDArray[np.uint64]) -> tuple[tuple[int, int], int]:
    """Return grid and block for a host copy of the table, (n_boxes, 9)."""
    cells = int(table[:, 6:9].prod(axis=1).max())
    threads = min(THREADS, 16) if SIMULATED else THREADS  # the simulator starts a Python thread for each
    return (max(1, -(-cells // (threads * CELLS_PER_THREAD))), len(table)), threads


class _DeviceCopies:
    """All copies between one flat device array and another, as a table on the device."""

    def __init__(self, copies: Sequence[BoxCopy], stream: Any) -> None:
        self.empty = not copies
        if not self.empty:
            table = box_table(copies, 1)[0]
            self._table = cuda.to_device(table)
            grid, block = launch_shape(table)
            self._launch = (grid, block, stream)

    def run(self, source: Any, target: Any) -> None:
        """Put the copies on the stream."""
        if not self.empty:
            copy_boxes[self._launch](source, target, self._table)


class CudaPacker:
    """Packs fields in device memory (see `halo.Packer`), all on one stream.

    field_sets: sets of `BlockArray` whose `flat` are device arrays; they share buffers.
    device_buffers: pass device memory to MPI, which must be GPU-aware. Otherwise one copy brings all messages to
    pinned host memory before they are sent, and one brings them back after.

    A caller may pack the faces early by `enqueue_pack`, put other work on other streams, and only then start the
    exchange, whose `pack` then only waits.
    """

    shared = True

    def __init__(
        self, plan: HaloPlan, field_sets: Sequence[Fields], stream: Any, device_buffers: bool
    ) -> None:
        check_field_sets(field_sets)
        self.plan = plan
        self.n_sets = len(field_sets)
        self._sets = [[field.flat for field in fields] for fields in field_sets]
        self._stream = stream
        self._staged = not device_buffers
        layout, dtype = field_sets[0][0], field_sets[0][0].flat.dtype
        items = plan.buffer_items
        if items:
            self._send, self._receive = (cuda.device_array(items, dtype) for _ in range(2))
            self._mpi_send, self._mpi_receive = self._send, self._receive
            if self._staged:
                self._mpi_send, self._mpi_receive = (cuda.pinned_array(items, dtype) for _ in range(2))
                self._mpi_send[:] = 0
        copies = [message_copies(plan, layout, field) for field in range(plan.n_fields)]
        self._packs = [_DeviceCopies(packs, stream) for packs, _ in copies]
        self._unpacks = [_DeviceCopies(unpacks, stream) for _, unpacks in copies]
        self._wraps = _DeviceCopies(wrap_copies(plan, layout), stream)
        self._ready = cuda.event()
        self._packed: int | None = None

    def _part(self, buffer: Any, message: int) -> Any:
        offset, items = self.plan.messages[message].offset, self.plan.messages[message].items
        return buffer[offset : offset + items]

    def send_buffer(self, set_index: int, message: int) -> Any:
        return self._part(self._mpi_send, message)

    def receive_buffer(self, set_index: int, message: int) -> Any:
        return self._part(self._mpi_receive, message)

    def compile(self) -> None:
        """Compile or load the kernel by a launch that copies nothing."""
        nothing: NDArray[np.uint64] = np.zeros((1, 9), np.uint64)
        flat = self._sets[0][0]
        copy_boxes[(1, 1), 1, self._stream](flat, flat, cuda.to_device(nothing))
        self._stream.synchronize()

    def enqueue_pack(self, set_index: int) -> None:
        """Put the packing of a set's faces on the stream, and the copy to the buffer from which MPI sends."""
        if not self.plan.messages:
            return
        for copies, flat in zip(self._packs, self._sets[set_index]):
            copies.run(flat, self._send)
        if self._staged:
            self._send.copy_to_host(self._mpi_send, stream=self._stream)
        self._ready.record(self._stream)
        self._packed = set_index

    def pack(self, set_index: int) -> None:
        """Wait until the set's faces are in the send buffers; pack them if `enqueue_pack` has not."""
        if self._packed != set_index:
            self.enqueue_pack(set_index)
        self._ready.synchronize()
        self._packed = None

    def unpack(self, set_index: int) -> None:
        """Fill the ghosts from the receive buffers.

        Returns when the receive buffers may be written again, because neighbours may do so before the next exchange
        packs. That is after the copy from pinned memory, or after the kernels if there is none.
        """
        if not self.plan.messages:
            return
        if self._staged:
            self._receive.copy_to_device(self._mpi_receive, stream=self._stream)
            self._ready.record(self._stream)
        for copies, flat in zip(self._unpacks, self._sets[set_index]):
            copies.run(self._receive, flat)
        if not self._staged:
            self._ready.record(self._stream)
        self._ready.synchronize()

    def copy_wraps(self, set_index: int) -> None:
        for flat in self._sets[set_index]:
            self._wraps.run(flat, flat)

    def free(self) -> None:
        """Do nothing: the buffers are arrays."""
