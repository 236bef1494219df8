"""HPL and HPL-MxP on simulated devices with all work noted: whether waits put it in order."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock

import numpy as np

from ridgeline.bench.hpl import factor
from ridgeline.bench.hpl.broadcast import PanelBroadcast
from ridgeline.bench.hpl.device import blas_cuda, factor_cuda, panels_cuda, system_cuda
from ridgeline.bench.hpl.panel import ColumnPanel, PanelFactoriser
from ridgeline.bench.hpl.update import RowMessages
from stream_order import HOST, StreamOrder, noting

view = blas_cuda._view  # the numbers of a block


def rows_of(block, rows, columns):
    """The addresses of some rows of a block, and the list that names them."""
    numbers = rows.array._ary[rows.first : rows.first + rows.size]
    first = block.array._ary.ctypes.data + 8 * block.offset
    found = first + 8 * (numbers[:, None] + block.pitch * np.arange(columns))
    return found.ravel().astype(np.uintp), numbers


class Notes:
    """What each call reads and writes, with the arguments of the call."""

    def __init__(self, order: StreamOrder) -> None:
        self._work = order.work

    def copy_rows(self, source, rows, out, out_rows, stream):
        if rows.size and out.columns:
            (taken, named), (put, put_named) = (
                rows_of(block, some, out.columns) for block, some in ((source, rows), (out, out_rows))
            )
            self._work(stream, [taken, named, put_named], [put], "rows")

    def copy_block(self, source, out, stream):
        if not out.empty:
            self._work(stream, [view(source)], [view(out)], "copy of a block")

    def multiply(self, blas, factor, left, right, kept, out, stream):
        read = [view(left), view(right), *([view(out)] if kept else [])]
        self._work(stream, read, [view(out)], "product")

    def download(self, panel, stream):
        if panel.host.below.size:
            self._work(stream, [view(panel.below)], [panel.host.below], "download")

    def upload(self, panel, stream):
        host, lists = panel.host, panel._host_lists
        self._work(HOST, [], [lists], "lists of rows")
        numbers = panel._numbers._ary[: host.message.size]
        device = [numbers, view(panel.inverses), panel._lists._ary]
        self._work(stream, [host.message, host.inverses, lists], device, "upload")

    def to_host(self, buffer, host, count, stream):
        self._work(stream, [buffer._ary[:count]], [host[:count]], "rows to the host")

    def to_device(self, host, buffer, count, stream):
        self._work(stream, [host[:count]], [buffer._ary[:count]], "rows to the device")

    def exchange(self, messages, *_):
        given, gathered, scattered, received = messages.buffers
        self._work(HOST, [given, scattered], [gathered, received], "messages")

    def factor_panel(self, factoriser, panel, *_):
        self._work(HOST, [panel.message], [panel.message], "factorisation")

    def broadcast(self, broadcast, root, message):
        self._work(HOST, [message], [message], "broadcast")

    def invert(self, panel):
        self._work(HOST, [panel.top], [panel.inverses], "inverses")

    def round_to(self, values, out, stream):
        if not values.empty:
            self._work(stream, [view(values)], [view(values), view(out)], "rounding")

    def solve(self, blas, triangle, out, stream, *, lower):
        self._work(stream, [view(triangle), view(out)], [view(out)], "triangular solve")

    def download_block(self, panels, size, stream):
        self._work(stream, [view(panels.diagonal(size))], [panels.host_block(size)], "block to the host")

    def upload_block(self, panels, size, stream):
        self._work(stream, [panels.host_block(size)], [view(panels.diagonal(size))], "block to the device")

    def factor_block(self, block, storage):
        self._work(HOST, [block], [block], "factorisation")

    def download_copy(self, copy, block, stream):
        if copy._host is not None and not block.empty:
            count = panels_cuda._count(block)
            self._work(stream, [copy._device._ary[:count]], [copy._host[:count]], "panel to the host")

    def message(self, copy, block):
        if copy._host is not None and not block.empty:
            sent = copy._host[: panels_cuda._count(block)]
            self._work(HOST, [sent], [sent], "broadcast")

    def upload_copy(self, copy, block, stream):
        if copy._host is not None and not block.empty:
            count = panels_cuda._count(block)
            self._work(stream, [copy._host[:count]], [copy._device._ary[:count]], "panel to the device")


@contextmanager
def noted() -> Iterator[StreamOrder]:
    """Let all work of a run on devices be noted, and checked, inside the block."""
    order = StreamOrder()
    notes = Notes(order)
    with ExitStack() as stack:
        for owner, name, note in (
            (factor_cuda, "copy_rows", notes.copy_rows),
            (panels_cuda, "copy_rows", notes.copy_rows),
            (factor_cuda, "copy_block", notes.copy_block),
            (blas_cuda._NumpyBlas, "_multiply", notes.multiply),
            (panels_cuda.DevicePanel, "download", notes.download),
            (panels_cuda.DevicePanel, "upload", notes.upload),
            (panels_cuda, "_to_host", notes.to_host),
            (panels_cuda, "_to_device", notes.to_device),
            (RowMessages, "post", notes.exchange),
            (RowMessages, "wait", notes.exchange),
            (PanelFactoriser, "factor", notes.factor_panel),
            (PanelBroadcast, "start", notes.broadcast),
            (ColumnPanel, "invert", notes.invert),
            (factor, "factor_block", notes.factor_block),
            (panels_cuda, "copy_block", notes.copy_block),
            (panels_cuda, "round_to", notes.round_to),
            (blas_cuda._NumpyBlas, "_solve", notes.solve),
            (panels_cuda.DevicePanels, "download_block", notes.download_block),
            (panels_cuda.DevicePanels, "upload_block", notes.upload_block),
            (panels_cuda.PanelCopy, "download", notes.download_copy),
            (panels_cuda.PanelCopy, "message", notes.message),
            (panels_cuda.PanelCopy, "upload", notes.upload_copy),
        ):
            stack.enter_context(mock.patch.object(owner, name, noting(note, getattr(owner, name))))
        for owner in (factor_cuda, panels_cuda, system_cuda):
            stack.enter_context(mock.patch.object(owner, "make_stream", order.stream))
        stack.enter_context(mock.patch.object(factor_cuda.cuda, "event", order.event))
        yield order
