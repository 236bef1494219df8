"""What operators on elements take on a GPU, counted; no device is needed to count."""

from __future__ import annotations

CARRIER_BYTES = (
    2**25
)  # of elements dealiased at a time: of the 50 MB of second-level cache of an H100 or H200


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
