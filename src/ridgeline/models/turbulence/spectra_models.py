"""Spectra E(k) that random initial fields are given: functions of wavenumber, of any scale.

Only the shape matters to initial fields, which are scaled to their energy. Arguments and results are float64
arrays of k > 0 in 1/length.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ridgeline.models.turbulence.spectra import largest_sphere

if TYPE_CHECKING:
    from ridgeline.fourier.modes import Modes
    from ridgeline.models.turbulence.settings import InitialSection

Real = NDArray[np.float64]

# Comte-Bellot and Corrsin, J. Fluid Mech. 48 (1971) 273, Table 3: grid turbulence, mesh 5.08 cm, 10 m/s.
# k in 1/cm; E in cm^3/s^2 at t U/M = 42, 98 and 171, nan where none was measured.
CBC_STATIONS = (42, 98, 171)
_NONE = math.nan
CBC_TABLE = np.array(
    [
        (0.15, _NONE, _NONE, 49.7),
        (0.2, 129, 106, 92),
        (0.25, 230, 196, 120),
        (0.3, 322, 195, 125),
        (0.4, 435, 202, 98),
        (0.5, 457, 168, 81.5),
        (0.7, 380, 127, 60.2),
        (1, 270, 79.2, 39.4),
        (1.5, 168, 47.8, 24.1),
        (2, 120, 34.6, 16.5),
        (2.5, 89, 28.6, 12.5),
        (3, 70.3, 23.1, 9.12),
        (4, 47, 14.3, 5.62),
        (6, 24.7, 5.95, 1.69),
        (8, 12.6, 2.23, 0.52),
        (10, 7.42, 0.9, 0.161),
        (12.5, 3.96, 0.363, 0.052),
        (15, 2.33, 0.162, 0.0141),
        (17.5, 1.34, 0.066, _NONE),
        (20, 0.8, 0.033, _NONE),
    ]
)


def power_law(k: Real, peak: float, low_slope: float, slope: float) -> Real:
    """Return (k/peak)^low_slope up to the peak and (k/peak)^slope beyond."""
    return np.where(k < peak, (k / peak) ** low_slope, (k / peak) ** slope)


def von_karman_pao(k: Real, peak: float, kolmogorov_length: float) -> Real:
    """Return von Karman's spectrum with Pao's cut-off, (kL)^4 (1 + (kL)^2)^(-17/6) exp(-2.25 (k eta)^(4/3)).

    Without the cut-off it is largest at k = peak, (kL)^2 = 12/5; beyond, it falls as k^(-5/3). 2.25 is 3/2 of
    Kolmogorov's constant 1.5 (Pao, Phys. Fluids 8 (1965) 1063).
    """
    scaled = (k / peak) ** 2 * (12 / 5)
    cut_off = np.exp(-2.25 * (k * kolmogorov_length) ** (4 / 3))
    return np.asarray(scaled**2 * (1 + scaled) ** (-17 / 6) * cut_off)


def comte_bellot_corrsin(k: Real, station: int) -> Real:
    """Return E in cm^3/s^2 at wavenumbers in 1/cm, interpolated and extrapolated log k - log E linearly."""
    values = CBC_TABLE[:, 1 + CBC_STATIONS.index(station)]
    measured = ~np.isnan(values)
    x, y = np.log(CBC_TABLE[measured, 0]), np.log(values[measured])
    log_k = np.log(k)
    result = np.interp(log_k, x, y)
    for end, next_to_it in ((0, 1), (-1, -2)):
        slope = (y[next_to_it] - y[end]) / (x[next_to_it] - x[end])
        beyond = log_k < x[0] if end == 0 else log_k > x[-1]
        result = np.where(beyond, y[end] + slope * (log_k - x[end]), result)
    return np.asarray(np.exp(result))


def of_case(initial: InitialSection, k: Real, modes: Modes) -> Real:
    """Return the spectrum that the settings ask for at wavenumbers k, in a scale of its own."""
    if initial.spectrum == "power-law":
        return power_law(k, initial.peak_wavenumber, initial.low_slope, initial.slope)
    if initial.spectrum == "von-karman-pao":
        eta = initial.kolmogorov_length or 1.5 / largest_sphere(modes)
        return von_karman_pao(k, initial.peak_wavenumber, eta)
    return comte_bellot_corrsin(k / initial.length_cm, initial.station)
