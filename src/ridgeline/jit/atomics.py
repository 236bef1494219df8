"""Atomic loads and stores of one 64-bit integer, with acquire and release order, for compiled code.

Reference: LLVM Language Reference Manual, "Atomic Memory Ordering Constraints" (acquire, release).
"""

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_WORD = 8  # bytes; alignment of the elements of an int64 array


def _element(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Return the pointer to element args[1] of the array args[0]."""
    array = context.make_array(signature.args[0])(context, builder, args[0])
    return cgutils.gep(builder, array.data, args[1])


def _check(array: Any, index: Any) -> bool:
    return (
        isinstance(array, types.Array)
        and array.ndim == 1
        and array.dtype in (types.int64, types.uint64)
        and array.layout == "C"
        and isinstance(index, types.Integer)
    )


@intrinsic
def load_acquire(typing, array, index):
    """Return array[index], int64 [n]; all that was written before the store whose value it reads is then visible."""
    if not _check(array, index):
        return None

    def codegen(context, builder, signature, args):
        return builder.load_atomic(_element(context, builder, signature, args), "acquire", _WORD)

    return array.dtype(array, types.intp), codegen


@intrinsic
def store_release(typing, array, index, value):
    """Set array[index] = value, int64 [n]; what was written before is visible to a `load_acquire` that reads it."""
    if not _check(array, index):
        return None

    def codegen(context, builder, signature, args):
        builder.store_atomic(args[2], _element(context, builder, signature, args), "release", _WORD)
        return context.get_dummy_value()

    return types.void(array, types.intp, array.dtype), codegen
