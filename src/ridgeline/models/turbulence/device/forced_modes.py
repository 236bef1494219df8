"""The few modes that a forcing acts on, between the host, which computes the force, and fields on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from ridgeline.fourier.device.kernels_cuda import gather_modes, line_launch, scatter_modes
from ridgeline.fourier.device.layout import DeviceLayout
from ridgeline.fourier.modes import Modes
from ridgeline.models.turbulence.forcing import Forcing
from ridgeline.models.turbulence.kernels import N_VELOCITY


class ForcedModes:
    """Device arrays of a forcing's modes; they are allocated when its number of modes changes.

    modes : of this rank; layout : of its fields; real : dtype of the run; stream : of all copies

    Attributes: n: modes that get a force; places: int32 (2, n), line and place of j_y; values: (3, n) as reals.
    """

    def __init__(self, modes: Modes, layout: DeviceLayout, real: np.dtype[Any], stream: Any) -> None:
        self._modes, self._layout, self._stream = modes, layout, stream
        self._complex = np.result_type(real, np.complex64)
        self._real = real
        self.n = 0
        self.places: Any = None
        self.values: Any = None
        self._touched: NDArray[np.int64] = np.empty(0, np.int64)
        self._at: Any = None
        self._held: Any = None

    def compile(self, fields: Any) -> None:
        """Compile or load the kernels by running them on nothing."""
        nothing = cuda.to_device(np.zeros(1, np.int64))
        for kernel in (gather_modes, scatter_modes):
            kernel[1, 1, self._stream](fields, 0, 0, nothing, 0, fields)

    def _lines_and_y(self, indices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return line and j_y of modes by their places in a field of the host."""
        lines = self._modes.lines
        line = np.searchsorted(lines.start, indices, side="right") - 1
        inside = indices - lines.start[line]
        most = lines.most[line]
        return line, np.where(inside <= most, inside, inside - 2 * most - 1)

    def begin_step(self, forcing: Forcing) -> None:
        """Bring the force to the device, where it holds for the step. No communication."""
        values = np.ascontiguousarray(forcing.values.astype(self._complex)).view(self._real).ravel()
        if len(forcing.indices) != self.n:
            self.n = len(forcing.indices)
            line, jy = self._lines_and_y(forcing.indices)
            places = np.stack([line, jy % self._modes.shape[1]]).astype(np.int32)
            self.places, self.values = cuda.to_device(places.ravel()), cuda.to_device(values)
        elif self.n:
            self.values.copy_to_device(values, stream=self._stream)

    def velocity(self, indices: NDArray[np.int64], fields: Any) -> NDArray[Any]:
        """Return the velocity of modes by their places in a field of the host, complex [3, n]. No communication."""
        found = np.empty((N_VELOCITY, len(indices)), self._complex)
        if len(indices):
            held = cuda.device_array(2 * found.size, self._real)
            self._gather(fields, self._places(indices), len(indices), held, found)
        return found

    def _places(self, indices: NDArray[np.int64]) -> Any:
        """Return the places in a field of the device, int64 [n], on the device."""
        line, jy = self._lines_and_y(indices)
        return cuda.to_device(jy % self._layout.rows * self._layout.n_lines + line)

    def _gather(self, fields: Any, places: Any, n: int, held: Any, out: NDArray[Any]) -> None:
        """Copy the velocity of n modes through `held` to the host."""
        launch = (*line_launch(n, 1), self._stream)
        gather_modes[launch](fields, self._layout.field_numbers, N_VELOCITY, places, n, held)
        self._stream.synchronize()
        held.copy_to_host(out.view(self._real).ravel())

    def end_step(self, forcing: Forcing, fields: Any) -> None:
        """Let the forcing change the velocity of the modes that it touches. Collective."""
        n = len(forcing.touched)
        if n != len(self._touched):
            self._touched = forcing.touched
            self._at = self._places(self._touched)
            self._held = cuda.device_array(2 * N_VELOCITY * n, self._real)
        velocity = np.empty((N_VELOCITY, n), self._complex)
        if n:
            self._gather(fields, self._at, n, self._held, velocity)
        forcing.hold(velocity)
        if n:
            self._held.copy_to_device(velocity.view(self._real).ravel(), stream=self._stream)
            launch = (*line_launch(n, 1), self._stream)
            scatter_modes[launch](self._held, self._layout.field_numbers, N_VELOCITY, self._at, n, fields)
