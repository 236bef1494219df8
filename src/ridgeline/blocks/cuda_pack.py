"""Copy boxes of cells between pitched device arrays: the GPU twin of `blocks.pack`, with the same table.

One launch copies all boxes of a table. Neighbouring threads take neighbouring cells, in the order in which a buffer
holds them. So the buffer's side is coalesced. A face across x costs a sector of 32 bytes per cell on the field's
side, whatever one does.
"""

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from ridgeline.jit.cuda_device import SIMULATED, kernel

THREADS = 256
CELLS_PER_THREAD = 4


@kernel(THREADS)
def copy_boxes(source, target, boxes):
    """Copy all boxes of a table; launch as `launch_shape` says.

    Parameters
    ----------
    source, target : (n,) device arrays of one dtype; may be the same array if no boxes overlap
    boxes : (n_boxes, 9) uint64 device array, as in `blocks.pack`; a box has less than 2**32 cells
    """
    b = cuda.blockIdx.y
    s_start, s_plane, s_row = boxes[b, 0], boxes[b, 1], boxes[b, 2]
    t_start, t_plane, t_row = boxes[b, 3], boxes[b, 4], boxes[b, 5]
    ny, nx = np.uint32(boxes[b, 7]), np.uint32(boxes[b, 8])
    cells = boxes[b, 6] * boxes[b, 7] * boxes[b, 8]
    n = np.uint64(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    stride = np.uint64(cuda.gridDim.x * cuda.blockDim.x)
    while n < cells:
        row, i = np.uint32(n) // nx, np.uint32(n) % nx
        k, j = np.uint64(row // ny), np.uint64(row % ny)
        target[t_start + k * t_plane + j * t_row + np.uint64(i)] = source[
            s_start + k * s_plane + j * s_row + np.uint64(i)
        ]
        n += stride


def launch_shape(table: NDArray[np.uint64]) -> tuple[tuple[int, int], int]:
    """Return grid and block for a host copy of the table, (n_boxes, 9)."""
    cells = int(table[:, 6:9].prod(axis=1).max())
    threads = min(THREADS, 16) if SIMULATED else THREADS  # the simulator starts a Python thread for each
    return (max(1, -(-cells // (threads * CELLS_PER_THREAD))), len(table)), threads
