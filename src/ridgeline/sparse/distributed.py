"""Sparse matrices whose rows are spread over the ranks: assembled from entries, multiplied, gathered on every rank.

They serve the set-up of solvers, in float64, and use SciPy on each rank. A rank holds only its own rows, in a triple
product also the rows of other ranks that they refer to, and 8 bytes per rank for each numbering.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.parallel.counted_exchange import exchange_counted
from ridgeline.sparse.halo import HaloVector, plan_sparse_halo

Array = NDArray[np.float64]
Numbers = NDArray[np.int64]


class Numbering:
    """Consecutive global numbers; rank r of `comm` owns offsets[r] ... offsets[r + 1] - 1.

    Creating one is collective: an allgather of 8 bytes. comm is MPI.COMM_SELF where every rank owns all numbers.
    """

    def __init__(self, comm: MPI.Comm, count: int) -> None:
        self.comm, self.count = comm, count
        self.offsets = np.concatenate([[0], np.cumsum(comm.allgather(count))]).astype(np.int64)
        self.first, self.total = int(self.offsets[comm.rank]), int(self.offsets[-1])

    @property
    def own(self) -> Numbers:
        """This rank's numbers, ascending."""
        return self.first + np.arange(self.count)

    @property
    def counts(self) -> Numbers:
        """How many numbers each rank owns."""
        return np.diff(self.offsets)

    def whole(self) -> Numbering:
        """Return the numbering in which every rank owns all of these numbers."""
        return Numbering(MPI.COMM_SELF, self.total)


class DistributedMatrix:
    """This rank's rows of a sparse matrix, and the plan to fetch external values. Collective over columns.comm.

    Attributes
    ----------
    rows, columns : numberings of rows and columns
    local : CSR, float64 [rows.count, columns.count + external columns]
    numbers : int64, the global number of each local column: the rank's own first, then external ones by owner
    plan : exchange of the values at external columns
    """

    def __init__(
        self, rows: Numbering, columns: Numbering, indptr: Numbers, columns_global: Numbers, values: Array
    ) -> None:
        self.rows, self.columns = rows, columns
        self.plan, local = plan_sparse_halo(columns.comm, columns.own, indptr, columns_global)
        width = columns.count + self.plan.n_external
        self.local = sp.csr_matrix((values, local, indptr), shape=(rows.count, width))
        self.numbers = np.zeros(width, np.int64)
        self.numbers[local] = columns_global
        self.numbers[: columns.count] = columns.own
        self._vector: HaloVector | None = None

    def entries(self) -> tuple[Numbers, Numbers, Array]:
        """Return (row, column, value) of this rank's entries, row by row, with global numbers."""
        per_row = np.diff(self.local.indptr)
        return np.repeat(self.rows.own, per_row), self.numbers[self.local.indices], self.local.data

    def with_external(self, own: NDArray[Any]) -> Array:
        """Return the values at all local columns, given those at the rank's own. Communication: neighbours."""
        if self._vector is None:
            self._vector = HaloVector(self.columns.comm, self.plan)
        self._vector.owned[:] = own
        self._vector.exchange()
        return self._vector.values.copy()

    def multiply(self, own: Array) -> Array:
        """Return this rank's part of the product with a vector. Communication: neighbours."""
        return np.asarray(self.local @ self.with_external(own))

    def finish(self) -> None:
        """Free the MPI requests that `with_external` keeps. No communication."""
        if self._vector is not None:
            self._vector.free()
        self._vector = None

    def on(self, columns: Numbering) -> DistributedMatrix:
        """Return the same matrix with its columns owned as in another numbering. Collective over columns.comm."""
        indptr = self.local.indptr.astype(np.int64)
        return DistributedMatrix(self.rows, columns, indptr, self.entries()[1], self.local.data)

    def joined(self) -> DistributedMatrix:
        """Return the square matrix with all of its rows on every rank. Collective: an allgather of all entries."""
        row, column, value = (np.concatenate(part) for part in zip(*self.rows.comm.allgather(self.entries())))
        whole = self.rows.whole()
        return assemble(whole, whole, row, column, value)


def assemble(
    rows: Numbering, columns: Numbering, row: Numbers, column: Numbers, value: Array
) -> DistributedMatrix:
    """Return the matrix of the entries of all ranks. Collective.

    row, column, value: entries by global numbers, of any rows; entries at the same place are added up.
    Communication: 24 bytes for each entry of a row that another rank owns, sent to that rank.
    """
    owner = np.searchsorted(rows.offsets, row, side="right") - 1
    order = np.argsort(owner, kind="stable")
    counts = np.bincount(owner, minlength=rows.comm.size)
    row, _ = exchange_counted(rows.comm, row[order], counts)
    column, _ = exchange_counted(rows.comm, column[order], counts)
    value, _ = exchange_counted(rows.comm, value[order], counts)
    order = np.lexsort((column, row))
    row, column = row[order], column[order]
    first = np.flatnonzero((np.diff(row, prepend=-1) != 0) | (np.diff(column, prepend=-1) != 0))
    total = np.add.reduceat(value[order], first) if first.size else np.zeros(0)
    indptr = np.searchsorted(row[first], rows.first + np.arange(rows.count + 1)).astype(np.int64)
    return DistributedMatrix(rows, columns, indptr, column[first], total)


def transpose(matrix: DistributedMatrix) -> DistributedMatrix:
    """Return the transposed matrix, whose rows the owners of the columns have. Collective."""
    row, column, value = matrix.entries()
    return assemble(matrix.columns, matrix.rows, column, row, value)


def triple_product(a: DistributedMatrix, p: DistributedMatrix) -> DistributedMatrix:
    """Return P^T A P, whose rows the owners of P's columns have. Collective.

    Communication: the rows of P at A's external columns, and the entries of the result's rows that other ranks own.
    """
    # Fetch the rows of P at A's external columns, in the order of these columns.
    comm, plan = a.columns.comm, a.plan
    requested = p.local[plan.send_index]
    n_rows, n_entries = np.zeros(comm.size, np.int64), np.zeros(comm.size, np.int64)
    n_rows[plan.neighbours] = np.diff(plan.send_starts)
    n_entries[plan.neighbours] = np.diff(requested.indptr[plan.send_starts])
    lengths, _ = exchange_counted(comm, np.diff(requested.indptr).astype(np.int64), n_rows)
    columns, _ = exchange_counted(comm, p.numbers[requested.indices], n_entries)
    values, _ = exchange_counted(comm, np.asarray(requested.data), n_entries)

    own = p.entries()
    indptr = np.concatenate([p.local.indptr, p.local.indptr[-1] + np.cumsum(lengths)])
    numbers, place = np.unique(np.concatenate([own[1], columns]), return_inverse=True)
    every = sp.csr_matrix(
        (np.concatenate([own[2], values]), place, indptr), shape=(a.local.shape[1], numbers.size)
    )
    product = (every[: a.rows.count].T @ (a.local @ every)).tocoo()
    return assemble(p.columns, p.columns, numbers[product.row], numbers[product.col], product.data)
