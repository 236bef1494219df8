"""LU without pivoting with the matrix on GPUs: diagonal blocks by the hosts, all else by the devices.

The steps are those of `hpl_mxp.factor`, with look-ahead of depth 1. One stream has the updates: block column and row
k + 1 first, then the rest. Another one, which is urgent, has the panels of step k + 1 while the rest is updated. The
diagonal block goes to the host, which factors and sends it, and comes back. The triangular solves, the rounding to
`storage` and the copies for products follow on the device. Panels for other processes go through pinned host memory.

Products read 16-bit copies of the panels and add up in float32. Each stream has a handle of the library, so that no
workspace is shared and repeats have the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import cuda

from ridgeline.bench.hpl.device.blas_cuda import DeviceBlas, DeviceBlock
from ridgeline.bench.hpl.device.matrix_cuda import copy_block
from ridgeline.bench.hpl_mxp.device.panels_cuda import DevicePanels
from ridgeline.bench.hpl_mxp.factor import Grid, Matrix, factor_block
from ridgeline.bench.hpl_mxp.storage import Storage
from ridgeline.jit.cuda_device import make_stream


class DeviceMxpFactors:
    """The factors of this process's part `a`, float32 in device memory, in place. All its rooms are allocated here.

    blas: for the updates and for the panels; stream: of the updates, on which a is ready. diagonals: the factored
    diagonal blocks that this process has, [size, size] on the host, by their number. They are not in a.
    """

    def __init__(
        self, grid: Grid, a: DeviceBlock, blas: tuple[DeviceBlas, DeviceBlas], storage: Storage, stream: Any
    ) -> None:
        self.grid, self.diagonals = grid, dict[int, Matrix]()
        self._a, self._storage = a, storage
        self._rows, self._columns, self._nb = grid.rows, grid.columns, grid.rows.nb
        self.blocks = -(-grid.rows.n // self._nb)
        self._update_blas, self._panel_blas = blas
        self._panels = [DevicePanels(grid, storage) for _ in range(2)]
        self._updates, self._making = stream, make_stream(urgent=True)
        self._ahead = cuda.event()  # behind the updates that the next panels wait for

    def run(self, on_step: Callable[[int], None]) -> None:
        """Factor. Collective over the grid. on_step: called with the block columns whose update is launched."""
        self._pack_diagonal(0)
        self._make_panels(0)
        for k in range(self.blocks):
            self._step(k)
            on_step(k + 1)
        self._updates.synchronize()

    def _behind(self, k: int) -> tuple[int, int]:
        """Return the first local row and column behind block k."""
        index = (k + 1) * self._nb
        return self._rows.count(index), self._columns.count(index)

    def _part(self, row: int, column: int, last_row: int, last_column: int) -> DeviceBlock:
        return self._a.part(row, column, last_row - row, last_column - column)

    def _step(self, k: int) -> None:
        """Launch the update by the panels of step k, and make those of step k + 1."""
        panels, stream, blas = self._panels[k % 2], self._updates, self._update_blas
        left, right = panels.left, panels.right
        row, column = self._behind(k)
        next_row, next_column = self._behind(k + 1)
        last_row, last_column = self._a.rows, self._a.columns
        height, width = next_row - row, next_column - column
        upper, lower = _split_rows(left, height)
        first, rest = _split_columns(right, width)
        panels.arrived.wait(stream)
        blas.subtract_product(left, first, self._part(row, column, last_row, next_column), stream)
        blas.subtract_product(upper, rest, self._part(row, next_column, next_row, last_column), stream)
        if k + 1 < self.blocks:
            self._pack_diagonal(k + 1)
        blas.subtract_product(lower, rest, self._part(next_row, next_column, last_row, last_column), stream)
        if k + 1 < self.blocks:
            self._make_panels(k + 1)

    def _size(self, k: int) -> int:
        return min(self._nb, self._rows.n - k * self._nb)

    def _owners(self, k: int) -> tuple[int, int]:
        """Return the process row and the process column of diagonal block k."""
        return self._rows.owner(k * self._nb), self._columns.owner(k * self._nb)

    def _pack_diagonal(self, k: int) -> None:
        """Launch a copy of diagonal block k, where it lies here, behind its updates."""
        start, size = k * self._nb, self._size(k)
        if self._owners(k) == (self._rows.part, self._columns.part):
            place = self._a.part(self._rows.count(start), self._columns.count(start), size, size)
            copy_block(place, self._panels[k % 2].diagonal(size), self._updates)
        self._ahead.record(self._updates)

    def _make_panels(self, k: int) -> None:
        """Factor block column and row k, and send them, all behind the updates that `_pack_diagonal` ends."""
        panels, stream, size = self._panels[k % 2], self._making, self._size(k)
        start, (owner_row, owner_column) = k * self._nb, self._owners(k)
        on_row, on_column = self._rows.part == owner_row, self._columns.part == owner_column
        panels.arrived.synchronize()  # pinned memory of step k - 2 is no longer read
        self._ahead.wait(stream)  # and all products of that step are done
        self._factor_diagonal(k, panels, on_row, on_column)
        row, column = self._behind(k)
        first_row, first_column = self._rows.count(start), self._columns.count(start)
        last_row, last_column = self._a.rows, self._a.columns
        if on_column:
            left = self._part(row, first_column, last_row, column)
            self._panel_blas.solve_upper_from_right(panels.diagonal(size), left, stream)
            panels.left = panels.for_left.take(left, stream)
            panels.for_left.download(panels.left, stream)
        else:
            panels.left = panels.for_left.shape(last_row - row, size)
        if on_row:
            right = self._part(first_row, column, row, last_column)
            self._panel_blas.solve_lower(panels.diagonal(size), right, stream)
            panels.right = panels.for_right.take(right, stream)
            panels.for_right.download(panels.right, stream)
        else:
            panels.right = panels.for_right.shape(size, last_column - column)
        self._send(panels, owner_row, owner_column)
        panels.arrived.record(stream)

    def _factor_diagonal(self, k: int, panels: DevicePanels, on_row: bool, on_column: bool) -> None:
        """Factor diagonal block k on the host, and put it on all devices of its process row and column."""
        owner_row, owner_column = self._owners(k)
        size, stream = self._size(k), self._making
        block = panels.host_block(size)
        if on_row and on_column:
            panels.download_block(size, stream)
            panels.packed.synchronize()
            factor_block(block, self._storage)
            self.diagonals[k] = block.copy().T
        if on_column:
            self.grid.along_column.Bcast(block, owner_row)
        if on_row:
            self.grid.along_row.Bcast(block, owner_column)
        if on_row or on_column:
            panels.upload_block(size, stream)

    def _send(self, panels: DevicePanels, owner_row: int, owner_column: int) -> None:
        """Send both panels, L along process rows and U along process columns."""
        if self._rows.parts * self._columns.parts > 1:
            panels.packed.record(self._making)
            panels.packed.synchronize()
        panels.for_left.start(panels.left, owner_column)
        panels.for_right.start(panels.right, owner_row)
        panels.for_left.finish(panels.left, owner_column, self._making)
        panels.for_right.finish(panels.right, owner_row, self._making)


def _split_rows(block: DeviceBlock, height: int) -> tuple[DeviceBlock, DeviceBlock]:
    """Return the first `height` rows, and the others."""
    below = block.rows - height
    return block.part(0, 0, height, block.columns), block.part(height, 0, below, block.columns)


def _split_columns(block: DeviceBlock, width: int) -> tuple[DeviceBlock, DeviceBlock]:
    """Return the first `width` columns, and the others."""
    behind = block.columns - width
    return block.part(0, 0, block.rows, width), block.part(0, width, block.rows, behind)
