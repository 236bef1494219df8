"""Coefficients of backward differences and extrapolation at the new time level, for steps of any lengths.

With x_j the time from level j to the new one (x_1 = dt, x_2 = dt + the step before, ...), the polynomials of Lagrange
through j = 1 ... k levels, and through the new one too, give

    u^{n+1} ~ sum_j a_j u^{n+1-j},                 a_j = prod_{m != j} x_m / (x_m - x_j)
    du/dt   ~ sum_{j >= 0} b_j u^{n+1-j} / dt,     b_0 = sum_m dt / x_m,   b_j = -a_j dt / x_j

Source: Hairer, Norsett, Wanner, "Solving Ordinary Differential Equations I", 1993, Sec. III.5. Of equal steps they
are the constants below, to the bit. Backward differences stay zero-stable while no step is longer than the one
before it by a certain factor. It is 1 + sqrt(2) at order 2 and (1 + sqrt(5))/2 at order 3; tests compute both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

# Of equal steps: b_0, b_1, ... and a_1, a_2, ... of orders 1, 2, 3.
BACKWARD = ((1.0, -1.0), (3 / 2, -2.0, 1 / 2), (11 / 6, -3.0, 3 / 2, -1 / 3))
EXTRAPOLATION = ((1.0,), (2.0, -1.0), (3.0, -3.0, 1.0))
MOST_CHANGE = 1.5  # of a step over the one before it: below what order 3 stands


def extrapolation(steps: Sequence[float]) -> tuple[float, ...]:
    """Return a_1, ..., a_k. steps: lengths of the new step and of the k - 1 before it, newest first, > 0."""
    if _equal(steps):
        return EXTRAPOLATION[len(steps) - 1]
    x = _times(steps)
    return tuple(
        math.prod(other / (other - mine) for m, other in enumerate(x) if m != j) for j, mine in enumerate(x)
    )


def backward(steps: Sequence[float]) -> tuple[float, ...]:
    """Return b_0, b_1, ..., b_k. steps: as for `extrapolation`."""
    if _equal(steps):
        return BACKWARD[len(steps) - 1]
    x, dt = _times(steps), steps[0]
    return (sum(dt / each for each in x), *(-a * dt / each for a, each in zip(extrapolation(steps), x)))


def _equal(steps: Sequence[float]) -> bool:
    return all(step == steps[0] for step in steps)


def _times(steps: Sequence[float]) -> list[float]:
    return [sum(steps[: k + 1]) for k in range(len(steps))]
