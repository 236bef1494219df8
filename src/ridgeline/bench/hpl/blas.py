"""BLAS for column-major matrices, called from Python for large blocks and from compiled code.

Matrices are two-dimensional. Their columns have unit stride and may lie apart, as those of a slice. Sizes must fit
into 32 bits: `runtime.blas.MOST_ELEMENTS`, which callers check.

Called from Python, the matrices of a call are all float32 or all float64, and ctypes releases the GIL. Called from
compiled code, they are float64. A function is passed as its address (`runtime.blas.address`), an argument of the
compiled code that calls it. The compiled code may therefore be cached, although the address differs in the next
process.

Kernels of this package get matrices transposed, as [columns, rows] in C order, and transpose them back first. Numba
would otherwise take a column-major matrix of one column for a row-major one, and compile again in the middle of a
run.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from ridgeline.jit.kernel import subroutine
from ridgeline.runtime.blas import address

Matrix = NDArray[Any]
_LETTERS = {"float32": "s", "float64": "d"}
_REALS = {"float32": ctypes.c_float, "float64": ctypes.c_double}


@cache
def _function(name: str, n_arguments: int) -> Any:
    """Return a Fortran subroutine of BLAS, all of whose arguments are references."""
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * n_arguments)(address(name))


def _call(name: str, *arguments: Any) -> None:
    """Call a subroutine with letters, whole numbers, real numbers and arrays, which determine the precision."""
    kind = next(str(argument.dtype) for argument in arguments if isinstance(argument, np.ndarray))
    references = [_reference(argument, kind) for argument in arguments]
    function = _function(_LETTERS[kind] + name, len(references))
    function(*(value if isinstance(value, int) else ctypes.addressof(value) for value in references))


def _reference(value: Any, kind: str) -> Any:
    """Return the address of an array, and any other argument as an object of C."""
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
        m, n = out.shape
        k = left.shape[1]
        _call(
            "gemm", "N", "N", m, n, k, -1.0, left, _pitch(left), right, _pitch(right), 1.0, out, _pitch(out)
        )


def subtract_product_of_vector(left: Matrix, x: Matrix, out: Matrix) -> None:
    """Compute out <- out - left x. left [m, k], x [k], out [m], both contiguous."""
    if left.size:
        m, k = left.shape
        _call("gemv", "N", m, k, -1.0, left, _pitch(left), x, 1, 1.0, out, 1)


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
        m, n = out.shape
        _call("trsm", side, half, "N", diagonal, m, n, 1.0, triangle, _pitch(triangle), out, _pitch(out))


_NO = np.uint8(ord("N"))
_LEFT, _LOWER, _UNIT = (np.uint8(ord(letter)) for letter in "LLU")


class BlasAddresses(NamedTuple):
    """Addresses of the BLAS functions of float64: products, triangular solves."""

    gemm: int
    trsm: int


def blas_addresses() -> BlasAddresses:
    """Return the addresses of the BLAS functions that compiled code calls."""
    return BlasAddresses(address("dgemm"), address("dtrsm"))


@intrinsic
def call_by_reference(typing, function, arguments):
    """Call the Fortran subroutine at the address `function`. arguments: a tuple.

    An integer of pointer size is an address and is passed as it is. Any other argument, such as int32, uint8 (a
    character) or a float, is stored, and its address is passed.
    """
    if not isinstance(arguments, types.BaseTuple) or not isinstance(function, types.Integer):
        return None

    def codegen(context, builder, signature, args):
        byte_pointer = ir.IntType(8).as_pointer()
        pointers = []
        for kind, value in zip(signature.args[1].types, cgutils.unpack_tuple(builder, args[1])):
            if kind in (types.intp, types.uintp):
                pointers.append(builder.inttoptr(value, byte_pointer))
            else:
                slot = cgutils.alloca_once_value(builder, value)
                pointers.append(builder.bitcast(slot, byte_pointer))
        callee = ir.FunctionType(ir.VoidType(), [byte_pointer] * len(pointers)).as_pointer()
        builder.call(builder.inttoptr(args[0], callee), pointers)
        return context.get_dummy_value()

    return types.void(function, arguments), codegen


@subroutine
def leading_dimension(matrix):
    """Return the distance of two columns, in numbers."""
    return np.int32(max(matrix.strides[1] // matrix.itemsize, max(matrix.shape[0], 1)))


@subroutine
def gemm_subtract(gemm, left, right, out):
    """Compute out <- out - left right. left [m, k], right [k, n], out [m, n]."""
    if out.shape[0] == 0 or out.shape[1] == 0 or left.shape[1] == 0:
        return
    call_by_reference(
        gemm,
        (
            _NO,
            _NO,
            np.int32(out.shape[0]),
            np.int32(out.shape[1]),
            np.int32(left.shape[1]),
            -1.0,
            left.ctypes.data,
            leading_dimension(left),
            right.ctypes.data,
            leading_dimension(right),
            1.0,
            out.ctypes.data,
            leading_dimension(out),
        ),
    )


@subroutine
def gemm_assign(gemm, left, right, out):
    """Compute out <- left right. left [m, k], right [k, n], out [m, n], k > 0."""
    if out.shape[0] == 0 or out.shape[1] == 0:
        return
    call_by_reference(
        gemm,
        (
            _NO,
            _NO,
            np.int32(out.shape[0]),
            np.int32(out.shape[1]),
            np.int32(left.shape[1]),
            1.0,
            left.ctypes.data,
            leading_dimension(left),
            right.ctypes.data,
            leading_dimension(right),
            0.0,
            out.ctypes.data,
            leading_dimension(out),
        ),
    )


@subroutine
def trsm_unit_lower(trsm, triangle, out):
    """Compute out <- L^-1 out; L: the unit lower triangle of triangle [k, k]. out [k, n]."""
    if out.shape[0] == 0 or out.shape[1] == 0:
        return
    call_by_reference(
        trsm,
        (
            _LEFT,
            _LOWER,
            _NO,
            _UNIT,
            np.int32(out.shape[0]),
            np.int32(out.shape[1]),
            1.0,
            triangle.ctypes.data,
            leading_dimension(triangle),
            out.ctypes.data,
            leading_dimension(out),
        ),
    )
