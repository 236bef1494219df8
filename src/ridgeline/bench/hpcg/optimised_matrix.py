"""The matrices of the optimised implementation: HPCG's optimisation phase, and the bytes that an iteration moves.

Rows are reordered by their wavefront in natural-order Gauss-Seidel (sparse/wavefronts.py), which lies above the
wavefronts of the lower-numbered rows that the row needs. A sweep in the new order gives the result of the natural
order to rounding, and the rows of one wavefront do not depend on each other. The matrix is then split by position
into the diagonal, the columns of other ranks, and the strictly lower and strictly upper triangle. Each triangle is
stored as strips of rows that share one list of columns (sparse/row_strips.py). The rows and columns that transfers
between grids need are stored a second time, separately. A *level* is a grid of multigrid throughout.

All of this follows from the matrix, the halo plan and the list of coarse points; the code knows nothing of the
problem.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.bench.hpcg.problem import HpcgLevel
from ridgeline.sparse.external_columns import SparseRows, external_rows, has_external
from ridgeline.sparse.grid_transfer import SparseBlocks, StripRows, extract_rows, upper_blocks
from ridgeline.sparse.halo import SparseHaloPlan
from ridgeline.sparse.row_strips import Strips, make_triangles
from ridgeline.sparse.wavefronts import WHOLE, block_rows, number_wavefronts, order_by_wavefront

Array = NDArray[np.float64]
Indices = NDArray[np.int32]


_VALUE = 8  # bytes of a float64
# The vectors of n rows that the passes over a level stream (bench.hpcg.multigrid names the passes). Each pass counts
# every array that it streams once; a store counts once, as STREAM counts it, and the halo not at all. The share of
# the memory's bandwidth is computed from these counts and not from those of the specification, which are the bytes
# of its reference code.
_FORWARD_ZERO = 4  # r, inverse diagonal, x, half_product
_BACKWARD = 3  # half_product, inverse diagonal, x
_COARSE_RESIDUAL = 1  # x
_ADD_PRODUCT = 2  # half_product, read and written
_FORWARD = 6  # r, inverse diagonal, half_product and x, read and written
_COARSE_POINTS = 4  # of the coarse rows: r, half_product, coarse r; correction
_PRODUCT = 3  # diagonal, p, Ap
_VECTORS = 3 + 5  # r -= alpha Ap: r twice, Ap; x += alpha p, p = z + beta p: x and p twice, z

# The cost of threads in a sweep, in rows that one thread sweeps in the same time (2.5 ns each on Zen 5): waking and
# joining sleeping workers (0.1 ms), and waiting for each other at a wavefront (0.25 us). The costs are
# constants and not measured at run time, because the order of the rows, and with it the bits, depends on them.
REGION_ROWS = 40_000
BARRIER_ROWS = 100


def sharing_pays(n_rows: int, n_fronts: int) -> bool:
    """Return whether two threads sweep n_rows rows in n_fronts wavefronts faster than one.

    The answer is also used for more than two threads, so that the bits do not depend on their number.
    """
    return n_rows // 2 > REGION_ROWS + BARRIER_ROWS * n_fronts


@dataclass
class Transfer:
    """The coupling of a level to the next coarser grid of m points, in the new orders of both.

    Attributes
    ----------
    lower : L at the fine rows of the coarse points, ascending
    points : int32 [m], the coarse points of those rows
    external : the external columns at those rows, which are numbered by coarse point
    upper : U P, the columns of U that are coarse points
    sent, sent_points : int32, the fine rows of coarse points that other ranks have as external columns, and the
        points
    """

    lower: StripRows
    points: Indices
    external: SparseRows
    upper: SparseBlocks
    sent: Indices
    sent_points: Indices


@dataclass
class OptimisedLevel:
    """The matrix of one level in the new order of its n rows.

    Attributes
    ----------
    order, new_number : int32 [n], the natural row of each new row, and the inverse
    lower, upper : L and U as strips of rows
    diagonal, inverse_diagonal : float64 [n]
    external : H, the columns of other ranks, by rows
    plan : exchanges the halo of a vector in the new order
    transfer, coarse : the coupling to the next coarser level, and that level; None on the coarsest
    n_threads : threads that share the passes over this level
    """

    order: Indices
    new_number: Indices
    lower: Strips
    upper: Strips
    diagonal: Array
    inverse_diagonal: Array
    external: SparseRows
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
    """Return the reordered form of a level and of all coarser ones. Compiled work, no communication.

    level: as `generate_problem` makes it, not changed. n_threads: for one thread, rows are ordered in blocks that
    caches hold. For several, rows are ordered into the fewest and widest wavefronts where `sharing_pays`;
    elsewhere one thread does the work.
    """
    coarse = None if level.coarse is None else optimise(level.coarse, n_threads)
    matrix = level.matrix
    # The wavefront of each row, for as many threads as will share the passes.
    sharing = n_threads
    if n_threads > 1:
        fronts = number_wavefronts(matrix.indptr, matrix.columns, WHOLE)
        if not sharing_pays(fronts.size, int(fronts.max(initial=-1)) + 1):
            sharing = 1
    if sharing == 1:
        block = block_rows(matrix.indptr, matrix.columns)
        fronts = number_wavefronts(matrix.indptr, matrix.columns, block)
    order, new_number, front_rows = order_by_wavefront(fronts)
    lower, upper = make_triangles(*matrix.csr, order, new_number, front_rows)
    diagonal = matrix.values[matrix.diagonal[order]]
    has_columns = has_external(matrix.indptr, matrix.columns)
    external = external_rows(order, has_columns, matrix.csr)
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
            lower=extract_rows(rows, lower),
            points=coarse_number[rows],
            external=external_rows(natural_fine, has_columns, matrix.csr),
            upper=upper_blocks(upper, coarse_number),
            sent=sent,
            sent_points=coarse_number[sent],
        )
    return OptimisedLevel(
        order, new_number, lower, upper, diagonal, 1.0 / diagonal, external, plan, transfer, coarse, sharing
    )


def _bytes(part: Any) -> int:
    """Return the bytes of an array, or of all arrays in a tuple or data class, coarser levels left out."""
    if isinstance(part, np.ndarray):
        return part.nbytes
    if isinstance(part, tuple):
        return sum(_bytes(field) for field in part)
    if isinstance(part, OptimisedLevel | Transfer | SparseHaloPlan):
        fields = vars(part).items()
        return sum(_bytes(value) for name, value in fields if name != "coarse")
    return 0


def bytes_per_iteration(level: OptimisedLevel) -> int:
    """Return the bytes that one iteration of CG moves to and from memory on this rank. level: the finest."""
    product = _bytes_moved(level.lower, level.upper, level.external) + _PRODUCT * _VALUE * level.n_rows
    dot = _VALUE * level.n_rows  # r, in the last sweep
    return product + _VECTORS * _VALUE * level.n_rows + bytes_per_cycle(level) + dot


def bytes_per_cycle(level: OptimisedLevel) -> int:
    """Return the bytes that one multigrid cycle moves from this level down, on this rank."""
    row = _VALUE * level.n_rows
    triangles = _bytes_moved(level.lower, level.upper)
    sweep = triangles + (_FORWARD_ZERO + _BACKWARD) * row
    if level.coarse is None or level.transfer is None:
        return sweep
    transfer = level.transfer
    between = _bytes_moved(transfer.lower, transfer.points, transfer.external, transfer.upper)
    between += (_COARSE_RESIDUAL + _ADD_PRODUCT) * row + _COARSE_POINTS * _VALUE * level.coarse.n_rows
    second = triangles + _bytes_moved(level.external) + (_FORWARD + _BACKWARD) * row
    return sweep + between + second + bytes_per_cycle(level.coarse)


def _bytes_moved(*parts: Any) -> int:
    return sum(part.nbytes if isinstance(part, np.ndarray) else _bytes_moved(*part) for part in parts)
