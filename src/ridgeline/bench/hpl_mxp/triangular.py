"""Solves with the distributed factors: L y = r forwards, then U z = y backwards, in single precision.

Every rank holds whole vectors, and sums of its own: what its columns contribute to its rows. At block k the process
row adds its sums for that block up (Reduce), the owner solves, and the process column gets the result. It subtracts
first what the next block waits for, and the rest while the owner of the next block is at work: a pipeline.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.bench.hpl.block_cyclic import Axis
from ridgeline.bench.hpl.python_blas import solve_lower, solve_upper, subtract_product_of_vector
from ridgeline.bench.hpl_mxp.factor import Grid, Matrix, MxpFactors

Vector = NDArray[np.float32]
_NOTHING = np.empty(0, np.float32)


class Triangles(ABC):
    """L and U of one process, wherever they lie, and sums of its rows. Rows and columns are local.

    grid: the process's place; blocks: block columns of the whole matrix.
    """

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self.blocks = -(-grid.rows.n // grid.rows.nb)

    @abstractmethod
    def begin(self) -> None:
        """Set all sums to zero."""

    @abstractmethod
    def sums(self, rows: slice) -> Vector:
        """Return the sums of some rows, float32 on the host, not to be written."""

    @abstractmethod
    def diagonal(self, k: int) -> Matrix:
        """Return diagonal block k of this process, L below its diagonal and U, float32 on the host, column-major."""

    @abstractmethod
    def take(self, columns: slice, x: Vector) -> None:
        """Take the solution of some columns, float32, for the products that follow; x stays as it is until then."""

    @abstractmethod
    def subtract(self, rows: slice) -> None:
        """Subtract the product of what was taken with L or U from the sums of some rows."""


class HostTriangles(Triangles):
    """The factors that `MxpFactors` left in host memory."""

    def __init__(self, factors: MxpFactors) -> None:
        super().__init__(factors.grid)
        self._matrix = factors.matrix
        self._sums = np.zeros(self.grid.rows.count(), np.float32)
        self._taken, self._x = slice(0), _NOTHING

    def begin(self) -> None:
        """Write zeros."""
        self._sums[:] = 0.0

    def sums(self, rows: slice) -> Vector:
        """Return a view."""
        return self._sums[rows]

    def diagonal(self, k: int) -> Matrix:
        """Return a view of the matrix."""
        return self._matrix[block_of(self.grid.rows, k), block_of(self.grid.columns, k)]

    def take(self, columns: slice, x: Vector) -> None:
        """Keep it."""
        self._taken, self._x = columns, x

    def subtract(self, rows: slice) -> None:
        """Multiply in the calling thread."""
        subtract_product_of_vector(self._matrix[rows, self._taken], self._x, self._sums[rows])


def solve(triangles: Triangles, comm: MPI.Comm, right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return about A^-1 right. Collective over comm, all ranks of the grid: one Allreduce of n numbers at the end.

    right: float64 [n], the same on all ranks, of moderate magnitudes, as those of a unit vector.
    """
    columns, blocks = triangles.grid.columns, triangles.blocks
    mine = right[columns.globals()].astype(np.float32)
    mine = _Sweep(triangles, mine).run(range(blocks), forwards=True)
    mine = _Sweep(triangles, mine).run(range(blocks - 1, -1, -1), forwards=False)
    whole = np.zeros(columns.n)
    if triangles.grid.rows.part == 0:  # the others of a process column hold the same
        whole[columns.globals()] = mine
    comm.Allreduce(MPI.IN_PLACE, whole)
    return whole


def block_of(axis: Axis, k: int) -> slice:
    """Return the local indices of block k: none where it belongs to another process."""
    return slice(axis.count(k * axis.nb), axis.count((k + 1) * axis.nb))


class _Sweep:
    """One triangular solve. given: the right-hand side of this process's columns, replaced by the solution."""

    def __init__(self, triangles: Triangles, given: Vector) -> None:
        self.triangles, self.mine = triangles, given
        self.rows, self.columns = triangles.grid.rows, triangles.grid.columns
        triangles.begin()

    def run(self, order: Iterable[int], forwards: bool) -> Vector:
        """Go through the blocks; return the solution of this process's columns."""
        pending: int | None = None
        for k in order:
            total = self._gather(k)
            if pending is not None:
                self._subtract_rest(pending, forwards)
                pending = None
            if self.columns.owner(k * self.columns.nb) == self.columns.part:
                self._solve_block(k, total, forwards)
                self._subtract_next(k, forwards)
                pending = k
        return self.mine

    def _rows_of(self, k: int) -> slice:
        return block_of(self.rows, k)

    def _columns_of(self, k: int) -> slice:
        return block_of(self.columns, k)

    def _gather(self, k: int) -> Vector:
        """Return on the owner what all columns so far contribute to block k."""
        if self.rows.owner(k * self.rows.nb) != self.rows.part:
            return _NOTHING
        part = self.triangles.sums(self._rows_of(k))
        if self.columns.parts == 1:
            return part
        total = np.empty_like(part)
        self.triangles.grid.along_row.Reduce(part, total, root=self.columns.owner(k * self.columns.nb))
        return total

    def _solve_block(self, k: int, total: Vector, forwards: bool) -> None:
        """Solve with the diagonal block on its owner; its process column gets the result, for products with it."""
        at = self._columns_of(k)
        owner = self.rows.owner(k * self.rows.nb)
        if owner == self.rows.part:
            block = self.triangles.diagonal(k)
            self.mine[at] += total
            (solve_lower if forwards else solve_upper)(block, self.mine[at, None])
        if self.rows.parts > 1:
            self.triangles.grid.along_column.Bcast(self.mine[at], owner)
        self.triangles.take(at, self.mine[at])

    def _subtract_next(self, k: int, forwards: bool) -> None:
        following = k + 1 if forwards else k - 1
        if 0 <= following < self.triangles.blocks:
            self.triangles.subtract(self._rows_of(following))

    def _subtract_rest(self, k: int, forwards: bool) -> None:
        """Subtract from what lies beyond block k + 1, or before block k - 1."""
        if forwards:
            self.triangles.subtract(slice(self.rows.count((k + 2) * self.rows.nb), self.rows.count()))
        else:
            self.triangles.subtract(slice(0, self.rows.count(max(k - 1, 0) * self.rows.nb)))
