"""One V-cycle of algebraic multigrid for the coarse problem, rows distributed over ranks.

Levels with many rows are distributed. A rank keeps its rows, and a neighbour exchange before every product brings the
values of other ranks' rows. Every rank holds levels of at most WHOLE rows, which saves latency: one Allgatherv on the
way down, no message on the way up. Smoothing: Chebyshev polynomials of D^-1 A before and after (Adams, Brezina, Hu
and Tuminaro, J. Comput. Phys. 188 (2003) 593); the coarsest level by its pseudo-inverse, which leaves a free constant
out. The cycle is symmetric. Set-up: `amg_setup`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ridgeline.elements.amg_setup import Hierarchy, Rows, set_up
from ridgeline.elements.coarse import Field
from ridgeline.elements.gather_scatter import GatherScatter
from ridgeline.elements.multigrid_level import PolynomialLevel
from ridgeline.jit.kernel import compile_kernels, specialise
from ridgeline.parallel.communicator import in_turn_per_node
from ridgeline.sparse import rows as sparse_rows

if TYPE_CHECKING:
    from mpi4py import MPI

WHOLE = 4096  # rows of a level that every rank holds
DEGREE = 3  # products with A in a Chebyshev smoothing, the first with zero
WIDTH = 6.0  # of the interval of eigenvalues that it damps: largest / smallest

_KERNELS = (
    sparse_rows.gather,
    sparse_rows.residual,
    sparse_rows.chebyshev_start,
    sparse_rows.chebyshev_step,
    sparse_rows.add,
    sparse_rows.multiply,
    sparse_rows.multiply_add,
)


class _Columns:
    """Where values of a level's vector lie on this rank: its own rows, then those it needs of others."""

    def __init__(
        self, comm: MPI.Comm, offsets: NDArray[np.int64], needed: list[Any], whole: bool, dtype: DTypeLike
    ) -> None:
        self.offset = 0 if whole else int(offsets[comm.rank])
        self.owned = int(offsets[-1] if whole else offsets[comm.rank + 1] - offsets[comm.rank])
        columns = np.unique(np.concatenate([matrix.indices for matrix in needed] or [np.zeros(0, np.int64)]))
        own = (columns >= self.offset) & (columns < self.offset + self.owned)
        self.ghosts = columns[~own].astype(np.int64)
        self.size = self.owned + len(self.ghosts)
        ids = np.concatenate([self.offset + np.arange(self.owned), self.ghosts])
        self._exchange = None if whole else GatherScatter(comm, ids)
        if self._exchange is not None:
            self._exchange.compile(dtypes=(dtype,))

    def local(self, matrix: Any, dtype: DTypeLike) -> tuple[Field, Field, Field]:
        """Return a matrix with global columns as (indptr, indices, data) with local ones."""
        matrix = matrix.sorted_indices()
        columns = matrix.indices.astype(np.int64)
        own = (columns >= self.offset) & (columns < self.offset + self.owned)
        place = np.where(own, columns - self.offset, self.owned + np.searchsorted(self.ghosts, columns))
        return (
            matrix.indptr.astype(np.int64),
            place.astype(np.int32),
            np.ascontiguousarray(matrix.data, dtype),
        )

    def fetch(self, x: Field) -> None:
        """Fill in the values of other ranks' rows."""
        if self._exchange is not None:
            x[self.owned :] = 0.0
            self._exchange.sum(x)


class _Smoothed:
    """A level with its smoother and its transfers to the next."""

    def __init__(self, rows: Rows, columns: _Columns, below: _Columns, dtype: DTypeLike) -> None:
        self.columns, self.below = columns, below
        self.matrix = columns.local(rows.matrix, dtype)
        self.restriction = columns.local(rows.restriction, dtype)
        self.prolongation = below.local(rows.prolongation, dtype)
        on_diagonal = rows.matrix.diagonal(columns.offset)
        self.inverse_diagonal = np.ascontiguousarray(1.0 / on_diagonal, dtype)
        self.b, self.x, self.r, self.direction = (np.zeros(columns.size, dtype) for _ in range(4))
        self.own_below = np.zeros(len(self.restriction[0]) - 1, dtype)
        high = 1.1 * rows.spectral_radius
        low = high / WIDTH
        middle, half = (high + low) / 2.0, (high - low) / 2.0
        self.first = np.array([1.0 / middle], dtype)
        self.factors: list[Field] = []
        rho = half / middle
        for _ in range(DEGREE - 1):
            new = 1.0 / (2.0 * middle / half - rho)
            self.factors.append(np.array([new * rho, 2.0 * new / half], dtype))
            rho = new

    def smooth(self, fresh: bool) -> None:
        """Improve x for A x = b; fresh: from x = 0."""
        owned = self.columns.owned
        r, direction = self.r, self.direction[:owned]
        if not fresh:
            self.columns.fetch(self.x)
            sparse_rows.residual(*self.matrix, self.b, self.x, r)
        sparse_rows.chebyshev_start(
            self.inverse_diagonal, self.first, self.b if fresh else r, direction, self.x, fresh
        )
        for factors in self.factors:
            self.columns.fetch(self.x)
            sparse_rows.chebyshev_step(
                *self.matrix, self.inverse_diagonal, factors, self.b, self.x, r, direction
            )
            sparse_rows.add(direction, self.x)

    def restrict(self) -> None:
        """Set own_below = P^T (b - A x)."""
        self.columns.fetch(self.x)
        sparse_rows.residual(*self.matrix, self.b, self.x, self.r)
        self.columns.fetch(self.r)
        sparse_rows.multiply(*self.restriction, self.r, self.own_below)

    def prolong(self, below: Field) -> None:
        """x += P below."""
        self.below.fetch(below)
        sparse_rows.multiply_add(*self.prolongation, below, self.x)


class AlgebraicCoarse:
    """About K^-1 on the points of the coarse level by one V-cycle. Built collectively.

    overlap: of the sum over elements (`GatherScatter`). What fetches other ranks' rows computes nothing meanwhile.
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
        hierarchy = set_up(comm, fine, coarse)
        self._rows = [int(rows.offsets[-1]) for rows in hierarchy.levels]
        self._offsets = [rows.offsets for rows in hierarchy.levels]
        # The first level that every rank holds whole; the coarsest always is.
        self._first_whole = next(
            (place for place, n in enumerate(self._rows) if n <= WHOLE), len(self._rows) - 1
        )
        if comm.size == 1:
            self._first_whole = 0
        levels = [
            self._join(rows) if place >= self._first_whole else rows
            for place, rows in enumerate(hierarchy.levels)
        ]
        columns = []
        for place, rows in enumerate(levels):
            needed = [rows.matrix] + ([] if rows.restriction is None else [rows.restriction])
            needed += [] if place == 0 else [levels[place - 1].prolongation]
            columns.append(_Columns(comm, rows.offsets, needed, place >= self._first_whole, dtype))
        self._levels = [
            _Smoothed(rows, columns[place], columns[place + 1], dtype)
            for place, rows in enumerate(levels[:-1])
        ]
        self._inverse = np.ascontiguousarray(hierarchy.coarsest, dtype)
        self._last_b, self._last_x = (np.zeros(self._rows[-1], dtype) for _ in range(2))
        self._connect(hierarchy, coarse, overlap)
        in_turn_per_node(comm, lambda: compile_kernels(specialise(_KERNELS, self.dtype)))

    def _join(self, rows: Rows) -> Rows:
        """Return a level's rows of all ranks."""
        if self._comm.size == 1:
            return rows
        import scipy.sparse as sp

        everyone = self._comm.allgather((rows.matrix, rows.restriction, rows.prolongation))
        matrices, restrictions, prolongations = zip(*everyone)
        last = rows.restriction is None
        return Rows(
            rows.offsets,
            sp.vstack(matrices).tocsr(),
            None if last else sp.vstack(restrictions).tocsr(),
            None if last else sp.vstack(prolongations).tocsr(),
            rows.spectral_radius,
        )

    def _connect(self, hierarchy: Hierarchy, coarse: PolynomialLevel, overlap: bool) -> None:
        """Find one copy of each of this rank's finest rows among its elements' points."""
        offsets, rank = self._offsets[0], self._comm.rank
        self._first, self._end = int(offsets[rank]), int(offsets[rank + 1])
        number = hierarchy.number.reshape(-1)
        own = np.flatnonzero((number >= self._first) & (number < self._end))
        self._place = np.zeros(self._end - self._first, np.int64)
        self._place[number[own] - self._first] = own
        self._points = GatherScatter(self._comm, number.reshape(coarse.shape), overlap=overlap)
        self._points.compile(dtypes=(self.dtype,))
        self._own = np.zeros(self._end - self._first, self.dtype)
        self._assembled = np.zeros(coarse.shape, self.dtype)

    def _spread(self, place: int, own: Field, whole: Field) -> None:
        """Set the vector of a level that is held whole from its owners' parts."""
        if self._comm.size == 1:
            whole[: own.size] = own
        else:
            self._comm.Allgatherv(own, [whole, np.diff(self._offsets[place])])

    def _b(self, place: int) -> Field:
        return self._levels[place].b if place < len(self._levels) else self._last_b

    def _x(self, place: int) -> Field:
        return self._levels[place].x if place < len(self._levels) else self._last_x

    def _enter(self, place: int, own: Field) -> None:
        """Set b of a level; own: what this rank computed of it."""
        b = self._b(place)
        if place == self._first_whole:
            self._spread(place, own, b[: self._rows[place]])
        else:
            b[: own.size] = own

    def solve(self, residual: Field, correction: Field) -> None:
        """Set the correction to one V-cycle on the assembled residual."""
        assembled = self._assembled
        np.copyto(assembled.reshape(-1), residual)
        self._points.sum(assembled)
        sparse_rows.gather(self._place, assembled.reshape(-1), self._own)
        self._enter(0, self._own)
        last = len(self._levels)
        for place in range(last):
            level = self._levels[place]
            level.smooth(fresh=True)
            level.restrict()
            self._enter(place + 1, level.own_below)
        np.dot(self._inverse, self._last_b, out=self._last_x)
        for place in reversed(range(last)):
            level = self._levels[place]
            level.prolong(self._x(place + 1))
            level.smooth(fresh=False)
        # A level held whole keeps this rank's rows at its offset, a distributed one at the beginning.
        start = self._first if self._first_whole == 0 else 0
        assembled[...] = 0.0
        assembled.reshape(-1)[self._place] = self._x(0)[start : start + self._own.size]
        self._points.sum(assembled)
        np.copyto(correction, assembled.reshape(-1))

    def describe(self) -> str:
        """Return one line that says what it is."""
        held = self._rows[self._first_whole]
        return f"algebraic multigrid on {' -> '.join(map(str, self._rows))} rows, whole from {held} on"
