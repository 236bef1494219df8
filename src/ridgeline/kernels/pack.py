"""Copy boxes of cells between pitched arrays: packing, unpacking and periodic wraps are all this.

A box is one line of a table of unsigned 64-bit integers, in items of the arrays:

    source start, source plane pitch, source row pitch, target start, target plane pitch, target row pitch,
    extents nz, ny, nx

so a field packs into a buffer, a buffer unpacks into a field, and a field wraps around onto itself, by one
kernel. Unsigned, because Numba tests a signed index for being negative at every access.

What bounds it: faces across z are contiguous and run at the speed of a copy. Faces across y are rows far
apart, where the hardware prefetcher starts anew each time, so the head of a row is asked for some rows before
its turn (a third faster; asking for whole rows is slower again). Faces across x cost a cache line per row.
"""

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic

from ridgeline.kernels.llvm import data_pointer, prefetch

BOX_COLUMNS = 9
SHORT_ROW = np.uint64(4)  # rows up to this length are gathered: the loop over rows goes innermost
ITEMS_PER_LINE = np.uint64(8)  # of float64; float32 asks for each line twice, which costs nothing
HEAD = np.uint64(4 * 8)  # items at the start of a row that are asked for
PLANES_AHEAD = np.uint64(4)


@intrinsic
def _ask_for(typing, array, index):
    """Prefetch the cache line of array[index], which may lie outside the array."""

    def codegen(context, builder, signature, args):
        prefetch(builder, data_pointer(context, builder, signature, args, 0), args[1])
        return context.get_dummy_value()

    return types.void(array, index), codegen


@numba.njit(cache=True, nogil=True)
def copy_boxes(source, target, boxes):
    """Copy all boxes of a table.

    Parameters
    ----------
    source, target : (n,) arrays of one dtype, contiguous; may be the same array if no boxes overlap
    boxes : (n_boxes, 9) uint64, as in the module's docstring

    Cost: reads and writes each cell once; a cell of a face across x costs a whole cache line.
    """
    zero = np.uint64(0)
    for b in range(boxes.shape[0]):
        s_start, s_plane, s_row = boxes[b, 0], boxes[b, 1], boxes[b, 2]
        t_start, t_plane, t_row = boxes[b, 3], boxes[b, 4], boxes[b, 5]
        nz, ny, nx = boxes[b, 6], boxes[b, 7], boxes[b, 8]
        far_source = ny < nz and s_plane > ny * s_row
        far_target = ny < nz and t_plane > ny * t_row
        head = min(nx, HEAD)
        for k in range(nz):
            s = s_start + k * s_plane
            t = t_start + k * t_plane
            if nx <= SHORT_ROW:
                for i in range(nx):
                    for j in range(ny):
                        target[t + j * t_row + i] = source[s + j * s_row + i]
                continue
            for j in range(ny):
                if far_source:
                    for i in range(zero, head, ITEMS_PER_LINE):
                        _ask_for(source, s + PLANES_AHEAD * s_plane + j * s_row + i)
                if far_target:
                    for i in range(zero, head, ITEMS_PER_LINE):
                        _ask_for(target, t + PLANES_AHEAD * t_plane + j * t_row + i)
                for i in range(nx):
                    target[t + j * t_row + i] = source[s + j * s_row + i]


@numba.njit(cache=True, nogil=True, parallel=True)
def copy_boxes_threaded(source, target, boxes):
    """Copy a table of boxes for each thread: boxes is (n_threads, n_boxes, 9); else as `copy_boxes`."""
    for thread in numba.prange(boxes.shape[0]):
        copy_boxes(source, target, boxes[thread])
