"""One linear system on GPUs: generated, factored and tested there; panels and diagonal blocks are the hosts'."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from mpi4py import MPI
from numba import cuda

from ridgeline.bench.hpl.device.blas_cuda import DeviceBlas, DeviceBlock, make_blas
from ridgeline.bench.hpl.device.factor_cuda import DeviceFactorisation
from ridgeline.bench.hpl.device.matrix_cuda import DeviceMatrix, compile_kernels
from ridgeline.bench.hpl.device.memory import device_parts
from ridgeline.bench.hpl.panel import Reals
from ridgeline.bench.hpl.process_grid import GridPlace
from ridgeline.bench.hpl.record import Broadcast, HplSettings
from ridgeline.bench.hpl.residual import ResidualSums
from ridgeline.bench.hpl.substitution import Triangle, substitute_back
from ridgeline.bench.hpl.system import HplSystem
from ridgeline.jit.cuda_device import make_stream
from ridgeline.parallel.communicator import in_turn_per_node
from ridgeline.parallel.devices import require_device_memory, select_device
from ridgeline.parallel.reduce import together
from ridgeline.runtime.device_errors import explained
from ridgeline.runtime.regions import Regions


class DeviceSystem(HplSystem):
    """A system in the memory of this rank's GPU. Built collectively over comm, the ranks of the grid.

    Raises DeviceError on all ranks if one has no GPU, no cuBLAS, or too little memory there.
    """

    def __init__(self, comm: MPI.Comm, settings: HplSettings, grid: GridPlace, broadcast: Broadcast) -> None:
        self.regions = Regions()
        self._settings, self._grid = settings, grid
        device = select_device(comm)
        with together(comm):
            self._blas = make_blas()  # takes memory, which is then not counted as free
        with explained():
            in_turn_per_node(comm, compile_kernels)
        parts = device_parts(settings.n, settings.nb, settings.p, settings.q)
        require_device_memory(comm, device, parts, "use a smaller --n or more GPUs (-n)")
        with explained():
            self._stream = make_stream()
            self._matrix = DeviceMatrix(grid.place, self._stream)
            self._matrix.generate(settings.seed)
            self._lu = DeviceFactorisation(
                settings, grid, self._matrix.all, self._blas, broadcast, self._stream, self.regions
            )

    def factor(self, told: Callable[[int], None]) -> None:
        """Factor in place."""
        with explained():
            self._lu.run(told)

    def substitute(self) -> Reals:
        """Return x: U is multiplied on the device, its diagonal blocks are solved for by hosts."""
        with explained(), self.regions("substitution"):
            triangle = DeviceTriangle(self._grid, self._matrix, self._lu.diagonals, self._blas, self._stream)
            return substitute_back(self._grid, triangle)

    def sums(self, x: Reals) -> ResidualSums:
        """Return the sums of the matrix, generated in the place of its factors."""
        with explained():
            self._matrix.generate(self._settings.seed)
            found = self._matrix.sums(x)
        self._blas.free()
        return found


class DeviceTriangle(Triangle):
    """U and y on the device, the blocks on U's diagonal on the host, as `DeviceFactorisation` left them."""

    def __init__(
        self,
        grid: GridPlace,
        matrix: DeviceMatrix,
        diagonals: dict[int, Reals],
        blas: DeviceBlas,
        stream: Any,
    ) -> None:
        rows, columns = grid.place.rows, grid.place.columns
        n = columns.n - 1
        self._rows, self._a, self._diagonals = rows.globals(), matrix.all, diagonals
        self._blas, self._stream = blas, stream
        self._y = cuda.device_array(max(self._a.rows, 1), np.float64)
        self._x = cuda.device_array(columns.nb, np.float64)
        if columns.owner(n) == columns.part and self._a.rows:
            self._y.copy_to_device(matrix.column(columns.local(n)), stream=stream)
        else:
            self._y.copy_to_device(np.zeros(self._y.size), stream=stream)

    def right_side(self, row: int, width: int) -> Reals:
        """Return a part of y, copied from the device."""
        part = np.empty(width)
        self._y[row : row + width].copy_to_host(part, stream=self._stream)
        self._stream.synchronize()
        return part

    def diagonal(self, row: int, column: int, width: int) -> Reals:
        """Return a block that the host has kept."""
        return self._diagonals[int(self._rows[row])]

    def subtract(self, row: int, column: int, x: Reals) -> None:
        """Put the product with x on the stream."""
        self._x[: x.size].copy_to_device(x, stream=self._stream)
        left = self._a.part(0, column, row, x.size)
        y = DeviceBlock(self._y, 0, max(row, 1), row, 1)
        self._blas.subtract_product_of_vector(
            left, DeviceBlock(self._x, 0, x.size, x.size, 1), y, self._stream
        )
