"""Linear power spectra P(k) of matter today, with k in h/Mpc and P in (Mpc/h)^3. Nothing here communicates.

    <delta_k conj(delta_k')> = P(k) / volume if k = k', otherwise 0,   delta(x) = sum_k delta_k exp(i k.x)

A spectrum is a function of float64 arrays k > 0 of any shape. Its amplitude is given by sigma8, the root mean square
of delta in spheres of radius R = 8 Mpc/h:

    sigma8^2 = 1 / (2 pi^2) int dk k^2 P(k) W(k R)^2,   W(x) = 3 (sin x - x cos x) / x^3

Sources: Bardeen, Bond, Kaiser and Szalay (BBKS), Astrophys. J. 304 (1986) 15, Eq. G3; Sugiyama, Astrophys. J. Suppl.
100 (1995) 281, for the shape of a universe with baryons; Peebles, "The Large-Scale Structure of the Universe" (1980).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ridgeline.models.n_body.cosmology import Cosmology
from ridgeline.runtime.errors import ConfigError

Real = NDArray[np.float64]
Spectrum = Callable[[Real], Real]

RADIUS = 8.0  # of the spheres of sigma8, Mpc/h
# The integral of sigma8 is a sum over equal steps in ln k between these, in h/Mpc. Beyond them spectra of cold dark
# matter contribute less than rounding.
LEAST, MOST, POINTS = 1e-7, 1e3, 40000
SEPARATION = 1e-9  # least relative difference between wavenumbers of a table


def bbks(cosmology: Cosmology, index: float, sigma8: float, omega_b: float = 0.0) -> Spectrum:
    """Return the spectrum of cold dark matter with the primordial spectrum k^index: A k^index T(q)^2, q = k / shape.

    T(q) = ln(1 + 2.34 q) / (2.34 q) (1 + 3.89 q + (16.1 q)^2 + (5.46 q)^3 + (6.71 q)^4)^(-1/4)  (BBKS, Eq. G3)
    shape = Omega_m h exp(-Omega_b (1 + sqrt(2 h) / Omega_m))  (Sugiyama, 1995)

    Raises ConfigError if sigma8 is not positive, or index or omega_b out of range.
    """
    matter, hubble = cosmology.omega_m, cosmology.hubble
    if not -1 <= index <= 2:
        raise ConfigError(f"index = {index} cannot be used with BBKS. It must be from -1 to 2, such as 0.96.")
    if not 0 <= omega_b < matter:
        raise ConfigError(
            f"omega_b = {omega_b} is not possible. It must be >= 0 and < omega_m = {matter}, such as 0 or 0.05."
        )
    shape = matter * hubble * math.exp(-omega_b * (1 + math.sqrt(2 * hubble) / matter))

    def unscaled(k: Real) -> Real:
        q = k / shape
        polynomial = 1 + 3.89 * q + (16.1 * q) ** 2 + (5.46 * q) ** 3 + (6.71 * q) ** 4
        transfer = np.log1p(2.34 * q) / (2.34 * q) * polynomial**-0.25
        return np.asarray(k**index * transfer**2)

    k = np.geomspace(LEAST, MOST, POINTS)
    return _scaled(unscaled, sigma8, variance_in_spheres(k, unscaled(k)))


def power_law(index: float, sigma8: float) -> Spectrum:
    """Return A k^index. The integral of sigma8 has a closed form, with u = 1 - index:

    sigma8^2 = A / (2 pi^2) 9 pi / 2 R^-(3 + index) Gamma(u) Gamma(2 - u/2) /
               (2^u Gamma(1/2 + u/2)^2 Gamma(2 + u/2))

    (NIST, Digital Library of Mathematical Functions, 10.22.57, as 3 j_1(x) / x is W). Raises ConfigError if sigma8 is
    not positive, or the index is not between -3 and 1, where the integral is finite.
    """
    if not -3 < index < 1:
        raise ConfigError(
            f"a power law with index = {index} has no finite sigma8. The index must be between -3 and 1, such as -2."
        )
    u = 1 - index
    gammas = math.gamma(u) * math.gamma(2 - u / 2) / (math.gamma((1 + u) / 2) ** 2 * math.gamma(2 + u / 2))
    variance = 9 / (4 * math.pi) * RADIUS ** -(3 + index) * gammas / 2**u
    return _scaled(lambda k: np.asarray(k**index), sigma8, variance)


def from_table(path: Path, sigma8: float | None = None) -> Spectrum:
    """Return the spectrum of a text file with the columns k and P(k) of today.

    Between rows log P is linear in log k. Further columns, and text after "#", are ignored. sigma8: the spectrum is
    scaled to it, with the integral over the table; None leaves the table as it is. Raises ConfigError if the file
    cannot be read or a row is wrong; the spectrum raises it for a k beyond the table.
    """
    k, power = _read_table(path)
    log_k, log_power = np.log(k), np.log(power)

    def tabulated(wavenumbers: Real) -> Real:
        least, most = np.min(wavenumbers, initial=math.inf), np.max(wavenumbers, initial=0.0)
        if least < k[0] * (1 - SEPARATION) or most > k[-1] * (1 + SEPARATION):
            raise ConfigError(
                f"the power spectrum {path} covers k from {k[0]:.4g} to {k[-1]:.4g} h/Mpc, but the run needs k from "
                f"{least:.4g} to {most:.4g} h/Mpc. Use a longer table, another box or fewer particles."
            )
        return np.asarray(np.exp(np.interp(np.log(wavenumbers), log_k, log_power)))

    if sigma8 is None:
        return tabulated
    fine = np.geomspace(k[0], k[-1], POINTS)
    return _scaled(tabulated, sigma8, variance_in_spheres(fine, tabulated(fine)))


def variance_in_spheres(k: Real, power: Real) -> float:
    """Return sigma8^2 of P at wavenumbers [n] with equal steps in ln k, by the trapezoidal rule."""
    x = k * RADIUS
    # Below 0.01 the difference cancels; 1 - x^2 / 10 is accurate to 1e-10 there.
    large = np.maximum(x, 0.01)
    window = np.where(x < 0.01, 1 - x * x / 10, 3 * (np.sin(large) - large * np.cos(large)) / large**3)
    return float(np.trapezoid(k**3 * power * window**2, np.log(k)) / (2 * math.pi**2))


def _scaled(unscaled: Spectrum, sigma8: float, variance: float) -> Spectrum:
    """Return the spectrum scaled so that its variance in spheres is sigma8^2."""
    if not 0 < sigma8 < math.inf:
        raise ConfigError(f"sigma8 = {sigma8} is not possible. It must be a positive number, such as 0.8.")
    factor = sigma8**2 / variance
    return lambda k: np.asarray(factor * unscaled(k))


def _read_table(path: Path) -> tuple[Real, Real]:
    """Return the columns k and P of a file. Raises ConfigError if they are not a table of a spectrum."""
    try:
        if path.exists() and not path.is_file():
            raise OSError("it is not a regular file")  # reading a pipe would wait
        lines = path.read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"the power spectrum {path} cannot be read ({error}). It must be a text file with the columns k and P."
        ) from None
    rows: list[tuple[float, float]] = []
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].replace(",", " ").split()
        if not words:
            continue
        try:
            k, power = (float(word) for word in words[:2])
        except ValueError:
            raise ConfigError(
                f'{path}:{number}: the line "{line.strip()}" of the power spectrum is not valid. Each line must hold '
                f"k in h/Mpc and P in (Mpc/h)^3, or begin with #."
            ) from None
        if not (0 < k < math.inf and 0 < power < math.inf):
            raise ConfigError(
                f"{path}:{number}: the power spectrum has k = {k:g} and P = {power:g}. Both must be positive and "
                f"finite. Remove the lines where they are not."
            )
        if rows and k <= rows[-1][0] * (1 + SEPARATION):
            raise ConfigError(
                f"{path}:{number}: the power spectrum has k = {k:g} after k = {rows[-1][0]:g}. Sort the lines by "
                f"increasing k, and give each k only once."
            )
        rows.append((k, power))
    if len(rows) < 2:
        raise ConfigError(
            f"the power spectrum {path} has {len(rows)} lines with k and P. It must have at least two."
        )
    k_column, power_column = np.array(rows).T
    return k_column, power_column
