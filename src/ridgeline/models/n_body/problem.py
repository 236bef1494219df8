"""The equations of an N-body run, their parameters as plain values, and the schedule of kicks and drifts.

Positions x are comoving, in Mpc/h, in [0, L)^3; time is in 1/H0; the momentum is p = a^2 dx/dt, in Mpc/h H0. All
particles have the same mass. The potential phi = phi~ / a with lap(phi~) = 1.5 Omega_m delta gives

    dp = -grad(phi~) K,  K = int da / (a^2 E);      dx = p D,  D = int da / (a^3 E).

A step in the scale factor is symmetric, and symplectic in x and p. It has substeps of the short-range force:

    half a kick of the mesh; substeps of [half a kick by near particles, a drift, half a kick by them]; half a kick

Sources: Quinn, Katz, Stadel and Lake, astro-ph/9710043; Habib et al., New Astronomy 42 (2016) 49, for the substeps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from ridgeline.models.n_body.cosmology import Cosmology
from ridgeline.models.n_body.force_law import Filter
from ridgeline.parallel.partition import Triple


@dataclass(frozen=True)
class Gravity:
    """The particles, the box and the force between particles.

    Attributes
    ----------
    shape : tuple of three ints
        Cells of the mesh, which is a cube.
    length : float
        Edge of the box, Mpc/h.
    n_global : int
        Number of particles.
    omega_m : float
        Matter density of today over the critical one.
    filter : Filter
        Filter of the density on the mesh.
    radius : float or None
        Matching radius of the short-range force, in cells; None leaves all forces to the mesh.
    softening : float
        Plummer's softening of the short-range force, in cells.
    """

    shape: Triple
    length: float
    n_global: int
    omega_m: float
    filter: Filter = field(default_factory=Filter)
    radius: float | None = 3.2
    softening: float = 0.1

    @property
    def cell(self) -> float:
        """Edge of a cell of the mesh."""
        return self.length / self.shape[0]

    @property
    def source(self) -> float:
        """Factor of the density contrast in Poisson's equation."""
        return 1.5 * self.omega_m

    @property
    def strength(self) -> float:
        """Strength g of the attraction g / r^2 between two particles: source L^3 / (4 pi N)."""
        return self.source * self.length**3 / (4 * math.pi * self.n_global)


@dataclass(frozen=True)
class KickDriftKick:
    """The factors of forces (kicks) and of momenta (drift) in one substep."""

    first_kick: float
    drift: float
    second_kick: float


@dataclass(frozen=True)
class Stepping:
    """A schedule in which `steps_to_today` steps of `substeps` substeps lead from the scale factor `begin` to 1."""

    cosmology: Cosmology
    begin: float
    steps_to_today: int
    substeps: int = 1
    spacing: Literal["linear", "logarithmic"] = "linear"

    def scale_factor(self, step: float) -> float:
        """Return the scale factor after a number of steps, which need not be whole."""
        part = step / self.steps_to_today
        if self.spacing == "linear":
            return self.begin + (1.0 - self.begin) * part
        return float(self.begin ** (1.0 - part))

    def steps_at(self, a: float) -> float:
        """Return the number of steps after which the scale factor is `a`, which need not be whole."""
        if self.spacing == "linear":
            return (a - self.begin) / (1.0 - self.begin) * self.steps_to_today
        return (1.0 - math.log(a) / math.log(self.begin)) * self.steps_to_today

    def place(self, step: int, a: float) -> float:
        """Return how many whole steps lead to `a`, that of `step`: a whole number if no step was shortened."""
        return float(step) if math.isclose(a, self.scale_factor(step), rel_tol=1e-12) else self.steps_at(a)

    def mesh_kicks(self, place: float, length: float = 1.0) -> tuple[float, float]:
        """Return the factors of the mesh's forces for the kicks at the beginning and at the end of a step.

        place: of its beginning; length: over that of a whole step.
        """
        middle = place + 0.5 * length
        return self._kick(place, middle), self._kick(middle, place + length)

    def substep_factors(self, place: float, length: float = 1.0) -> list[KickDriftKick]:
        """Return the factors of each substep of a step, given as for `mesh_kicks`."""
        cuts = [place + length * k / (2 * self.substeps) for k in range(2 * self.substeps + 1)]
        return [
            KickDriftKick(self._kick(first, middle), self._drift(first, last), self._kick(middle, last))
            for first, middle, last in zip(cuts[0:-2:2], cuts[1:-1:2], cuts[2::2])
        ]

    def _kick(self, first: float, last: float) -> float:
        return self.cosmology.kick_factor(self.scale_factor(first), self.scale_factor(last))

    def _drift(self, first: float, last: float) -> float:
        return self.cosmology.drift_factor(self.scale_factor(first), self.scale_factor(last))
