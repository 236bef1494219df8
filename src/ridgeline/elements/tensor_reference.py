"""The products of `elements.tensor` in NumPy, written to be read: same names, and the same arguments but `products`.

`product` is the exception: its matrices are views, made by `matrix_at`, in place of sizes, pitches and starts.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Field = NDArray[Any]


def matrix_at(array: Field, start: int, rows: int, columns: int, pitch: int) -> Field:
    """Return a view of rows x columns of the flat array, rows `pitch` apart."""
    flat = array.reshape(-1)[start:]
    return np.lib.stride_tricks.as_strided(flat, (rows, columns), (pitch * flat.itemsize, flat.itemsize))


def product(accumulate: bool, c: Field, a: Field, b: Field) -> None:
    """C[m x n] = A[m x k] B[k x n], or C += A B with `accumulate`; see `tensor.product`."""
    result = a @ b
    c[:] = c + result if accumulate else result


def along_x(
    n_to: int,
    n_from: int,
    rows: int,
    accumulate: bool,
    out: Field,
    out_start: int,
    matrix_transposed: Field,
    u: Field,
    u_start: int,
) -> None:
    """out[row, i] (+)= sum_l matrix_transposed[l, i] u[row, l]; see `tensor.along_x`."""
    product(
        accumulate,
        matrix_at(out, out_start, rows, n_to, n_to),
        matrix_at(u, u_start, rows, n_from, n_from),
        matrix_at(matrix_transposed, 0, n_from, n_to, n_to),
    )


def along_y(
    n_to: int,
    n_from: int,
    planes: int,
    n_fast: int,
    accumulate: bool,
    out: Field,
    out_start: int,
    matrix: Field,
    u: Field,
    u_start: int,
) -> None:
    """out[plane, j, i] (+)= sum_l matrix[j, l] u[plane, l, i]; see `tensor.along_y`."""
    for plane in range(planes):
        starts = out_start + plane * n_to * n_fast, u_start + plane * n_from * n_fast
        along_z(n_to, n_from, n_fast, accumulate, out, starts[0], matrix, u, starts[1])


def along_z(
    n_to: int,
    n_from: int,
    n_fast2: int,
    accumulate: bool,
    out: Field,
    out_start: int,
    matrix: Field,
    u: Field,
    u_start: int,
) -> None:
    """out[k, i] (+)= sum_l matrix[k, l] u[l, i]; see `tensor.along_z`."""
    product(
        accumulate,
        matrix_at(out, out_start, n_to, n_fast2, n_fast2),
        matrix_at(matrix, 0, n_to, n_from, n_from),
        matrix_at(u, u_start, n_from, n_fast2, n_fast2),
    )
