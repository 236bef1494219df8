"""What the sweep of blocks computes in a cell of Gray-Scott, and the coefficients that it takes."""

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ridgeline.blocks.sweep_rows import CellRule
from ridgeline.jit.random import UNIFORM_SCALE
from ridgeline.models.gray_scott.physics import Coefficients, point_update

_NUMBERS = 6  # of Coefficients; the others, 1 and -6, are constants in the code


def numbers(c: Coefficients, dtype: DTypeLike, steps: int) -> NDArray[np.floating]:
    """Return the coefficients of `steps` equal steps, (steps, 6)."""
    return np.array([c[:_NUMBERS]] * steps, dtype)


def update_cells(cells):
    """Return the new [u, v] of a vector of cells. Neighbours are summed as `point_update` asks for."""
    sums = []
    for field in (0, 1):
        left, right, south, north, below, above = cells.neighbours(field)
        sums.append(((left + right) + (south + north)) + (below + above))
    c = Coefficients(*cells.coefficients, cells.lanes.constant(1.0), cells.lanes.constant(-6.0))
    r = None
    if cells.noise:
        (r,) = cells.noise
        c = c._replace(noise=c.noise * UNIFORM_SCALE)
    return list(point_update(cells.lanes.fma)(cells.here(0), cells.here(1), *sums, r, c))


GRAY_SCOTT = CellRule(update_cells, (True, True), _NUMBERS)
