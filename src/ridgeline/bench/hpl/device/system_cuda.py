"""A linear system on GPUs, generated, factored and solved there. Hosts factor panels or diagonal blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from mpi4py import MPI
from numba import cuda
from numpy.typing import NDArray

from ridgeline.bench.hpl.block_cyclic import ProcessGrid
from ridgeline.bench.hpl.device.blas_cuda import DeviceBlas, DeviceBlock, make_blas
from ridgeline.bench.hpl.device.factor_cuda import PivotedDevice, UnpivotedDevice
from ridgeline.bench.hpl.device.matrix_cuda import DeviceMatrix, MxpDeviceMatrix, compile_kernels
from ridgeline.bench.hpl.factor import PivotedLU, UnpivotedLU, factor
from ridgeline.bench.hpl.matrix import Vector
from ridgeline.bench.hpl.panel import Reals
from ridgeline.bench.hpl.record import Broadcast, HplSettings, Storage
from ridgeline.bench.hpl.residual import ResidualSums
from ridgeline.bench.hpl.sizes import hpl_device_parts, mxp_device_parts, pitch_on_device
from ridgeline.bench.hpl.triangular import Triangles, substitute_back
from ridgeline.jit.cuda_device import make_stream
from ridgeline.parallel.allreduce import errors_on_all_ranks
from ridgeline.parallel.communicator import compile_on_nodes
from ridgeline.parallel.devices import require_device_memory, select_device
from ridgeline.runtime.blas import blas_threads
from ridgeline.runtime.device_errors import device_errors_explained
from ridgeline.runtime.regions import Regions


def _open_device(comm: MPI.Comm, parts: Mapping[str, float], handles: int) -> list[DeviceBlas]:
    """Return handles of cuBLAS on this rank's GPU, whose kernels are compiled, and which has memory for `parts`.

    Collective over comm. Raises DeviceError on all ranks if one has no GPU, no cuBLAS, or too little memory there.
    """
    device = select_device(comm)
    with errors_on_all_ranks(comm):
        blas = [make_blas() for _ in range(handles)]  # take memory, which is then not counted as free
    with device_errors_explained():
        compile_on_nodes(comm, compile_kernels)
    require_device_memory(comm, device, dict(parts), "use a smaller --order or more GPUs (-n)")
    return blas


class DeviceSystem:
    """A system of HPL in the memory of this rank's GPU. Built collectively over comm, the ranks of the grid.

    Raises DeviceError on all ranks if one has no GPU, no cuBLAS, or too little memory there.
    """

    def __init__(
        self, comm: MPI.Comm, settings: HplSettings, grid: ProcessGrid, broadcast: Broadcast
    ) -> None:
        self.regions = Regions()
        self._settings, self._columns = settings, grid.place.columns
        parts = hpl_device_parts(settings.n, settings.nb, settings.p, settings.q)
        (self._blas,) = _open_device(comm, parts, 1)
        with device_errors_explained():
            stream = make_stream()
            self._matrix = DeviceMatrix(grid.place, stream)
            self._matrix.generate(settings.seed)
            a = self._matrix.all
            backend = PivotedDevice(settings, grid, a, self._blas, stream, self.regions)
            self._lu = PivotedLU(settings, grid, backend, broadcast, self.regions)
            self._triangles = DeviceTriangles(grid, a, backend.diagonals, self._blas, stream)

    def factor(self, on_columns: Callable[[int], None]) -> None:
        """Factor. BLAS on the hosts uses several threads for panels."""
        with device_errors_explained(), blas_threads(self._settings.threads):
            factor(self._lu, self._settings.n, self._settings.nb, on_columns)

    def substitute(self) -> Reals:
        """Return x. The device multiplies by U, hosts solve with its diagonal blocks."""
        b = self._columns.n - 1
        here = self._columns.owner(b) == self._columns.part
        with device_errors_explained(), self.regions("substitution"):
            self._triangles.begin(self._matrix.column(self._columns.local(b)) if here else None)
            return substitute_back(self._triangles)

    def sums(self, x: Reals) -> ResidualSums:
        """Return the sums of the matrix, which is generated in the memory of its factors."""
        with device_errors_explained():
            self._matrix.generate(self._settings.seed)
            sums = self._matrix.sums(x)
        self._blas.free()
        return sums


class MxpDeviceSystem:
    """A system of HPL-MxP in the memory of this rank's GPU. Built collectively over comm, the ranks of the grid.

    Raises DeviceError on all ranks if one has no GPU, no cuBLAS, or too little memory there.
    """

    def __init__(
        self,
        comm: MPI.Comm,
        settings: HplSettings,
        grid: ProcessGrid,
        storage: Storage,
        dominant: bool = False,
        diagonal: Vector | None = None,
    ) -> None:
        """Generate the system. dominant, diagonal: as for `MxpMatrix`."""
        self._settings = settings
        parts = mxp_device_parts(settings.n, settings.nb, settings.p, settings.q, storage)
        self._blas = _open_device(comm, parts, 2)
        rows, columns = grid.place.rows, grid.place.unknowns
        with device_errors_explained():
            stream = make_stream()
            self.matrix = matrix = MxpDeviceMatrix(comm, rows, columns, stream, dominant, diagonal)
            pitch = pitch_on_device(rows.count())
            memory = cuda.device_array(max(pitch * columns.count(), 1), np.float32)
            a = DeviceBlock(memory, 0, pitch, rows.count(), columns.count())
            matrix.write(a)
            backend = UnpivotedDevice(grid, a, (self._blas[0], self._blas[1]), storage, stream)
            self._lu = UnpivotedLU(grid, backend, storage)
            self._triangles = DeviceTriangles(grid, a, backend.diagonals, self._blas[0], stream)

    def factor(self, on_columns: Callable[[int], None]) -> Triangles:
        """Factor. BLAS on the hosts uses several threads for diagonal blocks."""
        with device_errors_explained(), blas_threads(self._settings.threads):
            factor(self._lu, self._settings.n, self._settings.nb, on_columns)
        return self._triangles

    def free(self) -> None:
        """Destroy the handles of cuBLAS."""
        for blas in self._blas:
            blas.free()


class DeviceTriangles:
    """L and U and sums of their rows on the device, and the diagonal blocks on the host, a `Triangles`.

    diagonals: diagonal blocks by number; blas, stream: the products, and the stream on which the factors `a` are
    ready.
    """

    def __init__(
        self,
        grid: ProcessGrid,
        a: DeviceBlock,
        diagonals: Mapping[int, NDArray[Any]],
        blas: DeviceBlas,
        stream: Any,
    ) -> None:
        self.grid = grid
        self._a, self._diagonals, self._blas, self._stream = a, diagonals, blas, stream
        self._numbers = a.array.dtype
        self._sums = cuda.device_array(max(a.rows, 1), self._numbers)
        self._x = cuda.device_array(min(grid.place.rows.nb, grid.place.rows.n), self._numbers)
        self._taken = slice(0)
        self._zeros = np.zeros(max(a.rows, 1), self._numbers)

    def begin(self, sums: Any) -> None:
        """Set the sums to a device array [rows], or to zero without one."""
        self._sums.copy_to_device(
            self._zeros if sums is None or not self._a.rows else sums, stream=self._stream
        )

    @device_errors_explained()
    def clear(self) -> None:
        self.begin(None)

    @device_errors_explained()
    def sums(self, rows: slice) -> NDArray[Any]:
        """Return a copy from the device. The host waits for it, because it solves with the sums next."""
        part = np.empty(rows.stop - rows.start, self._numbers)
        if part.size:
            self._sums[rows].copy_to_host(part, stream=self._stream)
            self._stream.synchronize()
        return part

    def diagonal(self, k: int, rows: slice, columns: slice) -> NDArray[Any]:
        """Return the block that the host has kept."""
        return self._diagonals[k]

    @device_errors_explained()
    def set_solution(self, columns: slice, x: NDArray[Any]) -> None:
        """Launch the copy to the device, after all products with the solution before."""
        self._taken = columns
        self._x[: x.size].copy_to_device(x, stream=self._stream)

    @device_errors_explained()
    def subtract(self, rows: slice) -> None:
        """Launch the product."""
        count, width = max(rows.stop - rows.start, 0), self._taken.stop - self._taken.start
        if not count:
            return
        left = self._a.part(rows.start, self._taken.start, count, width)
        x, sums = (
            DeviceBlock(self._x, 0, width, width, 1),
            DeviceBlock(self._sums, rows.start, count, count, 1),
        )
        self._blas.subtract_product_of_vector(left, x, sums, self._stream)
