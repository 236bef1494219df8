"""LU without pivoting in single precision on a block-cyclic P x Q grid, with look-ahead of depth 1.

Step k of the right-looking algorithm. Block (I, J) lies on process (I mod P, J mod Q).
1. The owner of block (k, k) eliminates it and sends it along its process row and column.
2. Its process column computes L = A U_kk^-1 of block column k, its process row U = L_kk^-1 A of block row k.
3. L is broadcast along process rows, U along process columns.
4. All subtract L U from what is left.
Look-ahead: of 4, block column and block row k + 1 come first, and 1 to 3 of step k + 1 follow at once. One thread
does so, while the others begin with the rest of 4, cut into tiles of columns.

What is stored narrowly (`storage`): both panels and the diagonal block are rounded once, when they are complete.
Every product and solve reads the rounded numbers. The part that is still to be factorised stays float32, and products
are accumulated in float32, as units for float16 do. With storage "float32" nothing is rounded beyond the arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.bench.hpl.block_cyclic import Axis
from ridgeline.bench.hpl.python_blas import (
    solve_lower,
    solve_upper_from_right,
    subtract_product,
)
from ridgeline.bench.hpl.team import TileTeam, tiles
from ridgeline.bench.hpl_mxp import storage as formats
from ridgeline.bench.hpl_mxp.factor_kernels import eliminate
from ridgeline.jit.kernel import Specialisation, specialise
from ridgeline.runtime.aligned import aligned_empty

Matrix = NDArray[np.float32]
_INNER = 32  # columns that the compiled loop eliminates at once; BLAS does the rest of a diagonal block
_WIDEST, _NARROWEST = 1536, 192  # columns of a tile


@dataclass(frozen=True)
class Grid:
    """A process's place: row and column communicators of a P x Q grid, and what it owns of both directions.

    along_row: the ranks of this process row, by column; along_column: those of this process column, by row.
    """

    along_row: MPI.Comm
    along_column: MPI.Comm
    rows: Axis
    columns: Axis


@dataclass
class Panels:
    """L [local rows below, nb] and U [nb, local columns behind] of a step, and what is still under way."""

    left: Matrix
    right: Matrix
    requests: list[MPI.Request] = field(default_factory=list)


def bytes_of(n: int, nb: int, p: int, q: int) -> int:
    """Return the bytes that a process needs at most: its part of the matrix, two pairs of panels, a block."""
    rows, columns = Axis(n, nb, p, 0).count(), Axis(n, nb, q, 0).count()
    panels = 2 * nb * (rows * (q > 1) + columns * (p > 1))
    return 4 * (columns * (rows + _padding(rows)) + panels + nb * nb)


def _padding(rows: int) -> int:
    """Return by how much columns lie further apart: whole cache lines, an odd number of them against conflicts."""
    lines = -(-rows // 16)
    return (lines + 1 - lines % 2) * 16 - rows


def allocate(rows: int, columns: int) -> NDArray[np.float32]:
    """Return memory of a local matrix, [columns, at least rows]: a row holds a column."""
    return aligned_empty((columns, rows + _padding(rows)), np.float32)


class MxpFactors:
    """The factors of a matrix in its own memory, made by `run`.

    memory: as of `allocate`, overwritten by L below the diagonal (its own diagonal is 1) and U.
    """

    def __init__(
        self, grid: Grid, memory: NDArray[np.float32], team: TileTeam, storage: str = "float32"
    ) -> None:
        self.grid, self.storage, self.team = grid, storage, team
        self.rows, self.columns = grid.rows, grid.columns
        self.nb = grid.rows.nb
        self.blocks = -(-grid.rows.n // self.nb)
        self.matrix: Matrix = memory.T[: self.rows.count()]
        sizes = self.rows.count() * (self.columns.parts > 1), self.columns.count() * (self.rows.parts > 1)
        self._buffers = [[np.empty(size * self.nb, np.float32) for size in sizes] for _ in range(2)]

    def run(self, on_step: Callable[[int], None] = lambda done: None) -> None:
        """Factorise. Collective over the grid. on_step: called with the number of finished block columns."""
        panels = self._factor_panels(0)
        for k in range(self.blocks):
            MPI.Request.Waitall(panels.requests)
            panels = self._step(k, panels)
            on_step(k + 1)

    def _behind(self, k: int) -> tuple[int, int]:
        """Return the first local row and column behind block k."""
        index = (k + 1) * self.nb
        return self.rows.count(index), self.columns.count(index)

    def _step(self, k: int, panels: Panels) -> Panels:
        """Subtract what step k contributes; return the panels of step k + 1, on their way."""
        row, column = self._behind(k)
        next_row, next_column = self._behind(k + 1)
        left, right, out = panels.left, panels.right, self.matrix
        width, height = next_column - column, next_row - row

        def update(start: int, stop: int) -> None:
            subtract_product(
                left[height:], right[:, start - column : stop - column], out[next_row:, start:stop]
            )

        self.team.start(
            update, tiles(next_column, self.columns.count(), self.team.n_threads, _WIDEST, _NARROWEST)
        )
        subtract_product(left, right[:, :width], out[row:, column:next_column])
        subtract_product(left[:height], right[:, width:], out[row:next_row, next_column:])
        following = self._factor_panels(k + 1)
        self.team.finish(lambda: MPI.Request.Testall(following.requests))
        return following

    def _factor_panels(self, k: int) -> Panels:
        """Factorise block column and row k, and begin to broadcast them."""
        if k >= self.blocks:
            return Panels(np.empty((0, 0), np.float32), np.empty((0, 0), np.float32))
        start = k * self.nb
        first_row, first_column = self.rows.count(start), self.columns.count(start)
        row, column = self._behind(k)
        owner_row, owner_column = self.rows.owner(start), self.columns.owner(start)
        on_row, on_column = self.rows.part == owner_row, self.columns.part == owner_column
        size = min(self.nb, self.rows.n - start)
        block = np.empty((size, size), np.float32)
        if on_row and on_column:
            place = self.matrix[first_row:row, first_column:column]
            block[:] = place.T
            factor_block(block, self.storage)
            place[:] = block.T
        left, right = self.matrix[row:, first_column:column], self.matrix[first_row:row, column:]
        if on_column:
            self.grid.along_column.Bcast(block, owner_row)
        if on_row:
            self.grid.along_row.Bcast(block, owner_column)
        if on_column:
            solve_upper_from_right(block.T, left)
            formats.round_to(self.storage, left)
        if on_row:
            solve_lower(block.T, right)
            formats.round_to(self.storage, right)
        panels = Panels(left, right)
        for_left, for_right = self._buffers[k % 2]
        if self.columns.parts > 1:
            panels.left = _shape(for_left, self.rows.count() - row, size)
            if on_column:
                panels.left[:] = left
            panels.requests.append(self.grid.along_row.Ibcast(_flat(panels.left), owner_column))
        if self.rows.parts > 1:
            panels.right = _shape(for_right, size, self.columns.count() - column)
            if on_row:
                panels.right[:] = right
            panels.requests.append(self.grid.along_column.Ibcast(_flat(panels.right), owner_row))
        return panels


def _shape(memory: NDArray[np.float32], rows: int, columns: int) -> Matrix:
    """Return the beginning of a buffer as a column-major matrix."""
    return memory[: rows * columns].reshape(columns, rows).T


def _flat(matrix: Matrix) -> NDArray[np.float32]:
    return matrix.T.reshape(-1)


def factor_block(block: NDArray[np.float32], storage: str) -> None:
    """Replace a diagonal block by its factors, then round them. block: [column, row], contiguous."""
    matrix = block.T
    for first in range(0, len(block), _INNER):
        last = min(first + _INNER, len(block))
        eliminate(block, first, last)
        inner = matrix[first:last, first:last]
        solve_upper_from_right(inner, matrix[last:, first:last])
        solve_lower(inner, matrix[first:last, last:])
        subtract_product(matrix[last:, first:last], matrix[first:last, last:], matrix[last:, last:])
    formats.round_to(storage, matrix)


def kernels() -> list[Specialisation]:
    """Return the kernels that a `MxpFactors` calls."""
    return [*specialise([eliminate]), *formats.kernels()]
