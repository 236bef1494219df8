"""HPL-MxP on simulated devices with its work noted: whether waits put it in order, whatever is fast or slow."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock

from ridgeline.bench.hpl import factor
from ridgeline.bench.hpl.device import blas_cuda, factor_cuda, panels_cuda, system_cuda
from stream_order import HOST, StreamOrder, noting

view = blas_cuda._view  # the numbers of a block


class MxpNotes:
    """What each call reads and writes, with the arguments of the call."""

    def __init__(self, order: StreamOrder) -> None:
        self._work = order.work

    def copy_block(self, source, out, stream):
        if not out.empty:
            self._work(stream, [view(source)], [view(out)], "copy of a block")

    def round_to(self, values, out, stream):
        if not values.empty:
            self._work(stream, [view(values)], [view(values), view(out)], "rounding")

    def multiply(self, blas, factor, left, right, kept, out, stream):
        self._work(stream, [view(left), view(right), view(out)], [view(out)], "product")

    def solve(self, blas, triangle, out, stream, *, lower):
        self._work(stream, [view(triangle), view(out)], [view(out)], "triangular solve")

    def download_block(self, panels, size, stream):
        self._work(stream, [view(panels.diagonal(size))], [panels.host_block(size)], "block to the host")

    def upload_block(self, panels, size, stream):
        self._work(stream, [panels.host_block(size)], [view(panels.diagonal(size))], "block to the device")

    def factor_block(self, block, storage):
        self._work(HOST, [block], [block], "factorisation")

    def download(self, copy, block, stream):
        if copy._host is not None and not block.empty:
            count = panels_cuda._count(block)
            self._work(stream, [copy._device._ary[:count]], [copy._host[:count]], "panel to the host")

    def message(self, copy, block):
        if copy._host is not None and not block.empty:
            sent = copy._host[: panels_cuda._count(block)]
            self._work(HOST, [sent], [sent], "broadcast")

    def upload(self, copy, block, stream):
        if copy._host is not None and not block.empty:
            count = panels_cuda._count(block)
            self._work(stream, [copy._host[:count]], [copy._device._ary[:count]], "panel to the device")


@contextmanager
def noted() -> Iterator[StreamOrder]:
    """Let all work of a run on devices be noted, and checked, inside the block."""
    order = StreamOrder()
    notes = MxpNotes(order)
    with ExitStack() as stack:
        for owner, name, note in (
            (factor_cuda, "copy_block", notes.copy_block),
            (factor, "factor_block", notes.factor_block),
            (panels_cuda, "copy_block", notes.copy_block),
            (panels_cuda, "round_to", notes.round_to),
            (blas_cuda._NumpyBlas, "_multiply", notes.multiply),
            (blas_cuda._NumpyBlas, "_solve", notes.solve),
            (panels_cuda.DevicePanels, "download_block", notes.download_block),
            (panels_cuda.DevicePanels, "upload_block", notes.upload_block),
            (panels_cuda.PanelCopy, "download", notes.download),
            (panels_cuda.PanelCopy, "message", notes.message),
            (panels_cuda.PanelCopy, "upload", notes.upload),
        ):
            stack.enter_context(mock.patch.object(owner, name, noting(note, getattr(owner, name))))
        for owner in (factor_cuda, system_cuda):
            stack.enter_context(mock.patch.object(owner, "make_stream", order.stream))
        stack.enter_context(mock.patch.object(factor_cuda.cuda, "event", order.event))
        yield order
