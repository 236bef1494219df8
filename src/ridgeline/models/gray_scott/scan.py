"""One look at every owned cell of a field: extrema, and cells that are not finite."""

import numpy as np
from numba import int64, prange, types

from ridgeline.jit.kernel import kernel, unsigned

EXPONENT_MASKS = {4: np.uint32(0x7F800000), 8: np.uint64(0x7FF0000000000000)}


# The compiler may assume that no value is NaN: `found` says whether that was true, and the caller discards
# the extrema if not. Without the flag LLVM cannot turn comparisons into vector minima.
@kernel(
    lambda T: (
        T[::1],
        unsigned(T)[::1],
        unsigned(T),
        *[types.UniTuple(int64, 3)] * 2,
        int64,
        T[:, ::1],
        int64[::1],
    ),
    parallel=True,
    nogil=True,
    fastmath={"nnan", "nsz"},
    error_model="numpy",
)
def scan_extrema(values, bits, exponent_mask, layout, shape, n_threads, out_extrema, out_found):
    """Find minimum, maximum and the number of cells that are not finite.

    Parameters
    ----------
    values : (n,) float32 or float64, `BlockArray.flat`; bits : the same memory as uint32 or uint64
    layout : (origin, row_pitch, plane_pitch); shape : owned (nz, ny, nx)
    out_extrema : (n_threads, 2) of the values' dtype; out_found : (n_threads,) int64; one line per thread

    Cost: reads each cell once.
    """
    origin, row_pitch, plane_pitch = layout
    nz, ny, nx = shape
    for thread in prange(n_threads):
        low, high = values[origin], values[origin]
        found = 0
        for k in range(nz * thread // n_threads, nz * (thread + 1) // n_threads):
            for j in range(ny):
                first = origin + k * plane_pitch + j * row_pitch
                for i in range(first, first + nx):
                    low = min(low, values[i])
                    high = max(high, values[i])
                for i in range(first, first + nx):
                    found += (bits[i] & exponent_mask) == exponent_mask
        out_extrema[thread, 0] = low
        out_extrema[thread, 1] = high
        out_found[thread] = found
