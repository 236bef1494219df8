"""The two-dimensional block-cyclic distribution of HPL: who owns which rows and columns, and the process grid.

The matrix of N rows and N + 1 columns, the last one b, is cut into blocks of NB x NB. Block (I, J) belongs to the
process (I mod P, J mod Q) of a P x Q grid. Every process stores its blocks one after the other, as one matrix.
Source: Petitet, Whaley, Dongarra, Cleary, "HPL", overview, "Main algorithm".
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.bench.hpl.record import HplSettings, Order
from ridgeline.runtime.errors import DecompositionError

IndexLike = TypeVar("IndexLike", int, NDArray[np.int64])
RIGHT_SHARE = 0.5  # share of the local columns in the right part of the split update


@dataclass(frozen=True)
class Axis:
    """One direction of the distribution, as seen by one process.

    n: global rows or columns; nb: rows or columns of a block; parts: processes in this direction; part: this process.
    """

    n: int
    nb: int
    parts: int
    part: int

    def count(self, first_global: int | None = None, part: int | None = None) -> int:
        """Return how many of the indices below first_global (default: all) `part` (default: this process) owns."""
        n = self.n if first_global is None else min(first_global, self.n)
        part = self.part if part is None else part
        blocks, rest = divmod(n, self.nb)
        rounds, more = divmod(blocks, self.parts)
        return rounds * self.nb + (self.nb if part < more else rest if part == more else 0)

    def owner(self, index: IndexLike) -> IndexLike:
        """Return which part owns a global index, or each of an array of them."""
        return index // self.nb % self.parts

    def local(self, index: IndexLike) -> IndexLike:
        """Return the local index of a global one on its owner, or of each of an array of them."""
        return index // (self.nb * self.parts) * self.nb + index % self.nb

    def globals(self) -> NDArray[np.int64]:
        """Return the global indices of this part in the order of the local ones, int64 [count()]."""
        local = np.arange(self.count())
        return (local // self.nb * self.parts + self.part) * self.nb + local % self.nb


@dataclass(frozen=True)
class BlockCyclic:
    """The place of one process in the distribution. rows: of A; columns: of A and of b, which is the last one."""

    rows: Axis
    columns: Axis

    @property
    def shape(self) -> tuple[int, int]:
        """The local (rows, columns)."""
        return self.rows.count(), self.columns.count()

    @property
    def unknowns(self) -> Axis:
        """The columns of A, without b."""
        return replace(self.columns, n=self.rows.n)


def grid_place(p: int, q: int, rank: int, order: Order) -> tuple[int, int]:
    """Return the (row, column) of a rank in the P x Q grid, whose ranks are numbered along rows or columns."""
    return divmod(rank, q) if order == "row" else (rank % p, rank // p)


def check_grid(n_ranks: int, p: int, q: int) -> None:
    """Raise DecompositionError unless P x Q is the number of ranks."""
    if p * q != n_ranks:
        grids = ", ".join(
            f"{rows} x {n_ranks // rows}" for rows in range(1, n_ranks + 1) if n_ranks % rows == 0
        )
        raise DecompositionError(
            f"a {p} x {q} grid requires {p * q} ranks, but there {'is 1' if n_ranks == 1 else f'are {n_ranks}'}. "
            f"Possible grids: {grids}."
        )


def distribute(n: int, nb: int, grid: tuple[int, int], place: tuple[int, int]) -> BlockCyclic:
    """Return what the process at `place` of a P x Q grid owns of N rows and N + 1 columns."""
    return BlockCyclic(Axis(n, nb, grid[0], place[0]), Axis(n + 1, nb, grid[1], place[1]))


class ProcessGrid(NamedTuple):
    """A process's part of the system, and the communicators of its row and its column of the grid.

    Both are ordered by place: the ranks of row_comm by column, those of column_comm by row.
    """

    place: BlockCyclic
    row_comm: MPI.Comm
    column_comm: MPI.Comm


@contextmanager
def make_grid(comm: MPI.Comm, settings: HplSettings) -> Iterator[ProcessGrid]:
    """Yield this rank's place and the communicators of its row and its column. Collective over comm."""
    p, q = settings.p, settings.q
    row, column = grid_place(p, q, comm.rank, settings.order)
    row_comm, column_comm = comm.Split(row, column), comm.Split(column, row)
    try:
        yield ProcessGrid(distribute(settings.n, settings.nb, (p, q), (row, column)), row_comm, column_comm)
    finally:
        row_comm.Free()
        column_comm.Free()


class ColumnParts(NamedTuple):
    """Local columns right of a panel: their start, the end of the next panel's, the end of the left part, the end."""

    start: int
    ahead: int
    split: int
    stop: int


class PanelColumns:
    """The columns of panels on this process. columns: of A and b; divided: whether an update has two parts."""

    def __init__(self, columns: Axis, divided: bool) -> None:
        self._columns, self._n, self._nb = columns, columns.n - 1, columns.nb
        count = columns.count()
        self._split = count - int(RIGHT_SHARE * count) if divided else count

    def after(self, first: int) -> int:
        """Return the global column after the panel at global column `first`, N after the last panel."""
        return min(first + self._nb, self._n)

    def here(self, first: int) -> int:
        """Return how many columns of the panel at global column `first` this process has: all or none."""
        columns, left = self._columns, self._n - first
        return min(self._nb, left) if left > 0 and columns.owner(first) == columns.part else 0

    def right_of(self, first: int) -> ColumnParts:
        """Return the local columns right of the panel at global column `first`."""
        after = self.after(first)
        start, stop = self._columns.count(after), self._columns.count()
        ahead = start + self.here(after)
        # Where the next panel's columns would lie in the right part, only one part is left.
        return ColumnParts(start, ahead, self._split if ahead <= self._split else stop, stop)
