"""A panel on its way between the host, which factors it, and the device, which updates the rest by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import cuda

from ridgeline.bench.hpl.device.blas_cuda import DeviceBlock
from ridgeline.bench.hpl.device.matrix_cuda import RowList
from ridgeline.bench.hpl.device.memory import LISTS
from ridgeline.bench.hpl.panel import ColumnPanel, Reals
from ridgeline.bench.hpl.swap import RowSwap
from ridgeline.bench.hpl.update_kernels import BLOCK
from ridgeline.jit.cuda_device import SIMULATED


class DevicePanel:
    """Room for one panel in pinned host memory, and for the same numbers on the device.

    host: the panel there; swap: its rows that change places, once it is factored; left, arrived: the events behind
    the last `download` and `upload`.
    """

    swap: RowSwap

    def __init__(self, most_rows: int, nb: int) -> None:
        self.host = ColumnPanel(most_rows, nb, pinned)
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
        """Put the copy of `below` to the host on a stream."""
        count = self.host.below.size
        if count:
            self._numbers[:count].copy_to_host(self.host.message[:count], stream=stream)
        self.left.record(stream)

    def upload(self, stream: Any) -> None:
        """Put copies of the factored panel, its inverses and the lists of its rows to the device on a stream."""
        message, inverses = self.host.message, self.host.inverses.ravel("F")
        self._numbers[: message.size].copy_to_device(message, stream=stream)
        self._inverses[: inverses.size].copy_to_device(inverses, stream=stream)
        for which, rows in enumerate(self.swap.lists):
            self._host_lists[which * self._nb : which * self._nb + rows.size] = rows
        self._lists.copy_to_device(self._host_lists, stream=stream)
        self.arrived.record(stream)


def wait_for(event: Any, poll: Callable[[], None]) -> None:
    """Call `poll` until an event has come. Simulated ones have come when they are recorded."""
    if SIMULATED:
        event.synchronize()
        return
    while not event.query():
        poll()


def pinned(count: int) -> Reals:
    """Return pinned host memory for so many float64."""
    memory: Reals = cuda.pinned_array(count, np.float64)
    memory[:] = 0.0
    return memory
