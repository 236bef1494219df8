"""Transforms of fields that the host holds, by the device's plans: for diagnostics, outputs and initial states."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import DTypeLike, NDArray

from ridgeline.fourier.device.kernels_cuda import line_launch, order_by_lines, order_by_rows
from ridgeline.fourier.device.layout import DeviceArray, VariableBatch
from ridgeline.fourier.device.pipeline_cuda import DevicePipeline
from ridgeline.fourier.device.z_stage_cuda import Table
from ridgeline.fourier.modes import Modes

_ONE = VariableBatch(0, 1)


class DeviceTransform:
    """The transforms of whole fields that `FourierTransform` offers, on a device, between steps.

    Each variable is copied to the device and back, through pinned memory.

    Parameters
    ----------
    pipeline : allocated, of at least 5 planes; every call overwrites its lines and planes
    modes : of this rank
    dtype : of physical fields, float32 or float64

    Attributes
    ----------
    real, complex : dtypes of points and of modes
    """

    def __init__(self, pipeline: DevicePipeline, modes: Modes, dtype: DTypeLike) -> None:
        self._pipeline, self.modes = pipeline, modes
        self.real: np.dtype[Any] = np.dtype(dtype)
        self.complex: np.dtype[Any] = np.result_type(self.real, np.complex64)
        self._modes = cuda.pinned_array(2 * modes.n_modes, self.real)
        layout = pipeline.layout
        self._points = cuda.pinned_array((layout.nz_local, layout.ny_local, 2 * layout.pitch), self.real)
        lines, absent = modes.lines, layout.n_lines - modes.lines.n_lines
        self._most = cuda.to_device(np.pad(lines.most, (0, absent), constant_values=-1).astype(np.int32))
        self._start = cuda.to_device(np.pad(lines.start, (0, absent)))

    def compile(self) -> None:
        """Compile or load the kernels by launching them on nothing. No communication."""
        points = self._pipeline.planes(0)
        for kernel in (order_by_lines, order_by_rows):
            kernel[1, 1, self._pipeline.stream](points, 0, 1, self._most, self._start, points)

    def free(self) -> None:
        """Free the communicators of the exchanges; memory is freed with its arrays. Collective."""
        self._pipeline.free()

    def trials(self) -> dict[str, Any]:
        """Return what was timed to choose the transports of exchanges."""
        return dict(self._pipeline.trials)

    def put(self, field: NDArray[Any], target: DeviceArray, rows: int) -> None:
        """Copy a field, complex [n_modes], to rows of lines on the device. No communication."""
        pipeline = self._pipeline
        self._modes[...] = field.view(self.real)
        scratch = self._scratch()
        scratch.copy_to_device(self._modes, stream=pipeline.stream)
        order_by_rows[self._launch(rows)](
            scratch, pipeline.layout.n_lines, rows, self._most, self._start, target
        )
        pipeline.stream.synchronize()

    def take(self, source: DeviceArray, rows: int, out_field: NDArray[Any]) -> None:
        """Copy rows of lines on the device to a field, complex [n_modes]. No communication."""
        pipeline = self._pipeline
        scratch = self._scratch()
        order_by_lines[self._launch(rows)](
            source, pipeline.layout.n_lines, rows, self._most, self._start, scratch
        )
        scratch.copy_to_host(self._modes, stream=pipeline.stream)
        pipeline.stream.synchronize()
        out_field[...] = self._modes.view(self.complex)

    def _scratch(self) -> DeviceArray:
        begin = self._pipeline.planes(0).size
        return self._pipeline.all_planes[begin : begin + 2 * self.modes.n_modes]

    def _launch(self, rows: int) -> tuple[Any, ...]:
        return (*line_launch(self._pipeline.layout.n_lines, rows), self._pipeline.stream)

    def _points_on_device(self, planes: DeviceArray) -> DeviceArray:
        return planes[: self._points.size]

    def lines_to_points(self) -> DeviceArray:
        """Bring the first variable from lines to points, in its planes, and return these. Collective."""
        self._pipeline.to_points([_ONE])
        return self._pipeline.planes(0)

    def points_to_lines(self) -> DeviceArray:
        """Bring the first variable from points in its planes to lines, not scaled, and return these. Collective."""
        pipeline = self._pipeline

        def fill(variable: int, pieces: DeviceArray, table: Table) -> None:
            pipeline.z.collect(variable, table, pieces)

        pipeline.leave_points(_ONE.variables)
        pipeline.to_planes(0)
        pipeline.to_lines([_ONE], fill)
        return pipeline.lines(0)

    def take_points(self, planes: DeviceArray, out_block: NDArray[Any]) -> None:
        """Copy points in a variable's planes to out_block, real [*grid.block]. No communication."""
        stream = self._pipeline.stream
        self._points_on_device(planes).copy_to_host(self._points.reshape(-1), stream=stream)
        stream.synchronize()
        out_block[...] = self._points[:, :, : self.modes.shape[2]]

    def to_physical(self, spectral: NDArray[Any]) -> NDArray[Any]:
        """Return the values at this rank's points, real [n, *grid.block], of modes [n, n_modes]. Collective."""
        pipeline = self._pipeline
        values = np.empty((len(spectral), *pipeline.grid.block), self.real)
        for field, block in zip(spectral, values):
            self.put(field, pipeline.lines(0), self.modes.shape[1])
            self.take_points(self.lines_to_points(), block)
        return values

    def to_spectral(self, physical: NDArray[Any], out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return the modes [n, n_modes] of values [n, *grid.block], scaled by 1/(N_x N_y N_z). Collective."""
        pipeline, (_, ny, nx) = self._pipeline, self.modes.shape
        modes = np.empty((len(physical), self.modes.n_modes), self.complex) if out is None else out
        for block, field in zip(physical, modes):
            self._points[...] = 0
            self._points[:, :, :nx] = block
            points = self._points_on_device(pipeline.planes(0))
            points.copy_to_device(self._points.reshape(-1), stream=pipeline.stream)
            self.take(self.points_to_lines(), ny, field)
            field *= self.real.type(pipeline.scale)
        return modes
