"""Fourier transforms of slabs on one NVIDIA GPU per rank: lines, planes and physical space stay in device memory.

    lines [variable, y, line]     all y of this rank's lines; the transform in y is strided, lines contiguous
    planes [variable, z, y, x]    this rank's y; the transform in z is strided over whole planes. Those in x are
                                  between rows of modes and rows of points, in place

Both sides of the column exchange hold pieces as MPI wants them: of lines by y, of planes by the lines of each rank.
So packing is the one pass that also sets what truncation leaves out, or forms sums of products. On one rank there is
no exchange, and lines are the pieces. Complex numbers are pairs of reals in flat device arrays.
Source: Yeung et al. (GESTS), Sec. 2: batches of one-dimensional transforms, fields resident on the device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import cuda
from numpy.typing import DTypeLike

from ridgeline.fourier.device.clock import DeviceClock
from ridgeline.fourier.device.exchange_cuda import DeviceExchange, ExchangePieces
from ridgeline.fourier.device.fft_cuda import DevicePlan, Spacing, make_plan
from ridgeline.fourier.device.kernels_cuda import launch_shape, spread_lines
from ridgeline.fourier.device.layout import DeviceLayout
from ridgeline.fourier.pencil import PencilGrid
from ridgeline.jit.cuda_device import make_stream

if TYPE_CHECKING:
    from mpi4py import MPI


class DeviceSlabs:
    """The arrays, plans and exchange of transforms on this rank's device. Built collectively, in two steps.

    Plans are made first, without memory: `work_bytes` is what they want. `allocate` follows.

    Parameters
    ----------
    grid : slabs; comm : all ranks, numbered as grid.rank is; dtype : of physical fields
    n_lines, n_planes : variables that lines and planes have room for
    device_buffers : whether MPI takes device memory

    Attributes: layout: extents; stream: all work is put on it; scale: 1 over what there and back multiplies by.
    in_y, in_z, rows_to_points, rows_to_modes: plans of one variable.
    """

    def __init__(
        self,
        grid: PencilGrid,
        comm: MPI.Comm,
        dtype: DTypeLike,
        n_lines: int,
        n_planes: int,
        device_buffers: bool,
    ) -> None:
        self.grid, self.comm = grid, comm
        self.layout = DeviceLayout.of(grid)
        self._dtype: np.dtype[Any] = np.dtype(dtype)
        self._n_lines, self._n_planes = n_lines, n_planes
        self._device_buffers = device_buffers
        nz, ny, nx = grid.shape
        self.scale = 1.0 / (nx * ny * nz)
        self.stream = make_stream()
        self._plan()
        self.work_bytes = max(plan.work_bytes for plan in self._plans())
        self.clock = DeviceClock(self.stream, ("fft", "pack"))
        self.seconds_exchanging = 0.0

    def _plan(self) -> None:
        layout, (nz, ny, nx) = self.layout, self.grid.shape
        rows, pitch = nz * layout.ny_local, layout.pitch
        lines, planes = Spacing(layout.n_lines, 1), Spacing(layout.ny_local * pitch, 1)
        points, modes = Spacing(1, 2 * pitch), Spacing(1, pitch)
        self.in_y = make_plan("complex", ny, layout.n_lines, lines, lines, self._dtype)
        self.in_z = make_plan("complex", nz, layout.ny_local * pitch, planes, planes, self._dtype)
        self.rows_to_points = make_plan("real inverse", nx, rows, modes, points, self._dtype)
        self.rows_to_modes = make_plan("real forward", nx, rows, points, modes, self._dtype)

    def _plans(self) -> Iterable[DevicePlan]:
        return self.in_y, self.in_z, self.rows_to_points, self.rows_to_modes

    def allocate(self) -> None:
        """Allocate arrays and tables on the device; planes are zero. No communication."""
        layout, numbers = self.layout, self._dtype
        work = cuda.device_array(max(self.work_bytes, 1), np.uint8)
        for plan in self._plans():
            plan.use_work(work)
        self._lines = cuda.device_array(self._n_lines * 2 * layout.line_numbers, numbers)
        self._planes = cuda.to_device(np.zeros(self._n_planes * 2 * layout.plane_numbers, numbers))
        self._pieces, self._exchange = self._lines, None
        if self.comm.size > 1:
            self._pieces = cuda.device_array(self._n_lines * 2 * layout.piece_numbers, numbers)
            self._exchange = DeviceExchange(
                self.comm, ExchangePieces.of(layout.counts_of_lines), ExchangePieces.of(layout.counts_of_planes),
                self._n_lines, numbers, self._device_buffers, self.stream,
            )  # fmt: skip
        place, step = layout.tables()
        self.place, self.step = cuda.to_device(place), cuda.to_device(step)
        self.launch = (*launch_shape(self.grid.shape[0], layout.ny_local, layout.pitch), self.stream)

    @property
    def way(self) -> str:
        """How the exchange goes, in words."""
        return "none on one rank" if self._exchange is None else self._exchange.way

    @property
    def exchange(self) -> DeviceExchange | None:
        """The exchange between ranks, if there are several."""
        return self._exchange

    @property
    def all_lines(self) -> Any:
        """Lines of all variables, flat."""
        return self._lines

    @property
    def all_planes(self) -> Any:
        """Planes of all variables, flat."""
        return self._planes

    @property
    def all_pieces(self) -> Any:
        """ExchangePieces of all variables, flat."""
        return self._pieces

    def pieces(self, variable: int) -> Any:
        """Return what the planes' side of the exchange has of one variable."""
        size = 2 * self.layout.piece_numbers
        return self._pieces[variable * size : (variable + 1) * size]

    def planes(self, variable: int) -> Any:
        """Return the planes of one variable."""
        size = 2 * self.layout.plane_numbers
        return self._planes[variable * size : (variable + 1) * size]

    def lines(self, variable: int) -> Any:
        """Return the lines of one variable."""
        size = 2 * self.layout.line_numbers
        return self._lines[variable * size : (variable + 1) * size]

    def to_points(self, n: int) -> None:
        """Bring variables 0 ... n - 1 from lines to points in `planes`. Collective. The lines' content is lost."""
        for v in range(n):
            with self.clock("fft"):
                self.in_y.run(self.lines(v), self.lines(v), self.stream, inverse=True)
            if self._exchange is not None:
                self._exchange.give(v, "lines", self.lines(v))
        self._start("lines", range(n), self.lines, self.pieces)
        for v in range(n):
            self._finish("lines", v, self.pieces)
            planes = self.planes(v)
            with self.clock("pack"):
                spread_lines[self.launch](
                    self.pieces(v), self.place, self.step, self.layout.ny_local, self.layout.pitch, planes
                )
            with self.clock("fft"):
                self.in_z.run(planes, planes, self.stream, inverse=True)
                self.rows_to_points.run(planes, planes, self.stream)

    def to_planes(self, variable: int) -> None:
        """Bring one variable from points to modes in x and z, in its planes. No communication."""
        planes = self.planes(variable)
        self.rows_to_modes.run(planes, planes, self.stream)
        self.in_z.run(planes, planes, self.stream)

    def to_lines(self, order: Sequence[int], fill: Callable[[int], None]) -> None:
        """Bring variables to lines in the given order, where they are transformed in y. Collective.

        fill: puts what sets `pieces` of a variable on the stream.
        """
        for v in order:
            fill(v)
            if self._exchange is not None:
                self._exchange.give(v, "planes", self.pieces(v))
        self._start("planes", order, self.pieces, self.lines)
        for v in order:
            self._finish("planes", v, self.lines)
            with self.clock("fft"):
                self.in_y.run(self.lines(v), self.lines(v), self.stream)

    def _start(
        self, side: str, order: Iterable[int], source: Callable[[int], Any], target: Callable[[int], Any]
    ) -> None:
        if self._exchange is None:
            return
        for v in order:
            begin = perf_counter()
            self._exchange.start(v, side, source(v), target(v))
            self.seconds_exchanging += perf_counter() - begin

    def _finish(self, side: str, variable: int, target: Callable[[int], Any]) -> None:
        if self._exchange is None:
            return
        begin = perf_counter()
        self._exchange.finish(variable, side, target(variable))
        self.seconds_exchanging += perf_counter() - begin
