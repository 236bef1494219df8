"""Buoyancy: the force by which scalars act back on the flow, in the approximation of Oberbeck and Boussinesq.

Each scalar theta with an expansion beta adds -beta (theta - theta_0) g to the force, at a gravity g. It is part of
the rates N of its time level, and is extrapolated with them: the scheme keeps its order in time. Density changes
nothing else. Sources: Boussinesq, Theorie analytique de la chaleur 2 (1903) 172; Chandrasekhar, Hydrodynamic and
Hydromagnetic Stability, Oxford 1961, Chapter II.
"""

from __future__ import annotations

import numpy as np

from ridgeline.models.navier_stokes.extrapolation import TimeLevels
from ridgeline.models.navier_stokes.kernels import make_buoyancy
from ridgeline.models.navier_stokes.problem import Array, FlowProblem


def buoyancy_counts(n_scalars: int, n_components: int) -> tuple[float, float]:
    """Return (flops, words) per stored point of the force of so many scalars on so many components."""
    return 4.0 * n_scalars * n_components, n_scalars + 2.0 * n_components if n_scalars else 0.0


class Buoyancy:
    """The force of the scalars of a problem on this rank's elements. No communication."""

    def __init__(self, problem: FlowProblem, levels: TimeLevels) -> None:
        """levels: whose mass and shape of fields are meant."""
        self._factors = np.outer(problem.gravity, [scalar.expansion for scalar in problem.scalars])
        self._references = np.array([scalar.reference for scalar in problem.scalars])
        self._levels = levels
        self._kernel = make_buoyancy()

    def subtract(self, fields: Array, rates: Array) -> None:
        """Subtract the weak force of the scalars from the rates [3 + S, E, n, n, n] of fields of the same shape.

        The rates hold advection less sources.
        """
        levels = self._levels
        flat = (*fields.shape[:2], -1)
        scalars, out = fields.reshape(flat)[3:], rates.reshape(flat)[:3]
        self._kernel(self._factors, self._references, scalars, levels.volume, levels.cube, levels.mass, out)

    def work(self) -> tuple[float, float]:
        """Return flops and least bytes of `subtract` on this rank."""
        used = self._factors != 0.0
        flops, words = buoyancy_counts(int(used.any(axis=0).sum()), int(used.any(axis=1).sum()))
        points = float(self._levels.fields[0][0].size)
        return flops * points, 8.0 * (words * points + self._levels.mass.size)
