"""Global figures of U and V that do not depend on ranks, process grid or threads."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ridgeline.blocks.block import BlockArray
from ridgeline.models.gray_scott.scan import EXPONENT_MASKS, scan_extrema
from ridgeline.parallel.allreduce import allreduce_sums
from ridgeline.parallel.partition import Triple

if TYPE_CHECKING:
    from mpi4py import MPI


@dataclass(frozen=True)
class FieldSummary:
    """Minimum, maximum and mean of a field over the whole grid; NaN if it is not finite everywhere."""

    min: float
    max: float
    mean: float


def scan(field: BlockArray, n_threads: int) -> tuple[float, float, int]:
    """Return this block's minimum, maximum and number of cells that are not finite. No communication."""
    extrema = np.empty((n_threads, 2), field.flat.dtype)
    found = np.empty(n_threads, np.int64)
    itemsize = field.flat.itemsize
    scan_extrema(
        field.flat,
        field.flat.view(f"u{itemsize}"),
        EXPONENT_MASKS[itemsize],
        (field.origin, field.row_pitch, field.plane_pitch),
        field.block.shape_local,
        n_threads,
        extrema,
        found,
    )
    return float(extrema[:, 0].min()), float(extrema[:, 1].max()), int(found.sum())


def figures(comm: MPI.Comm, field: BlockArray, n_threads: int) -> FieldSummary:
    """Return minimum, maximum and mean over all ranks; equal bits for any decomposition. Collective."""
    everyone = comm.allgather(scan(field, n_threads))
    if any(found for _, _, found in everyone):
        return FieldSummary(math.nan, math.nan, math.nan)
    low, high = min(rank[0] for rank in everyone), max(rank[1] for rank in everyone)
    cells = math.prod(field.block.shape_global)
    (total,) = allreduce_sums(comm, [field.owned], cells)
    return FieldSummary(low, high, float(total) / cells)


def first_nonfinite(comm: MPI.Comm, field: BlockArray, n_threads: int) -> Triple | None:
    """Return the global index of the first cell (z slowest) that is not finite, None if none. Collective."""
    _, _, found = scan(field, n_threads)
    mine: Triple | None = None
    if found:
        k, j, i = np.argwhere(~np.isfinite(field.owned))[0]
        oz, oy, ox = field.block.offset_global
        mine = (int(k) + oz, int(j) + oy, int(i) + ox)
    places = [place for place in comm.allgather(mine) if place is not None]
    return min(places) if places else None
