"""The GPU's side of the halo exchange: faces packed on the device, sent from there or through pinned memory."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from ridgeline.blocks.cuda_pack import copy_boxes, launch_shape
from ridgeline.blocks.halo_pack import Copy, Fields, box_table, check_field_sets, message_copies, wrap_copies
from ridgeline.blocks.halo_plan import HaloPlan


class _DeviceCopies:
    """All copies between one flat device array and another, as a table on the device."""

    def __init__(self, copies: Sequence[Copy], stream: Any) -> None:
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
    """Packs fields in device memory (see `halo_pack.Packer`), all on one stream.

    field_sets: sets of `BlockArray` whose `flat` are device arrays; they share buffers.
    device_buffers: hand device memory to MPI, which must be GPU-aware. Else one copy takes all messages to pinned
    host memory before, and one takes them back after.

    A caller may have the faces packed early by `enqueue_pack`, put other work on other streams, and only then
    start the exchange. Its `pack` then merely waits.
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

    def _slice(self, buffer: Any, message: int) -> Any:
        offset, items = self.plan.messages[message].offset, self.plan.messages[message].items
        return buffer[offset : offset + items]

    def send_buffer(self, set_index: int, message: int) -> Any:
        """Return the part of the send buffer that holds this message."""
        return self._slice(self._mpi_send, message)

    def receive_buffer(self, set_index: int, message: int) -> Any:
        """Return the part of the receive buffer that holds this message."""
        return self._slice(self._mpi_receive, message)

    def compile(self) -> None:
        """Compile or load the one kernel, by copying nothing."""
        nothing: NDArray[np.uint64] = np.zeros((1, 9), np.uint64)
        flat = self._sets[0][0]
        copy_boxes[(1, 1), 1, self._stream](flat, flat, cuda.to_device(nothing))
        self._stream.synchronize()

    def enqueue_pack(self, set_index: int) -> None:
        """Put the packing of a set's faces on the stream, and their copy to where MPI sends from."""
        if not self.plan.messages:
            return
        for copies, flat in zip(self._packs, self._sets[set_index]):
            copies.run(flat, self._send)
        if self._staged:
            self._send.copy_to_host(self._mpi_send, stream=self._stream)
        self._ready.record(self._stream)
        self._packed = set_index

    def pack(self, set_index: int) -> None:
        """Wait for the set's faces in the send buffers; pack them if `enqueue_pack` has not."""
        if self._packed != set_index:
            self.enqueue_pack(set_index)
        self._ready.synchronize()
        self._packed = None

    def unpack(self, set_index: int) -> None:
        """Scatter what came into the ghosts.

        Returns when the receive buffers may be written again, as the neighbours may do before the next exchange
        packs. That is after the copy from pinned memory, or else after the kernels.
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
        """Copy owned cells to the ghosts on the other side."""
        for flat in self._sets[set_index]:
            self._wraps.run(flat, flat)

    def free(self) -> None:
        """Nothing to do: buffers are arrays."""
