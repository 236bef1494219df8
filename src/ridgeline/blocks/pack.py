"""Copy boxes of cells between pitched arrays: packing, unpacking and periodic wraps are all this.

A box is one line of a table of unsigned 64-bit integers, in items of the arrays:

    source start, source plane pitch, source row pitch, target start, target plane pitch, target row pitch,
    extents nz, ny, nx

so a field packs into a buffer, a buffer unpacks into a field, and a field wraps around onto itself, by one
kernel. Unsigned, because Numba tests a signed index for being negative at every access.

What bounds it: faces across z are contiguous and run at the speed of a copy. In faces across y and x the rows lie far
apart. So the hardware prefetcher is of no help, and a core waits for memory. The kernel prefetches them itself, some
kilobytes ahead and into the second-level cache, which can wait for more lines at a time than the first. On Zen 4 at
256^3, across x, that is 2.5 times faster than without; a prefetch into the first level gains nothing. Across x every
cell still costs a cache line.
"""

import numba
import numpy as np
from numba import types, uint64
from numba.extending import intrinsic

from ridgeline.jit.kernel import kernel, subroutine
from ridgeline.jit.llvm import data_pointer, prefetch

BOX_COLUMNS = 9
LINE_BYTES = np.uint64(64)
SHORT_ROW = np.uint64(4)  # rows up to this length are gathered: the loop over rows goes innermost
HEAD_LINES = np.uint64(32)  # of a row are asked for; the hardware follows a longer one by itself
LINES_AHEAD = np.uint64(128)  # asked for this long before they are copied, or a whole plane before


@intrinsic
def _ask_for(typing, array, index):
    """Prefetch the cache line of array[index] into the second-level cache."""

    def codegen(context, builder, signature, args):
        prefetch(builder, data_pointer(context, builder, signature, args, 0), args[1], locality=2)
        return context.get_dummy_value()

    return types.void(array, index), codegen


@subroutine(nogil=True)
def _ask_for_rows(array, start, row_pitch, n_rows, items, line):
    """Prefetch the first `items` items of n_rows rows; `line` items lie on a cache line."""
    for j in range(n_rows):
        for i in range(np.uint64(0), items, line):
            _ask_for(array, start + j * row_pitch + i)


@kernel(lambda T: (T[::1], T[::1], uint64[:, ::1]), nogil=True)
def copy_boxes(source, target, boxes):
    """Copy all boxes of a table.

    Parameters
    ----------
    source, target : (n,) arrays of one dtype, contiguous; may be the same array if no boxes overlap
    boxes : (n_boxes, 9) uint64, as in the module's docstring; an empty box has an extent of 0

    Cost: reads and writes each cell once; a cell of a face across x costs a whole cache line.
    """
    one, two = np.uint64(1), np.uint64(2)
    line = LINE_BYTES // np.uint64(source.itemsize)
    for b in range(boxes.shape[0]):
        s_start, s_plane, s_row = boxes[b, 0], boxes[b, 1], boxes[b, 2]
        t_start, t_plane, t_row = boxes[b, 3], boxes[b, 4], boxes[b, 5]
        nz, ny, nx = boxes[b, 6], boxes[b, 7], boxes[b, 8]
        far_source = two * nx < s_row or two * ny * s_row < s_plane
        far_target = two * nx < t_row or two * ny * t_row < t_plane
        head = min(nx, HEAD_LINES * line)
        ahead = max(one, LINES_AHEAD * line // max(one, ny * max(head, line)))
        for k in range(nz):
            s = s_start + k * s_plane
            t = t_start + k * t_plane
            if far_source and k + ahead < nz:
                _ask_for_rows(source, s + ahead * s_plane, s_row, ny, head, line)
            if far_target and k + ahead < nz:
                _ask_for_rows(target, t + ahead * t_plane, t_row, ny, head, line)
            if nx <= SHORT_ROW:
                for i in range(nx):
                    for j in range(ny):
                        target[t + j * t_row + i] = source[s + j * s_row + i]
            else:
                for j in range(ny):
                    for i in range(nx):
                        target[t + j * t_row + i] = source[s + j * s_row + i]


@kernel(
    lambda T, n_pairs: (*[types.UniTuple(T[::1], n_pairs)] * 2, uint64[:, :, :, ::1]),
    nogil=True,
    parallel=True,
)
def copy_boxes_threaded(sources, targets, boxes):
    """Copy boxes of several pairs of arrays, a table for each thread and pair, in one parallel region.

    sources, targets : tuples of n_pairs arrays; boxes : (n_threads, n_pairs, n_boxes, 9); else as `copy_boxes`
    """
    for thread in numba.prange(boxes.shape[0]):
        for pair in range(boxes.shape[1]):
            copy_boxes(sources[pair], targets[pair], boxes[thread, pair])
