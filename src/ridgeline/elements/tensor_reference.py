"""The products of `elements.tensor` in NumPy: same names, same arguments, written to be read."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Field = NDArray[Any]


def _matrix(array: Field, start: int, rows: int, columns: int, pitch: int) -> Field:
    """Return a view of rows x columns of the flat array, rows `pitch` apart."""
    flat = array.reshape(-1)[start:]
    return np.lib.stride_tricks.as_strided(flat, (rows, columns), (pitch * flat.itemsize, flat.itemsize))


def product(
    m: int,
    n: int,
    k: int,
    lda: int,
    ldb: int,
    ldc: int,
    accumulate: bool,
    c: Field,
    c_start: int,
    a: Field,
    a_start: int,
    b: Field,
    b_start: int,
) -> None:
    """C[m x n] = A[m x k] B[k x n], or C += A B with `accumulate`; see `tensor.product`."""
    out = _matrix(c, c_start, m, n, ldc)
    result = _matrix(a, a_start, m, k, lda) @ _matrix(b, b_start, k, n, ldb)
    out[:] = out + result if accumulate else result


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
        *(rows, n_to, n_from, n_from, n_to, n_to, accumulate),
        *(out, out_start, u, u_start, matrix_transposed, 0),
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
        *(n_to, n_fast2, n_from, n_from, n_fast2, n_fast2, accumulate),
        *(out, out_start, matrix, 0, u, u_start),
    )
