"""Panels and rows that travel between a GPU, its host and other processes, through pinned host memory.

With pivoting a panel is copied to the host, which factors it, and back; rows that are exchanged are sent to other
processes and received from them. Kernels pack these rows, one copy brings them to the host, and MPI exchanges them
there. All of this is on a separate stream, so that another stream updates other columns in the meantime. Without
pivoting L and U are made on the device, rounded, and sent from the host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from mpi4py import MPI
from numba import cuda
from numpy.typing import DTypeLike, NDArray

from ridgeline.bench.hpl.block_cyclic import Axis, ProcessGrid
from ridgeline.bench.hpl.device.blas_cuda import DeviceBlock, Narrow
from ridgeline.bench.hpl.device.matrix_cuda import RowList, copy_block, copy_rows, round_to
from ridgeline.bench.hpl.panel import BLOCK, ColumnPanel, Reals
from ridgeline.bench.hpl.record import Storage
from ridgeline.bench.hpl.sizes import LISTS, panel_sizes, pitch_on_device
from ridgeline.bench.hpl.update import RowMessages, RowSwap
from ridgeline.jit.cuda_device import SIMULATED, make_stream

_SENT, _PLACES, _REPLACED, _TOP = range(4)  # lists of a RowSwap


class DevicePanel:
    """Memory for one panel in pinned host memory, and for the same numbers on the device.

    host: the panel on the host; swap: its rows that are exchanged, once it is factored; left, arrived: the events
    after the last `download` and `upload`.
    """

    swap: RowSwap

    def __init__(self, most_rows: int, nb: int) -> None:
        self.host = ColumnPanel(most_rows, nb, _pinned_reals)
        self.left, self.arrived = cuda.event(), cuda.event()
        self._nb = nb
        self._numbers = cuda.device_array((most_rows + nb + 1) * nb, np.float64)
        self._inverses = cuda.device_array(nb * BLOCK, np.float64)
        self._host_lists = cuda.pinned_array(LISTS * nb, np.int64)
        self._lists = cuda.device_array(LISTS * nb, np.int64)

    @property
    def below(self) -> DeviceBlock:
        """The rows of this process, [rows, width]."""
        rows, width = self.host.below.shape
        return DeviceBlock(self._numbers, 0, rows, rows, width)

    @property
    def top(self) -> DeviceBlock:
        """The block of pivot rows, [width, width]."""
        rows, width = self.host.below.shape
        return DeviceBlock(self._numbers, rows * width, width, width, width)

    @property
    def inverses(self) -> DeviceBlock:
        """The inverses of L's diagonal blocks, [width, BLOCK]."""
        width = self.host.width
        return DeviceBlock(self._inverses, 0, width, width, BLOCK)

    def rows(self, which: int) -> RowList:
        """Return list `which` of `RowSwap.lists` on the device."""
        return RowList(self._lists, which * self._nb, self.swap.lists[which].size)

    def download(self, stream: Any) -> None:
        """Launch the copy of `below` to the host on a stream."""
        count = self.host.below.size
        if count:
            self._numbers[:count].copy_to_host(self.host.message[:count], stream=stream)
        self.left.record(stream)

    def upload(self, stream: Any) -> None:
        """Launch copies of the factored panel, its inverses and the lists of its rows to the device on a stream."""
        message, inverses = self.host.message, self.host.inverses.ravel("F")
        self._numbers[: message.size].copy_to_device(message, stream=stream)
        self._inverses[: inverses.size].copy_to_device(inverses, stream=stream)
        for which, rows in enumerate(self.swap.lists):
            self._host_lists[which * self._nb : which * self._nb + rows.size] = rows
        self._lists.copy_to_device(self._host_lists, stream=stream)
        self.arrived.record(stream)


class DeviceRowExchange:
    """One exchange of rows at a time: `start`, then `finish`. Both collective over the column of processes, in order.

    a: this process's part of [A, b]; u: memory for the rows of U, [nb, columns]. done: the event after the last
    `finish`.
    """

    def __init__(self, comm: MPI.Comm, rows: Axis, a: DeviceBlock, u: DeviceBlock) -> None:
        self._a, self._u, self._part = a, u, rows.part
        size = u.rows * u.columns
        self._messages = RowMessages(comm, rows, [_pinned_reals(size) for _ in range(4)])
        self._buffers = [cuda.device_array(size, np.float64) for _ in range(4)]
        self._stream = make_stream(urgent=True)
        self._in_order = cuda.to_device(np.arange(u.rows), stream=self._stream)
        self.done, self._packed = cuda.event(), cuda.event()

    def start(self, panel: DevicePanel, start: int, stop: int, ready: Any, poll: Callable[[], None]) -> None:
        """Begin to exchange rows of local columns start ... stop - 1, after the event `ready`.

        The host calls `poll` until the rows are packed.
        """
        if stop <= start:
            return
        swap, stream, columns = panel.swap, self._stream, stop - start
        self._panel, self._columns = panel, (start, columns)
        ready.wait(stream)
        panel.arrived.wait(stream)
        sent, _, scattered, _ = self._buffers
        host_sent, _, host_scattered, _ = self._messages.buffers
        a = self._a.part(0, start, self._a.rows, columns)
        self._pack(a, panel.rows(_SENT), sent, 0)
        _to_host(sent, host_sent, swap.sent_rows.size * columns, stream)
        if self._part == swap.root:
            packed = 0
            for rows in swap.top_rows:
                self._pack(a, panel.rows(_TOP).part(packed, rows.size), scattered, packed * columns)
                packed += rows.size
            _to_host(scattered, host_scattered, packed * columns, stream)
        self._packed.record(stream)
        wait_for(self._packed, poll)
        self._messages.post(swap, columns)

    def progress(self) -> None:
        """Let the exchange advance."""
        self._messages.progress()

    def finish(self) -> None:
        """Wait for the rows, and launch their storing; `done` is the event after it."""
        if not self._messages.under_way:
            return
        self._messages.wait()
        panel, (start, columns), stream = self._panel, self._columns, self._stream
        swap = panel.swap
        _, gathered, _, received = self._buffers
        _, host_gathered, _, host_received = self._messages.buffers
        _to_device(host_gathered, gathered, swap.width * columns, stream)
        u, unpacked = self._u.part(0, start, self._u.rows, columns), 0
        for places in swap.places_in_u:
            rows = panel.rows(_PLACES).part(unpacked, places.size)
            self._unpack(gathered, unpacked * columns, rows, u)
            unpacked += places.size
        _to_device(host_received, received, swap.replaced_rows.size * columns, stream)
        self._unpack(received, 0, panel.rows(_REPLACED), self._a.part(0, start, self._a.rows, columns))
        self.done.record(stream)

    def _pack(self, a: DeviceBlock, rows: RowList, buffer: Any, offset: int) -> None:
        """Copy rows of a into buffer, from `offset` on."""
        out = DeviceBlock(buffer, offset, rows.size, rows.size, a.columns)
        copy_rows(a, rows, out, RowList(self._in_order, 0, rows.size), self._stream)

    def _unpack(self, buffer: Any, offset: int, rows: RowList, out: DeviceBlock) -> None:
        """Copy packed rows, from `offset` of buffer on, into rows of out."""
        packed = DeviceBlock(buffer, offset, rows.size, rows.size, out.columns)
        copy_rows(packed, RowList(self._in_order, 0, rows.size), out, rows, self._stream)


def _to_host(buffer: Any, host: Any, count: int, stream: Any) -> None:
    if count:
        buffer[:count].copy_to_host(host[:count], stream=stream)


def _to_device(host: Any, buffer: Any, count: int, stream: Any) -> None:
    if count:
        buffer[:count].copy_to_device(host[:count], stream=stream)


class PanelCopy:
    """Memory for one panel beside the matrix, and for its message in pinned memory.

    size: most numbers, 0 for a panel that is stored in the matrix alone; sent: whether other processes need the
    panel.
    """

    def __init__(self, size: int, storage: Storage, sent: bool) -> None:
        self._narrow: Narrow | None = None if storage == "float32" else storage
        kind: DTypeLike = np.float32 if self._narrow is None else np.uint16
        self._device: Any = cuda.device_array(size, kind) if size else None
        self._host: Any = _pinned(size, kind) if size and sent else None

    def take(self, panel: DeviceBlock, stream: Any) -> DeviceBlock:
        """Launch the rounding and the copy of a finished panel of the matrix; return what products read."""
        if self._device is None:
            return panel
        copy = self.shape(panel.rows, panel.columns)
        (copy_block if self._narrow is None else round_to)(panel, copy, stream)
        return copy

    def shape(self, rows: int, columns: int) -> DeviceBlock:
        """Return the copy as a matrix of this shape, which must fit."""
        return DeviceBlock(self._device, 0, pitch_on_device(rows), rows, columns, self._narrow)

    def download(self, copy: DeviceBlock, stream: Any) -> None:
        """Launch the copy to pinned memory on a stream, if the panel is sent."""
        count = _count(copy)
        if self._host is not None and count:
            self._device[:count].copy_to_host(self._host[:count], stream=stream)

    def message(self, copy: DeviceBlock) -> Any:
        """Return the pinned memory that is sent or received, None if no other process needs the panel."""
        return None if self._host is None else self._host[: _count(copy)]

    def upload(self, copy: DeviceBlock, stream: Any) -> None:
        """Launch the copy of a received panel from pinned memory to the device on a stream."""
        count = _count(copy)
        if self._host is not None and count:
            self._device[:count].copy_to_device(self._host[:count], stream=stream)


class DevicePanels:
    """Memory for L and U of a step, and for the diagonal block on the device and in pinned memory.

    left, right: the matrices that products read; arrived: the event after all copies of a step.
    """

    left: DeviceBlock
    right: DeviceBlock

    def __init__(self, grid: ProcessGrid, storage: Storage) -> None:
        rows, columns = grid.place.rows, grid.place.unknowns
        self._most = min(rows.nb, rows.n)
        sizes = panel_sizes(rows.count(), columns.count(), self._most, storage, rows.parts, columns.parts)
        self.for_left = PanelCopy(sizes[0], storage, columns.parts > 1)
        self.for_right = PanelCopy(sizes[1], storage, rows.parts > 1)
        self._block = cuda.device_array(self._most**2, np.float32)
        self._host_block = _pinned(self._most**2, np.float32)
        self.packed, self.arrived = cuda.event(), cuda.event()

    def diagonal(self, size: int) -> DeviceBlock:
        """Return the diagonal block on the device, [size, size]."""
        return DeviceBlock(self._block, 0, size, size, size)

    def host_block(self, size: int) -> NDArray[np.float32]:
        """Return the diagonal block in pinned memory, [column, row]."""
        block: NDArray[np.float32] = self._host_block[: size * size].reshape(size, size)
        return block

    def download_block(self, size: int, stream: Any) -> None:
        """Launch the copy of the diagonal block to the host on a stream, followed by the event `packed`."""
        self._block[: size * size].copy_to_host(self._host_block[: size * size], stream=stream)
        self.packed.record(stream)

    def upload_block(self, size: int, stream: Any) -> None:
        """Launch the copy of the diagonal block to the device on a stream."""
        self._block[: size * size].copy_to_device(self._host_block[: size * size], stream=stream)


def _count(copy: DeviceBlock) -> int:
    return copy.pitch * copy.columns if copy.rows else 0


def wait_for(event: Any, poll: Callable[[], None]) -> None:
    """Call `poll` until an event has happened. Simulated events have happened once they are recorded."""
    if SIMULATED:
        event.synchronize()
        return
    while not event.query():
        poll()


def _pinned_reals(count: int) -> Reals:
    memory: Reals = _pinned(count, np.float64)
    return memory


def _pinned(count: int, kind: DTypeLike) -> Any:
    memory = cuda.pinned_array(count, kind)
    memory[:] = 0
    return memory
