"""A process's part of [A, b] in device memory: generated there, moved there, and summed up for the official test."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import cuda

from ridgeline.bench.hpl.block_cyclic import BlockCyclic
from ridgeline.bench.hpl.device import kernels_cuda
from ridgeline.bench.hpl.device.blas_cuda import DeviceBlock
from ridgeline.bench.hpl.device.kernels_cuda import THREADS
from ridgeline.bench.hpl.device.memory import pitch_for
from ridgeline.bench.hpl.generator import first_states, jump
from ridgeline.bench.hpl.panel import Reals
from ridgeline.bench.hpl.residual import ResidualSums

_BITS = 63  # of a distance in HPL's sequence


class DeviceMatrix:
    """[A, b] of one process, float64 on the current device, column-major; not yet written.

    place: which rows and columns; stream: of all that is done here.
    """

    def __init__(self, place: BlockCyclic, stream: Any) -> None:
        self._place, self._stream = place, stream
        rows, columns = place.shape
        pitch = pitch_for(rows)
        self.all = DeviceBlock(
            cuda.device_array(max(pitch * columns, 1), np.float64), 0, pitch, rows, columns
        )

    def generate(self, seed: int) -> None:
        """Write the random matrix: the bits of `generator.fill_matrix`."""
        rows, whole = self._place.rows, self.all
        if whole.empty:
            return
        starts = cuda.to_device(first_states(self._place, 0, whole.columns, seed), stream=self._stream)
        powers = np.array([jump(2**bit) for bit in range(_BITS)], np.uint64)
        steps = cuda.to_device(powers.reshape(-1), stream=self._stream)
        chunks = _chunks(whole.rows)
        kernels_cuda.generate[chunks * whole.columns, THREADS, self._stream](
            starts, steps, rows.nb, rows.parts, whole.rows, chunks, whole.pitch, whole.array
        )
        self._stream.synchronize()  # starts and steps are no longer needed

    def sums(self, x: Reals) -> ResidualSums:
        """Return what this process adds to the norms of the test. x: of its columns of A, on the host."""
        whole, stream = self.all, self._stream
        product, by_rows, b = np.zeros((3, whole.rows))
        by_columns = np.zeros(whole.columns)
        has_b = whole.columns > x.size
        if whole.rows and x.size:
            numbers = cuda.to_device(x, stream=stream)
            on_device = [cuda.device_array(size, np.float64) for size in (whole.rows, whole.rows, x.size)]
            kernels_cuda.sum_rows[_chunks(whole.rows), THREADS, stream](
                whole.array, whole.pitch, numbers, whole.rows, x.size, *on_device[:2]
            )
            kernels_cuda.sum_columns[x.size, THREADS, stream](
                whole.array, whole.pitch, whole.rows, on_device[2]
            )
            for found, out in zip(on_device, (product, by_rows, by_columns[: x.size])):
                found.copy_to_host(out, stream=stream)
        if whole.rows and has_b:
            self.column(x.size).copy_to_host(b, stream=stream)
        stream.synchronize()
        return ResidualSums(product, by_rows, by_columns, b if has_b else None)

    def column(self, column: int) -> Any:
        """Return a local column, a view of device memory, float64 [rows]."""
        begin = column * self.all.pitch
        return self.all.array[begin : begin + self.all.rows]


class RowList(NamedTuple):
    """Numbers of rows: `size` of an int64 device array, from `first` on."""

    array: Any
    first: int
    size: int

    def part(self, first: int, size: int) -> RowList:
        """Return `size` of them, from `first` on."""
        return RowList(self.array, self.first + first, size)


def copy_rows(source: DeviceBlock, rows: RowList, out: DeviceBlock, out_rows: RowList, stream: Any) -> None:
    """Put on a stream: rows `rows` of source become rows `out_rows` of out, of all columns of out."""
    if rows.size == 0 or out.columns == 0:
        return
    chunks = _chunks(rows.size)
    kernels_cuda.copy_rows[chunks * out.columns, THREADS, stream](
        source.array, source.offset, source.pitch, rows.array, rows.first,
        out.array, out.offset, out.pitch, out_rows.array, out_rows.first, rows.size, chunks,
    )  # fmt: skip


def copy_block(source: DeviceBlock, out: DeviceBlock, stream: Any) -> None:
    """Put on a stream: out becomes source, of the same shape."""
    if out.empty:
        return
    chunks = _chunks(out.rows)
    kernels_cuda.copy_block[chunks * out.columns, THREADS, stream](
        source.array, source.offset, source.pitch, out.array, out.offset, out.pitch, out.rows, chunks
    )


def compile_kernels() -> None:
    """Compile the kernels of a solve, or load them from the cache, by launches for no rows."""
    numbers, rows = cuda.device_array(1, np.float64), cuda.device_array(1, np.int64)
    states = cuda.device_array(1, np.uint64)
    kernels_cuda.generate[1, THREADS](states, states, 1, 1, 0, 1, 1, numbers)
    kernels_cuda.sum_rows[1, THREADS](numbers, 1, numbers, 0, 1, numbers, numbers)
    kernels_cuda.sum_columns[1, THREADS](numbers, 1, 0, numbers)
    kernels_cuda.copy_rows[1, THREADS](numbers, 0, 1, rows, 0, numbers, 0, 1, rows, 0, 0, 1)
    kernels_cuda.copy_block[1, THREADS](numbers, 0, 1, numbers, 0, 1, 0, 1)
    cuda.synchronize()


def _chunks(rows: int) -> int:
    """Return how many thread blocks a column of so many rows takes."""
    return -(-rows // THREADS)
