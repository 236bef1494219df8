"""The two-dimensional block-cyclic distribution of HPL: who owns which rows and columns. No communication.

The matrix of N rows and N + 1 columns, the last one b, is cut into blocks of NB x NB. Block (I, J) belongs to the
process (I mod P, J mod Q) of a P x Q grid. Every process stores its blocks one after the other, as one matrix.
Source: Petitet, Whaley, Dongarra, Cleary, "HPL", overview, "Main algorithm".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from ridgeline.runtime.errors import DecompositionError

Order = Literal["row", "column"]
IndexLike = TypeVar("IndexLike", int, NDArray[np.int64])


@dataclass(frozen=True)
class Axis:
    """One direction of the distribution, seen by one process.

    n: global rows or columns; nb: of a block; parts: processes in this direction; part: this one.
    """

    n: int
    nb: int
    parts: int
    part: int

    def count(self, first_global: int | None = None, part: int | None = None) -> int:
        """Return how many of the indices below first_global (all, without it) `part` (this one) owns."""
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
        """Return the global indices of this part, in the order of local ones, int64 [count()]."""
        local = np.arange(self.count())
        return (local // self.nb * self.parts + self.part) * self.nb + local % self.nb


@dataclass(frozen=True)
class BlockCyclic:
    """The place of one process in the distribution: rows of A; columns of A and b, which is the last one."""

    rows: Axis
    columns: Axis

    @property
    def shape(self) -> tuple[int, int]:
        """The local (rows, columns)."""
        return self.rows.count(), self.columns.count()


def grid_place(p: int, q: int, rank: int, order: Order) -> tuple[int, int]:
    """Return the (row, column) of a rank in the P x Q grid, whose ranks are numbered along rows or columns."""
    return divmod(rank, q) if order == "row" else (rank % p, rank // p)


def check_grid(n_ranks: int, p: int, q: int) -> None:
    """Raise DecompositionError unless P x Q is the number of ranks."""
    if p * q != n_ranks:
        grids = ", ".join(
            f"{rows} x {n_ranks // rows}" for rows in range(1, n_ranks + 1) if n_ranks % rows == 0
        )
        raise DecompositionError(f"a {p} x {q} grid needs {p * q} ranks, not {n_ranks}; possible are {grids}")


def distribute(n: int, nb: int, grid: tuple[int, int], place: tuple[int, int]) -> BlockCyclic:
    """Return what the process at `place` of a P x Q grid owns of N rows and N + 1 columns."""
    return BlockCyclic(Axis(n, nb, grid[0], place[0]), Axis(n + 1, nb, grid[1], place[1]))
