"""Initial states of Gray-Scott, set by global index so that every decomposition starts alike."""

import numpy as np
from numpy.typing import NDArray

from ridgeline.blocks.block import Block


def set_box(
    block: Block,
    u: NDArray[np.floating],
    v: NDArray[np.floating],
    half_width: int,
    inside: tuple[float, float],
    outside: tuple[float, float],
) -> None:
    """Set u, v to `outside`, and to `inside` where n/2 - w <= i < n/2 + w in every direction (n/2 rounded down).

    u, v: (nz, ny, nx) owned cells of this block, float32 or float64, overwritten. No communication.
    Source: ADIOS2-Examples' gray-scott (half_width 6, inside (0.25, 0.33), outside (1, 0)).
    """
    u[...], v[...] = outside
    ranges = []
    for n, offset, size in zip(block.shape_global, block.offset_global, block.shape_local):
        first, last = n // 2 - half_width, n // 2 + half_width
        ranges.append(slice(min(max(first - offset, 0), size), min(max(last - offset, 0), size)))
    box = tuple(ranges)
    u[box], v[box] = inside
