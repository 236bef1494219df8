"""What storage of fewer bits does to float32 numbers: rounding to float16 or bfloat16, emulated.

No instruction of the processor is asked for: numbers stay in float32 and hold what the narrow format would. They are
rounded to nearest, ties to even, as IEEE 754 has it. Magnitudes above the largest number become infinite, small ones
subnormal.
"""

from typing import Any

import numpy as np
from numba import float32, int64, uint32
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from ridgeline.jit.kernel import Specialisation, kernel, specialise

UNIT_ROUNDOFF = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}

_SIGN, _INFINITY = np.uint32(0x80000000), np.uint32(0x7F800000)
_HALF_OVERFLOW = np.uint32(0x477FF000)  # 65520: halfway between the largest float16 and what would be next
_HALF_NORMAL = np.uint32(0x38800000)  # 2^-14
_HALF_QUANTUM = np.float32(
    0.5
)  # float32 numbers from here on are multiples of 2^-24, as subnormals of float16


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


_ROUNDINGS: dict[str, Any] = {"float16": round_to_float16, "bfloat16": round_to_bfloat16}


def round_to(storage: str, values: NDArray[np.float32]) -> None:
    """Round a matrix [rows, columns] in place to "float32" (nothing to do), "float16" or "bfloat16".

    values: column-major; its columns may lie apart, as those of a slice do.
    """
    if storage not in _ROUNDINGS or not values.size:
        return
    rows, columns = values.shape
    pitch = values.strides[1] // values.itemsize
    flat = as_strided(values, ((columns - 1) * pitch + rows,), (values.itemsize,))
    _ROUNDINGS[storage](flat, flat.view(np.uint32), pitch, rows, columns)


def kernels() -> list[Specialisation]:
    """Return the kernels of all formats."""
    return specialise(_ROUNDINGS.values())
