"""Wavefronts of a sparse matrix, also called dependency levels: rows that Gauss-Seidel may update at the same time.

Two rows that share an entry, in either direction, must be updated in the order of their numbers. Wavefront 0 holds
the rows that depend on none; a row of wavefront k depends on one of wavefront k - 1. Rows of one wavefront share no
entry, so their order is free. A sweep wavefront by wavefront gives the result of a sweep in the order of the rows, to
rounding.

Wavefronts of the whole matrix are few and wide, as threads need them. But the vector entries that a wavefront reads
were written several wavefronts before, and the matrix that was read since then has flushed them from the caches. A
single thread therefore takes one block of successive rows after the other, and orders the rows by wavefront inside
each block; `block_rows` chooses the size of the blocks.

Source: Anderson and Saad, "Solving sparse triangular linear systems on parallel computers", Int. J. High Speed
Computing 1 (1989) 73-95 (level scheduling).
"""

from typing import Any

import numpy as np
from numba import int32, int64, uint32
from numpy.typing import NDArray

from ridgeline.jit.kernel import Specialisation, kernel, specialise

LEAST_BLOCK = 8192  # rows; in smaller blocks a wavefront has too few rows for their updates to overlap
WHOLE = np.iinfo(np.int32).max  # rows of a block that holds any matrix
SAMPLES = 4096  # rows that `block_rows` looks at


@kernel(lambda: (int64[::1], int32[::1]))
def block_rows(indptr, columns):
    """Return how many successive rows one thread should order by wavefront at a time.

    The far columns of a row are those more than half as far away as its farthest. Each of SAMPLES rows votes for the
    mean distance of its far columns. The block is the first multiple of the distance with most votes that has
    LEAST_BLOCK rows or more. On a grid that is a number of whole planes.
    """
    n = indptr.size - 1
    votes = np.zeros(n + 1, np.int64)
    step = max(1, n // SAMPLES)
    for row in range(step // 2, n, step):
        far = 0
        for place in range(indptr[row], indptr[row + 1]):
            if columns[place] < n:
                far = max(far, row - columns[place])
        total, count = 0, 0
        for place in range(indptr[row], indptr[row + 1]):
            if columns[place] < n and 2 * (row - columns[place]) > far:
                total += row - columns[place]
                count += 1
        if count:
            votes[total // count] += 1
    distance = max(1, votes.argmax())
    return (LEAST_BLOCK + distance - 1) // distance * distance


@kernel(lambda: (int64[::1], int32[::1], int64))
def number_wavefronts(indptr, columns, block=WHOLE):
    """Return the wavefront of every row, int32 [n], the first being 0.

    indptr: int64 [n + 1]; columns: int32 [nnz], of which external ones (n and above) are ignored. The pattern need
    not be symmetric: an entry (i, j) orders rows i and j wherever it is stored. block: rows of a block, whose
    wavefronts begin above those of the previous block; WHOLE makes wavefronts of the whole matrix.
    """
    n = indptr.size - 1
    fronts = np.zeros(n, np.int32)
    start, lowest, top = 0, 0, -1
    for row in range(n):
        if row - start == block:
            start, lowest = row, top + 1
        entries = columns[indptr[row] : indptr[row + 1]]
        front = max(lowest, fronts[row])
        for k in range(entries.size):
            column = uint32(entries[k])  # tests for negative indices would take as long as the rest
            if start <= column < row:
                front = max(front, fronts[column] + 1)
        fronts[row] = front
        top = max(top, front)
        for k in range(entries.size):
            column = uint32(entries[k])
            if row < column < n:
                fronts[column] = max(fronts[column], front + 1)
    return fronts


@kernel(lambda: (*[int32[::1]] * 4,))
def _sort_by_front(fronts, front_rows, order, new_number):
    for row in range(fronts.size):
        front_rows[fronts[row] + 1] += 1
    for front in range(front_rows.size - 1):
        front_rows[front + 1] += front_rows[front]
    for row in range(fronts.size):
        place = front_rows[fronts[row]]
        front_rows[fronts[row]] += 1
        order[place] = row
        new_number[row] = place
    for front in range(front_rows.size - 1, 0, -1):
        front_rows[front] = front_rows[front - 1]
    front_rows[0] = 0


def order_by_wavefront(fronts: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Sort rows by wavefront, and by number within a wavefront (a counting sort).

    fronts: int32 [n], of `number_wavefronts`.

    Returns
    -------
    order : int32 [n], the old row of each new row
    new_number : int32 [n], the inverse of order
    front_rows : int32 [n_fronts + 1], the first new row of each wavefront
    """
    n_fronts = int(fronts.max(initial=-1)) + 1
    order, new_number = np.empty(fronts.size, np.int32), np.empty(fronts.size, np.int32)
    front_rows = np.zeros(n_fronts + 1, np.int32)
    _sort_by_front(fronts, front_rows, order, new_number)
    return order, new_number, front_rows


def kernels() -> list[Specialisation]:
    """Return the kernels of this file."""
    return specialise([block_rows, number_wavefronts, _sort_by_front])
