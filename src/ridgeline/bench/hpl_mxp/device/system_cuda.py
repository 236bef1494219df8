"""One system of HPL-MxP on GPUs: generated and factored there; diagonal blocks and refinement are the hosts'."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from mpi4py import MPI
from numba import cuda

from ridgeline.bench.hpl.device.blas_cuda import DeviceBlas, DeviceBlock, make_blas
from ridgeline.bench.hpl.device.memory import pitch_for
from ridgeline.bench.hpl.record import HplSettings
from ridgeline.bench.hpl_mxp.device.factor_cuda import DeviceMxpFactors
from ridgeline.bench.hpl_mxp.device.matrix_cuda import DeviceMxpMatrix, compile_kernels
from ridgeline.bench.hpl_mxp.device.memory import device_parts
from ridgeline.bench.hpl_mxp.factor import Grid, Matrix
from ridgeline.bench.hpl_mxp.matrix import Vector
from ridgeline.bench.hpl_mxp.storage import Storage
from ridgeline.bench.hpl_mxp.system import MxpSystem
from ridgeline.bench.hpl_mxp.triangular import Triangles
from ridgeline.bench.hpl_mxp.triangular import Vector as Singles
from ridgeline.jit.cuda_device import make_stream
from ridgeline.parallel.communicator import in_turn_per_node
from ridgeline.parallel.devices import require_device_memory, select_device
from ridgeline.parallel.reduce import together
from ridgeline.runtime.blas import blas_threads
from ridgeline.runtime.device_errors import explained


class DeviceMxpSystem(MxpSystem):
    """A system in the memory of this rank's GPU. Built collectively over comm, the ranks of the grid.

    Raises DeviceError on all ranks if one has no GPU, no cuBLAS, or too little memory there.
    """

    def __init__(
        self,
        comm: MPI.Comm,
        settings: HplSettings,
        grid: Grid,
        storage: Storage,
        dominant: bool = False,
        diagonal: Vector | None = None,
    ) -> None:
        """Generate it. dominant, diagonal: as of `SystemMatrix`."""
        self._threads = settings.threads
        device = select_device(comm)
        with together(comm):
            self._blas = make_blas(), make_blas()  # take memory, which is then not counted as free
        with explained():
            in_turn_per_node(comm, compile_kernels)
        parts = device_parts(settings.n, settings.nb, settings.p, settings.q, storage)
        require_device_memory(comm, device, parts, "use a smaller --n or more GPUs (-n)")
        rows, columns = grid.rows.count(), grid.columns.count()
        with explained():
            self._stream = make_stream()
            self.matrix = matrix = DeviceMxpMatrix(
                comm, grid.rows, grid.columns, self._stream, dominant, diagonal
            )
            pitch = pitch_for(rows)
            a = DeviceBlock(_room(pitch * columns), 0, pitch, rows, columns)
            matrix.write(a)
            self._factors = DeviceMxpFactors(grid, a, self._blas, storage, self._stream)
            self._triangles = DeviceTriangles(grid, a, self._factors.diagonals, self._blas[0], self._stream)

    def factor(self, on_step: Callable[[int], None]) -> Triangles:
        """Factor; hosts use their threads for diagonal blocks."""
        with explained(), blas_threads(self._threads):
            self._factors.run(on_step)
        return self._triangles

    def free(self) -> None:
        """Give back the handles of cuBLAS."""
        for blas in self._blas:
            blas.free()


class DeviceTriangles(Triangles):
    """L and U on the device, diagonal blocks on the host, as `DeviceMxpFactors` leaves them."""

    def __init__(
        self, grid: Grid, a: DeviceBlock, diagonals: dict[int, Matrix], blas: DeviceBlas, stream: Any
    ) -> None:
        super().__init__(grid)
        self._a, self._diagonals, self._blas, self._stream = a, diagonals, blas, stream
        self._sums = _room(a.rows)
        self._x = _room(min(grid.rows.nb, grid.rows.n))
        self._taken = slice(0)
        self._zeros = np.zeros(max(a.rows, 1), np.float32)

    @explained()
    def begin(self) -> None:
        """Copy zeros to the device."""
        self._sums.copy_to_device(self._zeros, stream=self._stream)

    @explained()
    def sums(self, rows: slice) -> Singles:
        """Return a copy from the device, for which the host waits: it solves with them next."""
        part = np.empty(rows.stop - rows.start, np.float32)
        if part.size:
            self._sums[rows].copy_to_host(part, stream=self._stream)
            self._stream.synchronize()
        return part

    def diagonal(self, k: int) -> Matrix:
        """Return a block that the host has kept."""
        return self._diagonals[k]

    @explained()
    def take(self, columns: slice, x: Singles) -> None:
        """Put the copy to the device on the stream, behind all products with what was there."""
        self._taken = columns
        self._x[: x.size].copy_to_device(x, stream=self._stream)

    @explained()
    def subtract(self, rows: slice) -> None:
        """Put the product on the stream."""
        count, width = max(rows.stop - rows.start, 0), self._taken.stop - self._taken.start
        if not count:
            return
        left = self._a.part(rows.start, self._taken.start, count, width)
        out = DeviceBlock(self._sums, rows.start, count, count, 1)
        self._blas.subtract_product_of_vector(
            left, DeviceBlock(self._x, 0, width, width, 1), out, self._stream
        )


def _room(count: int) -> Any:
    """Return device memory for so many float32, at least one."""
    return cuda.device_array(max(count, 1), np.float32)
