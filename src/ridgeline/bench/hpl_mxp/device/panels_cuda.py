"""The panels L and U of a step on a GPU, and their way to other processes through pinned host memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from mpi4py import MPI
from numba import cuda
from numpy.typing import DTypeLike, NDArray

from ridgeline.bench.hpl.device.blas_cuda import DeviceBlock, Narrow
from ridgeline.bench.hpl.device.matrix_cuda import copy_block
from ridgeline.bench.hpl.device.memory import pitch_for
from ridgeline.bench.hpl_mxp.device.matrix_cuda import round_to
from ridgeline.bench.hpl_mxp.device.memory import panel_sizes
from ridgeline.bench.hpl_mxp.factor import Grid
from ridgeline.bench.hpl_mxp.storage import Storage


class PanelCopy:
    """Room for one panel beside the matrix, which is sent along `comm`, and for what is sent in pinned memory.

    `shape` says what it holds; size: numbers at most, 0 for a panel that stays in the matrix alone.
    """

    def __init__(self, size: int, storage: Storage, comm: MPI.Comm) -> None:
        self._narrow: Narrow | None = None if storage == "float32" else storage
        self._comm = comm
        kind: DTypeLike = np.float32 if self._narrow is None else np.uint16
        self._device: Any = cuda.device_array(size, kind) if size else None
        self._host: Any = _pinned(size, kind) if size and comm.size > 1 else None
        self._sent: MPI.Request = MPI.REQUEST_NULL

    def take(self, panel: DeviceBlock, stream: Any) -> DeviceBlock:
        """Put on a stream: round a finished panel of the matrix, and copy it; return what products read."""
        if self._device is None:
            return panel
        copy = self.shape(panel.rows, panel.columns)
        (copy_block if self._narrow is None else round_to)(panel, copy, stream)
        return copy

    def shape(self, rows: int, columns: int) -> DeviceBlock:
        """Return the copy as a matrix of this shape; there must be room."""
        return DeviceBlock(self._device, 0, pitch_for(rows), rows, columns, self._narrow)

    def download(self, copy: DeviceBlock, stream: Any) -> None:
        """Put the copy to pinned memory on a stream, if there is somebody to send it to."""
        count = _count(copy)
        if self._host is not None and count:
            self._device[:count].copy_to_host(self._host[:count], stream=stream)

    def start(self, copy: DeviceBlock, root: int) -> None:
        """Begin to broadcast what pinned memory holds. Collective over comm."""
        if self._host is not None:
            self._sent = self._comm.Ibcast(self._host[: _count(copy)], root)

    def finish(self, copy: DeviceBlock, root: int, stream: Any) -> None:
        """Wait for it, and put the copy from pinned memory on a stream, unless it came from here."""
        self._sent.Wait()
        count = _count(copy)
        if self._host is not None and count and self._comm.rank != root:
            self._device[:count].copy_to_device(self._host[:count], stream=stream)


class DevicePanels:
    """Room for L and U of a step, and for the diagonal block on the device and in pinned memory.

    left, right: what products read; diagonal: of the last `put`; arrived: the event behind all of them.
    """

    left: DeviceBlock
    right: DeviceBlock

    def __init__(self, grid: Grid, storage: Storage) -> None:
        rows, columns = grid.rows.count(), grid.columns.count()
        self._most = min(grid.rows.nb, grid.rows.n)
        sizes = panel_sizes(rows, columns, self._most, storage, grid.rows.parts, grid.columns.parts)
        self.for_left = PanelCopy(sizes[0], storage, grid.along_row)
        self.for_right = PanelCopy(sizes[1], storage, grid.along_column)
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
        """Put the diagonal block to the host on a stream, `packed` behind it."""
        self._block[: size * size].copy_to_host(self._host_block[: size * size], stream=stream)
        self.packed.record(stream)

    def upload_block(self, size: int, stream: Any) -> None:
        """Put the diagonal block to the device on a stream."""
        self._block[: size * size].copy_to_device(self._host_block[: size * size], stream=stream)


def _count(copy: DeviceBlock) -> int:
    return copy.pitch * copy.columns if copy.rows else 0


def _pinned(count: int, kind: DTypeLike) -> Any:
    memory = cuda.pinned_array(count, kind)
    memory[:] = 0
    return memory
