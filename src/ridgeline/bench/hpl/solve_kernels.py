"""Compiled parts of the back substitution and of the official test.

Kernels get matrices transposed, as [columns, rows] in C order, and turn them first of all. Numba would take a
column-major matrix of one column for a row-major one, and compile anew in the middle of a run.
"""

from numba import float64, int64, types

from ridgeline.bench.hpl.blas_calls import solve_upper
from ridgeline.jit.kernel import Specialisation, kernel, specialise

_MATRIX = float64[:, ::1]


@kernel(lambda: (types.intp, _MATRIX, int64, int64, _MATRIX), nogil=True)
def solve_diagonal_block(trsm, a, row, column, x):
    """Solve with the upper triangle of a that begins at (row, column). x: right-hand side and solution [width, 1]."""
    a, x = a.T, x.T
    width = x.shape[0]
    solve_upper(trsm, a[row : row + width, column : column + width], x)


@kernel(lambda: (_MATRIX, float64[::1], int64, int64, float64[::1], float64[::1]), nogil=True)
def multiply_rows(a, x, start, stop, product, sums):
    """Add a x to product and magnitudes of a to sums, for rows start ... stop - 1 and the x.size first columns."""
    a = a.T
    for column in range(x.size):
        for row in range(start, stop):
            product[row] += a[row, column] * x[column]
            sums[row] += abs(a[row, column])


@kernel(lambda: (_MATRIX, int64, int64, int64, float64[::1]), nogil=True)
def sum_columns(a, rows, start, stop, sums):
    """Write the sum of the magnitudes of each of columns start ... stop - 1 of a, its first `rows` rows."""
    a = a.T
    for column in range(start, stop):
        total = 0.0
        for row in range(rows):
            total += abs(a[row, column])
        sums[column] = total


def kernels() -> list[Specialisation]:
    """Return all kernels of this module."""
    return specialise([solve_diagonal_block, multiply_rows, sum_columns])
