"""The Gray-Scott update of one cell, written once for every machine.

u_t = Du lap(u) - u v^2 + F (1 - u) + n r,    v_t = Dv lap(v) + u v^2 - (F + k) v,
lap(u) = (sum of the 6 neighbours - 6 u) / 6, forward Euler (Godoy et al., SC-W 2023, Eqs. 1-3).

`point_update` returns a plain Python function of numbers. Where it runs depends on what these numbers are: NumPy
arrays (the reference), vectors of LLVM IR while a CPU sweep is being built, or the scalars of a CUDA thread. Only the
fused multiply-add is an argument, because each of them spells it differently.

The form is chosen for its rounding: `sum - 6 u` vanishes exactly in a uniform field. The state u=1, v=0 therefore
stays the same bit for bit, and diffusion conserves the total without a systematic drift. A rounded 1/6 or 1-dt*Du
would drift by an ulp a step, which is visible in float32.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike


class Coefficients(NamedTuple):
    """Coefficients of one step, all in the working precision (1 unit = 1 cell, 1 time unit)."""

    diffusion_u: float  # dt * Du / 6
    diffusion_v: float  # dt * Dv / 6
    feed: float  # dt * F
    loss_v: float  # -dt * (F + k)
    noise: float  # dt * n
    dt: float
    one: float
    minus_six: float


def coefficients(
    Du: float, Dv: float, F: float, k: float, noise: float, dt: float, dtype: DTypeLike = np.float64
) -> Coefficients:
    """Round the step's coefficients once, in float64, to `dtype`."""
    values = (dt * Du / 6.0, dt * Dv / 6.0, dt * F, -dt * (F + k), dt * noise, dt, 1.0, -6.0)
    number: Callable[[float], Any] = np.dtype(dtype).type
    return Coefficients(*(number(value) for value in values))


def point_update(fma: Callable[[Any, Any, Any], Any]) -> Callable[..., Any]:
    """Return the update of one cell, given `fma(a, b, c) = a * b + c`.

    The returned function `update(u, v, sum_u, sum_v, r, c)` takes the cell's values, the sums over its six
    neighbours, the random number r in [-1, 1) (None for no noise) and the `Coefficients` c; it returns the new (u,
    v). Callers sum neighbours as ((x- + x+) + (y- + y+)) + (z- + z+), so that all of them round alike.
    """

    def update(u, v, sum_u, sum_v, r, c):
        reaction = c.dt * ((u * v) * v)
        if r is None:
            source = -reaction
        else:
            source = fma(c.noise, r, -reaction)
        u_new = u + fma(c.diffusion_u, fma(c.minus_six, u, sum_u), fma(c.feed, c.one - u, source))
        v_new = v + fma(c.diffusion_v, fma(c.minus_six, v, sum_v), fma(c.loss_v, v, reaction))
        return u_new, v_new

    return update
