"""The parts that hosts factor: a panel with partial pivoting, or a diagonal block without, rounded to 16 bits.

With pivoting, a column of processes factors a panel, recursively and right-looking. A panel of more than NBMIN
columns is divided into NDIV parts. Each part is factored, then those to its right are updated by one triangular solve
and one product. NBMIN columns and fewer are the base case (`factor_columns`).

On P > 1 processes each column needs one exchange, by recursive doubling in log2 P steps. The largest candidate, its
row and the row that it replaces travel together. All processes therefore have the factored top block, and it is not
sent again.
Source: Petitet et al., "HPL", overview, "Panel factorization"; Gustavson, IBM J. Res. Dev. 41 (1997).

A panel has `width` columns. `below` [rows, width] has the rows of this process. `top` [width, width] has the rows
that were chosen as pivots, the same on all processes of the column. Rows before `active` of `below` are no longer
used: they are those that pivots have replaced, on the process with the diagonal block.

Within the base case a column is brought up to date when its turn comes (left-looking), in one pass over the rows. The
pass divides the column before it by its pivot, subtracts the products with the columns before, and searches for the
largest number. Each column is thus written once, and the others are only read. Magnitudes are compared as integers:
the bit patterns of IEEE numbers, without their signs, are in the same order, NaN above all.

Storage of fewer bits is emulated: numbers stay in float32 and have the values of float16 or bfloat16. They are
rounded to nearest, ties to even. Magnitudes above the largest number become infinite, small ones subnormal.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from ml_dtypes import bfloat16
from mpi4py import MPI
from numba import float32, float64, int64, types, uint32
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from ridgeline.bench.hpl.blas import (
    BlasAddresses,
    gemm_subtract,
    solve_lower,
    solve_upper_from_right,
    subtract_product,
    trsm_unit_lower,
)
from ridgeline.bench.hpl.record import Storage
from ridgeline.jit.kernel import Specialisation, kernel, specialise, subroutine

_TAG = 7
BLOCK = 64  # rows of L's diagonal blocks, whose inverses turn the triangular solve into products
_INNER = 32  # columns of a diagonal block that the compiled loop eliminates at a time; BLAS does the rest
Reals = NDArray[np.float64]
Singles = NDArray[np.float32]
_ROWS = 512  # rows of a piece of a column, which stays in the first cache
_MAGNITUDE = np.int64(2**63 - 1)
_LEAST_PIVOT = float(np.finfo(np.float64).tiny)  # whose inverse is finite
HEAD = 3  # of a message: bits of the magnitude, global row of the pivot, whether it has the current row

_MATRIX, _BITS = float64[:, ::1], int64[:, ::1]
# Bits of float32 numbers that are rounded to float16.
SIGN, INFINITY = np.uint32(0x80000000), np.uint32(0x7F800000)
ONE = np.uint32(1)
HALF_OVERFLOW = np.uint32(0x477FF000)  # 65520: halfway between the largest float16 and what would be next
HALF_NORMAL = np.uint32(0x38800000)  # 2^-14
# float32 numbers from here on are multiples of 2^-24, as subnormals of float16.
HALF_QUANTUM = np.float32(0.5)
# The number of bits that are cut off at the end, a mask of the bits that are kept, and the number that rounds to
# nearest: it is added together with the last bit that is kept.
HALF_CUT, HALF_KEPT, HALF_TIE = np.uint32(13), np.uint32(0xFFFFE000), np.uint32(0xFFF)


def _touched(count: int) -> Reals:
    return np.full(count, 0.0)  # touches the pages now and not in the timed part


class ColumnPanel:
    """Memory for one panel: `below`, `top` and the pivots, one after the other in one message.

    Attributes
    ----------
    below : factored rows of this process, float64 [rows, width]
    top : the block of pivot rows, float64 [width, width], with the unit lower and the upper triangle
    pivots : the global row that was exchanged with each row of the top block, float64 [width], which holds whole
        numbers exactly
    inverses : inverses of L's diagonal blocks, [width, BLOCK], which every process computes itself (`invert`)
    """

    def __init__(self, most_rows: int, nb: int, allocate: Callable[[int], Reals] = _touched) -> None:
        self._memory, self._inverses = allocate((most_rows + nb + 1) * nb), allocate(nb * BLOCK)
        self.shape(0, most_rows, nb)

    def shape(self, first: int, rows: int, width: int) -> None:
        """Shape the memory for the panel whose columns begin at global column `first`."""
        self.first, self.width = first, width
        self.message = self._memory[: (rows + width + 1) * width]
        self.below = self.message[: rows * width].reshape((rows, width), order="F")
        top_end = (rows + width) * width
        self.top = self.message[rows * width : top_end].reshape((width, width), order="F")
        self.pivots = self.message[top_end:]
        self.inverses = self._inverses[: width * BLOCK].reshape((width, BLOCK), order="F")

    def invert(self) -> None:
        """Compute the inverses of L's diagonal blocks from `top`."""
        for start in range(0, self.width, BLOCK):
            rows = slice(start, min(start + BLOCK, self.width))
            inverse = self.inverses[rows, : rows.stop - start]
            inverse[:] = np.eye(rows.stop - start)
            solve_lower(self.top[rows, rows], inverse)


class PanelFactoriser:
    """Factors panels on a column of processes. comm: the processes of the column."""

    def __init__(self, comm: MPI.Comm, blas: BlasAddresses, nb: int, nbmin: int, ndiv: int) -> None:
        self._comm, self._blas, self._nbmin, self._ndiv = comm, blas, nbmin, ndiv
        self._messages = np.zeros((2, HEAD + 2 * nb))

    def factor(self, panel: ColumnPanel, rows: NDArray[np.int64], diagonal: bool) -> None:
        """Factor `panel` in place. Collective over the column of processes.

        rows: global rows of panel.below, int64; diagonal: whether this process has the diagonal block, whose rows are
        the first rows of `below` then.
        """
        self._panel, self._rows, self._diagonal = panel, rows, diagonal
        self._below, self._top = panel.below.T, panel.top.T  # as kernels get them
        self._bits = self._below.view(np.int64)
        self._local = np.zeros(panel.width, np.int64)
        size = HEAD + 2 * panel.width
        self._mine, self._other = self._messages[0, :size], self._messages[1, :size]
        self._recurse(0, panel.width)
        if self._comm.size == 1:
            panel.pivots[:] = rows[self._local]

    def _active(self, column: int) -> int:
        return column if self._diagonal else 0

    def _recurse(self, first: int, last: int) -> None:
        if last - first <= self._nbmin:
            self._factor_base(first, last)
            return
        bases = -(-(last - first) // self._nbmin)
        step = -(-bases // self._ndiv) * self._nbmin
        for start in range(first, last, step):
            stop = min(start + step, last)
            self._recurse(start, stop)
            if stop < last:
                update_right(*self._blas, self._below, self._top, self._active(stop), start, stop, last)

    def _factor_base(self, first: int, last: int) -> None:
        panel = self._panel
        if self._comm.size == 1:
            factor_columns(self._below, self._bits, self._top, self._local, first, last)
            return
        mine, mine_bits = self._mine, self._mine.view(np.int64)
        for column in range(first, last):
            active = column if self._diagonal else -1
            offer_pivot(
                self._below, self._bits, self._top, active, first, column, self._rows, mine, mine_bits
            )
            owned = mine[1] if mine_bits[0] >= 0 else -1.0
            self._exchange()
            pivot = mine[1]
            panel.pivots[column] = pivot
            # This process had the pivot if it is the one that this process offered.
            row = int(np.searchsorted(self._rows, int(pivot))) if owned == pivot else -1
            take_pivot(self._below, self._top, column, row, mine)
        divide_last(self._below, self._top, self._active(last), last - 1)

    def _exchange(self) -> None:
        """Exchange the best candidate and the current row between all processes of the column. Collective."""
        comm, mine, other = self._comm, self._mine, self._other
        mine_bits, other_bits = mine.view(np.int64), other.view(np.int64)
        rank, power = comm.rank, 1 << (comm.size.bit_length() - 1)
        beyond = rank + power  # a rank without a partner in the doubling, such as 4 and 5 of 6
        if rank >= power:
            comm.Send(mine, rank - power, _TAG)
            comm.Recv(mine, rank - power, _TAG)
            return
        if beyond < comm.size:
            comm.Recv(other, beyond, _TAG)
            combine_offers(mine, mine_bits, other, other_bits)
        distance = 1
        while distance < power:
            partner = rank ^ distance
            comm.Sendrecv(mine, partner, _TAG, other, partner, _TAG)
            combine_offers(mine, mine_bits, other, other_bits)
            distance *= 2
        if beyond < comm.size:
            comm.Send(mine, beyond, _TAG)


def factor_block(block: Singles, storage: Storage) -> None:
    """Replace a diagonal block by its factors, then round them. block: [column, row], contiguous."""
    matrix = block.T
    for first in range(0, len(block), _INNER):
        last = min(first + _INNER, len(block))
        eliminate(block, first, last)
        inner = matrix[first:last, first:last]
        solve_upper_from_right(inner, matrix[last:, first:last])
        solve_lower(inner, matrix[first:last, last:])
        subtract_product(matrix[last:, first:last], matrix[first:last, last:], matrix[last:, last:])
    round_to(storage, matrix)


def round_to(storage: Storage, values: Singles) -> None:
    """Round a matrix [rows, columns] in place to "float32" (nothing to do), "float16" or "bfloat16".

    values: column-major; its columns may lie apart, as those of a slice do.
    """
    if not values.size or storage == "float32":
        return
    if storage == "bfloat16":
        values[:] = values.astype(bfloat16)
        return
    # NumPy takes four times as long, and a hundred times as long for subnormal numbers.
    rows, columns = values.shape
    pitch = values.strides[1] // values.itemsize
    flat = as_strided(values, ((columns - 1) * pitch + rows,), (values.itemsize,))
    round_to_float16(flat, flat.view(np.uint32), pitch, rows, columns)


@subroutine
def _advance_top(top, first, column):
    """Bring a column of the pivot rows up to date."""
    for row in range(first + 1, column):
        value = top[row, column]
        for k in range(first, row):
            value -= top[row, k] * top[k, column]
        top[row, column] = value


@subroutine(error_model="numpy")
def _divide_column(below, start, stop, column, pivot):
    """Divide a column by its pivot, by a product with its inverse, as in LAPACK, where the inverse is finite."""
    if abs(pivot) >= _LEAST_PIVOT:
        inverse = 1.0 / pivot
        for row in range(start, stop):
            below[row, column] *= inverse
    else:
        for row in range(start, stop):
            below[row, column] /= pivot


@subroutine(fastmath={"contract"}, error_model="numpy")
def _advance_column(below, bits, top, active, first, column):
    """Bring a column up to date; return (bits of its largest magnitude, its row), -1 without rows."""
    _advance_top(top, first, column)
    best, best_row = np.int64(-1), np.int64(-1)
    for start in range(active, below.shape[0], _ROWS):
        stop = min(start + _ROWS, below.shape[0])
        if column > first:
            _divide_column(below, start, stop, column - 1, top[column - 1, column - 1])
        k = first
        while k + 4 <= column:
            u0, u1, u2, u3 = top[k, column], top[k + 1, column], top[k + 2, column], top[k + 3, column]
            for row in range(start, stop):
                below[row, column] -= (
                    below[row, k] * u0
                    + below[row, k + 1] * u1
                    + below[row, k + 2] * u2
                    + below[row, k + 3] * u3
                )
            k += 4
        if k + 2 <= column:
            u0, u1 = top[k, column], top[k + 1, column]
            for row in range(start, stop):
                below[row, column] -= below[row, k] * u0 + below[row, k + 1] * u1
            k += 2
        if k < column:
            u0 = top[k, column]
            for row in range(start, stop):
                below[row, column] -= below[row, k] * u0
        largest = np.int64(-1)
        for row in range(start, stop):
            largest = max(largest, bits[row, column] & _MAGNITUDE)
        if largest > best:
            best, best_row = largest, start
            while bits[best_row, column] & _MAGNITUDE != largest:
                best_row += 1
    return best, best_row


@kernel(lambda: (_MATRIX, _BITS, _MATRIX, int64[::1], int64, int64), nogil=True, error_model="numpy")
def factor_columns(below, bits, top, pivots, first, last):
    """Factor columns first ... last - 1 on the only process of the column; pivots get rows of `below`."""
    below, bits, top = below.T, bits.T, top.T
    for column in range(first, last):
        _, pivot = _advance_column(below, bits, top, column, first, column)
        pivots[column] = pivot
        for k in range(below.shape[1]):
            top[column, k] = below[pivot, k]
            below[pivot, k] = below[column, k]
    _divide_column(below, last, below.shape[0], last - 1, top[last - 1, last - 1])


@kernel(
    lambda: (_MATRIX, _BITS, _MATRIX, int64, int64, int64, int64[::1], float64[::1], int64[::1]),
    nogil=True,
    error_model="numpy",
)
def offer_pivot(below, bits, top, active, first, column, rows, message, message_bits):
    """Bring a column up to date and write this process's candidate into the message.

    rows: global rows of `below`; active: `column` on the process with the diagonal block, which also offers the row
    that is to be replaced, -1 elsewhere. message: head, row of the pivot, current row; message_bits: its bits.
    """
    below, bits, top = below.T, bits.T, top.T
    width = below.shape[1]
    best, row = _advance_column(below, bits, top, max(active, 0), first, column)
    message_bits[0] = best
    if row >= 0:
        message[1] = rows[row]
        for k in range(width):
            message[HEAD + k] = below[row, k]
    message[2] = 0.0
    if active >= 0:
        message[2] = 1.0
        for k in range(width):
            message[HEAD + width + k] = below[column, k]


@kernel(lambda: (float64[::1], int64[::1], float64[::1], int64[::1]), nogil=True)
def combine_offers(mine, mine_bits, other, other_bits):
    """Keep the better of two candidates in `mine`: the larger one, and of equal ones that of the smaller row."""
    width = (mine.size - HEAD) // 2
    if other_bits[0] > mine_bits[0] or (other_bits[0] == mine_bits[0] and other[1] < mine[1]):
        mine_bits[0] = other_bits[0]
        mine[1] = other[1]
        for k in range(HEAD, HEAD + width):
            mine[k] = other[k]
    if other[2] > 0.0:
        mine[2] = 1.0
        for k in range(HEAD + width, HEAD + 2 * width):
            mine[k] = other[k]


@kernel(lambda: (_MATRIX, _MATRIX, int64, int64, float64[::1]), nogil=True)
def take_pivot(below, top, column, row, message):
    """Write the pivot's row into `top`, and where this process had it (row >= 0), the current row into its place."""
    below, top = below.T, top.T
    width = below.shape[1]
    for k in range(width):
        top[column, k] = message[HEAD + k]
    if row >= 0:
        for k in range(width):
            below[row, k] = message[HEAD + width + k]


@kernel(lambda: (_MATRIX, _MATRIX, int64, int64), nogil=True, error_model="numpy")
def divide_last(below, top, active, column):
    """Divide a column of the rows from `active` on by its pivot: the last one of a base case."""
    below, top = below.T, top.T
    _divide_column(below, active, below.shape[0], column, top[column, column])


@kernel(lambda: (types.intp, types.intp, _MATRIX, _MATRIX, int64, int64, int64, int64), nogil=True)
def update_right(gemm, trsm, below, top, active, first, split, last):
    """Update columns split ... last - 1 by the factored columns first ... split - 1 to their left."""
    below, top = below.T, top.T
    trsm_unit_lower(trsm, top[first:split, first:split], top[first:split, split:last])
    gemm_subtract(gemm, below[active:, first:split], top[first:split, split:last], below[active:, split:last])


@kernel(lambda: (float32[:, ::1], int64, int64), nogil=True, error_model="numpy")
def eliminate(block, first, last):
    """Replace block[first:last, first:last] by its factors L (unit, lower) and U. block: [column, row].

    A zero pivot gives infinities and NaN but no error; the test of the solution detects them.
    """
    for k in range(first, last):
        inverse = float32(1.0) / block[k, k]
        for i in range(k + 1, last):
            block[k, i] *= inverse
        for j in range(k + 1, last):
            factor = block[j, k]
            for i in range(k + 1, last):
                block[j, i] -= factor * block[k, i]


@kernel(lambda: (float32[::1], uint32[::1], int64, int64, int64), nogil=True)
def round_to_float16(values, words, pitch, rows, columns):
    """Round columns of a matrix in place. They are `pitch` numbers apart. words: the same memory as uint32."""
    for j in range(columns):
        for at in range(j * pitch, j * pitch + rows):
            word = words[at]
            sign, magnitude = word & SIGN, word & ~SIGN
            if magnitude < HALF_NORMAL:
                values[at] = (abs(values[at]) + HALF_QUANTUM) - HALF_QUANTUM
                words[at] |= sign
            elif magnitude < HALF_OVERFLOW:
                words[at] = (word + HALF_TIE + ((word >> HALF_CUT) & ONE)) & HALF_KEPT
            elif magnitude <= INFINITY:
                words[at] = sign | INFINITY


def kernels() -> list[Specialisation]:
    """Return all kernels of this file."""
    return specialise(
        [factor_columns, offer_pivot, combine_offers, take_pivot, divide_last, update_right, eliminate]
    )
