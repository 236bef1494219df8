"""Buoyancy: the force by which scalars act back on the flow, in the approximation of Oberbeck and Boussinesq.

Each scalar theta with an expansion beta adds -beta (theta - theta_0) g to the force, at a gravity g. It is part of
the rates N of its time level, and is extrapolated with them: the scheme keeps its order in time. Density changes
nothing else. Sources: Boussinesq, Theorie analytique de la chaleur 2 (1903) 172; Chandrasekhar, Hydrodynamic and
Hydromagnetic Stability, Oxford 1961, Chapter II.
"""

from __future__ import annotations

import numpy as np

from ridgeline.models.navier_stokes.problem import Array, FlowProblem


def buoyancy_counts(n_scalars: int, n_components: int) -> tuple[float, float]:
    """Return (flops, words) per stored point of the force of so many scalars on so many components."""
    return 4.0 * n_scalars * n_components, n_scalars + 2.0 * n_components if n_scalars else 0.0


def buoyancy_factors(problem: FlowProblem) -> tuple[Array, Array]:
    """Return gravity times expansion, [3, S], and the references [S] of a problem's scalars, for the kernel."""
    factors = np.outer(problem.gravity, [scalar.expansion for scalar in problem.scalars])
    return factors, np.array([scalar.reference for scalar in problem.scalars])
