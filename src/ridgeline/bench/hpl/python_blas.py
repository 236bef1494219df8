"""BLAS for matrices of NumPy: few calls on large blocks, so that they come from Python.

Matrices are float32 or float64, all of a call alike, and column-major. Their columns have unit stride and may lie
apart, as those of a slice. ctypes releases the GIL. Sizes must fit into 32 bits (`runtime.blas.MOST_ELEMENTS`).
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.runtime.blas import address

Matrix = NDArray[Any]
_LETTERS = {"float32": "s", "float64": "d"}
_REALS = {"float32": ctypes.c_float, "float64": ctypes.c_double}


@cache
def _function(name: str, n_arguments: int) -> Any:
    """Return a Fortran subroutine of BLAS; all arguments are references."""
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * n_arguments)(address(name))


def _call(name: str, *arguments: Any) -> None:
    """Call a subroutine with letters, whole numbers, real numbers and arrays, which give the precision."""
    kind = next(str(one.dtype) for one in arguments if isinstance(one, np.ndarray))
    kept = [_reference(one, kind) for one in arguments]
    function = _function(_LETTERS[kind] + name, len(kept))
    function(*(one if isinstance(one, int) else ctypes.addressof(one) for one in kept))


def _reference(value: Any, kind: str) -> Any:
    """Return the address of an array, and anything else as C has it."""
    match value:
        case str():
            return ctypes.c_char(value.encode())
        case int():
            return ctypes.c_int32(value)
        case float():
            return _REALS[kind](value)
        case _:
            return value.ctypes.data


def _pitch(matrix: Matrix) -> int:
    """Return the distance of two columns, in numbers."""
    return int(max(matrix.strides[1] // matrix.itemsize, matrix.shape[0], 1))


def subtract_product(left: Matrix, right: Matrix, out: Matrix) -> None:
    """Compute out <- out - left right. left [m, k], right [k, n], out [m, n]."""
    if out.size and left.shape[1]:
        sizes = *out.shape, left.shape[1]
        operands = left, _pitch(left), right, _pitch(right), 1.0, out, _pitch(out)
        _call("gemm", "N", "N", *sizes, -1.0, *operands)


def subtract_product_of_vector(left: Matrix, x: Matrix, out: Matrix) -> None:
    """Compute out <- out - left x. left [m, k], x [k], out [m], both contiguous."""
    if left.size:
        _call("gemv", "N", *left.shape, -1.0, left, _pitch(left), x, 1, 1.0, out, 1)


def solve_lower(triangle: Matrix, out: Matrix) -> None:
    """Compute out <- L^-1 out; L: the unit lower triangle of triangle [k, k]. out [k, n]."""
    _solve(triangle, out, "L", "L", "U")


def solve_upper(triangle: Matrix, out: Matrix) -> None:
    """Compute out <- U^-1 out; U: the upper triangle of triangle [k, k]. out [k, n]."""
    _solve(triangle, out, "L", "U", "N")


def solve_upper_from_right(triangle: Matrix, out: Matrix) -> None:
    """Compute out <- out U^-1; U: the upper triangle of triangle [k, k]. out [m, k]."""
    _solve(triangle, out, "R", "U", "N")


def _solve(triangle: Matrix, out: Matrix, side: str, half: str, diagonal: str) -> None:
    if out.size:
        operands = triangle, _pitch(triangle), out, _pitch(out)
        _call("trsm", side, half, "N", diagonal, *out.shape, 1.0, *operands)
