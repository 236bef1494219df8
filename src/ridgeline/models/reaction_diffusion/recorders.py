"""The fields of a run by name, as data sets and checkpoints hold them: the species as they are advanced.

The recorders themselves are those that every model has by default (`models.recorders`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from ridgeline.blocks.block import Block
from ridgeline.parallel.partition import DistributedArray


def distributed(
    names: Sequence[str], block: Block, fields: Sequence[NDArray[Any]]
) -> dict[str, DistributedArray]:
    """Return the species by name, as views of the owned cells of this rank, (nz, ny, nx) each. No communication."""
    return {
        name: DistributedArray(name, block.shape_global, block.offset_global, field)
        for name, field in zip(names, fields, strict=True)
    }
