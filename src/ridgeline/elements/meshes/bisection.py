"""The curve order of elements of any mesh: recursive bisection across the longest direction of each part.

A part is cut at the median of its centres along its axis of largest spread (inertial bisection: Williams, Concurrency
3 (1991) 457). The order depends on no number of ranks: ranks own contiguous ranges of it, as of a box.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

LEAF = 2  # elements of a part that is not cut
ROUNDING = 1e-9  # of the spread: nearer ones count as equal, so that a shuffled file gives the same cuts


def bisection_order(centres: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the numbers of elements in curve order, int64 [E]. centres: float64 [E, 3]."""
    order = np.arange(len(centres))
    stack = [(0, len(centres))]
    while stack:
        first, end = stack.pop()
        if end - first < LEAF:
            continue
        part = order[first:end]
        order[first:end] = part[_along(centres[part])]
        middle = first + (end - first) // 2
        stack += [(first, middle), (middle, end)]
    return order


def _along(centres: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the order of points along the direction in which they are spread the most, ties by z, y and x."""
    away = centres - centres.mean(axis=0)
    _, vectors = np.linalg.eigh(away.T @ away)
    axis = vectors[:, -1]
    axis = axis * np.sign(axis[np.argmax(np.abs(axis))])
    step = ROUNDING * max(float(np.ptp(away, axis=0).max()), np.finfo(np.float64).tiny)
    along, x, y, z = (np.round(values / step) for values in (away @ axis, *away.T))
    return np.lexsort((x, y, z, along))
