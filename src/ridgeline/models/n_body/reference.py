"""N-body gravity in plain NumPy: forces of a periodic box by Ewald's sum, over all pairs. The oracle of the engine.

Written to be read: no mesh, no cells, no ranks. A uniform background makes the total mass zero. With the edge of the
box as the unit of length, the force between two particles and all images of each other is g times the gradient of

    psi(r) = sum_n erfc(alpha |r + n|) / |r + n| + sum_(k != 0) (4 pi / k^2) exp(-k^2 / 4 alpha^2) cos(k.r) + const

Sources: Ewald, Ann. Phys. 369 (1921) 253; Hernquist, Bouchet and Suto, Astrophys. J. Suppl. 75 (1991) 231.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfc

from ridgeline.models.n_body.problem import Gravity, Stepping

Reals = NDArray[np.float64]

# With these numbers both sums, over images and over modes, are truncated at 1e-12. Lengths are in edges of the box.
ALPHA = 2.0
IMAGES, MODES = 2, 4


def ewald_attraction(apart: Reals) -> Reals:
    """Return the attraction (..., 3) at positions `apart` (..., 3) by a particle at the origin; 0 at the origin.

    Lengths are in edges of the box. Close to the origin the attraction is -r / r^3.
    """
    total = np.zeros_like(apart)
    for image in itertools.product(range(-IMAGES, IMAGES + 1), repeat=3):
        d = apart - np.round(apart) + np.array(image, float)
        r = np.sqrt((d**2).sum(-1, keepdims=True))
        safe = np.where(r > 0, r, 1.0)
        strength = erfc(ALPHA * safe) + 2 * ALPHA * safe / np.sqrt(np.pi) * np.exp(-((ALPHA * safe) ** 2))
        total -= np.where(r > 0, d * strength / safe**3, 0.0)
    for numbers in itertools.product(range(-MODES, MODES + 1), repeat=3):
        square = sum(n * n for n in numbers)
        if 0 < square <= MODES**2:
            k = 2 * np.pi * np.array(numbers, float)
            weight = 4 * np.pi / (k @ k) * np.exp(-(k @ k) / (4 * ALPHA**2))
            total -= weight * np.sin(apart @ k)[..., None] * k
    return total


def forces(positions: Reals, gravity: Gravity, softening: float = 0.0) -> Reals:
    """Return -grad(phi~) (n, 3) at all positions (n, 3) by sums over all pairs.

    softening: Plummer's softening of the nearest image, as a length.
    """
    apart = (positions[:, None] - positions[None, :]) / gravity.length
    pull = ewald_attraction(apart)
    if softening:
        d = apart - np.round(apart)
        square = (d**2).sum(-1, keepdims=True)
        safe = np.where(square > 0, square, 1.0)
        soft = (softening / gravity.length) ** 2
        pull += np.where(square > 0, d * (safe**-1.5 - (safe + soft) ** -1.5), 0.0)
    return np.asarray(gravity.strength / gravity.length**2 * pull.sum(1))


class ReferenceSolver:
    """Advances particles by kick-drift-kick, with all forces in every substep."""

    def __init__(self, gravity: Gravity, positions: Reals, momenta: Reals, softening: float = 0.0) -> None:
        """positions, momenta: (n, 3); softening: see `forces`."""
        self.gravity, self._softening = gravity, softening
        self.positions, self.momenta = positions.copy(), momenta.copy()

    def step(self, schedule: Stepping, step: int) -> None:
        """Advance from `step` by one step of the schedule."""
        for part in schedule.substep_factors(step):
            self.momenta += part.first_kick * forces(self.positions, self.gravity, self._softening)
            self.positions = (self.positions + part.drift * self.momenta) % self.gravity.length
            self.momenta += part.second_kick * forces(self.positions, self.gravity, self._softening)
