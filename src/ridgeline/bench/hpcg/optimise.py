"""What the optimised implementation makes of a matrix before it runs: HPCG's optimisation phase.

Rows are put into the order of their dependency level in natural-order Gauss-Seidel (sparse/levels.py): above
the levels of the lower-numbered rows that a row needs. A sweep in the new order gives the result of natural order, to
rounding, and rows of one level do not need each other. The matrix is then split by position into the diagonal, the
columns of other ranks, and the strictly lower and strictly upper triangle. Each triangle is stored as runs of rows
that share one list of columns (sparse/runs.py). The rows and columns that transfers between grids need are stored a
second time, apart.

Everything is found from the matrix, the halo plan and the list of coarse points; nothing of the problem is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.bench.hpcg.problem import HpcgLevel, SparseMatrix
from ridgeline.sparse.halo import SparseHaloPlan
from ridgeline.sparse.levels import WHOLE, block_rows, dependency_levels, level_order
from ridgeline.sparse.runs import Runs, make_triangles
from ridgeline.sparse.select import chosen_rows, external_rows, has_external, upper_blocks
from ridgeline.sparse.transfer import RunRows, SparseBlocks, SparseRows

Array = NDArray[np.float64]
Indices = NDArray[np.int32]


# What threads cost a sweep, in rows that one thread sweeps meanwhile (2.5 ns each on Zen 5): waking and joining
# workers that sleep (0.1 ms), and waiting for each other at a dependency level (0.25 us). They are not measured where
# they are used: the order of the rows, and so the bits, depend on them.
REGION_ROWS = 40_000
BARRIER_ROWS = 100


def sharing_pays(n_rows: int, n_levels: int) -> bool:
    """Return whether two threads sweep n_rows rows in n_levels dependency levels faster than one.

    More threads are told the same, so that any number of several gives the same bits.
    """
    return n_rows // 2 > REGION_ROWS + BARRIER_ROWS * n_levels


@dataclass
class Transfer:
    """What joins a level to the next coarser grid of m points, all in the new orders of both.

    lower: L at the fine rows of the coarse points, ascending; points: int32 [m], their coarse points. boundary: the
    external columns there, rows called by coarse point.
    upper: U P, the columns of U that are coarse points. sent, sent_points: int32, the fine rows of coarse points that
    other ranks have as external columns, and those points.
    """

    lower: RunRows
    points: Indices
    boundary: SparseRows
    upper: SparseBlocks
    sent: Indices
    sent_points: Indices


@dataclass
class OptimisedLevel:
    """One level's matrix of n rows in the new order: L, U (runs), diagonal float64 [n], H by rows, halo plan.

    order: int32 [n], the natural row of each new row; new_number: its inverse. n_threads: how many share its passes.
    """

    order: Indices
    new_number: Indices
    lower: Runs
    upper: Runs
    diagonal: Array
    inverse_diagonal: Array
    boundary: SparseRows
    plan: SparseHaloPlan
    transfer: Transfer | None
    coarse: OptimisedLevel | None
    n_threads: int

    @property
    def n_rows(self) -> int:
        """Rows of this rank on this level."""
        return self.order.size

    def set_diagonal(self, natural: Array) -> None:
        """Replace the diagonal by float64 [n] in natural order."""
        self.diagonal[:] = natural[self.order]
        np.divide(1.0, self.diagonal, out=self.inverse_diagonal)

    def memory(self) -> int:
        """Return the bytes of the arrays of this level and the coarser ones."""
        return _bytes(self) + (0 if self.coarse is None else self.coarse.memory())


def optimise(level: HpcgLevel, n_threads: int = 1) -> OptimisedLevel:
    """Return the new form of a level and of all coarser ones. Compiled work, no communication.

    level: as `generate_problem` makes it; it is read, never changed. n_threads: one thread gets its rows by blocks
    that caches hold. Several get the fewest and widest levels where `sharing_pays`; elsewhere one works.
    """
    coarse = None if level.coarse is None else optimise(level.coarse, n_threads)
    matrix = level.matrix
    sharing, levels = _dependency(matrix, n_threads)
    order, new_number, level_rows = level_order(levels)
    lower, upper = make_triangles(*matrix.csr, order, new_number, level_rows)
    diagonal = matrix.values[matrix.diagonal[order]]
    external = has_external(matrix.indptr, matrix.columns)
    boundary = external_rows(order, external, matrix.csr)
    plan = matrix.plan.renumbered(new_number)
    transfer = None
    if coarse is not None and level.fine_of_coarse is not None:
        natural_fine = level.fine_of_coarse[coarse.order]
        fine = new_number[natural_fine]
        coarse_number = np.full(order.size, -1, np.int32)
        coarse_number[fine] = np.arange(fine.size, dtype=np.int32)
        sent = np.unique(plan.send_index)
        sent = sent[coarse_number[sent] >= 0]
        rows = np.flatnonzero(coarse_number >= 0).astype(np.int32)
        transfer = Transfer(
            lower=chosen_rows(rows, lower),
            points=coarse_number[rows],
            boundary=external_rows(natural_fine, external, matrix.csr),
            upper=upper_blocks(upper, coarse_number),
            sent=sent,
            sent_points=coarse_number[sent],
        )
    return OptimisedLevel(
        order, new_number, lower, upper, diagonal, 1.0 / diagonal, boundary, plan, transfer, coarse, sharing
    )


def _dependency(matrix: SparseMatrix, n_threads: int) -> tuple[int, Indices]:
    """Return how many threads share the passes of a matrix, and the dependency level of each row for so many."""
    if n_threads > 1:
        levels = dependency_levels(matrix.indptr, matrix.columns, WHOLE)
        if sharing_pays(levels.size, int(levels.max(initial=-1)) + 1):
            return n_threads, levels
    block = block_rows(matrix.indptr, matrix.columns)
    return 1, dependency_levels(matrix.indptr, matrix.columns, block)


def _bytes(part: Any) -> int:
    """Return the bytes of an array, or of all arrays among the fields of a tuple or data class, not of levels."""
    if isinstance(part, np.ndarray):
        return part.nbytes
    if isinstance(part, tuple):
        return sum(_bytes(field) for field in part)
    if isinstance(part, OptimisedLevel | Transfer | SparseHaloPlan):
        fields = vars(part).items()
        return sum(_bytes(value) for name, value in fields if name != "coarse")
    return 0
