"""Figures of the present state: energies, the cosmic energy equation, momentum. The same bits on any ranks.

Per particle of mass 1, with peculiar velocities v = p / a and phi = phi~ / a,

    T = <v^2> / 2,   U = <phi> / 2,   d/da [a (T + U)] = -T

(Layzer 1963, Irvine 1961). What the sum a (T + U) + integral of T da has drifted by, over what a U has changed by, is
the error of forces and steps together. The potential of a particle's own cloud on the mesh hardly changes a U.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ridgeline.models.n_body.engine_cpu import MOMENTUM, CpuEngine
from ridgeline.parallel.allreduce import allreduce_sums
from ridgeline.particles.nonfinite import locate_nonfinite
from ridgeline.particles.particles import POSITION

if TYPE_CHECKING:
    from mpi4py import MPI

KM_PER_S = 100.0  # of one Mpc/h H0: the unit of velocities, v = p / a


class EnergyBudget:
    """What the energy equation remembers of a run: float64 [4], which a checkpoint keeps.

    first: a (T + U) and a U of step 0; work: integral of T da so far; kinetic: the last T.
    """

    def __init__(self) -> None:
        self.kept = np.zeros(4)

    def begin(self, a: float, kinetic: float, potential: float) -> None:
        """Remember the state of step 0."""
        self.kept[:] = a * (kinetic + potential), a * potential, 0.0, kinetic

    def add(self, da: float, kinetic: float) -> None:
        """Add a step of length da, at whose end the kinetic energy is this, by the trapezoidal rule."""
        self.kept[2] += 0.5 * da * (self.kept[3] + kinetic)
        self.kept[3] = kinetic

    def residual(self, a: float, kinetic: float, potential: float) -> float:
        """Return the drift of a (T + U) + integral of T da over the change of a U; 0 where nothing has changed."""
        first, bound, work, _ = self.kept
        drift, change = a * (kinetic + potential) + work - first, a * potential - bound
        return float(drift / abs(change)) if change else 0.0


class Diagnostics:
    """Figures of an engine's particles. Every method is collective."""

    def __init__(self, comm: MPI.Comm, engine: CpuEngine) -> None:
        self._comm, self._engine = comm, engine

    def _mean(self, values: NDArray[np.float64]) -> float:
        n = self._engine.gravity.n_global
        return float(allreduce_sums(self._comm, [values], n)[0]) / n

    def kinetic(self, a: float) -> float:
        """Return T at the scale factor a, in (Mpc/h H0)^2."""
        x, y, z = self._engine.particles[MOMENTUM]
        return 0.5 * self._mean(x * x + y * y + z * z) / a**2

    def potential(self, a: float) -> float:
        """Return U at the scale factor a, in (Mpc/h H0)^2. Costs a transform, and the sums over near particles."""
        return 0.5 * self._mean(self._engine.potentials()) / a

    def momentum(self) -> list[float]:
        """Return the mean momentum, x, y, z, in Mpc/h H0."""
        n = self._engine.gravity.n_global
        rows = [np.ascontiguousarray(row) for row in self._engine.particles[MOMENTUM]]
        return [float(total) / n for total in allreduce_sums(self._comm, rows, n)]

    def locate_nonfinite(self) -> str | None:
        """Say which particle is not finite, the one of least identity; None if there is none."""
        return locate_nonfinite(self._comm, self._engine.particles, (POSITION, MOMENTUM), "particle")
