"""One V-cycle of algebraic multigrid for the coarse problem, rows distributed over ranks.

Levels with many rows are distributed: a rank keeps its rows, and before a product its neighbours send the values of
the other rows that it needs. Every rank has the whole of levels of at most WHOLE rows, which saves latency: one
Allgatherv on the way down, no message on the way up. The smoothers are Chebyshev polynomials of D^-1 A, before and
after the next level (Adams, Brezina, Hu and Tuminaro, J. Comput. Phys. 188 (2003) 593). The coarsest level is solved
by its pseudo-inverse, which leaves out a free constant. The cycle is symmetric. Set-up: `hierarchy`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike

from ridgeline.elements.coarse.direct import Field
from ridgeline.elements.coarse.hierarchy import AlgebraicLevel, build_hierarchy
from ridgeline.elements.multigrid.level import PolynomialLevel
from ridgeline.jit.kernel import compile_kernels, specialise
from ridgeline.parallel.communicator import compile_on_nodes
from ridgeline.sparse import halo
from ridgeline.sparse import rows as sparse_rows
from ridgeline.sparse.distributed import DistributedMatrix

if TYPE_CHECKING:
    from mpi4py import MPI

DEGREE = 3  # products with A in a Chebyshev smoothing, the first with zero
WIDTH = 6.0  # of the interval of eigenvalues that it damps: largest / smallest
EXCHANGES = (2 * DEGREE, 1, 1)  # in a cycle, of the columns of A, P^T and P

_KERNELS = (
    sparse_rows.gather,
    sparse_rows.residual,
    sparse_rows.chebyshev_start,
    sparse_rows.chebyshev_step,
    sparse_rows.add,
    sparse_rows.multiply,
    sparse_rows.multiply_add,
)


@dataclass(frozen=True)
class CoarseCost:
    """Memory and messages of one rank in an algebraic coarse solver.

    rows: of the finest level. distributed: bytes of levels that are distributed by rows. whole: bytes of levels that
    every rank has as a whole. messages, sent: messages to neighbours in a cycle, and their bytes. gathered: bytes of
    the vector that one Allgatherv brings. The lists of the sum over elements are not included; they grow only with
    the number of this rank's elements.
    """

    rows: int
    distributed: int
    whole: int
    messages: int
    sent: int
    gathered: int


class _Rows:
    """This rank's rows of a matrix in the form that kernels need, and the vector that they are multiplied by."""

    def __init__(self, matrix: DistributedMatrix, dtype: DTypeLike) -> None:
        local = matrix.local
        self.arrays = (
            local.indptr.astype(np.int64),
            local.indices.astype(np.int32),
            np.ascontiguousarray(local.data, dtype),
        )
        self.vector = halo.HaloVector(matrix.columns.comm, matrix.plan, dtype)
        self.x = self.vector.values

    @property
    def nbytes(self) -> int:
        """Bytes of the matrix, the vector, its messages and their lists."""
        index = self.vector.plan.send_index
        return sum(a.nbytes for a in self.arrays) + self.x.nbytes + index.nbytes + self.vector.bytes_sent

    def set(self, own: Field) -> None:
        """Set the vector from this rank's part of it. Communication: neighbours."""
        self.vector.owned[:] = own
        self.vector.exchange()


class _Smoothed:
    """A level with its smoother and its transfers to the next level. x, b: of this rank's rows."""

    def __init__(self, level: AlgebraicLevel, dtype: DTypeLike) -> None:
        assert level.restriction is not None
        assert level.prolongation is not None
        self.matrix = _Rows(level.matrix, dtype)
        self.restriction, self.prolongation = (
            _Rows(level.restriction, dtype),
            _Rows(level.prolongation, dtype),
        )
        self.inverse_diagonal = np.ascontiguousarray(1.0 / level.matrix.local.diagonal(), dtype)
        self.b, self.direction = np.zeros((2, level.matrix.rows.count), dtype)
        self.x = self.matrix.vector.owned
        self.r = self.restriction.x
        self.below = np.zeros(level.restriction.rows.count, dtype)
        high = 1.1 * level.spectral_radius
        low = high / WIDTH
        middle, half = (high + low) / 2.0, (high - low) / 2.0
        self.first = np.array([1.0 / middle], dtype)
        self.factors: list[Field] = []
        rho = half / middle
        for _ in range(DEGREE - 1):
            new = 1.0 / (2.0 * middle / half - rho)
            self.factors.append(np.array([new * rho, 2.0 * new / half], dtype))
            rho = new

    @property
    def operators(self) -> tuple[_Rows, _Rows, _Rows]:
        """A, P^T and P."""
        return self.matrix, self.restriction, self.prolongation

    @property
    def nbytes(self) -> int:
        """Bytes of matrices, vectors and lists."""
        own = (self.b, self.direction, self.inverse_diagonal, self.below)
        return sum(each.nbytes for each in (*self.operators, *own))

    def smooth(self, fresh: bool) -> None:
        """Improve x for A x = b. fresh: start from x = 0."""
        matrix, r, direction = self.matrix, self.r, self.direction
        if not fresh:
            matrix.vector.exchange()
            sparse_rows.residual(*matrix.arrays, self.b, matrix.x, r)
        sparse_rows.chebyshev_start(
            self.inverse_diagonal, self.first, self.b if fresh else r, direction, matrix.x, fresh
        )
        for factors in self.factors:
            matrix.vector.exchange()
            sparse_rows.chebyshev_step(
                *matrix.arrays, self.inverse_diagonal, factors, self.b, matrix.x, r, direction
            )
            sparse_rows.add(direction, matrix.x)

    def restrict(self) -> None:
        """Set below = P^T (b - A x), this rank's rows of it."""
        self.matrix.vector.exchange()
        sparse_rows.residual(*self.matrix.arrays, self.b, self.matrix.x, self.r)
        self.restriction.vector.exchange()
        sparse_rows.multiply(*self.restriction.arrays, self.r, self.below)

    def prolong(self, below: Field) -> None:
        """Set x += P below. below: this rank's part of the next level."""
        self.prolongation.set(below)
        sparse_rows.multiply_add(*self.prolongation.arrays, self.prolongation.x, self.x)


class AlgebraicCoarse:
    """An approximation of K^-1 on the points of the coarse level by one V-cycle. Construction is collective.

    overlap: whether the sum over elements overlaps with computing (`GatherScatter`). The exchange of rows does not.
    """

    def __init__(
        self,
        comm: MPI.Comm,
        fine: PolynomialLevel,
        coarse: PolynomialLevel,
        dtype: DTypeLike,
        overlap: bool = True,
    ) -> None:
        self._comm, self.dtype = comm, np.dtype(dtype)
        hierarchy = build_hierarchy(comm, fine, coarse, overlap)
        levels = hierarchy.levels
        kernels = [*specialise(_KERNELS, self.dtype), *halo.kernels(self.dtype)]
        compile_on_nodes(comm, lambda: compile_kernels(kernels))
        self._rows = [level.matrix.rows.total for level in levels]
        self._first_whole = next(
            place for place, level in enumerate(levels) if level.matrix.rows.comm.size == 1
        )
        # The rows by which the values of the first whole level are distributed over the ranks.
        above = levels[self._first_whole - 1].restriction if self._first_whole else None
        self._spread = above.rows if above else hierarchy.rows
        self._smoothed = [_Smoothed(level, dtype) for level in levels[:-1]]
        self._inverse = np.ascontiguousarray(hierarchy.coarsest, dtype)
        self._last_b, self._last_x = np.zeros((2, self._rows[-1]), dtype)
        rows, number = hierarchy.rows, hierarchy.number.reshape(-1)
        # One copy of each of this rank's finest rows among its elements' points.
        own = np.flatnonzero((number >= rows.first) & (number < rows.first + rows.count))
        self._place = np.zeros(rows.count, np.int64)
        self._place[number[own] - rows.first] = own
        self._finest = slice(rows.first, rows.first + rows.count) if self._first_whole == 0 else slice(None)
        self._points = hierarchy.points
        self._points.compile(dtypes=(self.dtype,))
        self._own = np.zeros(rows.count, self.dtype)
        self._assembled = np.zeros(coarse.shape, self.dtype)

    def _b(self, place: int) -> Field:
        return self._smoothed[place].b if place < len(self._smoothed) else self._last_b

    def _x(self, place: int) -> Field:
        return self._smoothed[place].x if place < len(self._smoothed) else self._last_x

    def _enter(self, place: int, own: Field) -> None:
        """Set b of a level from the part that this rank computed. Collective at the first whole level."""
        if place == self._first_whole and self._comm.size > 1:
            self._comm.Allgatherv(own, [self._b(place), self._spread.counts])
        else:
            self._b(place)[:] = own

    def solve(self, residual: Field, correction: Field) -> None:
        """Set the correction to one V-cycle on the assembled residual."""
        assembled = self._assembled
        np.copyto(assembled.reshape(-1), residual)
        self._points.sum(assembled)
        sparse_rows.gather(self._place, assembled.reshape(-1), self._own)
        self._enter(0, self._own)
        last = len(self._smoothed)
        for place, level in enumerate(self._smoothed):
            level.smooth(fresh=True)
            level.restrict()
            self._enter(place + 1, level.below)
        np.dot(self._inverse, self._last_b, out=self._last_x)
        for place in reversed(range(last)):
            level = self._smoothed[place]
            level.prolong(self._x(place + 1))
            level.smooth(fresh=False)
        assembled[...] = 0.0
        assembled.reshape(-1)[self._place] = self._x(0)[self._finest]
        self._points.sum(assembled)
        np.copyto(correction, assembled.reshape(-1))

    def cost(self) -> CoarseCost:
        """Return the cost on this rank; `algebraic_cost.count_ranks` counts the same for any number of ranks."""
        shared, messages, values = self._smoothed[: self._first_whole], 0, 0
        for level in shared:
            for rows, exchanges in zip(level.operators, EXCHANGES):
                messages += exchanges * int(np.count_nonzero(np.diff(rows.vector.plan.send_starts)))
                values += exchanges * rows.vector.plan.send_index.size
        points = self._points.plan.shared
        return CoarseCost(
            rows=self._own.size,
            distributed=sum(level.nbytes for level in shared),
            whole=sum(level.nbytes for level in self._smoothed[self._first_whole :]) + self._inverse.nbytes,
            messages=messages + 2 * len(points.ranks),
            sent=(values + 2 * points.send_index.size) * self.dtype.itemsize,
            gathered=self._rows[self._first_whole] * self.dtype.itemsize,
        )

    def describe(self) -> str:
        first_whole_rows = self._rows[self._first_whole]
        rows = " -> ".join(map(str, self._rows))
        return f"algebraic multigrid on {rows} rows, complete on every rank from {first_whole_rows} rows on"
