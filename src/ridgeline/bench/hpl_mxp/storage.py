"""What storage of fewer bits does to float32 numbers: rounding to float16 or bfloat16, emulated.

No instruction of the processor is asked for: numbers stay in float32 and hold what the narrow format would. They are
rounded to nearest, ties to even, as IEEE 754 has it. Magnitudes above the largest number become infinite, small ones
subnormal.
"""

from typing import Any, Literal

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from ridgeline.bench.hpl_mxp.rounding_kernels import round_to_bfloat16, round_to_float16
from ridgeline.jit.kernel import Specialisation, specialise

Storage = Literal["float32", "float16", "bfloat16"]
UNIT_ROUNDOFF = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}

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
