"""What Gray-Scott takes on a GPU, counted before anything is allocated; neither a device nor MPI is needed."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from ridgeline.blocks.block import Block, BlockArray
from ridgeline.blocks.halo import HaloPlan

# Before and behind a field: a group of four rows may start up to 3 rows, and read 4, outside the block.
PAD_ROWS = 4
SETS = 2  # of fields: those of the present step, and those that a sweep writes


def exchange_plan(block: Block, dtype: DTypeLike, n_fields: int, layers: int) -> HaloPlan:
    """Return the exchange of a block's faces in 1 layer, or in 2 with the edges that two steps a launch need.

    Directions in which the block is periodic with itself are the sweep's.
    """
    wrap = (False, False, False)
    return HaloPlan(block, n_fields, np.dtype(dtype).itemsize, wrap=wrap, layers=layers, star=layers > 1)


def device_bytes(block: Block, dtype: DTypeLike, n_fields: int) -> dict[str, float]:
    """Return the bytes of one block on its GPU, by what they are for, without the context and the kernels' code.

    A block with ghosts of two layers has the exchanges of both, so that its launches may have one step or two.
    """
    itemsize = np.dtype(dtype).itemsize
    field = (
        BlockArray.bytes_of(block, dtype) + 2 * PAD_ROWS * BlockArray.row_pitch_of(block, dtype) * itemsize
    )
    parts = {"fields": float(SETS * n_fields * field)}
    items = sum(
        exchange_plan(block, dtype, n_fields, layers).buffer_items for layers in range(1, block.ghost + 1)
    )
    if items:
        parts["halo buffers"] = float(2 * items * itemsize)
    return parts
