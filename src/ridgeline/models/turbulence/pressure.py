"""What the products u_i u_j of a velocity field give: the pressure and its statistics, and the transfer spectrum.

    p/rho = -k_i k_j / k^2 of the modes of u_i u_j                                  (paper, Eq. 11),
    T(k) = sum of Re(u_j* (-i k_i u_i u_j)) over a shell,   dE(k)/dt = T(k) - 2 nu k^2 E(k) + forcing.

With waves the pressure has a part that is linear in velocity and buoyancy (waves.py).

With the truncation of phase shifting the products are averages of two evaluations. One is on the grid, the other on
the grid displaced by half a cell in all directions. Products that alias in one or three directions cancel, and those
that alias in two lie outside the truncation. So the result is free of aliasing (Patterson and Orszag, Phys. Fluids 14
(1971) 2538). With the 2/3 rule one evaluation is free of it, and `none` asks for none of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.fourier.modes import Modes
from ridgeline.fourier.shells import Shells
from ridgeline.models.turbulence.gradients import STRAIN, TransformPair, mean_powers, shape_factors
from ridgeline.models.turbulence.mode_sums import add_spectrum, add_stress, shift_modes
from ridgeline.models.turbulence.point_sums import add_magnitudes, count_evenly, multiply
from ridgeline.models.turbulence.problem import NO_WAVES, Waves
from ridgeline.models.turbulence.spectra import sum_over_ranks
from ridgeline.models.turbulence.waves import add_wave_pressure, pressure_terms
from ridgeline.parallel.reduce import global_max

if TYPE_CHECKING:
    from mpi4py import MPI

# Bins of the density of p / p': wide enough for the cores of the strongest vortices, where p is lowest.
FARTHEST, BINS_PER_RMS = 64, 8
DEVIATIONS = (np.arange(2 * FARTHEST * BINS_PER_RMS) + 0.5) / BINS_PER_RMS - FARTHEST  # their middles


@dataclass(frozen=True)
class Products:
    """What the products of velocities give.

    pressure: modes of p/rho, complex [n_modes], zero at k = 0; transfer_spectrum: T(k_n) per unit of wavenumber,
    float64 [n_shells], equal on all ranks; its sum is zero to rounding where products are free of aliasing.
    courant_rate: maximum over all points of |u|/dx + |v|/dy + |w|/dz, in 1/s; the Courant number is the time step
    times this (paper, Eq. 8).
    """

    pressure: NDArray[Any]
    transfer_spectrum: NDArray[np.float64]
    courant_rate: float


@dataclass(frozen=True)
class PressureStatistics:
    """Statistics of p/rho, whose mean is zero, over all points of the grid (paper, Sec. 3.2).

    variance: <p^2> = p'^2; skewness, flatness: <p^3> / p'^3 and <p^4> / p'^4; density: probability density of
    p / p' in bins of 1 / BINS_PER_RMS around `DEVIATIONS`, float64 [n_bins]. All but the variance are 0 where the
    pressure is 0 everywhere; all are NaN where it is not finite.
    """

    variance: float
    skewness: float
    flatness: float
    density: NDArray[np.float64]


def pressure_statistics(
    comm: MPI.Comm, pressure: NDArray[Any], modes: Modes, transform: TransformPair
) -> PressureStatistics:
    """Return the statistics of modes of p/rho, complex [n_modes]; equal on all ranks. Collective.

    Cost: one inverse transform.
    """
    values = transform.to_physical(pressure[np.newaxis])[0]
    powers = mean_powers(comm, values, modes)
    variance = float(powers[1])
    if variance == 0.0 or not math.isfinite(variance):
        bad = 0.0 * variance
        return PressureStatistics(variance, bad, bad, np.full(len(DEVIATIONS), bad))
    counts = np.zeros(len(DEVIATIONS) + 2, np.int64)
    rows = values.reshape(-1, values.shape[-1])
    count_evenly(rows, BINS_PER_RMS / math.sqrt(variance), FARTHEST * BINS_PER_RMS, counts)
    density = sum_over_ranks(comm, counts)[1:-1] * (BINS_PER_RMS / math.prod(modes.shape))
    return PressureStatistics(variance, *shape_factors(powers), density)


def pressure_spectrum(comm: MPI.Comm, pressure: NDArray[Any], modes: Modes) -> NDArray[np.float64]:
    """Return the spectrum of modes of p/rho, float64 [n_shells], equal on all ranks. Collective, no transform.

    |p_k|^2 summed over a shell and divided by its width: the sum of the spectrum times the width is the variance.
    """
    shells = Shells(modes)
    spectrum = np.zeros(shells.n_shells)
    add_spectrum(
        pressure,
        modes.lines.start,
        modes.kz,
        modes.kx,
        modes.line_weight,
        modes.unit[1],
        shells.width,
        spectrum,
    )
    return sum_over_ranks(comm, spectrum) / shells.width


def products(
    comm: MPI.Comm, fields: NDArray[Any], modes: Modes, transform: TransformPair, waves: Waves = NO_WAVES
) -> Products:
    """Return pressure, transfer spectrum and Courant rate of a velocity field. Collective.

    fields: complex [3 + S, n_modes], the velocity solenoidal. Cost: 3 inverse and 6 forward transforms, twice with
    phase shifts; memory: four real and three complex fields more than a transform has.
    """
    shells, velocity = Shells(modes), fields[:3]
    pressure = np.zeros_like(velocity[0])
    transfer = np.zeros(shells.n_shells)
    rate = 0.0
    grids = (0.0, 0.5) if modes.dealias == "phase-shift" else (0.0,)
    for cells in grids:
        points = _displaced(velocity, modes, transform, cells)
        if cells == 0.0:
            rate = _largest_rate(points, modes)
        for (i, j), stress in _stresses(points, modes, transform, cells):
            add_stress(
                stress,
                min(i, j),
                max(i, j),
                1.0 / len(grids),
                velocity,
                modes.lines.start,
                modes.kz,
                modes.kx,
                modes.line_weight,
                modes.unit[1],
                shells.width,
                pressure,
                transfer,
            )
    if waves:
        terms = pressure_terms(waves)
        unit_y = modes.unit[1]
        add_wave_pressure(fields, modes.lines.start, modes.kz, modes.kx, unit_y, terms, pressure)
    return Products(pressure, sum_over_ranks(comm, transfer) / shells.width, float(global_max(comm, rate)))


def _displaced(
    velocity: NDArray[Any], modes: Modes, transform: TransformPair, cells: float
) -> list[NDArray[Any]]:
    """Return u, v, w at the points of a grid displaced by some cells, real [z, y, x] each. Collective."""
    phase_y, phase_flat = _phases(modes, cells)
    shifted = np.empty_like(velocity[:1])
    points = []
    for component in velocity:
        shift_modes(component, phase_y, phase_flat, modes.lines.start, shifted[0])
        points.append(transform.to_physical(shifted)[0])
    return points


def _largest_rate(points: list[NDArray[Any]], modes: Modes) -> float:
    """Return this rank's maximum of |u|/dx + |v|/dy + |w|/dz, 0 where it has no points."""
    total = np.zeros_like(points[0])
    for component, n, length in zip(points, modes.shape[::-1], modes.lengths[::-1]):
        add_magnitudes(component.ravel(), component.dtype.type(n / length), total.ravel())
    return float(total.max(initial=0.0))


def _stresses(
    points: list[NDArray[Any]], modes: Modes, transform: TransformPair, cells: float
) -> Iterator[tuple[tuple[int, int], NDArray[Any]]]:
    """Yield (i, j) and the modes of u_i u_j, complex [n_modes], of velocities on a grid displaced by some cells."""
    phase_y, phase_flat = _phases(modes, cells)
    product = np.empty_like(points[0])[np.newaxis]
    undo = phase_y.conj(), phase_flat.conj()
    for i, j in STRAIN:
        multiply(points[i].ravel(), points[j].ravel(), product.ravel())
        stress = transform.to_spectral(product)[0]
        shift_modes(stress, *undo, modes.lines.start, stress)
        yield (i, j), stress


def _phases(modes: Modes, cells: float) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
    """Return what `shift_modes` takes for a displacement by `cells` grid cells in every direction."""
    dz, dy, dx = (cells * length / n for length, n in zip(modes.lengths, modes.shape))
    ny = modes.shape[1]
    ky = modes.unit[1] * np.fft.fftfreq(ny, 1 / ny)
    return np.exp(1j * dy * ky), np.exp(1j * (dx * modes.kx + dz * modes.kz))
