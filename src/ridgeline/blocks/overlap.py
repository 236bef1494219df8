"""How a block's cells are cut around an exchange: first those that neighbours wait for, then the others."""

from __future__ import annotations

from ridgeline.blocks.block import Block

CellRange = tuple[int, int, int, int, int, int]
"""Local cells of a block: (z0, z1, y0, y1, x0, x1) with z0 <= k < z1 and so on."""


def split_for_overlap(
    block: Block, sending_faces: set[tuple[int, int]], layers: int | None = None
) -> tuple[list[CellRange], list[CellRange]]:
    """Cut a block's owned cells into boxes that neighbours wait for and boxes that nobody waits for.

    Together the boxes of both lists cover every owned cell once. Layers across z come first and are whole planes,
    those across x are last and shortest, since their rows hardly fill a vector.

    Parameters
    ----------
    sending_faces : (axis, side) of the faces, side -1 or +1, whose outer layers are sent
    layers : how many are sent; None for `block.ghost`
    """
    layers = layers or block.ghost
    low, high = [0, 0, 0], list(block.shape_local)
    first: list[CellRange] = []
    for axis in range(3):
        for side in (-1, 1):
            if (axis, side) not in sending_faces or low[axis] >= high[axis]:
                continue
            layer_low, layer_high = list(low), list(high)
            if side < 0:
                low[axis] = layer_high[axis] = min(low[axis] + layers, high[axis])
            else:
                high[axis] = layer_low[axis] = max(high[axis] - layers, low[axis])
            first.append(_cells(layer_low, layer_high))
    rest = [_cells(low, high)] if all(a < b for a, b in zip(low, high)) else []
    return [box for box in first if box[0] < box[1] and box[2] < box[3] and box[4] < box[5]], rest


def _cells(low: list[int], high: list[int]) -> CellRange:
    return low[0], high[0], low[1], high[1], low[2], high[2]
