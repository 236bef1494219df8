"""What hosts factor: a panel with partial pivoting, or a diagonal block without, rounded to 16 bits where asked.

With pivoting a column of processes factors a panel, recursively and right-looking. A panel of more than NBMIN columns
is divided into NDIV parts. Each part is factored, then those to its right are updated by one triangular solve and one
product. NBMIN columns and fewer are the base case (panel_kernels.py).

On P > 1 processes each column takes one exchange, by recursive doubling in log2 P steps. The largest candidate, its
row and the row that it replaces travel together. So all processes hold the factored top block, and nobody sends it.
Source: Petitet et al., "HPL", overview, "Panel factorization"; Gustavson, IBM J. Res. Dev. 41 (1997).

Storage of fewer bits is emulated: numbers stay in float32 and hold what float16 or bfloat16 would. They are rounded
to nearest, ties to even. Magnitudes above the largest number become infinite, small ones subnormal.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from ml_dtypes import bfloat16
from mpi4py import MPI
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from ridgeline.bench.hpl import panel_kernels
from ridgeline.bench.hpl.blas_calls import BlasAddresses
from ridgeline.bench.hpl.matrix_kernels import round_to_float16
from ridgeline.bench.hpl.python_blas import solve_lower, solve_upper_from_right, subtract_product
from ridgeline.bench.hpl.record import Storage
from ridgeline.bench.hpl.update_kernels import BLOCK

_TAG = 7
_INNER = 32  # columns of a diagonal block that the compiled loop eliminates at once; BLAS does the rest
Reals = NDArray[np.float64]
Singles = NDArray[np.float32]


def _touched(count: int) -> Reals:
    return np.full(count, 0.0)  # pages are touched now and not in the timed part


class ColumnPanel:
    """Room for one panel: `below`, `top` and the pivots, one after the other in one message.

    below: factored rows of this process, float64 [rows, width]; top: the block of pivot rows, float64 [width, width],
    unit lower and upper triangle in one; pivots: global row that was exchanged with each row of the top block, as
    float64 [width], which holds whole numbers exactly; inverses: of L's diagonal blocks, [width, BLOCK], which every
    process computes for itself (`invert`). allocate: gives memory for so many float64.
    """

    def __init__(self, most_rows: int, nb: int, allocate: Callable[[int], Reals] = _touched) -> None:
        self._memory, self._inverses = allocate((most_rows + nb + 1) * nb), allocate(nb * BLOCK)
        self.shape(0, most_rows, nb)

    def shape(self, first: int, rows: int, width: int) -> None:
        """Let this be the panel whose columns begin at global column `first`."""
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
    """Factors panels on a column of processes. comm: its processes; place: of this one in comm."""

    def __init__(self, comm: MPI.Comm, blas: BlasAddresses, nb: int, nbmin: int, ndiv: int) -> None:
        self._comm, self._blas, self._nbmin, self._ndiv = comm, blas, nbmin, ndiv
        self._room = np.zeros((2, panel_kernels.HEAD + 2 * nb))

    def factor(self, panel: ColumnPanel, rows: NDArray[np.int64], diagonal: bool) -> None:
        """Factor `panel` in place. Collective over the column of processes.

        rows: global rows of panel.below, int64; diagonal: whether this process has the diagonal block, whose rows are
        then the first of `below`.
        """
        self._panel, self._rows, self._diagonal = panel, rows, diagonal
        self._below, self._top = panel.below.T, panel.top.T  # as kernels get them
        self._bits = self._below.view(np.int64)
        self._local = np.zeros(panel.width, np.int64)
        size = panel_kernels.HEAD + 2 * panel.width
        self._mine, self._other = self._room[0, :size], self._room[1, :size]
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
                panel_kernels.update_right(
                    *self._blas, self._below, self._top, self._active(stop), start, stop, last
                )

    def _factor_base(self, first: int, last: int) -> None:
        panel = self._panel
        if self._comm.size == 1:
            panel_kernels.factor_columns(self._below, self._bits, self._top, self._local, first, last)
            return
        mine, mine_bits = self._mine, self._mine.view(np.int64)
        for column in range(first, last):
            active = column if self._diagonal else -1
            panel_kernels.offer_pivot(
                self._below, self._bits, self._top, active, first, column, self._rows, mine, mine_bits
            )
            owned = mine[1] if mine_bits[0] >= 0 else -1.0
            self._exchange()
            pivot = mine[1]
            panel.pivots[column] = pivot
            # This process had the pivot if it is the one that it offered.
            row = int(np.searchsorted(self._rows, int(pivot))) if owned == pivot else -1
            panel_kernels.take_pivot(self._below, self._top, column, row, mine)
        panel_kernels.divide_last(self._below, self._top, self._active(last), last - 1)

    def _exchange(self) -> None:
        """Give all processes the best candidate and the current row. Collective over the column of processes."""
        comm, mine, other = self._comm, self._mine, self._other
        mine_bits, other_bits = mine.view(np.int64), other.view(np.int64)
        rank, power = comm.rank, 1 << (comm.size.bit_length() - 1)
        beyond = rank + power  # who has no partner of its own, as 4 and 5 of 6 processes
        if rank >= power:
            comm.Send(mine, rank - power, _TAG)
            comm.Recv(mine, rank - power, _TAG)
            return
        if beyond < comm.size:
            comm.Recv(other, beyond, _TAG)
            panel_kernels.combine_offers(mine, mine_bits, other, other_bits)
        distance = 1
        while distance < power:
            partner = rank ^ distance
            comm.Sendrecv(mine, partner, _TAG, other, partner, _TAG)
            panel_kernels.combine_offers(mine, mine_bits, other, other_bits)
            distance *= 2
        if beyond < comm.size:
            comm.Send(mine, beyond, _TAG)


def factor_block(block: Singles, storage: Storage) -> None:
    """Replace a diagonal block by its factors, then round them. block: [column, row], contiguous."""
    matrix = block.T
    for first in range(0, len(block), _INNER):
        last = min(first + _INNER, len(block))
        panel_kernels.eliminate(block, first, last)
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
