"""How multigrid at cells smooths: the steps of Chebyshev's iteration, and when lines are relaxed instead of points.

A smoothing reduces the errors of the eigenvalues in an interval up to 2, the largest of the Jacobi-preconditioned
equation; the coarser level takes those below. In three dimensions the errors that the coarser level cannot represent
begin at 1/3 for points, and at 1/2 for lines along z with y and x coarsened (Trottenberg, Oosterlee and Schueller,
Multigrid, 2001, sections 2.1 and 5.1); somewhat wider intervals converge best.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ridgeline.blocks.block import Block

Array = NDArray[Any]

STEPS = 2  # of a smoothing
POINT_EIGENVALUES = (0.3, 2.0)
LINE_EIGENVALUES = (0.4, 2.0)
STRETCHED = 2.5  # widths along z that differ by more need lines


def chebyshev_factors(steps: int, eigenvalues: tuple[float, float]) -> Array:
    """Return the factors of a Chebyshev iteration for an interval of eigenvalues: inverse roots of T_n, float64."""
    low, high = eigenvalues
    angles = np.pi * (2 * np.arange(steps) + 1) / (2 * steps)
    return np.asarray(1.0 / ((high + low) / 2 + (high - low) / 2 * np.cos(angles)))


def choose_lines(lines: bool | Literal["auto"], widths: Sequence[float | Array], block: Block) -> bool:
    """Return whether lines along z are relaxed. Raises ValueError if they are needed and not possible."""
    along_z = np.atleast_1d(np.asarray(widths[0], np.float64)) if len(widths) else np.ones(1)
    stretched = along_z.max() > STRETCHED * along_z.min() > 0
    possible = block.process_grid[0] == 1 and not block.periodic[0]
    for name, given in zip("zyx", widths):
        along = np.atleast_1d(np.asarray(given, np.float64))
        if name != "z" and lines is not False and along.max() > STRETCHED * along.min() > 0:
            raise ValueError(
                f"The widths of cells along {name} differ by a factor of {along.max() / along.min():.3g}, which "
                f"needs relaxation by lines, but only lines along z are relaxed. Let the stretched axis be the first "
                f"one of the arrays, or use lines=False for slow convergence."
            )
    if lines == "auto":
        if stretched and block.process_grid[0] > 1 and not block.periodic[0]:
            raise ValueError(
                f"The widths of cells along z differ by a factor of {along_z.max() / along_z.min():.3g}, which needs "
                f"relaxation by lines, but z is cut into {block.process_grid[0]} blocks. Use a process grid that "
                f"does not cut z, or lines=False for slow convergence."
            )
        return bool(stretched and possible)
    if lines and not possible:
        raise ValueError("Lines along z need a z axis that is neither cut nor periodic.")
    return bool(lines)
