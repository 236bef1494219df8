"""The coefficients of cell-centred problems as a caller gives them: their checks, and beta at faces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.blocks.block import Block
from ridgeline.blocks.multigrid.cell_grid import GhostFill, contiguous_field, towards, whole
from ridgeline.blocks.multigrid.levels import Widths

Array = NDArray[Any]
Mean = Literal["harmonic", "arithmetic"]


def coefficient_error(
    alpha: float,
    a: Array | None,
    beta: float | Array,
    faces: Sequence[Array] | None,
    shape: tuple[int, int, int],
    mean: str,
) -> ValueError | None:
    """Return the error of coefficients that are not possible, or None."""
    if mean not in ("harmonic", "arithmetic"):
        return ValueError(f'mean = {mean!r} is not possible. Use "harmonic" or "arithmetic".')
    if not alpha >= 0:
        return ValueError(f"alpha = {alpha} must be at least 0.")
    if a is not None and (np.shape(a) != shape or not np.min(a) >= 0):
        return ValueError(
            f"a must be values of at least 0 at {shape} cells, but it has the shape {np.shape(a)}."
        )
    if np.ndim(beta) and np.shape(beta) != shape:
        return ValueError(f"beta has the shape {np.shape(beta)}, but there are {shape} cells.")
    if not np.min(beta) > 0:
        return ValueError("beta must be positive everywhere.")
    for axis, face in enumerate(faces or ()):
        expected = tuple(n + (a == axis) for a, n in enumerate(shape))
        if np.shape(face) != expected:
            return ValueError(f"faces[{axis}] has the shape {np.shape(face)} instead of {expected}.")
        if not np.min(face) > 0:
            return ValueError(f"faces[{axis}] must be positive everywhere.")
    return None


def faces_of_cells(
    comm: MPI.Comm, block: Block, widths: Widths, beta: Array, mean: Mean, dtype: np.dtype[Any]
) -> list[Array]:
    """Return beta at this rank's faces as means of the cells on both sides; at a side, that of its cell.

    Collective: one exchange of ghosts.
    """
    block = replace(block, ghost=1)
    field = contiguous_field(block, dtype)
    field.owned[...] = beta
    fill = GhostFill(comm, [(field,)])
    fill.fill(0)
    fill.free()
    values = whole(field)
    faces = []
    for axis in range(3):
        n, offset = block.shape_local[axis], block.offset_global[axis]
        inner = tuple(slice(None) if a == axis else slice(1, -1) for a in range(3))
        line = np.moveaxis(values[inner], axis, 0)
        for end, place in ((0, 0), (1, -1)):
            if block.neighbour(towards(axis, 2 * end - 1)) is None:
                line[place] = line[1 if end == 0 else -2]
        places = np.arange(n + 2) - 1 + offset
        last = block.shape_global[axis] - 1
        places = places % (last + 1) if block.periodic[axis] else np.clip(places, 0, last)
        w = widths[axis][places].astype(dtype).reshape(-1, 1, 1)
        low, high, w_low, w_high = line[:-1], line[1:], w[:-1], w[1:]
        if mean == "harmonic":
            face = (w_low + w_high) / (w_low / low + w_high / high)
        else:
            face = (w_high * low + w_low * high) / (w_low + w_high)
        faces.append(np.moveaxis(face, 0, axis))
    return faces
