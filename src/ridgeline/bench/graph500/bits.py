"""Bits of words for compiled code: how many are set, and where the lowest one is.

Reference: LLVM Language Reference Manual (llvm.ctpop, llvm.cttz).
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


@intrinsic
def set_bits(typing, word):
    """Return how many bits of a word, uint64, are set: int64."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(types.uint64), codegen


@intrinsic
def lowest_bit(typing, word):
    """Return the place of the lowest set bit of a word, uint64 and not 0: int64."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), codegen
