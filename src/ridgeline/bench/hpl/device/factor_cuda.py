"""The factorisation of [A, b] with the matrix on GPUs: panels by the hosts, all else by the devices.

For panel k the device updates the columns of panel k + 1 first, and copies them to the host. The host factors and
broadcasts them while the device updates the rest (look-ahead of depth 1). The order of all that is launched on the
compute stream is that of the host's factorisation; copies have a stream of their own.

On P > 1 process rows the columns are cut in two parts, as on hosts (split update). Rows of one change places, through
host memory, while the other is updated.
Sources: Petitet et al., "HPL", overview; rocHPL (AMD) for the split update and for panels on the host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import cuda

from ridgeline.bench.hpl.blas_calls import blas_addresses
from ridgeline.bench.hpl.broadcast import PanelBroadcast
from ridgeline.bench.hpl.device.blas_cuda import DeviceBlas, DeviceBlock
from ridgeline.bench.hpl.device.matrix_cuda import copy_block, copy_rows
from ridgeline.bench.hpl.device.panel_cuda import DevicePanel, wait_for
from ridgeline.bench.hpl.device.swap_cuda import DeviceRowExchange
from ridgeline.bench.hpl.panel import PanelFactoriser, Reals
from ridgeline.bench.hpl.parts import PanelColumns
from ridgeline.bench.hpl.process_grid import GridPlace
from ridgeline.bench.hpl.record import Broadcast, HplSettings
from ridgeline.bench.hpl.swap import RowSwap
from ridgeline.bench.hpl.update_kernels import BLOCK
from ridgeline.jit.cuda_device import make_stream
from ridgeline.runtime.blas import blas_threads
from ridgeline.runtime.regions import Regions

_SOURCES, _PLACES, _TARGETS, _TAKEN = range(4)  # lists of a RowSwap of a process that is alone


class DeviceFactorisation:
    """LU of this process's part `a` of [A, b] in device memory, in place. Not allocated again: it has all its rooms.

    stream: of the updates, on which a is ready. diagonals: the blocks on U's diagonal that this process has, float64
    [width, width] on the host, by their first global column. Above them U remains in a, L is not kept.
    """

    def __init__(
        self,
        settings: HplSettings,
        grid: GridPlace,
        a: DeviceBlock,
        blas: DeviceBlas,
        broadcast: Broadcast,
        stream: Any,
        regions: Regions,
    ) -> None:
        nb, place = settings.nb, grid.place
        alone = grid.column_comm.size == 1
        self.diagonals: dict[int, Reals] = {}
        self._settings, self._place, self._a, self._blas = settings, place, a, blas
        self._regions = regions
        self._columns = PanelColumns(place.columns, divided=not alone)
        self._panels = [DevicePanel(a.rows, nb) for _ in range(2)]
        self._factoriser = PanelFactoriser(
            grid.column_comm, blas_addresses(), nb, settings.nbmin, settings.ndiv
        )
        self._broadcast = PanelBroadcast(grid.row_comm, broadcast)
        self._global_rows = place.rows.globals()
        self._raw = _rows_of_u(nb, a.columns)
        self._u = None if alone else _rows_of_u(nb, a.columns)
        self._exchange = None if alone else DeviceRowExchange(grid.column_comm, place.rows, a, self._raw)
        self._compute, self._copies = stream, make_stream()
        self._ahead, self._left, self._right = (cuda.event() for _ in range(3))  # parts that are updated

    def run(self, told: Callable[[int], None]) -> None:
        """Factor; told: called with the columns that are done. Collective over the grid."""
        first = 0
        with blas_threads(self._settings.threads):
            self._pack(0)
            self._prepare(0)
            self._arrive(0, ready=self._right)
            while first < self._settings.n:
                first = self._step(first)
                told(first)
        with self._regions("update"):
            self._compute.synchronize()
        self._broadcast.finish()

    def _step(self, first: int) -> int:
        """Launch the update by the panel at global column `first`, and factor the next panel; return its column."""
        panel, parts, after = self._panel_at(first), self._columns.right_of(first), self._columns.after(first)
        more = after < self._settings.n
        panel.arrived.wait(self._compute)
        self._finish_exchange()
        self._update(panel, parts.start, parts.ahead)
        if more:
            self._pack(after)
        self._update(panel, parts.ahead, parts.split)
        self._left.record(self._compute)
        self._start_exchange(panel, parts.split, parts.stop, self._right)
        if more:
            self._prepare(after)
        self._finish_exchange()
        self._update(panel, parts.split, parts.stop)
        self._right.record(self._compute)
        if more:
            following = self._columns.right_of(after)
            # Rows of the next left part may change places before the right one is updated, if it is none of it.
            self._arrive(after, self._left if following.split == parts.split else self._right)
        return after

    def _pack(self, first: int) -> None:
        """Put the columns of the panel at global column `first`, where they lie here, together on the device."""
        rows, panel = self._place.rows, self._panel_at(first)
        row, width = rows.count(first), self._columns.after(first) - first
        panel.host.shape(first, rows.count() - row, width)
        if self._columns.here(first):
            columns = self._place.columns
            below = panel.below
            copy_block(self._a.part(row, columns.local(first), below.rows, width), below, self._compute)
        self._ahead.record(self._compute)

    def _prepare(self, first: int) -> None:
        """Factor the panel at global column `first`, where it lies here, and begin to broadcast it."""
        rows, panel, regions = self._place.rows, self._panel_at(first), self._regions
        with regions("broadcast"):
            panel.arrived.synchronize()
            self._broadcast.make_room()
        if self._columns.here(first):
            with regions("copies"):
                self._ahead.wait(self._copies)
                panel.download(self._copies)
                wait_for(panel.left, self._progress)
            with regions("panel"):
                diagonal = rows.owner(first) == rows.part
                self._factoriser.factor(panel.host, self._global_rows[rows.count(first) :], diagonal)
                if diagonal:
                    self.diagonals[first] = np.array(panel.host.top, order="F")
        self._broadcast.start(self._place.columns.owner(first), panel.host.message)

    def _arrive(self, first: int, ready: Any) -> None:
        """Wait for the factored panel, copy it to the device, and begin to exchange rows of its left part.

        ready: the event behind the updates of that part by the panel before.
        """
        panel, parts = self._panel_at(first), self._columns.right_of(first)
        with self._regions("broadcast"):
            self._broadcast.wait()
        with self._regions("copies"):
            panel.host.invert()
            panel.swap = RowSwap(panel.host, self._place.rows)
            self._ahead.wait(self._copies)  # behind all that was launched with the panel before the last one
            panel.upload(self._copies)
        self._start_exchange(panel, parts.start, parts.split, ready)

    def _start_exchange(self, panel: DevicePanel, start: int, stop: int, ready: Any) -> None:
        if self._exchange is not None:
            with self._regions("swap"):
                self._exchange.start(panel, start, stop, ready, self._progress)

    def _finish_exchange(self) -> None:
        if self._exchange is not None:
            with self._regions("swap"):
                self._exchange.finish()
                self._exchange.done.wait(self._compute)

    def _progress(self) -> None:
        """Let messages advance while the host waits for the device."""
        self._broadcast.progress()
        if self._exchange is not None:
            self._exchange.progress()

    def _update(self, panel: DevicePanel, start: int, stop: int) -> None:
        """Launch the update of local columns start ... stop - 1: rows of U, triangular solve, product."""
        if stop > start:
            with self._regions("update"):
                self._launch_update(panel, start, stop)

    def _launch_update(self, panel: DevicePanel, start: int, stop: int) -> None:
        blas, stream, swap, width = self._blas, self._compute, panel.swap, panel.host.width
        rows, count = self._place.rows, stop - start
        a, first = self._a.part(0, start, self._a.rows, count), rows.count(panel.host.first)
        skip = width if swap.root == rows.part else 0
        raw = self._raw.part(0, start, width, count)
        if swap.alone:
            copy_rows(a, panel.rows(_SOURCES), raw, panel.rows(_PLACES), stream)
            copy_rows(a, panel.rows(_TAKEN), a, panel.rows(_TARGETS), stream)
        # The process that has the top block solves for U where it belongs.
        u = a.part(first, 0, width, count) if skip else self._rows_of_u(start, width, count)
        for row in range(0, width, BLOCK):
            height = min(BLOCK, width - row)
            part = raw.part(row, 0, height, count)
            blas.subtract_product(panel.top.part(row, 0, height, row), u.part(0, 0, row, count), part, stream)
            blas.assign_product(
                panel.inverses.part(row, 0, height, height), part, u.part(row, 0, height, count), stream
            )
        left = panel.below.part(skip, 0, panel.below.rows - skip, width)
        blas.subtract_product(left, u, a.part(first + skip, 0, left.rows, count), stream)

    def _rows_of_u(self, start: int, width: int, count: int) -> DeviceBlock:
        assert self._u is not None  # a process that is alone has the top block
        return self._u.part(0, start, width, count)

    def _panel_at(self, first: int) -> DevicePanel:
        return self._panels[first // self._settings.nb % 2]


def _rows_of_u(nb: int, columns: int) -> DeviceBlock:
    return DeviceBlock(cuda.device_array(max(nb * columns, 1), np.float64), 0, nb, nb, columns)
