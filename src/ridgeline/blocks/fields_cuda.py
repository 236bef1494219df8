"""What GPU engines of blocks share beside the exchange: the search for cells that are not finite."""

import math

from numba import cuda

from ridgeline.jit.cuda_device import SIMULATED, kernel, load
from ridgeline.parallel.partition import Triple

# Threads of a block that looks for cells that are not finite, and rows that it looks at.
SCAN_THREADS, SCAN_ROWS = 8 if SIMULATED else 128, 16


@kernel(SCAN_THREADS)
def count_nonfinite(values, layout, shape, out_found):
    """Add the number of cells that are NaN or infinite to out_found[0]; launch `scan_grid(shape)` x SCAN_THREADS.

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


def scan_grid(shape: Triple) -> int:
    """Return the number of thread blocks of `count_nonfinite` for a block of `shape` owned cells."""
    return -(-shape[0] * shape[1] // SCAN_ROWS)
