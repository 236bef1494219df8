"""The products u_i u_j of a velocity field: the pressure and its statistics, and the transfer spectrum.

    p/rho = -k_i k_j / k^2 of the modes of u_i u_j                                  (paper, Eq. 11),
    T(k) = sum of Re(u_j* (-i k_i u_i u_j)) over a shell,   dE(k)/dt = T(k) - 2 nu k^2 E(k) + forcing.

With waves the pressure has another part, which is linear in velocity and buoyancy (waves.py).

With phase shifts the products are averages of two evaluations, one on the grid and one on the grid displaced by
half a cell in all directions. Products that alias in one or three directions cancel, and those that alias in two
lie outside the truncation, so that the result is free of aliasing (Patterson and Orszag, Phys. Fluids 14 (1971)
2538). With the 2/3 rule one evaluation is free of aliasing, and with model.dealias = "none" aliasing is left in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ridgeline.fourier.modes import Shells
from ridgeline.models.turbulence.gradients import STRAIN, mean_powers, shape_factors
from ridgeline.models.turbulence.passes import Field, Fields, FlowPasses
from ridgeline.models.turbulence.problem import NO_WAVES, Waves
from ridgeline.models.turbulence.spectra import sum_over_ranks
from ridgeline.parallel.allreduce import allreduce_max

if TYPE_CHECKING:
    from mpi4py import MPI

# Bins of the density of p / p', which reach to the cores of the strongest vortices, where p is lowest; DEVIATIONS are
# their middles.
FARTHEST, BINS_PER_RMS = 64, 8
DEVIATIONS = (np.arange(2 * FARTHEST * BINS_PER_RMS) + 0.5) / BINS_PER_RMS - FARTHEST


@dataclass(frozen=True)
class Products:
    """Quantities that follow from the products of velocities.

    Attributes
    ----------
    pressure : modes of p/rho, zero at k = 0; valid until the next call of `products`
    transfer_spectrum : T(k_n) per unit of wavenumber, float64 [n_shells], equal on all ranks; its sum is zero to
        rounding if the products are free of aliasing
    courant_rate : maximum over all points of |u|/dx + |v|/dy + |w|/dz, 1/time; the Courant number is the time step
        times this (paper, Eq. 8)
    """

    pressure: Field
    transfer_spectrum: NDArray[np.float64]
    courant_rate: float


@dataclass(frozen=True)
class PressureStatistics:
    """Statistics of p/rho, whose mean is zero, over all points of the grid (paper, Sec. 3.2).

    All but the variance are 0 if the pressure is 0 everywhere; all are NaN if it is not finite.

    Attributes
    ----------
    variance : <p^2> = p'^2
    skewness, flatness : <p^3> / p'^3 and <p^4> / p'^4
    density : probability density of p / p' in bins of width 1 / BINS_PER_RMS around `DEVIATIONS`, float64 [n_bins]
    """

    variance: float
    skewness: float
    flatness: float
    density: NDArray[np.float64]


def pressure_statistics(comm: MPI.Comm, pressure: Field, passes: FlowPasses) -> PressureStatistics:
    """Return the statistics of modes of p/rho, equal on all ranks. Collective.

    Cost: one inverse transform.
    """
    values = passes.to_points(pressure)
    powers = mean_powers(comm, values, passes)
    variance = float(powers[1])
    if variance == 0.0 or not math.isfinite(variance):
        bad = 0.0 * variance
        return PressureStatistics(variance, bad, bad, np.full(len(DEVIATIONS), bad))
    counts = passes.count_evenly(values, BINS_PER_RMS / math.sqrt(variance), FARTHEST * BINS_PER_RMS)
    density = sum_over_ranks(comm, counts)[1:-1] * (BINS_PER_RMS / math.prod(passes.modes.shape))
    return PressureStatistics(variance, *shape_factors(powers), density)


def pressure_spectrum(comm: MPI.Comm, pressure: Field, passes: FlowPasses) -> NDArray[np.float64]:
    """Return the spectrum of modes of p/rho, float64 [n_shells], equal on all ranks. Collective, no transform.

    It is |p_k|^2 summed over a shell and divided by its width, so that its integral is the variance.
    """
    return sum_over_ranks(comm, passes.spectrum(pressure)) / Shells(passes.modes).width


def products(comm: MPI.Comm, fields: Fields, passes: FlowPasses, waves: Waves = NO_WAVES) -> Products:
    """Return pressure, transfer spectrum and Courant rate of a velocity field. Collective.

    fields: 3 + S, with a solenoidal velocity; waves: of rotation and stratification. Cost: 3 inverse and 6 forward
    transforms, twice as many with phase shifts; memory for four real and three complex fields beside a transform's
    own.
    """
    modes, velocity = passes.modes, fields[:3]
    rate = 0.0
    grids = (0.0, 0.5) if modes.dealias == "phase-shift" else (0.0,)
    sums = passes.begin_stresses(velocity)
    for cells in grids:
        points = passes.velocity_points(velocity, cells)
        if cells == 0.0:
            rate = passes.largest_rate(points)
        for pair in STRAIN:
            passes.add_stress(points, pair, cells, 1.0 / len(grids), velocity, sums)
    transfer = sum_over_ranks(comm, passes.transfer(sums)) / Shells(modes).width
    if waves:
        passes.add_wave_pressure(fields, waves, sums)
    return Products(sums.pressure, transfer, float(allreduce_max(comm, rate)))
