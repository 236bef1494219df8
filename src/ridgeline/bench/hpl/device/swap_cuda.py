"""Rows that change places between processes of a column, whose matrices lie on GPUs.

Kernels pack the rows, one copy brings them to pinned host memory, and MPI exchanges them there. What comes is copied
to the device and unpacked. All this is on a stream of its own, so that another one updates other columns meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from mpi4py import MPI
from numba import cuda

from ridgeline.bench.hpl.block_cyclic import Axis
from ridgeline.bench.hpl.device.blas_cuda import DeviceBlock
from ridgeline.bench.hpl.device.matrix_cuda import RowList, copy_rows
from ridgeline.bench.hpl.device.panel_cuda import DevicePanel, pinned, wait_for
from ridgeline.bench.hpl.swap import RowMessages
from ridgeline.jit.cuda_device import make_stream

_GIVEN, _PLACES, _GIVEN_UP, _TOP = range(4)  # lists of a RowSwap


class DeviceRowExchange:
    """One exchange of rows at a time: `start`, then `finish`. Both collective over the column of processes, in order.

    a: this process's part of [A, b]; u: room for the rows of U, [nb, columns]. done: the event behind the last
    `finish`.
    """

    def __init__(self, comm: MPI.Comm, rows: Axis, a: DeviceBlock, u: DeviceBlock) -> None:
        self._a, self._u, self._part = a, u, rows.part
        size = u.rows * u.columns
        self._messages = RowMessages(comm, rows, [pinned(size) for _ in range(4)])
        self._rooms = [cuda.device_array(size, np.float64) for _ in range(4)]
        self._stream = make_stream(urgent=True)
        self._in_order = cuda.to_device(np.arange(u.rows), stream=self._stream)
        self.done, self._packed = cuda.event(), cuda.event()

    def start(self, panel: DevicePanel, start: int, stop: int, ready: Any, poll: Callable[[], None]) -> None:
        """Begin to exchange rows of local columns start ... stop - 1, once the event `ready` has come.

        The host calls `poll` until the rows are packed.
        """
        if stop <= start:
            return
        swap, stream, columns = panel.swap, self._stream, stop - start
        self._panel, self._columns = panel, (start, columns)
        ready.wait(stream)
        panel.arrived.wait(stream)
        given, _, scattered, _ = self._rooms
        host_given, _, host_scattered, _ = self._messages.rooms
        a = self._a.part(0, start, self._a.rows, columns)
        self._pack(a, panel.rows(_GIVEN), given, 0)
        _to_host(given, host_given, swap.given.size * columns, stream)
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
        """Wait for the rows, and put them in their places on the stream; `done` is the event behind it."""
        if not self._messages.under_way:
            return
        self._messages.wait()
        panel, (start, columns), stream = self._panel, self._columns, self._stream
        swap = panel.swap
        _, gathered, _, received = self._rooms
        _, host_gathered, _, host_received = self._messages.rooms
        _to_device(host_gathered, gathered, swap.width * columns, stream)
        u, unpacked = self._u.part(0, start, self._u.rows, columns), 0
        for places in swap.given_places:
            rows = panel.rows(_PLACES).part(unpacked, places.size)
            self._unpack(gathered, unpacked * columns, rows, u)
            unpacked += places.size
        _to_device(host_received, received, swap.given_up.size * columns, stream)
        self._unpack(received, 0, panel.rows(_GIVEN_UP), self._a.part(0, start, self._a.rows, columns))
        self.done.record(stream)

    def _pack(self, a: DeviceBlock, rows: RowList, room: Any, offset: int) -> None:
        """Copy rows of a into room, from `offset` on."""
        out = DeviceBlock(room, offset, rows.size, rows.size, a.columns)
        copy_rows(a, rows, out, RowList(self._in_order, 0, rows.size), self._stream)

    def _unpack(self, room: Any, offset: int, rows: RowList, out: DeviceBlock) -> None:
        """Copy what `_pack` has made of as many rows, from `offset` of room on, into rows of out."""
        packed = DeviceBlock(room, offset, rows.size, rows.size, out.columns)
        copy_rows(packed, RowList(self._in_order, 0, rows.size), out, rows, self._stream)


def _to_host(room: Any, host: Any, count: int, stream: Any) -> None:
    if count:
        room[:count].copy_to_host(host[:count], stream=stream)


def _to_device(host: Any, room: Any, count: int, stream: Any) -> None:
    if count:
        room[:count].copy_to_device(host[:count], stream=stream)
