"""Energies, momentum and the cosmic energy equation of the present state, with the same bits on any number of ranks.

Per particle of mass 1, with peculiar velocities v = p / a and phi = phi~ / a,

    T = <v^2> / 2,   U = <phi> / 2,   d/da [a (T + U)] = -T

(Layzer 1963, Irvine 1961). The sum a (T + U) + integral of T da is constant. Its drift, relative to the change of a
U, measures the error of forces and steps together. The potential of a particle's own cloud on the mesh hardly changes
a U.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ridgeline.models.n_body.engine_cpu import MOMENTUM, CpuEngine
from ridgeline.parallel.allreduce import allreduce_sums
from ridgeline.particles.particles import POSITION, locate_nonfinite

if TYPE_CHECKING:
    from mpi4py import MPI

KM_PER_S = 100.0  # in one Mpc/h H0, the unit of velocities v = p / a


class EnergyBudget:
    """The terms of the energy equation of a run, which a checkpoint keeps as `terms`, float64 [4].

    They are a (T + U) and a U of step 0, the integral of T da so far, and the last T.
    """

    def __init__(self) -> None:
        self.terms = np.zeros(4)

    def begin(self, a: float, kinetic: float, potential: float) -> None:
        """Set the terms from the state of step 0."""
        self.terms[:] = a * (kinetic + potential), a * potential, 0.0, kinetic

    def add(self, da: float, kinetic: float) -> None:
        """Integrate over a step of length da by the trapezoidal rule. kinetic: the kinetic energy at its end."""
        self.terms[2] += 0.5 * da * (self.terms[3] + kinetic)
        self.terms[3] = kinetic

    def residual(self, a: float, kinetic: float, potential: float) -> float:
        """Return the drift of a (T + U) + integral of T da over the change of a U; 0 if a U has not changed."""
        first, bound, work, _ = self.terms
        drift, change = a * (kinetic + potential) + work - first, a * potential - bound
        return float(drift / abs(change)) if change else 0.0


class Diagnostics:
    """Measures an engine's particles. Every method is collective."""

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
        """Return U at the scale factor a, in (Mpc/h H0)^2. It takes a transform and sums over near particles."""
        return 0.5 * self._mean(self._engine.potentials()) / a

    def momentum(self) -> list[float]:
        """Return the mean momentum in Mpc/h H0: x, y, z."""
        n = self._engine.gravity.n_global
        rows = [np.ascontiguousarray(row) for row in self._engine.particles[MOMENTUM]]
        return [float(total) / n for total in allreduce_sums(self._comm, rows, n)]

    def locate_nonfinite(self) -> str | None:
        """Describe the particle of least identity that is not finite; None if all are finite."""
        return locate_nonfinite(self._comm, self._engine.particles, (POSITION, MOMENTUM), "particle")
