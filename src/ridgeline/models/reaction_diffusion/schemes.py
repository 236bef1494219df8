"""Schemes in time as stages, each of which is one sweep.

    Y_0 = u,   Y_1 = Y_0 + dt_1 f(t_1, Y_0),   Y_j = here Y_(j-1) + before Y_(j-2) + dt_j f(t_j, Y_(j-1)),   u' = Y_s

- "euler": one stage, forward Euler, of first order.
- "rk2": Heun's method, of second order: here = before = 1/2, dt_2 = dt/2, with the rates of Y_1 at the step's end.
- "rkl": Runge-Kutta-Legendre of first order with s stages, for steps that diffusion would limit. They are stable up
  to (s^2 + s)/2 times the largest stable step of forward Euler, for the work of s of its steps (Meyer, Balsara and
  Aslam, J. Comput. Phys. 257 (2014), Sec. 3.1). here = (2j - 1)/j, before = (1 - j)/j, dt_j = here 2/(s^2 + s) dt.

Random numbers are the same in all stages of a step, so that noise adds dt n r to it in any scheme.
"""

from __future__ import annotations

import math
from typing import NamedTuple

SCHEMES = ("euler", "rk2", "rkl")
MOST_STAGES = 199


class SchemeStage(NamedTuple):
    """One stage of a step: when it is, as a share of the step, its dt, and its weights of Y_(j-1) and Y_(j-2)."""

    at: float
    dt: float
    here: float = 1.0
    before: float = 0.0


def stages_needed(scheme: str, dt: float, stable: float) -> int:
    """Return how many stages a step has. stable: the largest stable step of forward Euler.

    RKL has an odd number of stages, which damps better (Meyer et al., Sec. 2.4).
    """
    if scheme != "rkl":
        return 2 if scheme == "rk2" else 1
    needed = math.ceil((math.sqrt(1 + 8 * dt / stable) - 1) / 2 - 1e-9) if math.isfinite(stable) else 1
    return max(3, needed + 1 - needed % 2)


def stages_of(scheme: str, count: int, dt: float) -> tuple[SchemeStage, ...]:
    """Return the stages of a step of length dt."""
    if scheme == "euler":
        return (SchemeStage(0.0, dt),)
    if scheme == "rk2":
        return SchemeStage(0.0, dt), SchemeStage(1.0, dt / 2, 0.5, 0.5)
    whole = count * count + count
    stages = [SchemeStage(0.0, 2 * dt / whole)]
    for j in range(2, count + 1):
        here = (2 * j - 1) / j
        stages.append(SchemeStage((j * j - j) / whole, here * 2 * dt / whole, here, (1 - j) / j))
    return tuple(stages)
