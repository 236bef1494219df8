"""Fourier transforms of slabs and pencils on one NVIDIA GPU per rank; modes and points stay in its memory.

    lines [variable, y, line]     all y of this rank's lines; the transform in y is strided, lines contiguous
    planes [variable, z, y, x]    this rank's y, and with pencils only its columns j_x; the transform in z is strided
                                  over whole planes
    rows [variable, z, y, x]      this rank's y and z; transforms in x are between rows of modes and rows of points,
                                  in place. Rows take the place of planes; with slabs they are the planes

The column exchange is between lines and planes; the row exchange, which only pencils have, is between planes and
rows. Both sides of an exchange hold pieces as messages need them: those of lines are cut by y, those of planes by the
lines of each rank or by z, those of rows by the columns of each rank. Packing is therefore the one pass that also
zeroes what truncation leaves out, or forms sums of products. Where a message has several variables, the transforms in
y write lines into it, or read them from there. Complex numbers are pairs of reals in flat device arrays.

Source: Yeung et al. (GESTS), Sec. 2: batches of one-dimensional transforms, fields resident on the device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import cuda
from numpy.typing import DTypeLike

from ridgeline.fourier.decomposition import PencilGrid
from ridgeline.fourier.device.exchange_cuda import (
    DeviceExchange,
    ExchangeMethod,
    ExchangeSpec,
    ExchangeStreams,
    make_exchange,
)
from ridgeline.fourier.device.fft_cuda import DevicePlan, Spacing, make_plan
from ridgeline.fourier.device.kernels_cuda import collect_lines, launch_shape, spread_lines
from ridgeline.fourier.device.layout import BufferCounts, DeviceArray, DeviceLayout, VariableBatch, batches
from ridgeline.fourier.device.z_stage_cuda import CufftZStage, DeviceZStage, FusedZStage, PlaneBuffers, Table
from ridgeline.jit.cuda_clock import DeviceClock
from ridgeline.jit.cuda_device import make_stream, part
from ridgeline.parallel.autotuner import TuningResult

if TYPE_CHECKING:
    from mpi4py import MPI


class DevicePipeline:
    """The arrays, plans and exchanges of transforms on this rank's device. Built collectively, in two steps.

    The constructor makes plans, without memory for them; `work_bytes` is what they need. `allocate` follows.

    Parameters
    ----------
    grid, comm : slabs or pencils; all ranks, numbered as grid.rank is
    dtype : of physical fields
    counts : variables that arrays have room for, see `DeviceLayout.buffers`
    groups : batches of variables that `to_points` and `to_lines` will move; each may also move one variable
    method : of messages between GPUs, "auto" for the fastest

    Attributes
    ----------
    layout, stream : extents of arrays; the stream on which all work is put
    scale : a transform there and back multiplies by 1 / scale
    in_y, in_z, rows_to_points, rows_to_modes : plans of one variable
    column, row : the exchanges, None where there are none
    trials : what was measured to choose the transports of exchanges
    z : the stage between lines and planes
    """

    def __init__(
        self,
        grid: PencilGrid,
        comm: MPI.Comm,
        dtype: DTypeLike,
        counts: BufferCounts,
        groups: Iterable[VariableBatch],
        method: ExchangeMethod,
    ) -> None:
        self.grid, self.comm, self.counts = grid, comm, counts
        self.layout = DeviceLayout.of(grid)
        self._dtype: np.dtype[Any] = np.dtype(dtype)
        self._widths = sorted({1, *(group.width for group in groups)})
        self._method = method
        nz, ny, nx = grid.shape
        self.scale = 1.0 / (nx * ny * nz)
        self.stream = make_stream()
        self._plan()
        self.work_bytes = max(plan.work_bytes for plan in self._plans())
        self.clock = DeviceClock(self.stream, ("fft", "pack"))
        self.column: DeviceExchange | None = None
        self.row: DeviceExchange | None = None
        self._comms: list[MPI.Comm] = []
        self.trials: dict[str, TuningResult] = {}
        self._waited_for: list[int] = []

    def _plan(self) -> None:
        layout, (nz, ny, nx) = self.layout, self.grid.shape
        n, plane = layout.n_lines, layout.ny_local * layout.width
        rows, pitch = layout.nz_local * layout.ny_local, layout.pitch
        points, modes, planes = Spacing(1, 2 * pitch), Spacing(1, pitch), Spacing(plane, 1)
        lines = {width: Spacing(width * n, 1) for width in self._widths}
        self.in_y = make_plan("complex", ny, n, lines[1], lines[1], self._dtype)
        self._to_message = {1: self.in_y}
        self._from_message = {1: self.in_y}
        for width in self._widths[1:]:
            self._to_message[width] = make_plan("complex", ny, n, lines[1], lines[width], self._dtype)
            self._from_message[width] = make_plan("complex", ny, n, lines[width], lines[1], self._dtype)
        self.in_z = make_plan("complex", nz, plane, planes, planes, self._dtype)
        self.rows_to_points = make_plan("real inverse", nx, rows, modes, points, self._dtype)
        self.rows_to_modes = make_plan("real forward", nx, rows, points, modes, self._dtype)

    def _plans(self) -> Iterable[DevicePlan]:
        of_lines = {id(plan): plan for plan in (*self._to_message.values(), *self._from_message.values())}
        return *of_lines.values(), self.in_z, self.rows_to_points, self.rows_to_modes

    def allocate(self) -> None:
        """Allocate arrays and tables on the device, planes and pieces zero, and make the exchanges. Collective."""
        layout, counts = self.layout, self.counts
        work = cuda.device_array(max(self.work_bytes, 1), np.uint8)
        for plan in self._plans():
            plan.use_work(work)
        self._lines = self._numbers(counts.lines * layout.line_numbers)
        self._planes = self._numbers(counts.planes * layout.plane_numbers)
        self._buffers = PlaneBuffers(self._planes, 2 * layout.plane_numbers, self.stream, self.clock)
        self._messages: DeviceArray = None
        if counts.messages:
            self._messages = self._numbers(counts.messages * layout.line_numbers)
        self._room, self._row_room = layout.piece_rooms(counts)
        self._pieces: DeviceArray = self._lines
        if not counts.pieces:
            self._room = layout.line_numbers
        elif counts.shared:
            self._pieces = self._numbers(max(counts.pieces, counts.row_pieces) * self._room)
        else:
            self._pieces = self._numbers(counts.pieces * self._room)
        self._row_pieces: DeviceArray = None
        if counts.row_pieces and counts.shared:
            self._row_pieces = self._pieces
        elif counts.row_pieces:
            self._row_pieces = self._numbers(counts.row_pieces * self._row_room)
        self._make_exchanges()
        tables = {width: layout.line_table(width) for width in self._widths}
        self._tables = {width: (cuda.to_device(place), step) for width, (place, step) in tables.items()}
        self.launch = (*launch_shape(self.grid.shape[0], layout.ny_local, layout.width), self.stream)
        self.z: DeviceZStage = CufftZStage(self._buffers, self.in_z, self.launch)
        if self.row is not None:
            place, step = layout.column_table()
            self._column_table = cuda.to_device(place), step, layout.ny_local, layout.pitch
            self._row_launch = (*launch_shape(layout.nz_local, layout.ny_local, layout.pitch), self.stream)

    def fuse_in_z(self, fused: bool) -> None:
        """Transform in z and pack lines in one pass, or in two. Raises ValueError for sizes without such a pass."""
        if not fused:
            self.z = CufftZStage(self._buffers, self.in_z, self.launch)
            return
        columns = self.grid.truncation.n_columns if self.row is None else self.layout.width
        self.z = FusedZStage(self._buffers, self.grid.shape[0], columns, self._dtype)

    def _numbers(self, n: int) -> DeviceArray:
        """Return n complex numbers, zero: what no kernel writes is sent or transformed too."""
        return cuda.to_device(np.zeros(2 * n, self._dtype))

    def _make_exchanges(self) -> None:
        layout, counts, (rows, columns) = self.layout, self.counts, self.grid.process_grid
        streams = ExchangeStreams(self.stream, make_stream(urgent=True))
        case = f"{self.grid.shape} {self.grid.dealias} {self._dtype} {self.grid.process_grid}"

        def make(
            name: str,
            color: int,
            key: int,
            sides: dict[str, list[int]],
            n: int,
            batch: VariableBatch,
            places: tuple[DeviceArray, DeviceArray],
        ) -> DeviceExchange:
            comm = self.comm.Split(color, key)
            self._comms.append(comm)
            spec = ExchangeSpec(name, comm, self.comm, sides, n, self._dtype, streams, batch, places, case)
            exchange, trial = make_exchange(spec, self._method)
            if trial is not None:
                self.trials[f"{name} exchange"] = trial
            return exchange

        if columns > 1:
            batch = VariableBatch(0, self._widths[-1])
            sides = dict(zip(("lines", "planes"), layout.of_columns))
            places = self._message(batch), _cut(self._pieces, 0, batch.width * layout.piece_numbers)
            self.column = make("column", self.grid.row, self.grid.column, sides, counts.lines, batch, places)
        if rows > 1:
            sides = dict(zip(("planes", "rows"), layout.of_rows))
            places = self._plane_message(0), self._row_piece(0)
            self.row = make(
                "row", self.grid.column, self.grid.row, sides, counts.planes, VariableBatch(0, 1), places
            )

    def collect(self) -> None:
        """Read the clocks; the stream must have been synchronised. No communication."""
        self.clock.collect()
        for exchange in (self.column, self.row):
            if exchange is not None:
                exchange.collect()

    def free(self) -> None:
        """Free the communicators; not usable afterwards. Collective."""
        for exchange in (self.column, self.row):
            if exchange is not None:
                exchange.free()
        while self._comms:
            self._comms.pop().Free()

    @property
    def all_lines(self) -> DeviceArray:
        """Lines of all variables, flat."""
        return self._lines

    @property
    def all_planes(self) -> DeviceArray:
        """Planes or rows of all variables, flat."""
        return self._planes

    def lines(self, variable: int) -> DeviceArray:
        """Return the lines of one variable."""
        return _cut(self._lines, variable, self.layout.line_numbers)

    def planes(self, variable: int) -> DeviceArray:
        """Return the planes of one variable, or its rows."""
        return self._buffers.of(variable)

    def pieces(self, batch: VariableBatch, variable: int | None = None) -> DeviceArray:
        """Return the pieces of a batch on the planes' side of the column exchange, from one of its variables on."""
        begin = 2 * batch.first * self._room
        size = self.layout.line_numbers if self.column is None else self.layout.piece_numbers
        end = begin + 2 * batch.width * size
        later = 0 if variable is None else variable - batch.first
        return part(self._pieces, begin + 2 * later * self.layout.n_lines, end)

    def table(self, batch: VariableBatch) -> Table:
        """Return where kernels find the lines of a variable of a batch among `pieces` from that variable on."""
        return *self._tables[batch.width], self.layout.ny_local, self.layout.width

    def _message(self, batch: VariableBatch) -> DeviceArray:
        """Return the array that the lines of a batch are sent from and received in."""
        size = 2 * self.layout.line_numbers
        array = self._lines if batch.width == 1 else self._messages
        return array[batch.first * size : (batch.first + batch.width) * size]

    def _row_piece(self, variable: int) -> DeviceArray:
        begin = 2 * variable * self._row_room
        return self._row_pieces[begin : begin + 2 * self.layout.row_piece_numbers]

    def _plane_message(self, variable: int) -> DeviceArray:
        layout = self.layout
        return self.planes(variable)[: 2 * self.grid.shape[0] * layout.ny_local * layout.width]

    def to_points(self, groups: Sequence[VariableBatch], in_x: bool = True) -> None:
        """Bring batches from lines to points in `planes`. The content of the lines is lost. Collective.

        in_x: whether rows of slabs are transformed; otherwise they are left as modes in x, of which those that are
        not retained are undefined.
        """
        column, row = self.column, self.row
        n = 2 * self.layout.n_lines
        for batch in groups:
            message = self._message(batch)
            with self.clock("fft"):
                for place, v in enumerate(batch.variables):
                    target = message[place * n :]
                    self._to_message[batch.width].run(self.lines(v), target, self.stream, inverse=True)
            if column is not None:
                column.give(batch, "lines", self._message(batch))
        if column is not None:
            for batch in groups:
                column.start(batch, "lines", self._message(batch), self.pieces(batch))
        for batch in groups:
            if column is not None:
                column.finish(batch, "lines", self.pieces(batch))
            self._spread(batch, in_x)
            if row is not None:
                for v in batch.variables:
                    row.start(VariableBatch(v, 1), "planes", self._plane_message(v), self._row_piece(v))
        if row is not None:
            for v in (v for batch in groups for v in batch.variables):
                row.finish(VariableBatch(v, 1), "planes", self._row_piece(v))
                planes = self.planes(v)
                with self.clock("pack"):
                    spread_lines[self._row_launch](self._row_piece(v), *self._column_table, planes)
                with self.clock("fft"):
                    self.rows_to_points.run(planes, planes, self.stream)

    def _spread(self, batch: VariableBatch, in_x: bool) -> None:
        """Bring a batch from its pieces to planes, transformed in z, and then to points, or to the row exchange."""
        for v in batch.variables:  # all of them first, because rows arrive where the pieces are
            self.z.spread(self.pieces(batch, v), self.table(batch), v, whole=in_x)
        for v in batch.variables:
            if self.row is not None:
                self.row.give(VariableBatch(v, 1), "planes", self._plane_message(v))
            elif in_x:
                with self.clock("fft"):
                    self.rows_to_points.run(self.planes(v), self.planes(v), self.stream)

    def leave_points(self, variables: Sequence[int]) -> None:
        """Send variables at points to their planes, in this order, if there is a row exchange. Collective."""
        row = self.row
        if row is None:
            return
        for v in variables:
            planes = self.planes(v)
            with self.clock("fft"):
                self.rows_to_modes.run(planes, planes, self.stream)
            with self.clock("pack"):
                collect_lines[self._row_launch](planes, *self._column_table, self._row_piece(v))
            row.give(VariableBatch(v, 1), "rows", self._row_piece(v))
        for v in variables:
            row.start(VariableBatch(v, 1), "rows", self._row_piece(v), self._plane_message(v))
        self._waited_for = list(variables)

    def _arrive(self, variable: int) -> None:
        """Wait for a variable that `leave_points` sent, if it is not here yet. Collective."""
        if self.row is not None and variable in self._waited_for:
            self._waited_for.remove(variable)
            self.row.finish(VariableBatch(variable, 1), "rows", self._plane_message(variable))

    def to_planes(self, variable: int, in_x: bool = True) -> None:
        """Bring one variable, which left points, to modes in x, on the way to `to_lines`. Collective of pencils.

        in_x: as in `to_points`.
        """
        planes = self.planes(variable)
        self._arrive(variable)
        if self.row is None and in_x:
            with self.clock("fft"):
                self.rows_to_modes.run(planes, planes, self.stream)
        self.z.leave(variable)

    def to_lines(
        self, groups: Sequence[VariableBatch], fill: Callable[[int, DeviceArray, Table], None]
    ) -> None:
        """Bring batches to lines in the given order, where they are transformed in y. Collective.

        fill: puts the work that computes the `pieces` of a variable on the stream; it is given the variable, the
        pieces, and their table.
        """
        column = self.column
        for batch in groups:
            for v in batch.variables:
                self._arrive(
                    v
                )  # its row pieces may share the memory of the pieces, see `BufferCounts.shared`
            for v in batch.variables:
                fill(v, self.pieces(batch, v), self.table(batch))
            if column is not None:
                column.give(batch, "planes", self.pieces(batch))
        if column is not None:
            for batch in groups:
                column.start(batch, "planes", self.pieces(batch), self._message(batch))
        n = 2 * self.layout.n_lines
        for batch in groups:
            message = self._message(batch)
            if column is not None:
                column.finish(batch, "planes", message)
            with self.clock("fft"):
                for place, v in enumerate(batch.variables):
                    self._from_message[batch.width].run(message[place * n :], self.lines(v), self.stream)

    def groups(self, begin: int, end: int, batch: int) -> list[VariableBatch]:
        """Return variables begin ... end - 1 in batches of Q, or one by one where nothing is sent in batches."""
        return batches(begin, end, batch if self.counts.messages else 1)


def _cut(array: DeviceArray, variable: int, numbers: int) -> DeviceArray:
    return part(array, 2 * variable * numbers, 2 * (variable + 1) * numbers)
