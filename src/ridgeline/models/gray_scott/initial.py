"""Initial states of Gray-Scott, set by global index so that every decomposition starts alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.blocks.block import Block
from ridgeline.config.expressions import parse
from ridgeline.io.picture import read_darkness
from ridgeline.io.store import output_index, read_block
from ridgeline.jit.random import uniform_reference
from ridgeline.models.gray_scott.engine import OUTSIDE
from ridgeline.models.gray_scott.settings import GrayScottCase
from ridgeline.models.gray_scott.start_file import SETTING, open_start
from ridgeline.parallel.allreduce import broadcast_decision, errors_on_all_ranks, raise_on_all_ranks
from ridgeline.runtime.errors import ConfigError, OutputError

if TYPE_CHECKING:
    from mpi4py import MPI

Fields = tuple[NDArray[Any], ...]  # u and v, (nz, ny, nx) owned cells of a block, float32 or float64

# The random numbers of the start are those of steps that no run reaches.
_PLACES, _NOISE_U, _NOISE_V = 2**32 - 1, 2**32 - 2, 2**32 - 3


def set_start(case: GrayScottCase, block: Block, fields: Fields, comm: MPI.Comm) -> None:
    """Set the owned cells of this rank's block to the state of step 0. Collective.

    Raises ConfigError for a formula or a picture that cannot be used, OutputError for a data set that cannot.
    """
    initial = case.initial
    inside = (initial.u, initial.v)
    match initial.kind:
        case "uniform":
            fields[0][...], fields[1][...] = inside
        case "box":
            set_box(block, fields[0], fields[1], initial.half_width, inside, OUTSIDE)
        case "patches":
            set_patches(case, block, fields)
        case "formula":
            problem = set_formulas(case, block, fields)
            raise_on_all_ranks(comm, problem)
        case "image":
            n_y, n_x = block.shape_global[1:]
            black = broadcast_decision(comm, lambda: read_darkness(initial.path, (n_y, n_x), SETTING))
            set_image(block, fields, black, inside)
        case "file":
            read_fields(case, block, fields, comm)
    if initial.noise and initial.kind != "file":  # a pattern that continues is not disturbed
        disturb(block, fields, initial.noise, case.run.seed)


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


def set_patches(case: GrayScottCase, block: Block, fields: Fields) -> None:
    """Set the rest state, and `count` boxes of 2 half_width cells a side around random cells. No communication.

    Beyond a periodic face a box continues at the opposite face; beyond a fixed one it is cut off.
    """
    initial, periodic = case.initial, case.grid.boundary == "periodic"
    fields[0][...], fields[1][...] = OUTSIDE
    patches = np.arange(initial.count)
    inside = []  # for each direction, which of this rank's cells are in which patch
    for axis, (n, offset, size) in enumerate(
        zip(block.shape_global, block.offset_global, block.shape_local, strict=True)
    ):
        share = 0.5 + 0.5 * uniform_reference(case.run.seed, _PLACES, axis, 0, patches)
        first = np.floor(share * n).astype(np.int64) - initial.half_width
        along = (offset + np.arange(size))[:, np.newaxis] - first
        along = along % n if periodic else along
        width = min(2 * initial.half_width, n)
        inside.append((along >= 0) & (along < width))
    for patch in patches:
        box = np.ix_(*(np.flatnonzero(own[:, patch]) for own in inside))
        fields[0][box], fields[1][box] = initial.u, initial.v


def set_formulas(case: GrayScottCase, block: Block, fields: Fields) -> ConfigError | None:
    """Set fields by formulas of the cells' coordinates; return what is wrong, if anything. No communication."""
    z, y, x = (
        cell_places(case, offset + np.arange(n)) for offset, n in zip(block.offset_global, block.shape_local)
    )
    plane_y, plane_x = np.meshgrid(y, x, indexing="ij")
    for name, field in zip(("formula_u", "formula_v"), fields, strict=True):
        formula = parse(getattr(case.initial, name))
        for k, height in enumerate(z):
            field[k] = values = formula(plane_x, plane_y, np.full_like(plane_x, height), 0.0)
            if not np.isfinite(field[k]).all():
                j, i = np.argwhere(~np.isfinite(values.astype(field.dtype)))[0]
                return ConfigError(
                    f"initial.{name}: {formula.text} is {values[j, i]} at x = {x[i]:g}, y = {y[j]:g}, "
                    f"z = {height:g}. The formula must be finite in every cell."
                )
    return None


def cell_places(case: GrayScottCase, index: NDArray[Any]) -> NDArray[np.float64]:
    """Return the coordinates of cells along a direction, as the data set has them; see grid.cell_size."""
    h = case.grid.cell_size
    return index.astype(np.float64) if h is None else (index + 0.5) * h


def set_image(block: Block, fields: Fields, black: NDArray[np.float64], inside: tuple[float, float]) -> None:
    """Set every plane in z to a picture: the rest state where it is white, `inside` where it is black.

    black: float64 [N_y, N_x] of the whole grid, from 0 (white) to 1 (black). No communication.
    """
    (_, y, x), (_, n_y, n_x) = block.offset_global, block.shape_local
    share = black[y : y + n_y, x : x + n_x]
    for field, first, last in zip(fields, OUTSIDE, inside, strict=True):
        field[...] = first + share * (last - first)


def read_fields(case: GrayScottCase, block: Block, fields: Fields, comm: MPI.Comm) -> None:
    """Read this rank's block of U and V from a data set. Collective."""
    with errors_on_all_ranks(comm):
        reader = open_start(case.initial.path, case.initial.step, case.grid.shape)
        try:
            output = output_index(reader, case.initial.step)
            for name, field in zip(("U", "V"), fields, strict=True):
                values = np.empty(field.shape, field.dtype)  # fields have ghosts around them
                read_block(reader, name, output, block.offset_global, values)
                field[...] = values
                if not np.isfinite(values).all():
                    raise OutputError(
                        f"{name} of the data set {case.initial.path} contains NaN or infinity. Choose another "
                        "initial.step."
                    )
        finally:
            reader.close()


def disturb(block: Block, fields: Fields, amplitude: float, seed: int) -> None:
    """Multiply every cell by 1 + amplitude r, r uniform in [-1, 1) by its global index. No communication."""
    z, y, x = (
        offset + np.arange(n) for offset, n in zip(block.offset_global, block.shape_local, strict=True)
    )
    for field, step in zip(fields, (_NOISE_U, _NOISE_V), strict=True):
        for k, height in enumerate(z):
            field[k] *= 1 + amplitude * uniform_reference(
                seed, step, height, y[:, np.newaxis], x, field.dtype
            )
