"""What the optimised path makes of a matrix before it runs: HPCG's optimisation phase.

Rows are put into the order of their dependency level in natural-order Gauss-Seidel: a row's level is one more than the
highest level of the lower-numbered rows it needs. A sweep in the new order computes what the sweep in natural order
does, to rounding, and rows of one level do not need each other. The matrix is then split by position: strictly lower
and strictly upper triangle, each as runs of rows that share one list of columns (kernels/sparse_runs.py), the diagonal,
and the columns of other ranks; rows and columns that the transfers between grids need are stored a second time, apart.

Everything is found from the matrix, the halo plan and the list of coarse points; nothing of the problem is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.bench.hpcg.problem import Level
from ridgeline.comm.sparse_halo import SparseHaloPlan
from ridgeline.kernels.sparse_levels import dependency_levels, level_order
from ridgeline.kernels.sparse_runs import Runs, make_halves
from ridgeline.kernels.sparse_select import external_rows, lower_rows, upper_blocks
from ridgeline.kernels.sparse_transfer import SparseBlocks, SparseRows

Array = NDArray[np.float64]
Indices = NDArray[np.int32]


@dataclass
class Transfer:
    """What joins a level to the next coarser grid of m points, all in the new orders of both.

    fine: int32 [m], the fine row of each coarse point. lower: L at those rows. boundary: their external columns,
    rows called by coarse point. upper: U P, the columns of U that are coarse points.
    """

    fine: Indices
    lower: SparseRows
    boundary: SparseRows
    upper: SparseBlocks


@dataclass
class OptimisedLevel:
    """One level's matrix of n rows in the new order: L, U (runs), diagonal float64 [n], H by rows, halo plan.

    order: int32 [n], the natural row of each new row; new_number: its inverse.
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


def optimise(level: Level) -> OptimisedLevel:
    """Return the new form of a level and of all coarser ones. Compiled work, no communication.

    level: as `generate_problem` makes it; it is read, never changed.
    """
    coarse = None if level.coarse is None else optimise(level.coarse)
    matrix = level.matrix
    order, new_number, level_rows = level_order(dependency_levels(matrix.indptr, matrix.columns))
    rows = matrix.indptr, matrix.columns, matrix.values
    lower, upper = make_halves(*rows, order, new_number, level_rows)
    diagonal = matrix.values[matrix.diagonal[order]]
    boundary = external_rows(order, np.arange(order.size, dtype=np.int32), *rows, new_number)
    transfer = None
    if coarse is not None and level.fine_of_coarse is not None:
        transfer = _transfer(level.fine_of_coarse, coarse.order, rows, order, new_number)
    plan = matrix.plan.renumbered(new_number)
    return OptimisedLevel(
        order, new_number, lower, upper, diagonal, 1.0 / diagonal, boundary, plan, transfer, coarse
    )


def _transfer(
    fine_of_coarse: Indices, coarse_order: Indices, rows: tuple[Any, ...], order: Indices, new_number: Indices
) -> Transfer:
    natural_fine = fine_of_coarse[coarse_order]
    points = np.arange(natural_fine.size, dtype=np.int32)
    coarse_number = np.full(order.size, -1, np.int32)
    coarse_number[natural_fine] = points
    return Transfer(
        fine=new_number[natural_fine],
        lower=lower_rows(natural_fine, *rows, new_number),
        boundary=external_rows(natural_fine, points, *rows, new_number),
        upper=upper_blocks(order, *rows, new_number, coarse_number),
    )


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
