"""Diagnostics of fields that stay in GPU memory: the counterpart of `passes.HostPasses`.

Fields are transformed one after the other in the first variable of the engine's buffers, which are free between
steps. Other planes hold points: the second a sum of squares, or the second to the fourth the velocity. The second and
third lines hold the pressure and the transfer of each mode, as fields. Only sums of lines and rows, spectra and
counts are copied to the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from ridgeline.fourier.device.kernels_cuda import LINE_THREADS, line_launch
from ridgeline.fourier.device.pipeline_cuda import DevicePipeline
from ridgeline.fourier.device.transform_cuda import DeviceTransform
from ridgeline.fourier.modes import Modes, Shells
from ridgeline.jit.cuda_device import DeviceArray
from ridgeline.models.turbulence.damping import rate_terms
from ridgeline.models.turbulence.device.damping_cuda import sum_damping_lines
from ridgeline.models.turbulence.device.device_estimate import INCREMENT_PARTS, sum_numbers
from ridgeline.models.turbulence.device.kernels_cuda import PHASES, AxisTables, make_load
from ridgeline.models.turbulence.device.kernels_diagnostics_cuda import (
    MOST_BINS,
    MOST_BLOCKS,
    REAL_PART,
    SHELL_THREADS,
    SQUARE,
    THREADS,
    THREE_SQUARES,
    add_squares,
    combine_derivatives,
    count_evenly,
    count_octaves,
    largest_rate,
    make_add_stress,
    multiply_points,
    streamfunction_modes,
    sum_flow_lines,
    sum_increments,
    sum_powers,
    sum_scalar_lines,
    sum_shells,
)
from ridgeline.models.turbulence.device.waves_cuda import add_wave_pressure, pressure_arguments
from ridgeline.models.turbulence.kernels_diagnostics import FLOW_SUMS, POWERS, SCALAR_SUMS, offsets_along
from ridgeline.models.turbulence.passes import Counts, Derivative, StressSums, Sums
from ridgeline.models.turbulence.problem import Damping, Waves

_VELOCITY_PLANES = 1, 2, 3  # variables whose planes hold u, v, w
_PRESSURE, _TRANSFER = 1, 2  # variables whose lines hold these


class CudaPasses:
    """`FlowPasses` of fields [rows, line] and points in planes, both flat device arrays.

    The passes overwrite the engine's buffers and the phases of displaced grids in its tables; a step sets its own.
    The host waits for the numbers that are returned to it.

    slabs, transform, tables : of the engine; modes : of this rank; of_line : of `make_advance`; n_scalars : S
    """

    def __init__(
        self,
        slabs: DevicePipeline,
        transform: DeviceTransform,
        modes: Modes,
        tables: AxisTables,
        of_line: DeviceArray,
        n_scalars: int,
    ) -> None:
        self.modes = modes
        self._slabs, self._transform, self._tables, self._of_line = slabs, transform, tables, of_line
        self._real, self._shells, self._fresh = transform.real.type, Shells(modes), True
        layout, (nz, ny, nx) = slabs.layout, modes.shape
        self._sizes = layout.n_lines, ny, layout.rows, tables.n_columns, nz
        self._n_rows, self._pairs, self._pitch = layout.nz_local * layout.ny_local, nx // 2, layout.pitch
        self._sums = cuda.device_array(sum_numbers(layout, n_scalars), np.float64)
        self._of_shells = cuda.device_array(2 * self._shells.n_shells, np.float64)
        self._counts = cuda.device_array(MOST_BINS, np.int64)
        self._rates = cuda.device_array(MOST_BLOCKS, np.float64)
        self._offsets = cuda.to_device(offsets_along(nx))
        kind: Any = self._real
        self._load = {shifted: make_load(kind, shifted) for shifted in (False, True)}
        self._add_stress = {shifted: make_add_stress(kind, shifted) for shifted in (False, True)}

    def compile(self, field: DeviceArray) -> None:
        """Compile or load the kernels by launching them on nothing. field: any device array of the run's dtype."""
        real, nothing = self._real, (0, 1, 1, 1, 1)
        lines = nothing, self._of_line, *self._tables.device
        three, axis, stream = [field] * 3, (real(0),) * 3, self._slabs.stream
        of_lines, of_points = (1, 1, stream), (1, THREADS, stream)
        waves = nothing, self.modes.unit, self._of_line
        for load in self._load.values():
            load[of_lines](field, 0, *lines, PHASES[0], field)
        for add in self._add_stress.values():
            add[of_lines](field, *lines, PHASES[0], axis, axis, real(0), real(0), 0, *three, field)
        combine_derivatives[of_lines](field, field, axis, axis, *lines, field)
        streamfunction_modes[of_lines](field, field, axis, axis, *lines, field)
        sum_flow_lines[of_lines](*waves, *three, self._sums)
        sum_scalar_lines[of_lines](*waves, *three, field, self._sums)
        sum_shells[1, SHELL_THREADS, stream](*waves, 1.0, SQUARE, *three, self._of_shells)
        sum_powers[of_points](field, 0, 0, self._sums)
        sum_increments[(1, 1), THREADS, stream](field, 0, 0, 0, self._offsets, self._sums)
        add_squares[of_points](field, real(0), 0, 0, field)
        multiply_points[of_points](field, field, 0, field)
        largest_rate[of_points](*three, axis, 0, 0, 0, self._rates)
        count_octaves[of_points](field, 0, 0, 0, 1.0, 0, 1, 1, self._counts)
        count_evenly[of_points](field, 0, 0, 0, 1.0, 1, self._counts)

    def _read(self, array: DeviceArray, n: int) -> NDArray[Any]:
        """Return the first n numbers of a device array, after all kernels in the stream have ended."""
        stream = self._slabs.stream
        values = array[:n].copy_to_host(stream=stream)
        stream.synchronize()
        self._slabs.collect()
        return np.asarray(values)

    @property
    def _along_lines(self) -> tuple[Any, ...]:
        """The launch of kernels whose threads move along y."""
        return *line_launch(self._slabs.layout.n_lines, self.modes.shape[1]), self._slabs.stream

    @property
    def _over_rows(self) -> tuple[Any, ...]:
        """The launch of kernels over rows of points, some rows for each thread block."""
        return max(1, min(self._n_rows, MOST_BLOCKS)), THREADS, self._slabs.stream

    @property
    def _of_lines(self) -> tuple[Any, ...]:
        """Arguments of kernels on lines that describe the modes."""
        return self._sizes, self._of_line, *self._tables.device

    def sum_modes(self, fields: Sequence[DeviceArray]) -> tuple[Sums, Sums]:
        n_lines, n_flow, n_each = self._slabs.layout.n_lines, len(FLOW_SUMS), len(SCALAR_SUMS)
        velocity, scalars = fields[:3], fields[3:]
        waves = self._sizes, self.modes.unit, self._of_line
        launch = -(-n_lines // LINE_THREADS), LINE_THREADS, self._slabs.stream
        sum_flow_lines[launch](*waves, *velocity, self._sums)
        for s, scalar in enumerate(scalars):
            sum_scalar_lines[launch](*waves, *velocity, scalar, self._sums[(n_flow + n_each * s) * n_lines :])
        n_sums = n_flow + n_each * len(scalars)
        of_lines = self._read(self._sums, n_sums * n_lines).reshape(n_sums, n_lines)
        energy, gradient = self._sum_shells(THREE_SQUARES, velocity)
        of_shells = [0.5 * energy, gradient, *map(self.spectrum, scalars)]
        return of_lines[:, : self.modes.lines.n_lines], np.stack(of_shells)

    def sum_damping(self, fields: Sequence[DeviceArray], damping: Damping) -> Sums:
        n_lines = self._slabs.layout.n_lines
        arguments = self._sizes, self.modes.unit, self._of_line, tuple(rate_terms(damping).tolist())
        launch = -(-n_lines // LINE_THREADS), LINE_THREADS, self._slabs.stream
        sums = []
        for field in fields:
            sum_damping_lines[launch](*arguments, field, self._sums)
            sums.append(self._read(self._sums, 2 * n_lines).reshape(2, n_lines))
        of_lines = [*np.sum(sums[:3], axis=0), *(hyper for hyper, _ in sums[3:])]
        return np.stack(of_lines)[:, : self.modes.lines.n_lines]

    def _sum_shells(self, kind: int, fields: Sequence[DeviceArray]) -> Sums:
        """Return sums over shells of a value and of k^2 times it, [2, n_shells]. kind, fields: of the kernel."""
        n, width = self._shells.n_shells, self._shells.width
        launch = n, SHELL_THREADS, self._slabs.stream
        sum_shells[launch](self._sizes, self.modes.unit, self._of_line, width, kind, *fields, self._of_shells)
        return self._read(self._of_shells, 2 * n).reshape(2, n)

    def spectrum(self, field: DeviceArray) -> Sums:
        of_shells: Sums = self._sum_shells(SQUARE, [field] * 3)[0]
        return of_shells

    def to_points(self, field: DeviceArray) -> DeviceArray:
        return self._points_of(field, shifted=False)

    def _points_of(self, field: DeviceArray, shifted: bool) -> DeviceArray:
        lines = self._slabs.lines(0)
        self._load[shifted][self._along_lines](field, 1, *self._of_lines, PHASES[0], lines)
        return self._transform.lines_to_points()

    def derivative_points(
        self, velocity: Sequence[DeviceArray], first: Derivative, second: Derivative
    ) -> DeviceArray:
        (i, axis_i, scale_i), (j, axis_j, scale_j) = first, second
        factors = self._along(axis_i, scale_i), self._along(axis_j, scale_j)
        combine_derivatives[self._along_lines](
            velocity[i], velocity[j], *factors, *self._of_lines, self._slabs.lines(0)
        )
        return self._transform.lines_to_points()

    def streamfunction_points(self, velocity: Sequence[DeviceArray], axis: int) -> DeviceArray:
        second, third = (axis + 1) % 3, (axis + 2) % 3
        streamfunction_modes[self._along_lines](
            velocity[second],
            velocity[third],
            self._along(second),
            self._along(third),
            *self._of_lines,
            self._slabs.lines(0),
        )
        return self._transform.lines_to_points()

    def _along(self, axis: int, scale: float = 1.0) -> tuple[Any, ...]:
        """Return a vector along an axis x, y, z in the precision of the run."""
        return tuple(self._real(scale if each == axis else 0.0) for each in range(3))

    @property
    def _all_pairs(self) -> int:
        return self._n_rows * self._pitch

    def add_squares(self, points: DeviceArray, scale: float, total: DeviceArray | None) -> DeviceArray:
        out = self._slabs.planes(_VELOCITY_PLANES[0])
        fresh = 1 if total is None else 0
        add_squares[self._over_rows](points, self._real(scale), fresh, self._all_pairs, out)
        return out

    def row_powers(self, points: DeviceArray) -> Sums:
        n = self._n_rows
        sum_powers[n, THREADS, self._slabs.stream](points, self._pairs, self._pitch, self._sums)
        return self._read(self._sums, POWERS * n).reshape(POWERS, n)

    def count_octaves(
        self, points: DeviceArray, inverse_unit: float, lowest: int, bits: int, n: int
    ) -> Counts:
        return self._count(count_octaves, points, (inverse_unit, lowest, bits, n), n)

    def count_evenly(self, points: DeviceArray, inverse_width: float, middle: int) -> Counts:
        return self._count(count_evenly, points, (inverse_width, middle), 2 * middle + 2)

    def _count(self, kernel: Any, points: DeviceArray, how: tuple[Any, ...], n: int) -> Counts:
        if n > MOST_BINS:
            raise ValueError(f"{n} bins are too many. A GPU counts in at most {MOST_BINS}.")
        self._counts.copy_to_device(np.zeros(MOST_BINS, np.int64), stream=self._slabs.stream)
        kernel[self._over_rows](points, self._pairs, self._pitch, self._n_rows, *how, self._counts)
        return self._read(self._counts, n)

    def increments(self, points: DeviceArray, offsets: NDArray[np.int64]) -> Sums:
        # `offsets` are those of `offsets_along`, which the device has already.
        n, nx = len(offsets), self.modes.shape[2]
        launch = (n, INCREMENT_PARTS), THREADS, self._slabs.stream
        sum_increments[launch](points, nx, 2 * self._pitch, self._n_rows, self._offsets, self._sums)
        parts = self._read(self._sums, 3 * n * INCREMENT_PARTS)
        return np.asarray(parts.reshape(3, n, INCREMENT_PARTS).sum(axis=-1))

    def velocity_points(self, velocity: Sequence[DeviceArray], cells: float) -> list[DeviceArray]:
        if cells:
            shift = np.array([cells / n for n in reversed(self.modes.shape)])
            self._tables.displace([shift, shift])
        planes = [self._slabs.planes(variable) for variable in _VELOCITY_PLANES]
        for component, points in zip(velocity, planes):
            points.copy_to_device(self._points_of(component, bool(cells)), stream=self._slabs.stream)
        return planes

    def largest_rate(self, points: Sequence[DeviceArray]) -> float:
        shape, lengths = self.modes.shape[::-1], self.modes.lengths[::-1]
        per_cell = tuple(self._real(n / length) for n, length in zip(shape, lengths))
        launch = self._over_rows
        largest_rate[launch](*points, per_cell, self._pairs, self._pitch, self._n_rows, self._rates)
        return float(self._read(self._rates, launch[0]).max())

    def begin_stresses(self, velocity: Sequence[DeviceArray]) -> StressSums:
        self._fresh = True
        size = 2 * self._slabs.layout.field_numbers
        return StressSums(self._slabs.lines(_PRESSURE)[:size], self._slabs.lines(_TRANSFER)[:size])

    def add_stress(
        self,
        points: Sequence[DeviceArray],
        pair: tuple[int, int],
        cells: float,
        share: float,
        velocity: Sequence[DeviceArray],
        sums: StressSums,
    ) -> None:
        i, j = pair
        real = self._real
        multiply_points[self._over_rows](points[i], points[j], self._all_pairs, self._slabs.planes(0))
        lines = self._transform.points_to_lines()
        vectors = self._along(i), self._along(j)
        numbers = real(i != j), real(share * self._slabs.scale), 1 if self._fresh else 0
        fields = velocity[i], velocity[j], sums.pressure, sums.transfer
        self._add_stress[bool(cells)][self._along_lines](
            lines, *self._of_lines, PHASES[0], *vectors, *numbers, *fields
        )
        self._fresh = False

    def add_wave_pressure(self, fields: Sequence[DeviceArray], waves: Waves, sums: StressSums) -> None:
        arguments, terms = pressure_arguments(fields, waves, self._real)
        add_wave_pressure[self._along_lines](*arguments, *self._of_lines, terms, sums.pressure)

    def transfer(self, sums: StressSums) -> Sums:
        of_shells: Sums = self._sum_shells(REAL_PART, [sums.transfer] * 3)[0]
        return of_shells

    def to_host(self, points: DeviceArray) -> NDArray[Any]:
        values = np.empty(self._slabs.grid.block, self._transform.real)
        self._transform.take_points(points, values)
        self._slabs.collect()
        return values
