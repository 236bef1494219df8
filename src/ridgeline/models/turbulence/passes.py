"""Passes over the modes and points of one rank: the operations that diagnostics and outputs are made of.

`FlowPasses` says what they are, `HostPasses` are those over NumPy arrays, and `device.passes_cuda.CudaPasses` those
over fields that stay on a GPU. Fields and points are of the engine's own type, NumPy arrays or device arrays. Sums,
counts and spectra are NumPy arrays always.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ridgeline.fourier.modes import Modes, Shells
from ridgeline.models.turbulence.damping import rate_terms, sum_damping
from ridgeline.models.turbulence.kernels_diagnostics import (
    FLOW_SUMS,
    POWERS,
    SCALAR_SUMS,
    add_increments,
    add_magnitudes,
    add_spectrum,
    add_squares,
    add_stress,
    combine_derivatives,
    count_evenly,
    count_octaves,
    multiply,
    shift_modes,
    streamfunction_modes,
    sum_modes,
    sum_powers,
)
from ridgeline.models.turbulence.problem import Damping, Waves
from ridgeline.models.turbulence.waves import add_wave_pressure, pressure_terms

# NumPy arrays on CPUs, device arrays on GPUs: Python has no common type of both.
Field = Any  # modes of one variable
Fields = Any  # modes of several variables: a sequence of `Field`
Points = Any  # values of a variable at this rank's points
Derivative = tuple[int, int, float]  # (i, j, c) stands for c du_i/dx_j
Sums = NDArray[np.float64]
Counts = NDArray[np.int64]


class FieldTransform(Protocol):
    """A distributed transform of fields that the host holds.

    On CPUs it is `fourier.transform.FourierTransform`, on GPUs `fourier.device.transform_cuda.DeviceTransform`.
    """

    def to_physical(self, spectral: NDArray[Any]) -> NDArray[Any]:
        """Return the values at this rank's points, new real [n, z, y, x], of modes [n, n_modes]. Collective."""

    def to_spectral(self, physical: NDArray[Any], out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return the retained modes, complex [n, n_modes], of real [n, z, y, x]. Collective."""


@dataclass(frozen=True, eq=False)
class StressSums:
    """The sums of `FlowPasses.add_stress`: modes of p/rho, and the transfer by mode or by shell."""

    pressure: Field
    transfer: Any


class FlowPasses(Protocol):
    """Passes over the modes and points of this rank.

    Passes that transform are collective; the others do not communicate. Sums over lines, rows and shells are float64
    and those of this rank. A line and a row each belong to one rank.
    """

    modes: Modes

    def sum_modes(self, fields: Fields) -> tuple[Sums, Sums]:
        """Return the sums that `kernels_diagnostics.sum_modes` makes.

        They are [9 + 5 S, n_lines] over lines, and [2 + S, n_shells] over shells.
        """

    def sum_damping(self, fields: Fields, damping: Damping) -> Sums:
        """Return the sums over lines that `damping.sum_damping` makes, [2 + S, n_lines]."""

    def spectrum(self, field: Field) -> Sums:
        """Return the sums of |field|^2 over shells, [n_shells]."""

    def to_points(self, field: Field) -> Points:
        """Return the values of a field, which the next pass that transforms may overwrite."""

    def derivative_points(self, velocity: Fields, first: Derivative, second: Derivative) -> Points:
        """Return the values of a sum of two derivatives, as `to_points` does."""

    def streamfunction_points(self, velocity: Fields, axis: int) -> Points:
        """Return the streamfunction in planes across an axis, as `to_points` does."""

    def add_squares(self, points: Points, scale: float, total: Points | None) -> Points:
        """Return total + scale points^2, computed in the memory of total; None stands for zero."""

    def row_powers(self, points: Points) -> Sums:
        """Return sums of powers 1 to 4 over each row along x, [4, n_rows]."""

    def count_octaves(self, points: Points, inverse_unit: float, lowest: int, bits: int, n: int) -> Counts:
        """Return the counts [n] of `kernels_diagnostics.count_octaves`."""

    def count_evenly(self, points: Points, inverse_width: float, middle: int) -> Counts:
        """Return the counts [2 middle + 2] of `kernels_diagnostics.count_evenly`."""

    def increments(self, points: Points, offsets: NDArray[np.int64]) -> Sums:
        """Return the sums [3, n] of `kernels_diagnostics.add_increments` over all rows."""

    def velocity_points(self, velocity: Fields, cells: float) -> Sequence[Points]:
        """Return u, v, w at the points of a grid that is displaced by `cells` cells in every direction."""

    def largest_rate(self, points: Sequence[Points]) -> float:
        """Return the maximum of |u|/dx + |v|/dy + |w|/dz; 0 without points, NaN if a point has NaN."""

    def begin_stresses(self, velocity: Fields) -> StressSums:
        """Return empty sums for a velocity, which end the use of earlier ones."""

    def add_stress(
        self,
        points: Sequence[Points],
        pair: tuple[int, int],
        cells: float,
        share: float,
        velocity: Fields,
        sums: StressSums,
    ) -> None:
        """Add the contribution of u_i u_j, times share, to the sums. points: `velocity_points` of these cells."""

    def add_wave_pressure(self, fields: Fields, waves: Waves, sums: StressSums) -> None:
        """Add the contribution of rotation and buoyancy to the pressure, after that of a stress. No transform."""

    def transfer(self, sums: StressSums) -> Sums:
        """Return the sums of the transfer over shells, [n_shells]."""

    def to_host(self, points: Points) -> NDArray[Any]:
        """Return the values as a real array [z, y, x] of the host."""


class HostPasses:
    """`FlowPasses` over arrays of the host: fields complex [n_modes], points real [z, y, x].

    Points are new arrays each time. Memory: a complex and a real field beside those that are returned.
    """

    def __init__(self, modes: Modes, transform: FieldTransform) -> None:
        self.modes, self._transform, self._shells = modes, transform, Shells(modes)

    @property
    def _waves(self) -> tuple[Any, ...]:
        """Arguments of kernels that describe the modes: start, kz, kx, weight, unit_y, shell_width."""
        modes = self.modes
        return modes.lines.start, modes.kz, modes.kx, modes.line_weight, modes.unit[1], self._shells.width

    def sum_modes(self, fields: NDArray[Any]) -> tuple[Sums, Sums]:
        n_scalars = len(fields) - 3
        of_lines = np.empty((len(FLOW_SUMS) + len(SCALAR_SUMS) * n_scalars, self.modes.lines.n_lines))
        of_shells = np.zeros((2 + n_scalars, self._shells.n_shells))
        sum_modes(fields, *self._waves, of_lines, of_shells)
        return of_lines, of_shells

    def sum_damping(self, fields: NDArray[Any], damping: Damping) -> Sums:
        of_lines = np.empty((len(fields) - 1, self.modes.lines.n_lines))
        *waves, _ = self._waves
        sum_damping(fields, *waves, rate_terms(damping), of_lines)
        return of_lines

    def spectrum(self, field: NDArray[Any]) -> Sums:
        of_shells = np.zeros(self._shells.n_shells)
        add_spectrum(field, *self._waves, of_shells)
        return of_shells

    def to_points(self, field: NDArray[Any]) -> NDArray[Any]:
        (values,) = self._transform.to_physical(field[np.newaxis])
        return np.asarray(values)

    def derivative_points(
        self, velocity: NDArray[Any], first: Derivative, second: Derivative
    ) -> NDArray[Any]:
        (i, axis_i, scale_i), (j, axis_j, scale_j) = first, second
        out = np.empty_like(velocity[0])
        start, kz, kx, _, unit_y, _ = self._waves
        combine_derivatives(
            velocity[i],
            axis_i,
            scale_i,
            velocity[j],
            axis_j,
            scale_j,
            start,
            kz,
            kx,
            unit_y,
            out,
        )
        return self.to_points(out)

    def streamfunction_points(self, velocity: NDArray[Any], axis: int) -> NDArray[Any]:
        out = np.empty_like(velocity[0])
        start, kz, kx, _, unit_y, _ = self._waves
        second, third = velocity[(axis + 1) % 3], velocity[(axis + 2) % 3]
        streamfunction_modes(second, third, axis, start, kz, kx, unit_y, out)
        return self.to_points(out)

    def add_squares(self, points: NDArray[Any], scale: float, total: NDArray[Any] | None) -> NDArray[Any]:
        total = np.zeros_like(points) if total is None else total
        add_squares(points.ravel(), points.dtype.type(scale), total.ravel())
        return total

    def row_powers(self, points: NDArray[Any]) -> Sums:
        rows = _rows(points)
        sums = np.empty((POWERS, len(rows)))
        sum_powers(rows, sums)
        return sums

    def count_octaves(
        self, points: NDArray[Any], inverse_unit: float, lowest: int, bits: int, n: int
    ) -> Counts:
        counts = np.zeros(n, np.int64)
        count_octaves(_rows(points), inverse_unit, lowest, bits, counts)
        return counts

    def count_evenly(self, points: NDArray[Any], inverse_width: float, middle: int) -> Counts:
        counts = np.zeros(2 * middle + 2, np.int64)
        count_evenly(_rows(points), inverse_width, middle, counts)
        return counts

    def increments(self, points: NDArray[Any], offsets: NDArray[np.int64]) -> Sums:
        sums = np.zeros((3, len(offsets)))
        add_increments(_rows(points), offsets, sums)
        return sums

    def velocity_points(self, velocity: NDArray[Any], cells: float) -> list[NDArray[Any]]:
        phases = self._phases(cells)
        shifted = np.empty_like(velocity[0])
        points = []
        for component in velocity:
            shift_modes(component, *phases, self.modes.lines.start, shifted)
            points.append(self.to_points(shifted))
        return points

    def _phases(self, cells: float) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
        """Return the phases of `shift_modes` for a displacement by `cells` grid cells in every direction."""
        modes = self.modes
        dz, dy, dx = (cells * length / n for length, n in zip(modes.lengths, modes.shape))
        ny = modes.shape[1]
        ky = modes.unit[1] * np.fft.fftfreq(ny, 1 / ny)
        return np.exp(1j * dy * ky), np.exp(1j * (dx * modes.kx + dz * modes.kz))

    def largest_rate(self, points: Sequence[NDArray[Any]]) -> float:
        total = np.zeros_like(points[0])
        for component, n, length in zip(points, self.modes.shape[::-1], self.modes.lengths[::-1]):
            add_magnitudes(component.ravel(), component.dtype.type(n / length), total.ravel())
        return float(total.max(initial=0.0))

    def begin_stresses(self, velocity: NDArray[Any]) -> StressSums:
        """Return empty sums: pressure complex [n_modes], transfer float64 [n_shells]."""
        return StressSums(np.zeros_like(velocity[0]), np.zeros(self._shells.n_shells))

    def add_stress(
        self,
        points: Sequence[NDArray[Any]],
        pair: tuple[int, int],
        cells: float,
        share: float,
        velocity: NDArray[Any],
        sums: StressSums,
    ) -> None:
        i, j = sorted(pair)
        product = np.empty_like(points[i])
        multiply(points[i].ravel(), points[j].ravel(), product.ravel())
        stress = self._transform.to_spectral(product[np.newaxis])[0]
        phase_y, phase_flat = self._phases(cells)
        shift_modes(stress, phase_y.conj(), phase_flat.conj(), self.modes.lines.start, stress)
        add_stress(stress, i, j, share, velocity, *self._waves, sums.pressure, sums.transfer)

    def add_wave_pressure(self, fields: NDArray[Any], waves: Waves, sums: StressSums) -> None:
        start, kz, kx, _, unit_y, _ = self._waves
        add_wave_pressure(fields, start, kz, kx, unit_y, pressure_terms(waves), sums.pressure)

    def transfer(self, sums: StressSums) -> Sums:
        of_shells: Sums = sums.transfer
        return of_shells

    def to_host(self, points: NDArray[Any]) -> NDArray[Any]:
        return points


def _rows(points: NDArray[Any]) -> NDArray[Any]:
    return points.reshape(-1, points.shape[-1])
