"""Compiled loops that round float32 numbers to what narrower formats hold: to nearest, ties to even."""

from numba import float32, int64, uint32

from ridgeline.bench.hpl_mxp.float_bits import (
    BRAIN_CUT,
    BRAIN_KEPT,
    BRAIN_TIE,
    HALF_CUT,
    HALF_KEPT,
    HALF_NORMAL,
    HALF_OVERFLOW,
    HALF_QUANTUM,
    HALF_TIE,
    INFINITY,
    ONE,
    SIGN,
)
from ridgeline.jit.kernel import kernel

_ARGUMENTS = (float32[::1], uint32[::1], int64, int64, int64)


@kernel(lambda: _ARGUMENTS, nogil=True)
def round_to_float16(values, words, pitch, rows, columns):
    """Round columns of a matrix in place, which lie `pitch` numbers apart. words: the same memory as uint32."""
    for j in range(columns):
        for at in range(j * pitch, j * pitch + rows):
            word = words[at]
            sign, magnitude = word & SIGN, word & ~SIGN
            if magnitude < HALF_NORMAL:
                values[at] = (abs(values[at]) + HALF_QUANTUM) - HALF_QUANTUM
                words[at] |= sign
            elif magnitude < HALF_OVERFLOW:
                words[at] = (word + HALF_TIE + ((word >> HALF_CUT) & ONE)) & HALF_KEPT
            elif magnitude <= INFINITY:
                words[at] = sign | INFINITY


@kernel(lambda: _ARGUMENTS, nogil=True)
def round_to_bfloat16(values, words, pitch, rows, columns):
    """Round columns of a matrix in place, which lie `pitch` numbers apart. words: the same memory as uint32."""
    for j in range(columns):
        for at in range(j * pitch, j * pitch + rows):
            word = words[at]
            if word & ~SIGN <= INFINITY:
                words[at] = (word + BRAIN_TIE + ((word >> BRAIN_CUT) & ONE)) & BRAIN_KEPT
