"""Solves with the distributed factors: L y = r forwards, U z = y backwards, in the precision of the factors.

Every rank has its own sums: the contributions of its columns to its rows. At block k the process row adds up its sums
for that block (Reduce), the owner solves, and the process column receives the result. It first subtracts what the
next block waits for, and the rest while the owner of the next block is at work: a pipeline.

HPL's back substitution is the sweep backwards. Its sums begin with b, which LU has turned into y, on the processes
that have that column.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.bench.hpl.blas import solve_lower, solve_upper
from ridgeline.bench.hpl.block_cyclic import Axis, ProcessGrid

Numbers = NDArray[Any]  # float32 or float64, as the factors


class Triangles(Protocol):
    """L and U of one process, in host or device memory, and sums of its rows. Rows and columns are local."""

    grid: ProcessGrid

    def clear(self) -> None:
        """Set all sums to zero."""

    def sums(self, rows: slice) -> Numbers:
        """Return the sums of some rows on the host. The caller does not write them."""

    def diagonal(self, k: int, rows: slice, columns: slice) -> Numbers:
        """Return diagonal block k of this process, L below its diagonal and U, on the host, column-major."""

    def set_solution(self, columns: slice, x: Numbers) -> None:
        """Set the solution of some columns for the products that follow, until which the caller does not change x."""

    def subtract(self, rows: slice) -> None:
        """Subtract the product of L or U with the solution that was set from the sums of some rows."""


def substitute_back(triangles: Triangles) -> NDArray[np.float64]:
    """Return U^-1 y, float64 of this process's columns; y: the sums. Collective over the grid.

    All processes of a process column have the same part of x.
    """
    rows, columns = triangles.grid.place.rows, triangles.grid.place.unknowns
    return _Sweep(triangles, np.zeros(columns.count())).run(range(-(-rows.n // rows.nb) - 1, -1, -1))


def solve(triangles: Triangles, comm: MPI.Comm, right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return about A^-1 right. Collective over comm, all ranks of the grid: one Allreduce of n numbers at the end.

    right: float64 [n], the same on all ranks, of moderate magnitudes, as those of a unit vector.
    """
    rows, columns = triangles.grid.place.rows, triangles.grid.place.unknowns
    blocks = range(-(-rows.n // rows.nb))
    mine = right[columns.globals()].astype(np.float32)
    for order in (blocks, reversed(blocks)):
        triangles.clear()
        mine = _Sweep(triangles, mine).run(order, forwards=order is blocks)
    whole = np.zeros(columns.n)
    if rows.part == 0:  # the other processes of a process column have the same part
        whole[columns.globals()] = mine
    comm.Allreduce(MPI.IN_PLACE, whole)
    return whole


class _Sweep:
    """One triangular solve. mine: the right-hand side of this process's columns, which the solution replaces."""

    def __init__(self, triangles: Triangles, mine: Numbers) -> None:
        self._triangles, self._mine = triangles, mine
        self._rows, self._columns = triangles.grid.place.rows, triangles.grid.place.unknowns
        self._nb = self._rows.nb

    def run(self, order: Iterable[int], forwards: bool = False) -> Numbers:
        """Go through the blocks; return the solution of this process's columns."""
        pending: int | None = None
        for k in order:
            total = self._gather(k)
            if pending is not None:
                self._triangles.subtract(self._beyond(pending, forwards))
                pending = None
            if self._columns.owner(k * self._nb) == self._columns.part:
                self._solve_block(k, total, forwards)
                self._triangles.subtract(_block(self._rows, k + 1 if forwards else k - 1))
                pending = k
        return self._mine

    def _gather(self, k: int) -> Numbers:
        """Return, on its owner, the contributions of all columns to block k. Collective over the process row."""
        if self._rows.owner(k * self._nb) != self._rows.part:
            return self._mine[:0]
        part = self._triangles.sums(_block(self._rows, k))
        if self._columns.parts == 1:
            return part
        total = np.empty_like(part)
        self._triangles.grid.row_comm.Reduce(part, total, root=self._columns.owner(k * self._nb))
        return total

    def _solve_block(self, k: int, total: Numbers, forwards: bool) -> None:
        """Solve with the diagonal block on its owner; its process column gets the result, for products with it."""
        at, owner = _block(self._columns, k), self._rows.owner(k * self._nb)
        mine = self._mine[at]
        if owner == self._rows.part:
            mine += total
            block = self._triangles.diagonal(k, _block(self._rows, k), at)
            (solve_lower if forwards else solve_upper)(block, mine[:, None])
        if self._rows.parts > 1:
            self._triangles.grid.column_comm.Bcast(mine, owner)
        self._triangles.set_solution(at, mine)

    def _beyond(self, k: int, forwards: bool) -> slice:
        """Return the rows beyond block k + 1, or before block k - 1."""
        if forwards:
            return slice(self._rows.count((k + 2) * self._nb), self._rows.count())
        return slice(0, self._rows.count(max(k - 1, 0) * self._nb))


def _block(axis: Axis, k: int) -> slice:
    """Return the local indices of block k, none where it belongs to another process or lies outside the matrix."""
    return slice(axis.count(max(k, 0) * axis.nb), axis.count(max(k + 1, 0) * axis.nb))
