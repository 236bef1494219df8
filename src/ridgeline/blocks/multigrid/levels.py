"""The levels of geometric multigrid: which cells are joined, and which rank owns what of every coarse grid.

A level is a tensor-product grid of cells. The next coarser one joins *aggregates* of two neighbouring cells along
some axes; where the number of cells is odd, the last aggregate has one cell. Aggregates are global, so the levels do
not depend on the ranks. Only the axes of the smallest cells are coarsened until cells are about isotropic
(semi-coarsening: Trottenberg, Oosterlee and Schueller, Multigrid, 2001, section 5.1.2), because smoothing by points
reduces an error only along the axes of strong coupling.

A rank owns the aggregates that begin among its finer cells: the *natural* cuts. Where blocks become too thin for
their ghost layers, or too small to be worth a message, neighbouring blocks are joined in pairs and the first rank of
a pair owns the result (agglomeration). The coarsest level is on one rank. agglomeration.py moves the values.

Everything here is plain data and needs no MPI. A rank holds the cuts of each axis and the widths of each axis,
never a list of all ranks: O(nx + ny + nz + px + py + pz) numbers a level.

Nodes use the same levels. The nodes of a level are the lower faces of its cells, and the upper face of the last cell
along an axis that is not periodic: n + 1 nodes. Node i belongs to the owner of cell i, and the last node to the last
block: `GridLevel.block(coords, ghost, nodes=True)`. The coarse node I is the finer node `aggregates[axis][I]`, the
end included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.blocks.block import Block
from ridgeline.parallel.partition import Triple, split

Array = NDArray[Any]
Axes = tuple[bool, bool, bool]
Cuts = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
Widths = tuple[Array, Array, Array]

ISOTROPY = 1.3  # axes whose cells are at most so many times wider than the narrowest are coarsened
CELLS_PER_RANK = 4096  # fewer on a rank take less time than the messages of a level
COARSEST_CELLS = 256  # so few are solved directly


@dataclass(frozen=True)
class GridLevel:
    """One grid of the hierarchy, and who owns its cells.

    Attributes
    ----------
    shape_global : tuple of three ints
        Cells, (z, y, x).
    widths : three arrays of float64
        Widths of the cells along each axis.
    periodic, coarsened : tuple of three bools
        Whether each axis is periodic, and whether it has fewer cells than on the next finer level.
    aggregates : three arrays of int64 [n + 1], or None on the finest level
        The first finer cell of each cell along each axis, and at the end the number of finer cells.
    natural_cuts, natural_owners : three tuples of ints
        Cuts on the owners of the finer level, and the coordinates of these owners in the finest process grid.
    cuts, owners : three tuples of ints
        The same after agglomeration.
    """

    shape_global: Triple
    widths: Widths
    periodic: Axes
    coarsened: Axes
    aggregates: tuple[Array, Array, Array] | None
    natural_cuts: Cuts
    natural_owners: Cuts
    cuts: Cuts
    owners: Cuts

    @property
    def process_grid(self) -> Triple:
        """Blocks along each axis."""
        return _three([len(owners) for owners in self.owners])

    @property
    def is_agglomerated(self) -> bool:
        """Whether fewer ranks own this level than the next finer one (or than the given blocks)."""
        return self.owners != self.natural_owners

    @property
    def cells(self) -> int:
        """Number of cells."""
        return prod(self.shape_global)

    def block(self, coords: Triple, ghost: int, nodes: bool = False) -> Block | None:
        """Return the block of a rank on this level, or None if the rank owns nothing of it.

        Parameters
        ----------
        coords : tuple of three ints
            The rank's coordinates in the process grid of the finest level.
        ghost : int
            Layers of ghosts.
        nodes : bool
            The block of the nodes instead of the cells.

        Returns
        -------
        Block or None
            Its coordinates are those among the owners of this level.
        """
        return self._block(self.cuts, self.owners, coords, ghost, nodes)

    def natural_block(self, coords: Triple, ghost: int, nodes: bool = False) -> Block | None:
        """Return the rank's block before agglomeration; None for ranks that own nothing of the finer level."""
        return self._block(self.natural_cuts, self.natural_owners, coords, ghost, nodes)

    def _block(self, cuts: Cuts, owners: Cuts, coords: Triple, ghost: int, nodes: bool) -> Block | None:
        if any(c not in axis_owners for c, axis_owners in zip(coords, owners)):
            return None
        place = _three([axis_owners.index(c) for c, axis_owners in zip(coords, owners)])
        shape = self.shape_global
        if nodes:
            extra = [0 if wraps else 1 for wraps in self.periodic]
            shape = _three([n + more for n, more in zip(shape, extra)])
            cuts = _cuts([(*axis[:-1], axis[-1] + more) for axis, more in zip(cuts, extra)])
        process_grid = _three([len(axis_owners) for axis_owners in owners])
        return Block(shape, process_grid, place, self.periodic, ghost, cuts)

    def group(self, coords: Triple) -> tuple[slice, slice, slice]:
        """Return which natural blocks are joined in the block of an owner, as slices of the natural process grid."""
        slices = []
        for natural, owners, coordinate in zip(self.natural_owners, self.owners, coords):
            place = owners.index(coordinate)
            end = natural.index(owners[place + 1]) if place + 1 < len(owners) else len(natural)
            slices.append(slice(natural.index(coordinate), end))
        return slices[0], slices[1], slices[2]

    def owner_of(self, coords: Triple) -> Triple:
        """Return the coordinates, in the finest process grid, of the rank that owns a natural block."""
        return _three([max(o for o in owners if o <= c) for c, owners in zip(coords, self.owners)])


def plan_levels(
    block: Block,
    widths: Sequence[float | Array],
    *,
    thickness: int = 1,
    uncoarsened: Axes = (False, False, False),
    cells_per_rank: int = CELLS_PER_RANK,
    coarsest_cells: int = COARSEST_CELLS,
    least: int = 1,
) -> list[GridLevel]:
    """Plan all levels from the finest to the coarsest, which is on one rank.

    Parameters
    ----------
    block : Block
        Any rank's block of the finest cells; its cuts are those of all ranks.
    widths : sequence of three floats or arrays
        Widths of the cells of the whole grid along (z, y, x).
    thickness : int
        Cells that every block keeps along an axis that is cut, at least 1: as many as a neighbour needs.
    uncoarsened : tuple of three bools
        Axes that keep all their cells, because lines along them are solved exactly.
    cells_per_rank : int
        Coarse levels with fewer cells for each rank move onto fewer ranks.
    coarsest_cells : int
        The first level with so many cells or fewer is the last.
    least : int
        Cells that an axis keeps at least when it is coarsened.

    Returns
    -------
    list of GridLevel
        The same on all ranks.

    Raises
    ------
    ValueError
        If widths are not positive or not as many as cells.

    Notes
    -----
    Local.

    Examples
    --------
    >>> from ridgeline.blocks.block import Block
    >>> from ridgeline.blocks.multigrid.levels import plan_levels
    >>> levels = plan_levels(Block.of_rank((64, 64, 33), (2, 1, 1), 0), (0.1, 1.0, 1.0), thickness=4)
    >>> [level.shape_global for level in levels]
    [(64, 64, 33), (32, 64, 33), (16, 64, 33), (8, 64, 33), (4, 32, 16), (2, 16, 8)]
    >>> [level.process_grid for level in levels][-3:]
    [(2, 1, 1), (1, 1, 1), (1, 1, 1)]
    """
    shape = block.shape_global
    if len(widths) != 3:
        raise ValueError(f"widths must be three entries for z, y and x, but there are {len(widths)}.")
    cuts = block.cuts or _cuts([_even_cuts(n, p) for n, p in zip(shape, block.process_grid)])
    natural_owners = _cuts([tuple(range(p)) for p in block.process_grid])
    owners, merged = _agglomerate(cuts, natural_owners, thickness, 0)
    arrays = _three([axis_widths(w, n, name) for w, n, name in zip(widths, shape, "zyx")])
    none = (False, False, False)
    levels = [GridLevel(shape, arrays, block.periodic, none, None, cuts, natural_owners, merged, owners)]
    while levels[-1].cells > coarsest_cells:
        axes = _axes_to_coarsen(levels[-1], uncoarsened, least)
        if not any(axes):
            break
        levels.append(_coarser(levels[-1], axes, thickness, cells_per_rank))
    last = levels[-1]
    if last.process_grid != (1, 1, 1):
        one = _cuts([axis[:1] for axis in last.owners])
        whole = _cuts([(0, n) for n in last.shape_global])
        levels[-1] = GridLevel(
            last.shape_global,
            last.widths,
            last.periodic,
            last.coarsened,
            last.aggregates,
            last.natural_cuts,
            last.natural_owners,
            whole,
            one,
        )
    return levels


def axis_widths(widths: float | Array, n: int, axis: str) -> Array:
    """Return the widths of the n cells along an axis as float64 [n]. Raises ValueError for wrong ones."""
    array = np.asarray(widths, np.float64)
    array = np.full(n, float(array)) if array.ndim == 0 else np.ascontiguousarray(array)
    if array.shape != (n,):
        raise ValueError(
            f"The widths of the cells along {axis} are {array.size} numbers, but there are {n} cells."
        )
    if not (np.isfinite(array).all() and (array > 0).all()):
        raise ValueError(
            f"A width of a cell along {axis} is {array.min():g}. Widths must be positive numbers."
        )
    return array


def aggregates_of(widths: Array) -> Array:
    """Return the first cells of the aggregates of two along an axis, and the number of cells, int64.

    The last aggregate of an odd number has one cell. With three, an error that changes its sign inside the aggregate
    has no place on the coarser grid, and V-cycles converge by 0.22 instead of 0.14 (33 x 47 x 29 cells).
    """
    n = len(widths)
    return np.array([*range(0, n, 2), n], np.int64)


def _axes_to_coarsen(level: GridLevel, uncoarsened: Axes, least: int) -> Axes:
    """Return the axes whose cells are narrow, among those that may have fewer cells."""
    sizes = [float(widths.mean()) for widths in level.widths]
    may = [
        not fixed and len(aggregates_of(widths)) - 1 >= least and n > 1
        for fixed, widths, n in zip(uncoarsened, level.widths, level.shape_global)
    ]
    narrowest = min((size for size, can in zip(sizes, may) if can), default=0.0)
    z, y, x = (can and size <= ISOTROPY * narrowest for size, can in zip(sizes, may))
    return z, y, x


def _coarser(fine: GridLevel, axes: Axes, thickness: int, cells_per_rank: int) -> GridLevel:
    aggregates = _three(
        [
            aggregates_of(widths) if coarsened else np.arange(len(widths) + 1)
            for widths, coarsened in zip(fine.widths, axes)
        ]
    )
    widths = _three([np.add.reduceat(w, starts[:-1]) for w, starts in zip(fine.widths, aggregates)])
    # An aggregate belongs to the block of its first cell.
    natural = _cuts(
        [tuple(np.searchsorted(starts[:-1], cuts).tolist()) for starts, cuts in zip(aggregates, fine.cuts)]
    )
    owners, cuts = _agglomerate(natural, fine.owners, thickness, cells_per_rank)
    shape = _three([len(w) for w in widths])
    return GridLevel(shape, widths, fine.periodic, axes, aggregates, natural, fine.owners, cuts, owners)


def _agglomerate(cuts: Cuts, owners: Cuts, thickness: int, cells_per_rank: int) -> tuple[Cuts, Cuts]:
    """Join neighbouring blocks in pairs until they are thick and large enough; return owners and cuts."""
    axes, ranks = list(cuts), list(owners)
    cells = prod(axis[-1] for axis in cuts)
    for axis in range(3):
        while len(ranks[axis]) > 1 and min(b - a for a, b in pairwise(axes[axis])) < thickness:
            axes[axis], ranks[axis] = (*axes[axis][:-1:2], axes[axis][-1]), ranks[axis][::2]
    while cells < cells_per_rank * prod(map(len, ranks)) and any(len(r) > 1 for r in ranks):
        axis = min((a for a in range(3) if len(ranks[a]) > 1), key=lambda a: axes[a][-1] / len(ranks[a]))
        axes[axis], ranks[axis] = (*axes[axis][:-1:2], axes[axis][-1]), ranks[axis][::2]
    return _cuts(ranks), _cuts(axes)


def _even_cuts(n: int, parts: int) -> tuple[int, ...]:
    return (*(split(n, parts, index)[0] for index in range(parts)), n)


def _three(values: Sequence[Any]) -> tuple[Any, Any, Any]:
    return values[0], values[1], values[2]


def _cuts(values: Sequence[tuple[int, ...]]) -> Cuts:
    return values[0], values[1], values[2]
