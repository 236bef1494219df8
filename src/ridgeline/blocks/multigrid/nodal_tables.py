"""What nodal multigrid knows of each axis: the finite elements, the interpolation, and the weights of the smoother.

Along one axis, linear elements on cells of widths h have the mass matrix M with rows (h-/6, (h- + h+)/3, h+/6) and
the stiffness K with rows (-1/h-, 1/h- + 1/h+, -1/h+), where h- and h+ are the cells left and right of a node. A
missing cell counts as none, which is the natural (Neumann) condition; the rows of fixed (Dirichlet) nodes are zero.
Trilinear elements of a coarse grid, whose cells are aggregates of finer ones, are linear combinations of the finer
elements. Linear interpolation by position therefore makes the operator of the coarse grid the Galerkin product P^T
A P.

The smoother takes damped Jacobi steps x += w (b - A x) / diag(A). Their weights w are those of the Chebyshev
polynomial for the interval of eigenvalues of A / diag(A) that the coarse grid cannot represent. On cubes this
interval is [1/2, 3/2], against [1/3, 2] for the stencil of seven points, so that two steps reduce these errors by
7. The interval of other cells follows from the symbol of the stencil (Trottenberg, Oosterlee and Schueller,
Multigrid, 2001, chapter 4).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ridgeline.blocks.block import Block
from ridgeline.blocks.multigrid.levels import GridLevel
from ridgeline.blocks.multigrid.nodal_rows import CELL_MASS, CELL_SLOPE, FREE, MARGIN, MASS, STIFFNESS

Array = NDArray[Any]
Fixed = tuple[bool, bool]  # whether phi = 0 at the two sides of an axis

REDUCTION = 0.15  # of errors that the coarse grid cannot represent, at least, by the smoothing of one cycle
MAX_STEPS = 12  # of one cycle
# The layers of ghosts that the fused passes need: one of residuals around the nodes of an owned coarse node, one more
# of the solution for these residuals, and one more of the solution before its smoothing.
GHOST = 3


class AxisTransfer(NamedTuple):
    """The interpolation along one axis, with `MARGIN` places before the first owned node of the finer block.

    lower: int64 [n + 2 MARGIN], local index of the coarse node at or below each node.
    parts: [2, n + 2 MARGIN], weights of that coarse node and of the next; zero at fixed nodes and beyond the sides.
    first, end: the nodes, local, whose residuals the owned coarse nodes need.
    """

    lower: Array
    parts: Array
    first: int
    end: int


def axis_table(widths: Array, periodic: bool, fixed: Fixed, first: int, n: int) -> Array:
    """Return the table of one axis, [9, at least n + 2 MARGIN]: mass and stiffness (3 rows each), free nodes, cells.

    Parameters
    ----------
    widths : array
        Widths of all cells of the axis.
    periodic : bool
        Whether the axis is periodic.
    fixed : pair of bools
        Whether phi = 0 at the lower and the upper side.
    first, n : int
        First owned node, and number of owned nodes.
    """
    table = np.zeros((9, -(-n // MARGIN) * MARGIN + 2 * MARGIN))
    cells = len(widths)
    for place in range(n + 2 * MARGIN):
        node = first + place - MARGIN
        if periodic:
            left, right = widths[(node - 1) % cells], widths[node % cells]
        elif not 0 <= node <= cells:
            continue
        else:
            left = widths[node - 1] if node > 0 else 0.0
            right = widths[node] if node < cells else 0.0
        if right > 0:
            table[CELL_MASS, place], table[CELL_SLOPE, place] = right / 3, 1 / right
        if not periodic and ((node == 0 and fixed[0]) or (node == cells and fixed[1])):
            continue
        table[FREE, place] = 1.0
        if periodic and cells == 1:
            # The node is its own neighbour, and constant along this axis.
            table[MASS + 1, place] = right
            continue
        low, high = (1 / left if left > 0 else 0.0), (1 / right if right > 0 else 0.0)
        table[MASS : MASS + 3, place] = left / 6, (left + right) / 3, right / 6
        table[STIFFNESS : STIFFNESS + 3, place] = -low, low + high, -high
    return table


def axis_transfer(
    fine: GridLevel, coarse: GridLevel, axis: int, table: Array, fine_block: Block, coarse_block: Block
) -> AxisTransfer:
    """Return the interpolation along an axis from the natural coarse block of nodes to the finer block."""
    assert coarse.aggregates is not None
    starts, widths, periodic = coarse.aggregates[axis], fine.widths[axis], fine.periodic[axis]
    cells, coarse_cells = len(widths), len(starts) - 1
    first, n = fine_block.offset_global[axis], fine_block.shape_local[axis]
    coarse_first, coarse_n = coarse_block.offset_global[axis], coarse_block.shape_local[axis]
    lower, parts = np.zeros(n + 2 * MARGIN, np.int64), np.zeros((2, n + 2 * MARGIN))
    for place in range(n + 2 * MARGIN):
        node = first + place - MARGIN
        turns, inside = divmod(node, cells) if periodic else (0, min(max(node, 0), cells))
        coarse_node = int(np.searchsorted(starts, inside, "right")) - 1
        lower[place] = coarse_node + turns * coarse_cells - coarse_first
        if table[FREE, place]:
            part = 0.0
            if inside > starts[coarse_node]:
                aggregate = widths[starts[coarse_node] : starts[coarse_node + 1]]
                part = float(aggregate[: inside - starts[coarse_node]].sum() / aggregate.sum())
            parts[:, place] = 1.0 - part, part
    begin, end = residual_range(starts, periodic, coarse_first, coarse_n)
    return AxisTransfer(lower, parts, begin - first, end - first)


def restriction_weights(axis: AxisTransfer, n: int) -> tuple[Array, Array]:
    """Return where n coarse nodes lie among the residuals from the node before `axis.first` on, and the weights.

    Each takes the residuals of the node before it, of its own node and of the node after it, with weights [3, n].
    """
    inside = slice(MARGIN + axis.first, MARGIN + axis.end)
    lower, (low, high) = axis.lower[inside], axis.parts[:, inside]
    centres, weights = np.zeros(n, np.int64), np.zeros((3, n))
    for coarse in range(n):
        c = int(np.searchsorted(lower, coarse))
        centres[coarse], weights[1, coarse] = c + 1, low[c]
        if c > 0:
            weights[0, coarse] = high[c - 1]
        if c + 1 < len(lower) and lower[c + 1] == coarse:
            weights[2, coarse] = low[c + 1]
    return centres, weights


def residual_range(starts: Array, periodic: bool, coarse_first: int, coarse_n: int) -> tuple[int, int]:
    """Return the first node and the end of those whose residuals some owned coarse nodes need, by global index."""
    coarse_cells, cells = len(starts) - 1, int(starts[-1])

    def position(node: int) -> int:
        turns, inside = divmod(node, coarse_cells)
        return int(starts[inside]) + turns * cells

    begin, end = position(coarse_first - 1) + 1, position(coarse_first + coarse_n)
    return (begin, end) if periodic else (max(begin, 0), min(end, cells + 1))


def smoothing_interval(
    widths: Sequence[Array], coarsened: Sequence[bool], periodic: Sequence[bool]
) -> tuple[float, float]:
    """Return the least and the largest eigenvalue of A / diag(A) that the smoother must reduce.

    The symbol of the operator is evaluated for a sample of the cells, the narrowest and the widest included. Errors
    that a coarse grid cannot represent have an angle of pi / 2 or more along an axis that is coarsened. The largest
    eigenvalue is a bound, because it is that of an element.
    """
    low, high = np.inf, 0.0
    single = [len(w) == 1 and wraps for w, wraps in zip(widths, periodic)]
    grid = np.meshgrid(
        *[np.zeros(1) if one else np.linspace(0.0, np.pi, 13) for one in single], indexing="ij"
    )
    stiffness, mass = [2 - 2 * np.cos(t) for t in grid], [(2 + np.cos(t)) / 3 for t in grid]
    # On the diagonal.
    k, m = [0.0 if one else 2.0 for one in single], [1.0 if one else 2 / 3 for one in single]
    fine_only = np.zeros(grid[0].shape, bool)
    for angle, is_coarsened in zip(grid, coarsened):
        if is_coarsened:
            fine_only |= angle >= np.pi / 2 - 1e-9
    samples = [np.unique(np.quantile(w, (0.0, 0.25, 0.5, 0.75, 1.0))) for w in widths]
    for hz, hy, hx in product(*samples):
        symbol = (
            stiffness[0] * mass[1] * mass[2] / hz**2
            + mass[0] * stiffness[1] * mass[2] / hy**2
            + mass[0] * mass[1] * stiffness[2] / hx**2
        ) / (k[0] * m[1] * m[2] / hz**2 + m[0] * k[1] * m[2] / hy**2 + m[0] * m[1] * k[2] / hx**2)
        low, high = min(low, float(symbol[fine_only].min())), max(high, float(symbol.max()))
    return low, high


def smoothing_weights(fine: GridLevel, coarse: GridLevel) -> tuple[Array, Array]:
    """Return the weights of the Jacobi steps before and after the coarse grid, as few as reduce by `REDUCTION`."""
    low, high = smoothing_interval(fine.widths, coarse.coarsened, fine.periodic)
    ratio, steps = (high + low) / (high - low), 2
    while steps < MAX_STEPS and np.cosh(steps * np.arccosh(ratio)) < 1 / REDUCTION:
        steps += 1
    roots = np.cos(np.pi * (2 * np.arange(steps) + 1) / (2 * steps))
    weights = 1 / ((high + low) / 2 + (high - low) / 2 * roots)
    # The steps before and those after the coarse grid take turns among the weights, so that each of them alone is a
    # good smoother; halves would leave the largest weights together, which amplify the errors of the shortest waves.
    return weights[1::2], weights[0::2]


def dense_inverse(
    widths: Sequence[Array], periodic: Sequence[bool], fixed: Sequence[Fixed], sigma: Array
) -> Array:
    """Return the inverse of the operator on a small grid, [nodes, nodes]; the pseudo-inverse if A has a null space.

    Rows and columns of fixed nodes are zero. sigma: [nz, ny, nx], one value per cell.
    """
    cells = [len(w) for w in widths]
    shape = [n + (0 if wraps else 1) for n, wraps in zip(cells, periodic)]
    number = np.arange(int(np.prod(shape))).reshape(shape)
    matrix = np.zeros((number.size, number.size))
    corners = list(product((0, 1), repeat=3))
    hz, hy, hx = np.meshgrid(*widths, indexing="ij")

    def nodes_at(corner: tuple[int, ...]) -> Array:
        places = [(np.arange(n) + c) % size for n, c, size in zip(cells, corner, shape)]
        return number[np.ix_(*places)]

    for a, b in product(corners, repeat=2):
        m = [h / 3 if i == j else h / 6 for h, i, j in zip((hz, hy, hx), a, b)]
        k = [1 / h if i == j else -1 / h for h, i, j in zip((hz, hy, hx), a, b)]
        local = sigma * (k[0] * m[1] * m[2] + m[0] * k[1] * m[2] + m[0] * m[1] * k[2])
        np.add.at(matrix, (nodes_at(a).ravel(), nodes_at(b).ravel()), local.ravel())
    free = np.ones(shape, bool)
    for axis in range(3):
        for side, is_fixed in zip((0, -1), fixed[axis]):
            if is_fixed and not periodic[axis]:
                np.moveaxis(free, axis, 0)[side] = False
    kept = number[free]
    inverse = np.zeros_like(matrix)
    part = matrix[np.ix_(kept, kept)]
    if is_singular(periodic, fixed):
        # Shifting the constant vector away from zero makes the matrix regular; its share of the inverse is then taken
        # out, so that the mean of b is ignored and the mean of the result is zero.
        shift = np.full_like(part, np.trace(part) / part.shape[0] ** 2)
        mean = np.eye(len(part)) - 1 / len(part)
        inverse[np.ix_(kept, kept)] = mean @ np.linalg.inv(part + shift) @ mean
    else:
        inverse[np.ix_(kept, kept)] = np.linalg.inv(part)
    return inverse


def is_singular(periodic: Sequence[bool], fixed: Sequence[Fixed]) -> bool:
    """Return whether constants solve the homogeneous problem: no side has phi = 0."""
    return all(wraps or not any(pair) for wraps, pair in zip(periodic, fixed))
