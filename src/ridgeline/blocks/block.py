"""Cartesian blocks: which rank owns which cells of a [z, y, x] grid, and how it stores them.

Vocabulary: the *owned* cells of a block are those that it computes; *ghost* cells around them hold copies of
neighbours' cells, or boundary values. *Global* indices count cells of the whole grid, *local* ones the owned cells of
one block from 0. All triples are in the order (z, y, x).
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import DTypeLike, NDArray

from ridgeline.parallel.partition import Triple, factorizations, split
from ridgeline.runtime.aligned import CACHE_LINE, aligned_empty
from ridgeline.runtime.errors import DecompositionError

PAGE = 4096  # bytes; strides that are multiples of it collide in the caches


def exchange_cost(shape_global: Triple, process_grid: Triple) -> float:
    """Return the cells that an inner block of mean size sends per ghost layer, weighted by the time that they take.

    Faces across x count four times, because each of their cells costs a cache line to pack and one to unpack.
    """
    local = [n / p for n, p in zip(shape_global, process_grid)]
    volume = local[0] * local[1] * local[2]
    return sum((volume / local[d]) * (4 if d == 2 else 1) for d in range(3) if process_grid[d] > 1)


def choose_process_grid(shape_global: Triple, n_ranks: int, ghost: int = 1) -> Triple:
    """Choose how many blocks a grid is cut into in each direction: the process grid with the least `exchange_cost`.

    Among grids of equal cost, the one that cuts z first is chosen. In a direction that is cut, every block keeps at
    least `ghost` cells, which its neighbour needs.

    Parameters
    ----------
    shape_global : tuple of three ints
        Cells of the whole grid, (z, y, x).
    n_ranks : int
        Number of blocks.
    ghost : int
        Layers of ghost cells.

    Returns
    -------
    tuple of three ints
        Blocks in each direction, (z, y, x).

    Raises
    ------
    DecompositionError
        If no process grid of n_ranks blocks fits.

    Notes
    -----
    Local.

    Examples
    --------
    >>> from ridgeline.blocks.block import choose_process_grid
    >>> choose_process_grid((64, 64, 64), 2), choose_process_grid((8, 64, 64), 4)
    ((2, 1, 1), (1, 4, 1))
    """
    fitting = [
        grid
        for grid in factorizations(n_ranks)
        if all(n // p >= (ghost if p > 1 else 1) for p, n in zip(grid, shape_global))
    ]
    if not fitting:
        least = f"{ghost} cells in each direction" if ghost > 1 else "one cell"
        raise DecompositionError(
            f"grid.shape = {list(shape_global)} cannot be divided into {n_ranks} blocks of at least {least}. "
            f"Use a larger grid or fewer ranks."
        )
    return min(fitting, key=lambda grid: (exchange_cost(shape_global, grid), grid[2], grid[1]))


def check_process_grid(shape_global: Triple, process_grid: Triple, n_ranks: int) -> None:
    """Check that a process grid has a block for every rank, and a cell for every block.

    Parameters
    ----------
    shape_global : tuple of three ints
        Cells of the whole grid, (z, y, x).
    process_grid : tuple of three ints
        Blocks in each direction, (z, y, x).
    n_ranks : int
        Number of ranks.

    Raises
    ------
    DecompositionError
        If the number of blocks is not n_ranks, or a direction has more blocks than cells.

    Examples
    --------
    >>> from ridgeline.blocks.block import check_process_grid
    >>> check_process_grid((8, 8, 8), (2, 1, 1), 2)
    >>> try:
    ...     check_process_grid((8, 8, 8), (2, 1, 1), 3)
    ... except Exception as error:
    ...     print(type(error).__name__)
    DecompositionError
    """
    blocks = process_grid[0] * process_grid[1] * process_grid[2]
    if blocks != n_ranks:
        choices = ", ".join(str(list(g)) for g in factorizations(n_ranks))
        raise DecompositionError(
            f"grid.process_grid = {list(process_grid)} has {blocks} blocks, but the run has {n_ranks} ranks. "
            f'Use {blocks} ranks, process_grid = "auto", or one of {choices}.'
        )
    for axis, n, p in zip("zyx", shape_global, process_grid):
        if p > n:
            raise DecompositionError(
                f"grid.process_grid = {list(process_grid)} divides {n} cells in {axis} into {p} blocks, but at most "
                f"{n} are possible. Use fewer ranks in {axis} or a larger grid.shape."
            )


@dataclass(frozen=True)
class Block:
    """Describe the block of one rank: plain data, without a communicator.

    Ranks are numbered with x fastest (row-major), as by MPI_Cart_create without reordering.

    Parameters
    ----------
    shape_global : tuple of three ints
        Cells of the whole grid, (z, y, x).
    process_grid : tuple of three ints
        Blocks in each direction.
    coords : tuple of three ints
        The rank's place in process_grid.
    periodic : tuple of three bools
        Whether each direction is periodic.
    ghost : int
        Layers of ghost cells.
    cuts : three tuples of ints, or None
        Where each direction is cut: 0, the first cells of the other blocks, and the number of cells. By default all
        blocks have the same size, give or take one cell.

    Examples
    --------
    >>> from ridgeline.blocks.block import Block
    >>> block = Block.of_rank((9, 8, 8), (2, 1, 1), rank=1)
    >>> block.offset_global, block.shape_local
    ((5, 0, 0), (4, 8, 8))
    >>> block.neighbour((1, 0, 0))
    0
    """

    shape_global: Triple
    process_grid: Triple
    coords: Triple
    periodic: tuple[bool, bool, bool] = (True, True, True)
    ghost: int = 1
    cuts: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]] | None = None

    @classmethod
    def of_rank(
        cls,
        shape_global: Triple,
        process_grid: Triple,
        rank: int,
        periodic: tuple[bool, bool, bool] = (True, True, True),
        ghost: int = 1,
    ) -> "Block":
        """Return the block that a rank owns.

        Parameters
        ----------
        shape_global, process_grid : tuple of three ints
            Cells of the whole grid, and blocks in each direction, (z, y, x).
        rank : int
            The rank, numbered with x fastest.
        periodic : tuple of three bools
            Whether each direction is periodic.
        ghost : int
            Layers of ghost cells.

        Returns
        -------
        Block
            Plain data.
        """
        _, py, px = process_grid
        return cls(
            shape_global, process_grid, (rank // (py * px), rank // px % py, rank % px), periodic, ghost
        )

    def _split(self, axis: int) -> tuple[int, int]:
        if self.cuts is not None:
            first, end = self.cuts[axis][self.coords[axis] : self.coords[axis] + 2]
            return first, end - first
        return split(self.shape_global[axis], self.process_grid[axis], self.coords[axis])

    @cached_property
    def offset_global(self) -> Triple:
        """Global index of the first owned cell."""
        return self._split(0)[0], self._split(1)[0], self._split(2)[0]

    @cached_property
    def shape_local(self) -> Triple:
        """Owned cells in each direction."""
        return self._split(0)[1], self._split(1)[1], self._split(2)[1]

    @property
    def n_ranks(self) -> int:
        """Number of blocks."""
        return self.process_grid[0] * self.process_grid[1] * self.process_grid[2]

    def neighbour(self, direction: Triple) -> int | None:
        """Return the rank of a neighbouring block.

        Parameters
        ----------
        direction : tuple of three ints
            -1, 0 or 1 in each direction, (z, y, x).

        Returns
        -------
        int or None
            The rank, or None beyond a boundary that is not periodic.
        """
        place = []
        for c, d, p, wraps in zip(self.coords, direction, self.process_grid, self.periodic):
            if not wraps and not 0 <= c + d < p:
                return None
            place.append((c + d) % p)
        return (place[0] * self.process_grid[1] + place[1]) * self.process_grid[2] + place[2]


@dataclass(frozen=True)
class BlockArray:
    """Store one field on one block: the owned cells with layers of ghosts, in rows that are aligned for vectors.

    Cell (k, j, i), local, with ghosts from -ghost on, lies at flat[origin + k * plane_pitch + j * row_pitch + i].
    Every owned row starts on a cache line. The right ghosts of a row and the left ghosts of the next share a cache
    line, so ghosts cost one more line per row and not two.

    Attributes
    ----------
    block : Block
        The block.
    flat : array
        All memory of the field, of the dtype that `allocate` is given.
    origin, row_pitch, plane_pitch : int
        Place of the first owned cell, and distances between rows and planes, in numbers.
    ghosted : array [nz+2g, ny+2g, nx+2g]
        A view of owned and ghost cells.
    owned : array [nz, ny, nx]
        A view of the owned cells.

    Notes
    -----
    Local. The views share the memory of `flat`, and are made once.

    Examples
    --------
    >>> from ridgeline.blocks.block import Block, BlockArray
    >>> field = BlockArray.allocate(Block.of_rank((4, 6, 8), (1, 1, 1), 0), "float32", fill=1.0)
    >>> field.owned.shape, field.ghosted.shape
    ((4, 6, 8), (6, 8, 10))
    >>> float(field.owned.sum())
    192.0
    """

    block: Block
    flat: NDArray[np.generic]
    origin: int
    row_pitch: int
    plane_pitch: int

    @classmethod
    def allocate(cls, block: Block, dtype: DTypeLike, fill: float = 0.0) -> "BlockArray":
        """Allocate a field, and set every cell, ghosts and padding included, to one value.

        Parameters
        ----------
        block : Block
            The block of this rank.
        dtype : dtype
            Of the numbers.
        fill : float
            The value.

        Returns
        -------
        BlockArray
            The field, in new memory that begins on a cache line.
        """
        itemsize = np.dtype(dtype).itemsize
        row_pitch, plane_pitch, lead, size = cls._layout(block, itemsize)
        origin = lead + block.ghost * (row_pitch + plane_pitch)
        flat = aligned_empty(size, dtype)
        flat[:] = fill
        return cls(block, flat, origin, row_pitch, plane_pitch)

    @classmethod
    def bytes_of(cls, block: Block, dtype: DTypeLike) -> int:
        """Return the bytes that `allocate` needs for a field of `dtype`, with ghosts and padding."""
        itemsize = np.dtype(dtype).itemsize
        return cls._layout(block, itemsize)[3] * itemsize + CACHE_LINE

    @classmethod
    def row_pitch_of(cls, block: Block, dtype: DTypeLike) -> int:
        """Return the distance between two rows of a field of `dtype` as `allocate` lays it out, in numbers."""
        return cls._layout(block, np.dtype(dtype).itemsize)[0]

    @staticmethod
    def _layout(block: Block, itemsize: int) -> tuple[int, int, int, int]:
        """Return the pitches of rows and planes, the numbers before the first plane, and the size, in numbers."""
        line = CACHE_LINE // itemsize
        nz, ny, nx = block.shape_local
        g = block.ghost
        row_pitch = -(-(nx + 2 * g) // line) * line
        row_pitch += line * (row_pitch * itemsize % PAGE == 0)
        plane_pitch = row_pitch * (ny + 2 * g)
        plane_pitch += line * (plane_pitch * itemsize % PAGE == 0)
        lead = -(-g // line) * line
        # One more line at the end, because the last row's vector of right neighbours may read a whole vector.
        return row_pitch, plane_pitch, lead, lead + (nz + 2 * g) * plane_pitch + 2 * line

    def _view(self, ghost: int) -> NDArray[np.generic]:
        start = self.origin - ghost * (self.plane_pitch + self.row_pitch + 1)
        nz, ny, nx = self.block.shape_local
        itemsize = self.flat.itemsize
        return as_strided(
            self.flat[start:],
            (nz + 2 * ghost, ny + 2 * ghost, nx + 2 * ghost),
            (self.plane_pitch * itemsize, self.row_pitch * itemsize, itemsize),
        )

    @cached_property
    def ghosted(self) -> NDArray[np.generic]:
        """Owned and ghost cells, a view of shape (nz+2g, ny+2g, nx+2g)."""
        return self._view(self.block.ghost)

    @cached_property
    def owned(self) -> NDArray[np.generic]:
        """Owned cells, a view of shape (nz, ny, nx)."""
        return self._view(0)


@dataclass(frozen=True)
class Box:
    """Cells `start` <= (z, y, x) < `start + shape`, local indices (ghosts are negative or past the owned)."""

    start: Triple
    shape: Triple

    @property
    def cells(self) -> int:
        """Number of cells."""
        return self.shape[0] * self.shape[1] * self.shape[2]


@dataclass(frozen=True)
class BoxRows:
    """Where the rows of a box of cells lie in a flat array, in items: the first row, and the pitches."""

    start: int
    plane: int
    row: int

    @classmethod
    def of_field(cls, field: BlockArray, box: Box) -> "BoxRows":
        """Return the place of a box of a field's cells."""
        z, y, x = box.start
        start = field.origin + z * field.plane_pitch + y * field.row_pitch + x
        return cls(start, field.plane_pitch, field.row_pitch)

    @classmethod
    def of_buffer(cls, offset: int, box: Box) -> "BoxRows":
        """Return the place of a box whose cells lie one after the other from `offset` on."""
        return cls(offset, box.shape[1] * box.shape[2], box.shape[2])

    def at(self, z: int, y: int) -> list[int]:
        """Return [start, plane pitch, row pitch] of the box that begins at row (z, y) of this one."""
        return [self.start + z * self.plane + y * self.row, self.plane, self.row]


def all_directions() -> list[Triple]:
    """Return the 26 directions to a block's neighbours: 6 faces, 12 edges, 8 corners, in that order."""
    directions = [(z, y, x) for z, y, x in product((-1, 0, 1), repeat=3) if (z, y, x) != (0, 0, 0)]
    return sorted(directions, key=lambda d: sum(map(abs, d)))
