"""Factors of modes along x, y and z for GPUs: wavenumbers, phases of displaced grids, integrating factors.

The twin of `stages.StepTables`: exp(r(k) dt) and exp(i k.d) are products of a factor of each j. GPUs multiply these
themselves, so that a step computes and sends but some numbers for each j. Computed in float64, kept as the run is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from ridgeline.fourier.modes import Modes, mode_numbers
from ridgeline.models.turbulence.device.kernels_cuda import DECAY, PHASES, K


class AxisTables:
    """Tables [row, j] of j_x, j_y and j_z on the device, see `kernels_cuda`; phases are 1 until they are set.

    modes : of this rank; diffusivities : of velocity and scalars; real : dtype of the run; stream : of all copies

    Attributes: device: flat tables of x, y and z on the device; k: wavenumbers of x, y and z, float64.
    """

    def __init__(
        self, modes: Modes, diffusivities: Sequence[float], real: np.dtype[Any], stream: Any
    ) -> None:
        (nz, ny, _), (unit_z, unit_y, unit_x) = modes.shape, modes.unit
        self._diffusivities, self._stream = diffusivities, stream
        self._j = np.arange(modes.truncation.n_columns), mode_numbers(ny), mode_numbers(nz)
        self.k = tuple(unit * j for unit, j in zip((unit_x, unit_y, unit_z), self._j))
        self._host = [np.zeros((DECAY + len(diffusivities), len(j)), real) for j in self._j]
        for table, k in zip(self._host, self.k):
            table[K] = k
            table[PHASES[0]] = table[PHASES[1]] = 1
        self.device = [cuda.to_device(table.ravel()) for table in self._host]

    @property
    def n_columns(self) -> int:
        """Numbers j_x."""
        return len(self._j[0])

    def displace(self, shifts: Sequence[NDArray[np.float64]]) -> None:
        """Set the phases exp(i k.d) of two grids displaced by d: fractions of the box, (x, y, z)."""
        for row, shift in zip(PHASES, shifts):
            for table, part, j in zip(self._host, shift, self._j):
                phase = np.exp(2j * np.pi * part * j)
                table[row], table[row + 1] = phase.real, phase.imag
        self._send()

    def decay(self, linear_rate: float, dt: float) -> None:
        """Set the integrating factors over dt: of velocity, with a force A u of rate A, and of each scalar."""
        for n, diffusivity in enumerate(self._diffusivities):
            for number, (table, k) in enumerate(zip(self._host, self.k)):
                growth = linear_rate if n == number == 0 else 0.0
                table[DECAY + n] = np.exp((growth - diffusivity * k * k) * dt)
        self._send()

    def _send(self) -> None:
        for table, target in zip(self._host, self.device):
            target.copy_to_device(table.ravel(), stream=self._stream)
