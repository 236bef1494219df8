"""What operators on elements take on a GPU, counted; no device is needed to count."""

from __future__ import annotations

import math
from collections.abc import Sequence

# Of elements dealiased at a time: of the 50 MB of second-level cache of an H100 or H200.
CARRIER_BYTES = 2**25


def dealiased_elements(m: int, elements: int) -> int:
    """Return how many elements of m fine points per direction are worked on at a time."""
    return max(1, min(elements, CARRIER_BYTES // (24 * m**3)))


def advection_bytes(n: int, m: int, elements: int, axis_aligned: bool) -> int:
    """Return the device bytes of dealiasing of `elements` elements; 0 without (m = 0)."""
    metrics = 0 if axis_aligned else 9 * elements * m**3
    return 8 * (metrics + 3 * dealiased_elements(m, elements) * m**3) if m else 0


def geometry_bytes(points: int, axis_aligned: bool) -> int:
    """Return the bytes that the copies of a geometry take at `points` points, for all operators of a flow.

    Two assembled diagonals; of curved elements also factors, metrics and mass.
    """
    return 8 * points * (2 if axis_aligned else 2 + 6 + 9 + 1)


def multigrid_bytes(
    orders: Sequence[Sequence[int]], elements: int, real_bytes: int, axis_aligned: bool
) -> float:
    """Return about the device bytes of Schwarz multigrid on one rank, of orders (z, y, x), the coarsest last.

    Lists of shared points take four bytes for each point of a surface. Curved elements have eigenpairs of their own.
    """
    shapes = [tuple(order + 1 for order in triple) for triple in orders]
    found = 0.0
    for n in shapes[:-1]:
        points, inside = math.prod(n), math.prod(max(each - 2, 0) for each in n)
        reals = 3 * points + 6 * points // min(n)
        reals += 3 if axis_aligned else 6 * points + sum((each + 2) * (each + 3) for each in n)
        found += real_bytes * reals + 6 * 8 + 3 * 8 + 4 * (points - inside)
    below = sum(math.prod(n) for n in shapes[1:])
    return elements * (found + 2 * real_bytes * below)
