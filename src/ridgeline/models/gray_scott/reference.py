"""The Gray-Scott model in plain NumPy on the whole grid: the oracle that the compiled sweeps are held to.

Written to be read. Equations as in `physics` (Godoy et al., SC-W 2023, Eqs. 1-3); no blocks, no messages.
"""

import numpy as np
from numpy.typing import NDArray

from ridgeline.jit.random import PHILOX_7, Generator, uniform_reference
from ridgeline.models.gray_scott.physics import Coefficients, point_update

U_OUTSIDE, V_OUTSIDE = 1.0, 0.0  # beyond a fixed boundary

Field = NDArray[np.floating]


def with_ghosts(field: Field, boundary: str, outside: float) -> Field:
    """Return the field with one layer around it: wrapped if `boundary` is "periodic", otherwise `outside`."""
    if boundary == "periodic":
        return np.pad(field, 1, mode="wrap")
    return np.pad(field, 1, constant_values=field.dtype.type(outside))


def neighbour_sum(field: Field, boundary: str, outside: float) -> Field:
    """Sum the six neighbours of each cell, in the order that all our sweeps use."""
    g = with_ghosts(field, boundary, outside)
    x = g[1:-1, 1:-1, :-2] + g[1:-1, 1:-1, 2:]
    y = g[1:-1, :-2, 1:-1] + g[1:-1, 2:, 1:-1]
    z = g[:-2, 1:-1, 1:-1] + g[2:, 1:-1, 1:-1]
    return (x + y) + z


def advance(
    u: Field,
    v: Field,
    c: Coefficients,
    steps: int,
    boundary: str = "periodic",
    seed: int = 0,
    first_step: int = 0,
    generator: Generator = PHILOX_7,
) -> tuple[Field, Field]:
    """Return u and v, shape (nz, ny, nx), float32 or float64, after `steps` forward Euler steps.

    `boundary` is "periodic", or "fixed" for ghost cells held at u=1, v=0. The random number of a cell depends on the
    seed, the step (counted from `first_step`) and the global index; `generator` says how it is drawn. With c.noise =
    0 none is drawn.
    """
    nz, ny, nx = u.shape
    z, y, x = np.ogrid[:nz, :ny, :nx]
    update = point_update(lambda a, b, c: a * b + c)
    for step in range(first_step, first_step + steps):
        r = uniform_reference(seed, step, z, y, x, u.dtype, generator) if c.noise else None
        sum_u = neighbour_sum(u, boundary, U_OUTSIDE)
        sum_v = neighbour_sum(v, boundary, V_OUTSIDE)
        u, v = update(u, v, sum_u, sum_v, r, c)
    return u, v
