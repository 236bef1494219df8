"""The columns of a sparse matrix that belong to other ranks: H in A = L + D + U + H, extracted and multiplied.

Rows at the boundary of a rank's part have such external columns. Their values come from a halo exchange, and lie
behind the rank's own values of a vector; the columns of H count from the first external value. There are few of these
rows, so the passes over them are serial.

A matrix is given as compressed sparse rows in natural order: indptr int64 [n + 1], columns int32 (own ones below n,
external ones from n on), values float64. Indices are made unsigned for the reason that `sparse.grid_transfer` gives.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import float64, int32, int64, types, uint32
from numpy.typing import NDArray

from ridgeline.jit.kernel import Specialisation, kernel, specialise, subroutine

Indices = NDArray[np.int32]


class SparseRows(NamedTuple):
    """Some rows of a matrix. rows: int32 [m]; starts: int64 [m + 1]; columns: int32; values: float64."""

    rows: NDArray[np.int32]
    starts: NDArray[np.int64]
    columns: NDArray[np.int32]
    values: NDArray[np.float64]


# Numba's type of this tuple.
ROWS = types.NamedTuple((int32[::1], int64[::1], int32[::1], float64[::1]), SparseRows)


@subroutine
def _product(matrix, k, external):
    total = 0.0
    for p in range(matrix.starts[k], matrix.starts[k + 1]):
        total += matrix.values[p] * external[uint32(matrix.columns[p])]
    return total


@kernel(lambda: (ROWS, *[float64[::1]] * 3))
def add_external(matrix, external, x, y):
    """Add H external to y; return x . H external. matrix: SparseRows of H; external: values of other ranks."""
    total = 0.0
    for k in range(matrix.rows.size):
        row = matrix.rows[k]
        product = _product(matrix, k, external)
        y[row] += product
        total += x[row] * product
    return total


@kernel(lambda: (ROWS, float64[::1], float64[::1]))
def subtract_external(matrix, external, r):
    """Subtract H external from r, at the rows of `matrix`."""
    for k in range(matrix.rows.size):
        r[matrix.rows[k]] -= _product(matrix, k, external)


@kernel(lambda: (ROWS, *[float64[::1]] * 3))
def move_external(matrix, external, r, saved):
    """Set saved = r at the rows of `matrix`, then subtract H external from r; `grid_transfer.restore` undoes it."""
    for k in range(matrix.rows.size):
        row = matrix.rows[k]
        saved[k] = r[row]
        r[row] -= _product(matrix, k, external)


@kernel(lambda: (int64[::1], int32[::1]))
def has_external(indptr, columns):
    """Return which rows have an external column, bool [n], in the order of the rows."""
    n = indptr.size - 1
    result = np.empty(n, np.bool_)
    for row in range(n):
        external = False
        for p in range(indptr[row], indptr[row + 1]):
            external |= columns[p] >= n
        result[row] = external
    return result


@kernel(lambda: (int32[::1], int64[::1], int32[::1], float64[::1]))
def _external(natural_rows, indptr, columns, values):
    n = indptr.size - 1
    starts = np.empty(natural_rows.size + 1, np.int64)
    starts[0] = 0
    for k in range(natural_rows.size):
        count = 0
        for p in range(indptr[natural_rows[k]], indptr[natural_rows[k] + 1]):
            count += columns[p] >= n
        starts[k + 1] = starts[k] + count
    out_columns = np.empty(starts[-1], np.int32)
    out_values = np.empty(starts[-1], np.float64)
    at = 0
    for k in range(natural_rows.size):
        for p in range(indptr[natural_rows[k]], indptr[natural_rows[k] + 1]):
            if columns[p] >= n:
                out_columns[at] = columns[p] - n
                out_values[at] = values[p]
                at += 1
    return starts, out_columns, out_values


def external_rows(
    natural_rows: Indices, external: NDArray[np.bool_], csr: tuple[NDArray[Any], ...]
) -> SparseRows:
    """Return H at those of the rows [m] that have external columns, which count from the first external one.

    external: of `has_external`; csr: (indptr, columns, values). The result numbers rows by their place in
    natural_rows.
    """
    labels = np.flatnonzero(external[natural_rows]).astype(np.int32)
    return SparseRows(labels, *_external(natural_rows[labels], *csr))


def kernels() -> list[Specialisation]:
    """Return the kernels of this file."""
    return specialise([add_external, subtract_external, move_external, has_external, _external])
