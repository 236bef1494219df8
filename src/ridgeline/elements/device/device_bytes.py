"""Memory of the operators on elements on a GPU, counted without a device."""

from __future__ import annotations

import math
from collections.abc import Sequence

# Carriers of the elements that are dealiased at a time: part of the 50 MB of second-level cache of an H100 or H200.
CARRIER_BYTES = 2**25


def dealiased_elements(m: int, elements: int) -> int:
    """Return how many elements of m fine points per direction are dealiased at a time."""
    return max(1, min(elements, CARRIER_BYTES // (24 * m**3)))


def advection_bytes(n: int, m: int, elements: int, axis_aligned: bool) -> int:
    """Return the device bytes of dealiasing of `elements` elements; 0 without dealiasing (m = 0)."""
    metrics = 0 if axis_aligned else 9 * elements * m**3
    return 8 * (metrics + 3 * dealiased_elements(m, elements) * m**3) if m else 0


def geometry_bytes(points: int, axis_aligned: bool) -> int:
    """Return the bytes of the copies of a geometry with `points` points, for all operators of a flow.

    These are two assembled diagonals, and for curved elements also factors, metrics and mass.
    """
    return 8 * points * (2 if axis_aligned else 2 + 6 + 9 + 1)


def multigrid_bytes(
    orders: Sequence[Sequence[int]], elements: int, real_bytes: int, axis_aligned: bool
) -> float:
    """Return an estimate of the device bytes of Schwarz multigrid on one rank. orders: (z, y, x), the coarsest last.

    Lists of shared points take four bytes for each point of a surface. Every curved element has its own eigenpairs.
    """
    shapes = [tuple(order + 1 for order in triple) for triple in orders]
    per_element = 0.0
    for n in shapes[:-1]:
        points, inside = math.prod(n), math.prod(max(each - 2, 0) for each in n)
        reals = 3 * points + 6 * points // min(n)
        reals += 3 if axis_aligned else 6 * points + sum((each + 2) * (each + 3) for each in n)
        per_element += real_bytes * reals + 6 * 8 + 3 * 8 + 4 * (points - inside)
    below = sum(math.prod(n) for n in shapes[1:])
    return elements * (per_element + 2 * real_bytes * below)
