"""Compiled parts of a panel's factorisation: columns of the base case, and the update of those to their right.

`eliminate` is the base case without pivoting.

A panel has `width` columns. `below` [rows, width] holds the rows of this process. `top` [width, width] holds the
rows that were chosen as pivots, the same on all processes of the column. Rows before `active` of `below` are used up:
those that pivots have replaced, on the process with the diagonal block.

Within the base case a column is brought up to date when its turn comes (left-looking), in one pass over the rows. The
pass divides the column before it by its pivot, subtracts the products with the columns before, and looks for the
largest number. So each column is written once, and the others are only read. Magnitudes are compared as integers: the
patterns of bits of IEEE numbers, without their signs, are in the same order, NaN above all.

Kernels get matrices transposed, as [columns, rows] in C order, and turn them first of all. Numba would take a
column-major matrix of one column for a row-major one, and compile anew in the middle of a run.
"""

import numpy as np
from numba import float32, float64, int64, types

from ridgeline.bench.hpl.blas_calls import solve_unit_lower, subtract_product
from ridgeline.jit.kernel import Specialisation, kernel, specialise, subroutine

_ROWS = 512  # of a piece of a column, which stays in the first cache
_MAGNITUDE = np.int64(2**63 - 1)
_LEAST_PIVOT = float(np.finfo(np.float64).tiny)  # whose inverse is finite
HEAD = 3  # of a message: bits of the magnitude, global row of the pivot, whether it has the current row

_MATRIX, _BITS = float64[:, ::1], int64[:, ::1]


@subroutine
def _advance_top(top, first, column):
    """Bring a column of the pivots' rows up to date."""
    for row in range(first + 1, column):
        value = top[row, column]
        for k in range(first, row):
            value -= top[row, k] * top[k, column]
        top[row, column] = value


@subroutine(error_model="numpy")
def _divide_column(below, start, stop, column, pivot):
    """Divide a column by its pivot: by a product with its inverse, as LAPACK does, where that is a number."""
    if abs(pivot) >= _LEAST_PIVOT:
        inverse = 1.0 / pivot
        for row in range(start, stop):
            below[row, column] *= inverse
    else:
        for row in range(start, stop):
            below[row, column] /= pivot


@subroutine(fastmath={"contract"}, error_model="numpy")
def _advance_column(below, bits, top, active, first, column):
    """Bring a column up to date; return (bits of its largest magnitude, its row), -1 without rows."""
    _advance_top(top, first, column)
    best, best_row = np.int64(-1), np.int64(-1)
    for start in range(active, below.shape[0], _ROWS):
        stop = min(start + _ROWS, below.shape[0])
        if column > first:
            _divide_column(below, start, stop, column - 1, top[column - 1, column - 1])
        k = first
        while k + 4 <= column:
            u0, u1, u2, u3 = top[k, column], top[k + 1, column], top[k + 2, column], top[k + 3, column]
            for row in range(start, stop):
                below[row, column] -= (
                    below[row, k] * u0
                    + below[row, k + 1] * u1
                    + below[row, k + 2] * u2
                    + below[row, k + 3] * u3
                )
            k += 4
        if k + 2 <= column:
            u0, u1 = top[k, column], top[k + 1, column]
            for row in range(start, stop):
                below[row, column] -= below[row, k] * u0 + below[row, k + 1] * u1
            k += 2
        if k < column:
            u0 = top[k, column]
            for row in range(start, stop):
                below[row, column] -= below[row, k] * u0
        largest = np.int64(-1)
        for row in range(start, stop):
            largest = max(largest, bits[row, column] & _MAGNITUDE)
        if largest > best:
            best, best_row = largest, start
            while bits[best_row, column] & _MAGNITUDE != largest:
                best_row += 1
    return best, best_row


@kernel(lambda: (_MATRIX, _BITS, _MATRIX, int64[::1], int64, int64), nogil=True, error_model="numpy")
def factor_columns(below, bits, top, pivots, first, last):
    """Factor columns first ... last - 1 on the only process of the column; pivots get rows of `below`."""
    below, bits, top = below.T, bits.T, top.T
    for column in range(first, last):
        _, pivot = _advance_column(below, bits, top, column, first, column)
        pivots[column] = pivot
        for k in range(below.shape[1]):
            top[column, k] = below[pivot, k]
            below[pivot, k] = below[column, k]
    _divide_column(below, last, below.shape[0], last - 1, top[last - 1, last - 1])


@kernel(
    lambda: (_MATRIX, _BITS, _MATRIX, int64, int64, int64, int64[::1], float64[::1], int64[::1]),
    nogil=True,
    error_model="numpy",
)
def offer_pivot(below, bits, top, active, first, column, rows, message, message_bits):
    """Bring a column up to date and write this process's candidate into the message.

    rows: global rows of `below`; active: `column` on the process with the diagonal block, which offers the row that
    is to be replaced too, -1 elsewhere. message: head, row of the pivot, current row; message_bits: its bits.
    """
    below, bits, top = below.T, bits.T, top.T
    width = below.shape[1]
    best, row = _advance_column(below, bits, top, max(active, 0), first, column)
    message_bits[0] = best
    if row >= 0:
        message[1] = rows[row]
        for k in range(width):
            message[HEAD + k] = below[row, k]
    message[2] = 0.0
    if active >= 0:
        message[2] = 1.0
        for k in range(width):
            message[HEAD + width + k] = below[column, k]


@kernel(lambda: (float64[::1], int64[::1], float64[::1], int64[::1]), nogil=True)
def combine_offers(mine, mine_bits, other, other_bits):
    """Keep the better of two candidates in `mine`: the larger, of equals that of the smaller row."""
    width = (mine.size - HEAD) // 2
    if other_bits[0] > mine_bits[0] or (other_bits[0] == mine_bits[0] and other[1] < mine[1]):
        mine_bits[0] = other_bits[0]
        mine[1] = other[1]
        for k in range(HEAD, HEAD + width):
            mine[k] = other[k]
    if other[2] > 0.0:
        mine[2] = 1.0
        for k in range(HEAD + width, HEAD + 2 * width):
            mine[k] = other[k]


@kernel(lambda: (_MATRIX, _MATRIX, int64, int64, float64[::1]), nogil=True)
def take_pivot(below, top, column, row, message):
    """Write the pivot's row into `top`, and where this process had it (row >= 0), the current row into its place."""
    below, top = below.T, top.T
    width = below.shape[1]
    for k in range(width):
        top[column, k] = message[HEAD + k]
    if row >= 0:
        for k in range(width):
            below[row, k] = message[HEAD + width + k]


@kernel(lambda: (_MATRIX, _MATRIX, int64, int64), nogil=True, error_model="numpy")
def divide_last(below, top, active, column):
    """Divide a column of the rows from `active` on by its pivot: the last one of a base case."""
    below, top = below.T, top.T
    _divide_column(below, active, below.shape[0], column, top[column, column])


@kernel(lambda: (types.intp, types.intp, _MATRIX, _MATRIX, int64, int64, int64, int64), nogil=True)
def update_right(gemm, trsm, below, top, active, first, split, last):
    """Update columns split ... last - 1 by the factored columns first ... split - 1 to their left."""
    below, top = below.T, top.T
    solve_unit_lower(trsm, top[first:split, first:split], top[first:split, split:last])
    subtract_product(
        gemm, below[active:, first:split], top[first:split, split:last], below[active:, split:last]
    )


@kernel(lambda: (float32[:, ::1], int64, int64), nogil=True, error_model="numpy")
def eliminate(block, first, last):
    """Replace block[first:last, first:last] by its factors L (unit, lower) and U. block: [column, row].

    A zero pivot gives infinities and NaN, no error: what follows tells.
    """
    for k in range(first, last):
        inverse = float32(1.0) / block[k, k]
        for i in range(k + 1, last):
            block[k, i] *= inverse
        for j in range(k + 1, last):
            factor = block[j, k]
            for i in range(k + 1, last):
                block[j, i] -= factor * block[k, i]


def kernels() -> list[Specialisation]:
    """Return all kernels of this module."""
    return specialise(
        [factor_columns, offer_pivot, combine_offers, take_pivot, divide_last, update_right, eliminate]
    )
