"""A flat universe of matter and a cosmological constant: expansion, growth of structure, factors of kick and drift.

The scale factor a is 1 today, and times are in 1/H0. Radiation is neglected. All methods return float64 of the shape
of their arguments and do not communicate.

    E(a)^2 = Omega_m / a^3 + Omega_Lambda,   Omega_Lambda = 1 - Omega_m,   y = Omega_Lambda a^3 / Omega_m

Integrals over a are hypergeometric functions 2F1 of -y. They are exactly 1 at y = 0, so that every formula is exact
for Omega_m = 1 (Einstein-de Sitter).

Sources: Heath, Mon. Not. R. Astron. Soc. 179 (1977) 351 (growth); Bouchet, Colombi, Hivon and Juszkiewicz, Astron.
Astrophys. 296 (1995) 575 (second order); Quinn, Katz, Stadel and Lake, astro-ph/9710043 (kick and drift).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import solve_ivp
from scipy.special import hyp2f1

from ridgeline.runtime.errors import ConfigError

Real = NDArray[np.float64]

CRITICAL_DENSITY = 2.77536627e11  # of today, 3 H0^2 / (8 pi G), in solar masses / h per (Mpc/h)^3
EARLY = 1e-12  # below this y the second order is that of Einstein-de Sitter
TOLERANCE = 1e-12  # of the equation of second order


@dataclass(frozen=True)
class Cosmology:
    """The parameters of the universe, and functions of the scale factor.

    omega_m: matter density of today over the critical one, in (0, 1]; hubble: H0 in 100 km/s/Mpc. Raises ConfigError
    for values out of range.
    """

    omega_m: float
    hubble: float = 0.7

    def __post_init__(self) -> None:
        if not 0 < self.omega_m <= 1:
            raise ConfigError(
                f"omega_m = {self.omega_m} is not possible in a flat universe. It must be > 0 and <= 1, such as 0.31."
            )
        if not 0 < self.hubble < math.inf:
            raise ConfigError(
                f"hubble = {self.hubble} is not an expansion rate in 100 km/s/Mpc. It must be a positive number, "
                f"such as 0.7."
            )

    @property
    def omega_lambda(self) -> float:
        """Density of the cosmological constant over the critical one."""
        return 1.0 - self.omega_m

    def expansion_rate(self, a: ArrayLike) -> Real:
        """Return E = H(a)/H0."""
        return np.asarray(np.sqrt(self.omega_m / np.asarray(a, np.float64) ** 3 + self.omega_lambda))

    def matter_fraction(self, a: ArrayLike) -> Real:
        """Return Omega_m(a), the matter density over the critical one of that time."""
        return 1.0 / (1.0 + self._y(a))

    def growth(self, a: ArrayLike) -> Real:
        """Return D(a), the growing solution of linear theory, D(1) = 1.

        D is proportional to E int da / (a E)^3 (Heath, 1977), which is a 2F1(1/3, 1; 11/6; -y).
        """
        return self._unscaled_growth(a) / self._unscaled_growth(1.0)

    def growth_rate(self, a: ArrayLike) -> Real:
        """Return f = dln D / dln a = Omega_m(a) (5 a / (2 g) - 3/2), where g is D scaled to be a at early times."""
        a = np.asarray(a, np.float64)
        return np.asarray(self.matter_fraction(a) * (2.5 * a / self._unscaled_growth(a) - 1.5))

    def second_growth(self, a: ArrayLike) -> Real:
        """Return D2(a), the growth factor of second order: -3/7 D^2 in Einstein-de Sitter.

        It is the growing solution of D2'' + 2 H D2' = 1.5 H^2 Omega_m(a) (D2 - D^2), with derivatives in time.
        """
        return self._second(a)[0]

    def second_growth_rate(self, a: ArrayLike) -> Real:
        """Return dln D2 / dln a: 2 in Einstein-de Sitter."""
        value, slope = self._second(a)
        return np.asarray(slope / value)

    def kick_factor(self, a0: float, a1: float) -> float:
        """Return K, the integral of da / (a^2 E) from a0 to a1: the momentum changes by -grad(phi~) K."""
        return float(self._kicks(a1) - self._kicks(a0))

    def drift_factor(self, a0: float, a1: float) -> float:
        """Return D, the integral of da / (a^3 E) from a0 to a1: a particle of momentum p moves by p D."""
        return float(self._drifts(a1) - self._drifts(a0))

    def particle_mass(self, volume: float, n_global: int) -> float:
        """Return the mass in solar masses / h of each of n_global particles in a volume in (Mpc/h)^3."""
        return CRITICAL_DENSITY * self.omega_m * volume / n_global

    def _y(self, a: ArrayLike) -> Real:
        return np.asarray(np.asarray(a, np.float64) ** 3 * (self.omega_lambda / self.omega_m))

    def _unscaled_growth(self, a: ArrayLike) -> Real:
        """Return D scaled to be a at early times."""
        return np.asarray(np.asarray(a) * hyp2f1(1 / 3, 1.0, 11 / 6, -self._y(a)))

    def _kicks(self, a: float) -> Real:
        return np.asarray(2.0 * math.sqrt(a / self.omega_m) * hyp2f1(0.5, 1 / 6, 7 / 6, -self._y(a)))

    def _drifts(self, a: float) -> Real:
        return np.asarray(-2.0 / math.sqrt(a * self.omega_m) * hyp2f1(0.5, -1 / 6, 5 / 6, -self._y(a)))

    def _second(self, a: ArrayLike) -> tuple[Real, Real]:
        """Return D2 and dD2 / dln a. The ratio D2 / D^2, which hardly varies, is integrated in ln a."""
        a = np.asarray(a, np.float64)
        ratio, slope = np.full(a.shape, -3 / 7), np.zeros(a.shape)
        for place in np.ndindex(a.shape):
            if self._y(a[place]) > EARLY:
                ratio[place], slope[place] = self._late_ratio(float(a[place]))
        square = self.growth(a) ** 2
        return ratio * square, (slope + 2.0 * self.growth_rate(a) * ratio) * square

    def _late_ratio(self, a: float) -> tuple[float, float]:
        """Return r = D2 / D^2 and dr / dln a by integration from an early time at which r is -3/7."""
        start = math.log(a) - math.log(float(self._y(a)) / EARLY) / 3

        def change(log_a: float, state: Real) -> list[float]:
            ratio, slope = state
            a = math.exp(log_a)
            matter, rate = float(self.matter_fraction(a)), float(self.growth_rate(a))
            damping = 2.0 - 1.5 * matter + 4.0 * rate
            return [slope, -damping * slope - (1.5 * matter + 2.0 * rate**2) * ratio - 1.5 * matter]

        solution = solve_ivp(
            change, (start, math.log(a)), [-3 / 7, 0.0], "DOP853", rtol=TOLERANCE, atol=TOLERANCE
        )
        return float(solution.y[0, -1]), float(solution.y[1, -1])
