"""A process's part of the matrix of HPL-MxP on its GPU: written, rounded, and made anew for products in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from mpi4py import MPI
from numba import cuda

from ridgeline.bench.hpl.block_cyclic import Axis
from ridgeline.bench.hpl.device.blas_cuda import DeviceBlock, Narrow
from ridgeline.bench.hpl.device.matrix_cuda import copy_block
from ridgeline.bench.hpl_mxp.device import kernels_cuda
from ridgeline.bench.hpl_mxp.device.kernels_cuda import THREADS
from ridgeline.bench.hpl_mxp.matrix import SystemMatrix, Vector, make_tables
from ridgeline.runtime.device_errors import explained

_ROUNDINGS: dict[Narrow, Any] = {
    "float16": kernels_cuda.round_to_float16,
    "bfloat16": kernels_cuda.round_to_bfloat16,
}


class DeviceMxpMatrix(SystemMatrix):
    """A part that this rank's GPU makes, on a stream. dominant, diagonal: as of `SystemMatrix`."""

    def __init__(
        self,
        comm: MPI.Comm,
        rows: Axis,
        columns: Axis,
        stream: Any,
        dominant: bool = False,
        diagonal: Vector | None = None,
    ) -> None:
        """Make tables and norms. Collective over comm: the ranks of the grid."""
        tables = make_tables(rows.n, rows.globals(), columns.globals())
        self._stream, self._shape = stream, (rows.count(), columns.count())
        self._on_device = [cuda.to_device(one, stream=stream) if one.size else None for one in tables.arrays]
        self._x, self._sums = (cuda.device_array(max(one, 1), np.float64) for one in self._shape[::-1])
        super().__init__(comm, rows, columns, tables, dominant, diagonal)

    def _magnitudes(self) -> Vector:
        return self._by_rows(kernels_cuda.add_magnitudes)

    def _products(self, x: Vector) -> Vector:
        if x.size:
            self._x.copy_to_device(np.ascontiguousarray(x), stream=self._stream)
        return self._by_rows(kernels_cuda.multiply, self._x)

    @explained()
    def _by_rows(self, kernel: Any, *arguments: Any) -> Vector:
        """Return what a kernel makes of each row."""
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
        chunks = _chunks(rows)
        kernels_cuda.fill[chunks * out.columns, THREADS, stream](
            *self._on_device, rows, chunks, out.pitch, out.array
        )
        places, values = np.full(rows, -1, np.int64), np.zeros(rows, np.float32)
        places[self._row_of] = self._row_of + out.pitch * self._column_of
        values[self._row_of] = self._on_diagonal()
        on_device = [cuda.to_device(one, stream=stream) for one in (places, values)]
        kernels_cuda.put[chunks, THREADS, stream](*on_device, rows, out.array)
        stream.synchronize()  # places and values are no longer needed


def round_to(values: DeviceBlock, out: DeviceBlock, stream: Any) -> None:
    """Put on a stream: values are rounded to out's format in place, and out gets their 16 bits. Of one shape."""
    if values.empty:
        return
    assert out.narrow is not None
    chunks = _chunks(values.rows)
    _ROUNDINGS[out.narrow][chunks * values.columns, THREADS, stream](
        values.array, values.offset, values.pitch, values.rows, chunks, out.array, out.pitch
    )


def compile_kernels() -> None:
    """Compile the kernels of a solve, or load them from the cache, by launches for no rows."""
    states, sums = cuda.device_array(1, np.uint64), cuda.device_array(1, np.float64)
    numbers, bits = cuda.device_array(1, np.float32), cuda.device_array(1, np.uint16)
    places = cuda.device_array(1, np.int64)
    tables = states, states, states
    kernels_cuda.fill[1, THREADS](*tables, 0, 1, 1, numbers)
    kernels_cuda.put[1, THREADS](places, numbers, 0, numbers)
    kernels_cuda.multiply[1, THREADS](*tables, sums, 0, 1, sums)
    kernels_cuda.add_magnitudes[1, THREADS](*tables, 0, 1, sums)
    for kernel in _ROUNDINGS.values():
        kernel[1, THREADS](numbers, 0, 1, 0, 1, bits, 1)
    one = DeviceBlock(numbers, 0, 1, 1, 1)
    copy_block(one, one, cuda.default_stream())
    cuda.synchronize()


def _chunks(rows: int) -> int:
    """Return how many thread blocks a column of so many rows takes."""
    return -(-rows // THREADS)
