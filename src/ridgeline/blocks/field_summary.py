"""Minimum, maximum and mean of the fields of a block, and cells that are not finite, by one look at every owned cell.

The results do not depend on ranks, process grid or threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numba import int64, prange, types

from ridgeline.blocks.block import BlockArray
from ridgeline.jit.kernel import kernel, unsigned
from ridgeline.parallel.allreduce import allreduce_max, allreduce_sums
from ridgeline.parallel.partition import Triple

if TYPE_CHECKING:
    from mpi4py import MPI

# By bytes of a number: the bits of its exponent, which are all set where the number is not finite.
EXPONENT_MASKS = {4: np.uint32(0x7F800000), 8: np.uint64(0x7FF0000000000000)}


# The compiler may assume that no value is NaN, because otherwise LLVM cannot turn comparisons into vector minima.
# `found` says whether the assumption was true, and the caller discards the extrema if it was not.
@kernel(
    lambda T: (
        T[::1],
        unsigned(T)[::1],
        unsigned(T),
        *[types.UniTuple(int64, 3)] * 2,
        int64,
        T[:, ::1],
        int64[::1],
    ),
    parallel=True,
    nogil=True,
    fastmath={"nnan", "nsz"},
    error_model="numpy",
)
def scan_extrema(values, bits, exponent_mask, layout, shape, n_threads, out_extrema, out_found):
    """Find minimum, maximum and the number of cells that are not finite.

    Parameters
    ----------
    values : (n,) float32 or float64, `BlockArray.flat`; bits : the same memory as uint32 or uint64
    layout : (origin, row_pitch, plane_pitch); shape : owned (nz, ny, nx)
    out_extrema : (n_threads, 2) of the values' dtype; out_found : (n_threads,) int64; one line per thread

    Cost: reads each cell once.
    """
    origin, row_pitch, plane_pitch = layout
    nz, ny, nx = shape
    for thread in prange(n_threads):
        low, high = values[origin], values[origin]
        found = 0
        for k in range(nz * thread // n_threads, nz * (thread + 1) // n_threads):
            for j in range(ny):
                first = origin + k * plane_pitch + j * row_pitch
                for i in range(first, first + nx):
                    low = min(low, values[i])
                    high = max(high, values[i])
                for i in range(first, first + nx):
                    found += (bits[i] & exponent_mask) == exponent_mask
        out_extrema[thread, 0] = low
        out_extrema[thread, 1] = high
        out_found[thread] = found


@dataclass(frozen=True)
class FieldSummary:
    """Minimum, maximum and mean of a field over the whole grid; NaN if it is not finite everywhere."""

    min: float
    max: float
    mean: float


def scan(field: BlockArray, n_threads: int) -> tuple[float, float, int]:
    """Return this block's minimum, maximum and number of cells that are not finite. No communication."""
    extrema = np.empty((n_threads, 2), field.flat.dtype)
    nonfinite = np.empty(n_threads, np.int64)
    itemsize = field.flat.itemsize
    scan_extrema(
        field.flat,
        field.flat.view(f"u{itemsize}"),
        EXPONENT_MASKS[itemsize],
        (field.origin, field.row_pitch, field.plane_pitch),
        field.block.shape_local,
        n_threads,
        extrema,
        nonfinite,
    )
    return float(extrema[:, 0].min()), float(extrema[:, 1].max()), int(nonfinite.sum())


def summarise_field(comm: MPI.Comm, field: BlockArray, n_threads: int) -> FieldSummary:
    """Return minimum, maximum and mean over all ranks; equal bits for any decomposition. Collective."""
    low, high, nonfinite = scan(field, n_threads)
    negative, high, wrong = allreduce_max(comm, [-low, high, nonfinite]).tolist()
    if wrong or math.isnan(negative) or math.isnan(high):
        return FieldSummary(math.nan, math.nan, math.nan)
    low = -negative
    cells = math.prod(field.block.shape_global)
    (total,) = allreduce_sums(comm, [field.owned], cells)
    return FieldSummary(low, high, float(total) / cells)


def first_nonfinite(comm: MPI.Comm, field: BlockArray, n_threads: int) -> Triple | None:
    """Return the global index of the first cell (z slowest) that is not finite, None if none. Collective."""
    _, _, nonfinite = scan(field, n_threads)
    on_this_rank: Triple | None = None
    if nonfinite:
        k, j, i = np.argwhere(~np.isfinite(field.owned))[0]
        oz, oy, ox = field.block.offset_global
        on_this_rank = (int(k) + oz, int(j) + oy, int(i) + ox)
    places = [place for place in comm.allgather(on_this_rank) if place is not None]
    return min(places, default=None)


def summarise_fields(
    comm: MPI.Comm, names: Sequence[str], fields: Sequence[BlockArray], n_threads: int
) -> dict[str, float]:
    """Return minimum, maximum and mean of fields as V_min, V_max and V_mean, by the names of fields. Collective."""
    values: dict[str, float] = {}
    for name, field in zip(names, fields, strict=True):
        summary = summarise_field(comm, field, n_threads)
        values |= {f"{name}_min": summary.min, f"{name}_max": summary.max, f"{name}_mean": summary.mean}
    return values


def locate_first_nonfinite(
    comm: MPI.Comm, names: Sequence[str], fields: Sequence[BlockArray], n_threads: int
) -> str | None:
    """Say where the first field that is not finite is not, such as "V at z=3, y=0, x=7"; None if none. Collective."""
    for name, field in zip(names, fields, strict=True):
        place = first_nonfinite(comm, field, n_threads)
        if place is not None:
            return f"{name} at z={place[0]}, y={place[1]}, x={place[2]}"
    return None
