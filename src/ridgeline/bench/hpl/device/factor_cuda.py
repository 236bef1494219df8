"""The matrix on a GPU: the backends of `factor` that use cuBLAS and kernels, while hosts factor the panels.

With pivoting the device updates the columns of panel k + 1 first and copies them to the host, which factors and sends
them while the device updates the rest. Updates have one stream, copies another, and the exchange of rows a third one.

Without pivoting one stream has the updates, block column and row k + 1 first. Another one, of high priority, makes
the panels of step k + 1 while the rest is updated. The diagonal block goes to the host and comes back; triangular
solves, rounding to `storage` and copies for products follow on the device. Products read 16-bit copies of the panels
and are accumulated in float32. Each stream has its own handle of the library, so that no workspace is shared and
repeated runs have the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from ridgeline.bench.hpl.block_cyclic import ColumnParts, ProcessGrid
from ridgeline.bench.hpl.device.blas_cuda import DeviceBlas, DeviceBlock
from ridgeline.bench.hpl.device.matrix_cuda import copy_block, copy_rows
from ridgeline.bench.hpl.device.panels_cuda import DevicePanel, DevicePanels, DeviceRowExchange, wait_for
from ridgeline.bench.hpl.factor import BlockPlace, Poll, TrailingStart
from ridgeline.bench.hpl.panel import BLOCK, Reals, Singles
from ridgeline.bench.hpl.record import HplSettings, Storage
from ridgeline.bench.hpl.update import RowSwap
from ridgeline.jit.cuda_device import make_stream
from ridgeline.runtime.regions import Regions

_SOURCES, _PLACES, _TARGETS, _REPLACEMENTS = range(4)  # lists of a RowSwap of a process that is alone


class PivotedDevice:
    """A process's part `a` of [A, b] in device memory. All other memory of LU is allocated here.

    stream: of the updates, on which a is ready. diagonals: the blocks on U's diagonal that this process has, float64
    [width, width] on the host, by their number. They are not stored in a.
    """

    def __init__(
        self,
        settings: HplSettings,
        grid: ProcessGrid,
        a: DeviceBlock,
        blas: DeviceBlas,
        stream: Any,
        regions: Regions,
    ) -> None:
        self._nb, self._n, self._place = settings.nb, settings.n, grid.place
        alone = grid.column_comm.size == 1
        self.diagonals: dict[int, Reals] = {}
        self._a, self._blas, self._regions = a, blas, regions
        self.panels = [DevicePanel(a.rows, self._nb) for _ in range(2)]
        self._raw = _rows_of_u(self._nb, a.columns)
        self._u = None if alone else _rows_of_u(self._nb, a.columns)
        self._exchange = None if alone else DeviceRowExchange(grid.column_comm, grid.place.rows, a, self._raw)
        self._compute, self._copies = stream, make_stream()
        # Events after the copy of the next panel's columns, the updates of the left part, those of the right part.
        self._ahead, self._left, self._right = (cuda.event() for _ in range(3))

    def wait_for_buffer(self, panel: DevicePanel) -> None:
        """Wait until the panel before the last one has been copied to the device."""
        panel.arrived.synchronize()

    def fetch(self, panel: DevicePanel, first: int, here: bool, poll: Poll) -> None:
        """Copy the columns, which `update_ahead` has packed, to the host."""
        if first == 0:
            self._pack(panel, 0, here)
        if here:
            with self._regions("copies"):
                self._ahead.wait(self._copies)
                panel.download(self._copies)
                wait_for(panel.left, poll)

    def keep(self, panel: DevicePanel) -> None:
        self.diagonals[panel.host.first // self._nb] = np.array(panel.host.top, order="F")

    def accept(self, panel: DevicePanel, parts: ColumnParts) -> None:
        """Copy the panel and the lists of rows that are exchanged to the device."""
        with self._regions("copies"):
            panel.host.invert()
            panel.swap = RowSwap(panel.host, self._place.rows)
            self._ahead.wait(
                self._copies
            )  # after all work that was launched with the panel before the last one
            panel.upload(self._copies)

    def start_exchange(self, panel: DevicePanel, parts: ColumnParts, behind_left: bool, poll: Poll) -> None:
        """Pack the rows on the device, copy them to the host and send them."""
        ready = self._left if behind_left else self._right
        self._send_rows(panel, parts.start, parts.split, ready, poll)

    def progress_exchange(self) -> None:
        if self._exchange is not None:
            self._exchange.progress()

    def finish_exchange(self) -> None:
        """Wait for the rows. Updates that are launched later wait for them on the device."""
        assert self._exchange is not None
        with self._regions("swap"):
            self._exchange.finish()
            self._exchange.done.wait(self._compute)

    def update_ahead(
        self,
        panel: DevicePanel,
        other: DevicePanel,
        parts: ColumnParts,
        following: int,
        here: bool,
        poll: Poll,
    ) -> None:
        """Launch the update of the next panel's columns, their copy, and the update of the left part."""
        panel.arrived.wait(self._compute)
        self._update(panel, parts.start, parts.ahead)
        if following < self._n:
            self._pack(other, following, here)
        self._update(panel, parts.ahead, parts.split)
        self._left.record(self._compute)
        if self._exchange is not None:
            self._send_rows(panel, parts.split, parts.stop, self._right, poll)

    def update_left(self, panel: DevicePanel, poll: Poll, complete: bool) -> None:
        """Do nothing, because the update has been launched."""

    def update_right(self, panel: DevicePanel, parts: ColumnParts, poll: Poll) -> None:
        """Launch the update of the right part."""
        self._update(panel, parts.split, parts.stop)
        self._right.record(self._compute)

    def finish(self) -> None:
        with self._regions("update"):
            self._compute.synchronize()

    def _send_rows(self, panel: DevicePanel, start: int, stop: int, ready: Any, poll: Poll) -> None:
        """Begin to exchange rows of some columns, after the event `ready`."""
        assert self._exchange is not None
        with self._regions("swap"):
            self._exchange.start(panel, start, stop, ready, poll)

    def _pack(self, panel: DevicePanel, first: int, here: bool) -> None:
        """Pack the columns of the panel at global column `first`, if this process has them, on the device."""
        rows, columns = self._place.rows, self._place.columns
        row, width = rows.count(first), min(self._nb, self._n - first)
        panel.host.shape(first, rows.count() - row, width)
        if here:
            below = panel.below
            copy_block(self._a.part(row, columns.local(first), below.rows, width), below, self._compute)
        self._ahead.record(self._compute)

    def _update(self, panel: DevicePanel, start: int, stop: int) -> None:
        """Launch the update of local columns start ... stop - 1: rows of U, triangular solve, product."""
        if stop <= start:
            return
        with self._regions("update"):
            blas, stream, swap, width = self._blas, self._compute, panel.swap, panel.host.width
            rows, count = self._place.rows, stop - start
            a, first = self._a.part(0, start, self._a.rows, count), rows.count(panel.host.first)
            skip = width if swap.root == rows.part else 0
            raw = self._raw.part(0, start, width, count)
            if swap.alone:
                copy_rows(a, panel.rows(_SOURCES), raw, panel.rows(_PLACES), stream)
                copy_rows(a, panel.rows(_REPLACEMENTS), a, panel.rows(_TARGETS), stream)
            # The process that has the top block solves for U where it belongs.
            u = a.part(first, 0, width, count) if skip else self._rows_of_u(start, width, count)
            for row in range(0, width, BLOCK):
                height = min(BLOCK, width - row)
                part = raw.part(row, 0, height, count)
                blas.subtract_product(
                    panel.top.part(row, 0, height, row), u.part(0, 0, row, count), part, stream
                )
                blas.assign_product(
                    panel.inverses.part(row, 0, height, height), part, u.part(row, 0, height, count), stream
                )
            left = panel.below.part(skip, 0, panel.below.rows - skip, width)
            blas.subtract_product(left, u, a.part(first + skip, 0, left.rows, count), stream)

    def _rows_of_u(self, start: int, width: int, count: int) -> DeviceBlock:
        assert self._u is not None  # None only for a process that is alone, which has the top block
        return self._u.part(0, start, width, count)


def _rows_of_u(nb: int, columns: int) -> DeviceBlock:
    return DeviceBlock(cuda.device_array(max(nb * columns, 1), np.float64), 0, nb, nb, columns)


class UnpivotedDevice:
    """A process's part `a` of A, float32 in device memory. All other memory of LU is allocated here.

    blas: for the updates and for the panels; stream: of the updates, on which a is ready. diagonals: the factored
    diagonal blocks that this process has, [size, size] on the host, by their number. They are not stored in a.
    """

    def __init__(
        self,
        grid: ProcessGrid,
        a: DeviceBlock,
        blas: tuple[DeviceBlas, DeviceBlas],
        storage: Storage,
        stream: Any,
    ) -> None:
        self._a, self.diagonals = a, dict[int, Singles]()
        self._alone = grid.row_comm.size * grid.column_comm.size == 1
        self._update_blas, self._panel_blas = blas
        self.panels = [DevicePanels(grid, storage) for _ in range(2)]
        self._updates, self._making = stream, make_stream(urgent=True)
        self._ahead = cuda.event()  # after the updates that the next panels wait for

    def host_block(self, panel: DevicePanels, size: int) -> Singles:
        """Return pinned memory. The stream of the panels waits for the products with the panels before."""
        panel.arrived.synchronize()  # pinned memory is no longer read
        self._ahead.wait(self._making)
        return panel.host_block(size)

    def fetch(self, panel: DevicePanels, at: BlockPlace) -> None:
        """Copy the block, which `update_ahead` has packed, to the host."""
        if at.k == 0:
            self._pack_diagonal(panel, at)
            self._ahead.wait(self._making)
        panel.download_block(at.size, self._making)
        panel.packed.synchronize()

    def keep(self, panel: DevicePanels, at: BlockPlace) -> None:
        self.diagonals[at.k] = panel.host_block(at.size).copy().T

    def make_panels(self, panel: DevicePanels, at: BlockPlace, trailing: TrailingStart) -> None:
        """Launch the solves, the rounding and the copies, and wait for what other processes need."""
        size, stream, blas = at.size, self._making, self._panel_blas
        last_row, last_column = self._a.rows, self._a.columns
        if at.on_row or at.on_column:
            panel.upload_block(size, stream)
        if at.on_column:
            left = self._part(trailing.row, at.column, last_row, trailing.column)
            blas.solve_upper_from_right(panel.diagonal(size), left, stream)
            panel.left = panel.for_left.take(left, stream)
            panel.for_left.download(panel.left, stream)
        else:
            panel.left = panel.for_left.shape(last_row - trailing.row, size)
        if at.on_row:
            right = self._part(at.row, trailing.column, trailing.row, last_column)
            blas.solve_lower(panel.diagonal(size), right, stream)
            panel.right = panel.for_right.take(right, stream)
            panel.for_right.download(panel.right, stream)
        else:
            panel.right = panel.for_right.shape(size, last_column - trailing.column)
        if not self._alone:
            panel.packed.record(stream)
            panel.packed.synchronize()

    def messages(self, panel: DevicePanels) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
        """Return the copies in pinned memory."""
        return panel.for_left.message(panel.left), panel.for_right.message(panel.right)

    def accept(self, panel: DevicePanels, at: BlockPlace) -> None:
        """Copy panels of other processes to the device."""
        if not at.on_column:
            panel.for_left.upload(panel.left, self._making)
        if not at.on_row:
            panel.for_right.upload(panel.right, self._making)
        panel.arrived.record(self._making)

    def update_ahead(
        self, panel: DevicePanels, other: DevicePanels, trailing: TrailingStart, following: BlockPlace | None
    ) -> None:
        """Launch the products: block column and block row k + 1, a copy of the diagonal block there, the rest."""
        left, right, stream, blas = panel.left, panel.right, self._updates, self._update_blas
        row, column, next_row, next_column = trailing
        last_row, last_column = self._a.rows, self._a.columns
        height, width = next_row - row, next_column - column
        upper = left.part(0, 0, height, left.columns)
        lower = left.part(height, 0, left.rows - height, left.columns)
        first, rest = (
            right.part(0, 0, right.rows, width),
            right.part(0, width, right.rows, right.columns - width),
        )
        panel.arrived.wait(stream)
        blas.subtract_product(left, first, self._part(row, column, last_row, next_column), stream)
        blas.subtract_product(upper, rest, self._part(row, next_column, next_row, last_column), stream)
        if following is not None:
            self._pack_diagonal(other, following)
        blas.subtract_product(lower, rest, self._part(next_row, next_column, last_row, last_column), stream)

    def finish_update(self, poll: Poll) -> None:
        """Do nothing, because the update has been launched."""

    def finish(self) -> None:
        self._updates.synchronize()

    def _pack_diagonal(self, panel: DevicePanels, at: BlockPlace) -> None:
        """Launch a copy of a diagonal block, if this process has it, after its updates."""
        if at.on_row and at.on_column:
            place = self._a.part(at.row, at.column, at.size, at.size)
            copy_block(place, panel.diagonal(at.size), self._updates)
        self._ahead.record(self._updates)

    def _part(self, row: int, column: int, last_row: int, last_column: int) -> DeviceBlock:
        return self._a.part(row, column, last_row - row, last_column - column)
