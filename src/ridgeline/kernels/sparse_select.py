"""Compiled search for the parts of a sparse matrix that are kept apart from its triangles, in a new order of rows.

The matrix is compressed sparse rows in natural order: indptr int64 [n + 1], columns int32 (owned below n, external from
n on), values float64. new_number: int32 [n], natural row to new row. Two passes each: count, fill.
"""

import numpy as np
from numba import njit

from ridgeline.kernels.sparse_transfer import BLOCK_ROWS, SparseBlocks, SparseRows


@njit(cache=True)
def _wanted(column, new_row, new_number, external):
    if column >= new_number.size:
        return external
    return not external and new_number[column] < new_row


@njit(cache=True)
def _select(natural_rows, labels, indptr, columns, values, new_number, external, keep_empty):
    n = natural_rows.size
    rows = np.empty(n, np.int32)
    starts = np.empty(n + 1, np.int64)
    starts[0] = 0
    kept, total = 0, np.int64(0)
    for k in range(n):
        natural = natural_rows[k]
        before = total
        for p in range(indptr[natural], indptr[natural + 1]):
            total += _wanted(columns[p], new_number[natural], new_number, external)
        if keep_empty or total > before:
            rows[kept] = k
            kept += 1
            starts[kept] = total
    out_columns = np.empty(total, np.int32)
    out_values = np.empty(total, np.float64)
    at = 0
    for j in range(kept):
        k = rows[j]
        natural = natural_rows[k]
        for p in range(indptr[natural], indptr[natural + 1]):
            column = columns[p]
            if _wanted(column, new_number[natural], new_number, external):
                out_columns[at] = column - new_number.size if external else new_number[column]
                out_values[at] = values[p]
                at += 1
        rows[j] = labels[k]
    return rows[:kept].copy(), starts[: kept + 1].copy(), out_columns, out_values


def lower_rows(natural_rows, indptr, columns, values, new_number) -> SparseRows:
    """Return the strictly lower part, in the new order, of the chosen rows; empty rows stay. natural_rows: int32."""
    labels = new_number[natural_rows]
    return SparseRows(*_select(natural_rows, labels, indptr, columns, values, new_number, False, True))


def external_rows(natural_rows, labels, indptr, columns, values, new_number) -> SparseRows:
    """Return the part over external columns, counted from 0, of the chosen rows that have one.

    natural_rows, labels: int32 [m]; labels[k] is what row k is called in the result.
    """
    return SparseRows(*_select(natural_rows, labels, indptr, columns, values, new_number, True, False))


@njit(cache=True)
def _upper_blocks(order, indptr, columns, values, new_number, coarse_number):
    n = order.size
    counts = np.zeros(n, np.int32)
    n_blocks = -(-n // BLOCK_ROWS)
    starts = np.zeros(n_blocks + 1, np.int64)
    total = np.int64(0)
    for row in range(n):
        natural = order[row]
        count = 0
        for p in range(indptr[natural], indptr[natural + 1]):
            column = columns[p]
            if column < n and coarse_number[column] >= 0 and new_number[column] > row:
                count += 1
        counts[row] = count
        total += count
        if (row + 1) % BLOCK_ROWS == 0 or row + 1 == n:
            starts[row // BLOCK_ROWS + 1] = total
    out_columns = np.empty(total, np.int32)
    out_values = np.empty(total, np.float64)
    at = 0
    for row in range(n):
        if counts[row] == 0:
            continue
        natural = order[row]
        for p in range(indptr[natural], indptr[natural + 1]):
            column = columns[p]
            if column < n and coarse_number[column] >= 0 and new_number[column] > row:
                out_columns[at] = coarse_number[column]
                out_values[at] = values[p]
                at += 1
    return counts, starts, out_columns, out_values


def upper_blocks(order, indptr, columns, values, new_number, coarse_number) -> SparseBlocks:
    """Return U P: the strictly upper part, in the new order, of all rows over the columns that a coarse grid has.

    order: int32 [n], new row to natural row. coarse_number: int32 [n], natural row to coarse point, -1 for none.
    """
    return SparseBlocks(*_upper_blocks(order, indptr, columns, values, new_number, coarse_number))
