"""Buoyancy: the force by which scalars act back on the flow, in the approximation of Oberbeck and Boussinesq.

Each scalar theta with an expansion beta adds -beta (theta - theta_0) g to the force, at a gravity g. It is part of
the rates N of its time level, and is extrapolated with them: the scheme keeps its order in time. Density changes
nothing else. Sources: Boussinesq, Theorie analytique de la chaleur 2 (1903) 172; Chandrasekhar, Hydrodynamic and
Hydromagnetic Stability, Oxford 1961, Sec. 8.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ridgeline.elements.points import compiled
from ridgeline.models.navier_stokes.extrapolation import TimeLevels
from ridgeline.models.navier_stokes.problem import Array, FlowProblem


@cache
def make_buoyancy() -> Any:
    """Return kernel(factors, references, scalars, volume, cube, mass, out), which adds to weak rates.

    out[i] += mass sum_s factors[i, s] (scalars[s] - references[s]). factors: [3, S]; references: [S]; scalars:
    [S, E, N]; volume, cube, mass: as in kernels.py; out: [3, E, N]. One pass: reads the scalars that have a factor
    (and the mass of curved elements), reads and writes the components that have one.
    """

    @compiled("float64", "r2 r1 r3 r1 r1 r2 w3")
    def buoyancy(factors, references, scalars, volume, cube, mass, out):
        n_elements, n_points = out.shape[1], out.shape[2]
        aligned = volume.size > 0
        weights = np.empty(n_points)
        for e in range(n_elements):
            if aligned:
                weights[:] = volume[e] * cube
            else:
                weights[:] = mass[e]
            for i in range(3):
                target = out[i, e]
                for s in range(references.size):
                    factor, reference, theta = factors[i, s], references[s], scalars[s, e]
                    if factor != 0.0:
                        for p in range(n_points):
                            target[p] += factor * weights[p] * (theta[p] - reference)

    return buoyancy


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
