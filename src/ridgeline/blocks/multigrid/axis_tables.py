"""What multigrid at cells knows of each axis: factors of the equation, restriction and interpolation.

Everything is one-dimensional, because cells are tensor products: `factors` has the couplings of neighbouring cells,
`restriction` the means over aggregates and `interpolation` the linear interpolation between the centres of coarser
cells. The arrays of the whole axis are the same on all ranks; `local_...` cut out those of a block with its ghosts.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ridgeline.blocks.block import Block
from ridgeline.blocks.multigrid.levels import GridLevel

Array = NDArray[Any]
Condition = Literal["dirichlet", "neumann"]
AxisSides = Literal["periodic"] | tuple[Condition, Condition]
Sides = tuple[AxisSides, AxisSides, AxisSides]


def checked_sides(sides: object, periodic: tuple[bool, bool, bool]) -> Sides:
    """Return sides if they are valid and fit the periodic axes of a block. Raises ValueError."""
    if not isinstance(sides, (tuple, list)) or len(sides) != 3:
        raise ValueError(
            f'sides = {sides!r} must be three entries for z, y and x: "periodic" or a pair such as '
            f'("dirichlet", "neumann").'
        )
    checked = []
    for axis, entry, wraps in zip("zyx", sides, periodic):
        pair = tuple(entry) if isinstance(entry, (tuple, list)) else entry
        valid = pair == "periodic" or (
            isinstance(pair, tuple) and len(pair) == 2 and set(pair) <= {"dirichlet", "neumann"}
        )
        if not valid:
            raise ValueError(
                f'The sides of {axis} are {entry!r}. Use "periodic" or a pair of "dirichlet" and "neumann".'
            )
        if (pair == "periodic") != wraps:
            raise ValueError(
                f"The sides of {axis} are {entry!r}, but the block is {'' if wraps else 'not '}periodic in {axis}."
            )
        checked.append(pair)
    return checked[0], checked[1], checked[2]


def factors_of(widths: Array, sides: AxisSides) -> tuple[Array, Array]:
    """Return 1 / (width * distance to the neighbour's centre) of each cell for its lower and its upper face.

    The value of a Dirichlet side lies at the face, half a width away. Nothing passes a Neumann side.
    """
    n = len(widths)
    lower, upper = np.zeros(n), np.zeros(n)
    distances = (widths[1:] + widths[:-1]) / 2
    lower[1:], upper[:-1] = 1 / (widths[1:] * distances), 1 / (widths[:-1] * distances)
    if sides == "periodic":
        if n > 1:  # a single cell is its own neighbour, and nothing flows
            distance = (widths[0] + widths[-1]) / 2
            lower[0], upper[-1] = 1 / (widths[0] * distance), 1 / (widths[-1] * distance)
    else:
        if sides[0] == "dirichlet":
            lower[0] = 2 / widths[0] ** 2
        if sides[1] == "dirichlet":
            upper[-1] = 2 / widths[-1] ** 2
    return lower, upper


class Interpolation(NamedTuple):
    """For each fine cell of an axis: the coarser cell that it belongs to, the other one, and the weight of that.

    The other cell may be -1 or n: a cell beyond the end, which holds the value 0 of a Dirichlet side.
    """

    near: Array
    other: Array
    weight: Array


def interpolation_of(fine: Array, coarse: Array, aggregates: Array, sides: AxisSides) -> Interpolation:
    """Return the linear interpolation between centres of coarser cells along an axis.

    It is constant between the last centre and a Neumann side, and falls to 0 at a Dirichlet side.
    """
    n = len(coarse)
    near = np.repeat(np.arange(n), np.diff(aggregates))
    if len(fine) == n:
        return Interpolation(near, near, np.zeros(n))
    length = float(fine.sum())
    x_fine, x_coarse = np.cumsum(fine) - fine / 2, np.cumsum(coarse) - coarse / 2
    offset = x_fine - x_coarse[near]
    offset[np.diff(aggregates)[near] == 1] = 0.0
    other = near + np.sign(offset).astype(np.int64)
    if sides == "periodic":
        x_other = x_coarse[other % n] + length * (other // n)
    else:
        x_other = np.concatenate([[0.0], x_coarse, [length]])[other + 1]
        ends = (other < 0) & (sides[0] == "neumann") | (other == n) & (sides[1] == "neumann")
        other = np.where(ends, near, other)
    weight = np.zeros(len(fine))
    inside = other != near
    weight[inside] = offset[inside] / (x_other - x_coarse[near])[inside]
    return Interpolation(near, other, weight)


def local_factors(level: GridLevel, block: Block, sides: Sides, scale: float, dtype: DTypeLike) -> Array:
    """Return lo, up and their sum of the cells of a block and its ghosts, [3 axes, 3, n]; 0 beyond the sides."""
    longest = max(block.shape_local) + 2 * block.ghost
    table = np.zeros((3, 3, longest))
    for axis in range(3):
        lower, upper = factors_of(level.widths[axis], sides[axis])
        cells, inside = _global_cells(block, axis)
        for row, values in enumerate((lower, upper, lower + upper)):
            table[axis, row, : len(cells)] = scale * np.where(inside, values[cells], 0.0)
    return table.astype(dtype)


def local_restriction(
    coarse: GridLevel, fine: GridLevel, block: Block, target: Block
) -> tuple[Array, Array, Array]:
    """Return for each cell of a finer block its place in `target` and its share, and which cells have one.

    target: the natural block of the coarser level. Returns int64 [3, n], float64 [3, n], int64 [3, 2].
    """
    assert coarse.aggregates is not None
    longest = max(block.shape_local) + 2 * block.ghost
    places, shares, ranges = (
        np.zeros((3, longest), np.int64),
        np.zeros((3, longest)),
        np.zeros((3, 2), np.int64),
    )
    for axis in range(3):
        starts = coarse.aggregates[axis]
        first = target.offset_global[axis]
        bounds = starts[first], starts[first + target.shape_local[axis]]
        cells, shift = np.arange(*bounds), block.ghost - block.offset_global[axis]
        owner = np.searchsorted(starts, cells, "right") - 1
        places[axis, cells + shift] = owner - first + target.ghost
        shares[axis, cells + shift] = fine.widths[axis][cells] / coarse.widths[axis][owner]
        ranges[axis] = bounds[0] + shift, bounds[1] + shift
    return places, shares, ranges


def local_interpolation(
    coarse: GridLevel, fine: GridLevel, block: Block, source: Block, sides: Sides
) -> tuple[Array, Array, Array]:
    """Return for each cell of a finer block and its ghosts the two places in `source`, and the weight of the second.

    source: the natural block of the coarser level. Returns int64 [3, n] twice and float64 [3, n].
    """
    assert coarse.aggregates is not None
    longest = max(block.shape_local) + 2 * block.ghost
    near, other = np.zeros((3, longest), np.int64), np.zeros((3, longest), np.int64)
    weight = np.zeros((3, longest))
    for axis in range(3):
        table = interpolation_of(fine.widths[axis], coarse.widths[axis], coarse.aggregates[axis], sides[axis])
        cells = np.arange(block.shape_local[axis] + 2 * block.ghost) - block.ghost + block.offset_global[axis]
        turns, cells = np.divmod(cells, fine.shape_global[axis])
        shift = turns * coarse.shape_global[axis] + source.ghost - source.offset_global[axis]
        most = source.shape_local[axis] + 2 * source.ghost - 1
        # Only cells in the layers that are corrected are used; those further out may lie beyond the source.
        near[axis, : len(cells)] = np.clip(table.near[cells] + shift, 0, most)
        other[axis, : len(cells)] = np.clip(table.other[cells] + shift, 0, most)
        weight[axis, : len(cells)] = table.weight[cells]
    return near, other, weight


def _global_cells(block: Block, axis: int) -> tuple[Array, Array]:
    """Return the global cells of a block and its ghosts along an axis, and whether they lie in the grid."""
    cells = np.arange(block.shape_local[axis] + 2 * block.ghost) - block.ghost + block.offset_global[axis]
    n = block.shape_global[axis]
    inside = (cells >= 0) & (cells < n) | block.periodic[axis]
    return cells % n, inside
