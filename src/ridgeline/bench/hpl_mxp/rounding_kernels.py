"""Compiled loops that round float32 numbers to what narrower formats hold: to nearest, ties to even."""

import numpy as np
from numba import float32, int64, uint32

from ridgeline.jit.kernel import kernel

_SIGN, _INFINITY = np.uint32(0x80000000), np.uint32(0x7F800000)
_HALF_OVERFLOW = np.uint32(0x477FF000)  # 65520: halfway between the largest float16 and what would be next
_HALF_NORMAL = np.uint32(0x38800000)  # 2^-14
# float32 numbers from here on are multiples of 2^-24, as subnormals of float16.
_HALF_QUANTUM = np.float32(0.5)

_ARGUMENTS = (float32[::1], uint32[::1], int64, int64, int64)


@kernel(lambda: _ARGUMENTS, nogil=True)
def round_to_float16(values, words, pitch, rows, columns):
    """Round columns of a matrix in place, which lie `pitch` numbers apart. words: the same memory as uint32."""
    one = np.uint32(1)
    for j in range(columns):
        for at in range(j * pitch, j * pitch + rows):
            word = words[at]
            sign, magnitude = word & _SIGN, word & ~_SIGN
            if magnitude < _HALF_NORMAL:
                values[at] = (abs(values[at]) + _HALF_QUANTUM) - _HALF_QUANTUM
                words[at] |= sign
            elif magnitude < _HALF_OVERFLOW:
                words[at] = (word + np.uint32(0xFFF) + ((word >> np.uint32(13)) & one)) & np.uint32(
                    0xFFFFE000
                )
            elif magnitude <= _INFINITY:
                words[at] = sign | _INFINITY


@kernel(lambda: _ARGUMENTS, nogil=True)
def round_to_bfloat16(values, words, pitch, rows, columns):
    """Round columns of a matrix in place, which lie `pitch` numbers apart. words: the same memory as uint32."""
    one = np.uint32(1)
    for j in range(columns):
        for at in range(j * pitch, j * pitch + rows):
            word = words[at]
            if word & ~_SIGN <= _INFINITY:
                words[at] = (word + np.uint32(0x7FFF) + ((word >> np.uint32(16)) & one)) & np.uint32(
                    0xFFFF0000
                )
