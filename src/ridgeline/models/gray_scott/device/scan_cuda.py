"""Look at the owned cells of a field on a device: are they numbers?"""

import math

from numba import cuda

from ridgeline.jit.cuda_device import SIMULATED, kernel, load

THREADS = 8 if SIMULATED else 128
ROWS_PER_BLOCK = 16


@kernel(THREADS)
def count_nonfinite(values, layout, shape, out_found):
    """Add the number of cells that are NaN or infinite to out_found[0]; launch `grid_of(shape)` x THREADS.

    Parameters
    ----------
    values : (n,) float32 or float64 device array, `BlockArray.flat`
    layout : (origin, row_pitch, plane_pitch); shape : owned (nz, ny, nx)
    out_found : (1,) int64 device array

    Cost: reads each cell once.
    """
    origin, row_pitch, plane_pitch = layout
    nz, ny, nx = shape
    found = 0
    for row in range(cuda.blockIdx.x, nz * ny, cuda.gridDim.x):
        start = origin + row // ny * plane_pitch + row % ny * row_pitch
        for i in range(cuda.threadIdx.x, nx, cuda.blockDim.x):
            if not math.isfinite(load(values, start + i)):
                found += 1
    if found > 0:
        cuda.atomic.add(out_found, 0, found)


def grid_of(shape: tuple[int, int, int]) -> int:
    """Return the number of thread blocks."""
    return -(-shape[0] * shape[1] // ROWS_PER_BLOCK)
