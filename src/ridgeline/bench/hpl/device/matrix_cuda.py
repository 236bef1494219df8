"""Matrices in device memory: generated, copied, rounded and summed up there, by the kernels of kernels_cuda."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from mpi4py import MPI
from numba import cuda

from ridgeline.bench.hpl.block_cyclic import Axis, BlockCyclic
from ridgeline.bench.hpl.device import kernels_cuda
from ridgeline.bench.hpl.device.blas_cuda import DeviceBlock, Narrow
from ridgeline.bench.hpl.device.kernels_cuda import THREADS
from ridgeline.bench.hpl.matrix import MxpMatrix, Tables, Vector, make_tables
from ridgeline.bench.hpl.panel import Reals
from ridgeline.bench.hpl.residual import ResidualSums
from ridgeline.bench.hpl.sizes import pitch_on_device
from ridgeline.runtime.device_errors import device_errors_explained

_ROUNDINGS: dict[Narrow, Any] = {
    "float16": kernels_cuda.round_to_float16,
    "bfloat16": kernels_cuda.round_to_bfloat16,
}


class DeviceMatrix:
    """[A, b] of one process, float64 on the current device, column-major; not yet written.

    place: its rows and columns; stream: on which all operations are launched.
    """

    def __init__(self, place: BlockCyclic, stream: Any) -> None:
        self._place, self._stream = place, stream
        rows, columns = place.shape
        pitch = pitch_on_device(rows)
        self.all = DeviceBlock(
            cuda.device_array(max(pitch * columns, 1), np.float64), 0, pitch, rows, columns
        )

    def generate(self, seed: int) -> None:
        """Write the random matrix, with the bits of `matrix.random_matrix`."""
        rows, columns = self._place.rows, self._place.columns
        if self.all.empty:
            return
        tables = make_tables(rows.n, rows.globals(), columns.globals(), seed)
        _fill(_on_device(tables, self._stream), self.all, self._stream)
        self._stream.synchronize()  # the tables are no longer needed

    def sums(self, x: Reals) -> ResidualSums:
        """Return this process's contributions to the norms of the test. x: of its columns of A, on the host."""
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
            for device_sums, out in zip(on_device, (product, by_rows, by_columns[: x.size])):
                device_sums.copy_to_host(out, stream=stream)
        if whole.rows and has_b:
            self.column(x.size).copy_to_host(b, stream=stream)
        stream.synchronize()
        return ResidualSums(product, by_rows, by_columns, b if has_b else None)

    def column(self, column: int) -> Any:
        """Return a local column, a view of device memory, float64 [rows]."""
        begin = column * self.all.pitch
        return self.all.array[begin : begin + self.all.rows]


class MxpDeviceMatrix(MxpMatrix):
    """A part that this rank's GPU generates, on a stream. dominant, diagonal: as for `MxpMatrix`."""

    def __init__(
        self,
        comm: MPI.Comm,
        rows: Axis,
        columns: Axis,
        stream: Any,
        dominant: bool = False,
        diagonal: Vector | None = None,
    ) -> None:
        """Compute tables and norms. Collective over comm, the ranks of the grid."""
        tables = make_tables(rows.n, rows.globals(), columns.globals())
        self._stream, self._shape = stream, (rows.count(), columns.count())
        self._on_device = _on_device(tables, stream)
        self._x, self._sums = (cuda.device_array(max(size, 1), np.float64) for size in self._shape[::-1])
        super().__init__(comm, rows, columns, tables, dominant, diagonal)

    def _magnitudes(self) -> Vector:
        return self._by_rows(kernels_cuda.add_magnitudes)

    def _products(self, x: Vector) -> Vector:
        if x.size:
            self._x.copy_to_device(np.ascontiguousarray(x), stream=self._stream)
        return self._by_rows(kernels_cuda.multiply, self._x)

    @device_errors_explained()
    def _by_rows(self, kernel: Any, *arguments: Any) -> Vector:
        """Return the number that a kernel computes for each row."""
        rows, columns = self._shape
        sums = np.zeros(rows)
        if rows and columns:
            kernel[_chunks(rows), THREADS, self._stream](
                *self._on_device, *arguments, rows, columns, self._sums
            )
            self._sums.copy_to_host(sums, stream=self._stream)
            self._stream.synchronize()
        return sums

    def write(self, out: DeviceBlock) -> None:
        """Write this process's part, rounded to float32. out: [rows, columns], all of its array."""
        if out.empty:
            return
        rows, stream = out.rows, self._stream
        _fill(self._on_device, out, stream)
        places, values = np.full(rows, -1, np.int64), np.zeros(rows, np.float32)
        places[self._row_of] = self._row_of + out.pitch * self._column_of
        values[self._row_of] = self._on_diagonal()
        on_device = [cuda.to_device(array, stream=stream) for array in (places, values)]
        kernels_cuda.put[_chunks(rows), THREADS, stream](*on_device, rows, out.array)
        stream.synchronize()  # places and values are no longer needed


def _on_device(tables: Tables, stream: Any) -> list[Any]:
    """Return copies of tables, None of an empty one."""
    return [cuda.to_device(array, stream=stream) if array.size else None for array in tables.arrays]


def _fill(tables: list[Any], out: DeviceBlock, stream: Any) -> None:
    """Launch the generation of random elements in out, which is all of its array."""
    chunks = _chunks(out.rows)
    kernels_cuda.fill[chunks * out.columns, THREADS, stream](*tables, out.rows, chunks, out.pitch, out.array)


class RowList(NamedTuple):
    """Row numbers: `size` elements of an int64 device array, from `first` on."""

    array: Any
    first: int
    size: int

    def part(self, first: int, size: int) -> RowList:
        """Return `size` of them, from `first` on."""
        return RowList(self.array, self.first + first, size)


def copy_rows(source: DeviceBlock, rows: RowList, out: DeviceBlock, out_rows: RowList, stream: Any) -> None:
    """Launch a copy of rows `rows` of source to rows `out_rows` of out, for all columns of out."""
    if rows.size == 0 or out.columns == 0:
        return
    chunks = _chunks(rows.size)
    kernels_cuda.copy_rows[chunks * out.columns, THREADS, stream](
        source.array,
        source.offset,
        source.pitch,
        rows.array,
        rows.first,
        out.array,
        out.offset,
        out.pitch,
        out_rows.array,
        out_rows.first,
        rows.size,
        chunks,
    )


def copy_block(source: DeviceBlock, out: DeviceBlock, stream: Any) -> None:
    """Launch a copy of source to out, which has the same shape."""
    if out.empty:
        return
    chunks = _chunks(out.rows)
    kernels_cuda.copy_block[chunks * out.columns, THREADS, stream](
        source.array, source.offset, source.pitch, out.array, out.offset, out.pitch, out.rows, chunks
    )


def round_to(values: DeviceBlock, out: DeviceBlock, stream: Any) -> None:
    """Launch the rounding of values, in place, to the format of out, which gets their 16 bits and has their shape."""
    if values.empty:
        return
    assert out.narrow is not None
    chunks = _chunks(values.rows)
    _ROUNDINGS[out.narrow][chunks * values.columns, THREADS, stream](
        values.array, values.offset, values.pitch, values.rows, chunks, out.array, out.pitch
    )


def compile_kernels() -> None:
    """Compile all kernels, or load them from the cache, by launches for no rows."""
    reals, singles = cuda.device_array(1, np.float64), cuda.device_array(1, np.float32)
    states, rows = cuda.device_array(1, np.uint64), cuda.device_array(1, np.int64)
    bits, tables = cuda.device_array(1, np.uint16), (states, states, states)
    for numbers in (reals, singles):
        kernels_cuda.fill[1, THREADS](*tables, 0, 1, 1, numbers)
        kernels_cuda.copy_block[1, THREADS](numbers, 0, 1, numbers, 0, 1, 0, 1)
    kernels_cuda.put[1, THREADS](rows, singles, 0, singles)
    kernels_cuda.multiply[1, THREADS](*tables, reals, 0, 1, reals)
    kernels_cuda.add_magnitudes[1, THREADS](*tables, 0, 1, reals)
    for kernel in _ROUNDINGS.values():
        kernel[1, THREADS](singles, 0, 1, 0, 1, bits, 1)
    kernels_cuda.sum_rows[1, THREADS](reals, 1, reals, 0, 1, reals, reals)
    kernels_cuda.sum_columns[1, THREADS](reals, 1, 0, reals)
    kernels_cuda.copy_rows[1, THREADS](reals, 0, 1, rows, 0, reals, 0, 1, rows, 0, 0, 1)
    cuda.synchronize()


def _chunks(rows: int) -> int:
    """Return how many thread blocks a column of this many rows takes."""
    return -(-rows // THREADS)
