"""HPL on simulated devices with all its work noted: whether waits put it in order, whatever is fast or slow."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock

import numpy as np

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


class HplNotes:
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
            self._work(stream, [view(source)], [view(out)], "columns of the next panel")

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

    def to_host(self, room, host, count, stream):
        self._work(stream, [room._ary[:count]], [host[:count]], "rows to the host")

    def to_device(self, host, room, count, stream):
        self._work(stream, [host[:count]], [room._ary[:count]], "rows to the device")

    def exchange(self, messages, *_):
        given, gathered, scattered, received = messages.rooms
        self._work(HOST, [given, scattered], [gathered, received], "messages")

    def factor(self, factoriser, panel, *_):
        self._work(HOST, [panel.message], [panel.message], "factorisation")

    def broadcast(self, broadcast, root, message):
        self._work(HOST, [message], [message], "broadcast")

    def invert(self, panel):
        self._work(HOST, [panel.top], [panel.inverses], "inverses")


@contextmanager
def noted() -> Iterator[StreamOrder]:
    """Let all work of a factorisation on devices be noted, and checked, inside the block."""
    order = StreamOrder()
    notes = HplNotes(order)
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
            (PanelFactoriser, "factor", notes.factor),
            (PanelBroadcast, "start", notes.broadcast),
            (ColumnPanel, "invert", notes.invert),
        ):
            stack.enter_context(mock.patch.object(owner, name, noting(note, getattr(owner, name))))
        for owner in (factor_cuda, panels_cuda, system_cuda):
            stack.enter_context(mock.patch.object(owner, "make_stream", order.stream))
        stack.enter_context(mock.patch.object(factor_cuda.cuda, "event", order.event))
        yield order
