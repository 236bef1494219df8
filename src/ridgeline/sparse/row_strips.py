"""Storage of a triangle of a sparse matrix by strips: successive rows whose columns each move on by one per row.

Rows are ordered by wavefront (`sparse.wavefronts`). If the matrix comes from a grid, the neighbours of successive
rows of a wavefront are mostly successive too. Such rows form a strip: they share one column list, and a product loads
vectors of x where compressed rows would gather. Nothing is assumed about the matrix. Strips are found by comparing
column lists; a matrix without any has strips of one row, which are slower and still correct. A row that lacks a few
columns of its strip, as rows at the sides of a box do, stays in the strip and stores zeros for them. The entries of x
at these columns, which are always rows of this rank, must therefore be finite.

Values are stored strip by strip, in chunks of WIDTH rows (the last chunk of a strip may be narrower), and within a
chunk slot by slot: value s of row l of a chunk of w rows is number s w + l of the chunk. Every strip begins at a
cache line. A non-zero costs the 8 bytes of its value, as its column is shared. An upper triangle stores its last
strip first, so that a backward sweep reads memory in ascending order, as a forward sweep does in a lower triangle.

Source: the idea of ELLPACK by slices (Monakov, Lokhmotov and Avetisyan, HiPEAC 2010). Columns are implied as in
storage by diagonals (Saad, "Iterative Methods for Sparse Linear Systems", Sec. 3.4).
"""

from typing import Any, NamedTuple

import numpy as np
from numba import boolean, float64, int32, int64, types, uint32, uint64
from numpy.typing import NDArray

from ridgeline.jit.kernel import Specialisation, kernel, specialise
from ridgeline.runtime.aligned import aligned_empty

WIDTH = 8  # rows of a chunk: one vector of 64 bytes
SPARE = 8  # a strip may hold one zero in 8 values: to begin another strip costs as much as some dozen zeros


class Strips(NamedTuple):
    """A strict triangle stored by strips. Row and column numbers are those of the order by wavefront."""

    strip_rows: NDArray[Any]  # int32 [n_strips + 1], first row
    strip_slots: NDArray[Any]  # int32 [n_strips + 1], first slot
    slot_columns: NDArray[Any]  # int32 [n_slots], column of the strip's first row
    strip_values: NDArray[Any]  # int64 [n_strips], first value
    values: NDArray[Any]  # float64 [n_values], with gaps before strips
    front_strips: NDArray[Any]  # int32 [n_fronts + 1], first strip of each wavefront


# Numba's types of compressed sparse rows (indptr, columns, values) and of `Strips`.
CSR = types.Tuple((int64[::1], int32[::1], float64[::1]))
STRIPS = types.NamedTuple((int32[::1], int32[::1], int32[::1], int64[::1], float64[::1], int32[::1]), Strips)


@kernel(lambda: (CSR, *[int32[::1]] * 5, int64[::1], int32[::1], int32[::1]))
def _find_strips(csr, order, new_number, front_rows, strip_rows, front_strips, strip_shifts, shifts, marks):
    """Set strip_rows, front_strips and the shifts (column - row) of each strip, ascending; return how many strips.

    strip_shifts: int32 [n + 1], first shift of each strip; shifts: int32 [nnz]; marks: int32 [2 n], zeros, scratch.
    """
    indptr, columns, _ = csr
    n = order.size
    n_strips = 0
    strip_shifts[0] = 0
    for front in range(front_rows.size - 1):
        front_strips[front] = n_strips
        row, end = front_rows[front], front_rows[front + 1]
        while row < end:
            begin, first = row, strip_shifts[n_strips]
            size, zeros, lowest, highest = 0, 0, 0, 0
            strip_rows[n_strips] = begin
            while row < end:
                known, fresh, low, high = 0, 0, lowest, highest
                entries = columns[indptr[order[row]] : indptr[order[row] + 1]]
                for k in range(entries.size):
                    if entries[k] < n:
                        shift = new_number[uint32(entries[k])] - row
                        if shift != 0:
                            if marks[uint64(shift + n)] == n_strips + 1:
                                known += 1
                            else:
                                fresh += 1
                                low, high = min(low, shift), max(high, shift)
                if row > begin:
                    rows, wider = row - begin + 1, size + fresh
                    zeros += size - known + fresh * (rows - 1)
                    if zeros > max(rows * wider // SPARE, wider // 2) or begin + low < 0 or row + high >= n:
                        break
                if fresh > 0:
                    for k in range(entries.size):
                        if entries[k] < n:
                            shift = new_number[uint32(entries[k])] - row
                            if shift != 0 and marks[uint64(shift + n)] != n_strips + 1:
                                marks[uint64(shift + n)] = n_strips + 1
                                shifts[first + size] = shift
                                size += 1
                lowest, highest = low, high
                row += 1
            shifts[first : first + size].sort()
            n_strips += 1
            strip_shifts[n_strips] = first + size
    strip_rows[n_strips] = n
    front_strips[front_rows.size - 1] = n_strips
    return n_strips


@kernel(lambda: (int32[::1], int64[::1], int32[::1], boolean, int32[::1], int64[::1]))
def _place_strips(strip_rows, strip_shifts, shifts, upper, strip_slots, strip_values):
    """Set strip_slots and strip_values of one triangle; return the length of its values."""
    n_strips = strip_rows.size - 1
    strip_slots[0] = 0
    for strip in range(n_strips):
        slots = 0
        for place in range(strip_shifts[strip], strip_shifts[strip + 1]):
            slots += shifts[place] > 0 if upper else shifts[place] < 0
        strip_slots[strip + 1] = strip_slots[strip] + slots
    n_values = np.int64(0)
    for place in range(n_strips):
        strip = n_strips - 1 - place if upper else place
        strip_values[strip] = n_values
        size = np.int64(strip_slots[strip + 1] - strip_slots[strip]) * (
            strip_rows[strip + 1] - strip_rows[strip]
        )
        n_values += (size + WIDTH - 1) // WIDTH * WIDTH
    return n_values


@kernel(lambda: (CSR, int32[::1], int32[::1], int64[::1], int32[::1], STRIPS, STRIPS, int32[::1]))
def _fill_strips(csr, order, new_number, strip_shifts, shifts, lower, upper, slot_of):
    """Set slot_columns and values of both triangles. slot_of: int32 [2 n], scratch: slot by shift.

    Both triangles are filled in one pass, because the matrix comes from memory and the rows of a strip stay in cache.
    Indices are made unsigned for the reason that `sparse.grid_transfer` gives.
    """
    indptr, columns, values = csr
    n = order.size
    for strip in range(lower.strip_rows.size - 1):
        row, end = lower.strip_rows[strip], lower.strip_rows[strip + 1]
        first, above = strip_shifts[strip], upper.strip_slots[strip]
        n_lower = lower.strip_slots[strip + 1] - lower.strip_slots[strip]
        n_upper = upper.strip_slots[strip + 1] - above
        for s in range(n_lower + n_upper):  # shifts ascend: lower ones first
            shift = shifts[first + s]
            if s < n_lower:
                lower.slot_columns[lower.strip_slots[strip] + s] = row + shift
                slot_of[shift + n] = s
            else:
                upper.slot_columns[above + s - n_lower] = row + shift
                slot_of[shift + n] = s - n_lower
        at_lower, at_upper = lower.strip_values[strip], upper.strip_values[strip]
        for chunk in range(row, end, WIDTH):
            width = min(WIDTH, end - chunk)
            below = lower.values[at_lower : at_lower + width * n_lower]
            over = upper.values[at_upper : at_upper + width * n_upper]
            below[:] = 0.0
            over[:] = 0.0
            for lane in range(width):
                start, stop = indptr[order[chunk + lane]], indptr[order[chunk + lane] + 1]
                entries, numbers = columns[start:stop], values[start:stop]
                for k in range(entries.size):
                    if entries[k] < n:
                        shift = new_number[uint32(entries[k])] - (chunk + lane)
                        place = uint64(slot_of[uint64(shift + n)] * width + lane)
                        if shift < 0:
                            below[place] = numbers[k]
                        elif shift > 0:
                            over[place] = numbers[k]
            at_lower += width * n_lower
            at_upper += width * n_upper


def make_triangles(
    indptr: NDArray[Any],
    columns: NDArray[Any],
    values: NDArray[Any],
    order: NDArray[Any],
    new_number: NDArray[Any],
    front_rows: NDArray[Any],
) -> tuple[Strips, Strips]:
    """Return the strict lower and upper triangle, in the new order, of a matrix in rows; both have the same strips.

    Parameters
    ----------
    indptr, columns, values : int64 [n + 1], int32 [nnz] and float64 [nnz], rows and columns in the old order; the
        diagonal and external columns (n and above) are left out
    order, new_number, front_rows : of `order_by_wavefront`
    """
    n = order.size
    csr = (indptr, columns, values)
    strip_rows, front_strips = np.empty(n + 1, np.int32), np.empty(front_rows.size, np.int32)
    strip_shifts, shifts = np.empty(n + 1, np.int64), np.empty(columns.size, np.int32)
    scratch = np.zeros(2 * n, np.int32)
    n_strips = _find_strips(
        csr, order, new_number, front_rows, strip_rows, front_strips, strip_shifts, shifts, scratch
    )
    strip_rows = strip_rows[: n_strips + 1].copy()
    triangles = []
    for is_upper in (False, True):
        strip_slots, strip_values = np.empty(n_strips + 1, np.int32), np.empty(n_strips, np.int64)
        n_values = _place_strips(strip_rows, strip_shifts, shifts, is_upper, strip_slots, strip_values)
        slot_columns = np.empty(strip_slots[-1], np.int32)
        stored = aligned_empty(n_values, np.float64)
        triangles.append(Strips(strip_rows, strip_slots, slot_columns, strip_values, stored, front_strips))
    lower, upper = triangles
    _fill_strips(csr, order, new_number, strip_shifts, shifts, lower, upper, scratch)
    return lower, upper


def deal_strips(strips: Strips, n_threads: int) -> NDArray[Any]:
    """Share the strips of each wavefront among threads, by rows, as evenly as whole strips allow.

    Returns bounds, int32 [n_fronts, n_threads + 1]: thread t has strips bounds[k, t] ... bounds[k, t + 1] - 1 of
    wavefront k.
    """
    bounds = np.empty((strips.front_strips.size - 1, n_threads + 1), np.int32)
    _deal(strips.strip_rows, strips.front_strips, bounds)
    return bounds


@kernel(lambda: (int32[::1], int32[::1], int32[:, ::1]))
def _deal(strip_rows, front_strips, bounds):
    n_threads = bounds.shape[1] - 1
    for front in range(bounds.shape[0]):
        strip, end = front_strips[front], front_strips[front + 1]
        first, rows = strip_rows[strip], strip_rows[end] - strip_rows[strip]
        bounds[front, 0], bounds[front, n_threads] = strip, end
        for thread in range(1, n_threads):
            goal = first + rows * thread // n_threads
            while strip < end and strip_rows[strip + 1] + strip_rows[strip] <= 2 * goal:
                strip += 1
            bounds[front, thread] = strip


def kernels(threads: int) -> list[Specialisation]:
    """Return the kernels that make triangles, and that share them among threads if there are several."""
    sharing = [_deal] if threads > 1 else []
    return specialise([_find_strips, _place_strips, _fill_strips, *sharing])
