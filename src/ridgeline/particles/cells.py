"""Cell lists: the particles of a box and their ghosts, sorted into cells that are no thinner than a reach.

So all that is within the reach of a particle lies in its cell and the 26 around it. These are nine runs of memory, as
cells in x follow each other. Source: Hockney and Eastwood, "Computer Simulation Using Particles" (1988), Sec. 8-3-2.
"""

from __future__ import annotations

import numpy as np
from numba import float64, int32, int64
from numpy.typing import NDArray

from ridgeline.jit.kernel import Specialisation, kernel, specialise, subroutine
from ridgeline.particles.particles import SPARE

PADDING = 16  # places beyond the last particle that vectors may read


class Cells:
    """Cells of one rank's box, with one layer of cells around it. All triples are x, y, z. No communication.

    shape: cells with the layer, int64 [3]; low: where the box begins; per_length: cells per length.
    order: int32 [n + PADDING], rows of the particles, cell after cell; starts: int64 [cells + 1], where each cell
    begins in it; sorted: float64 [3, n + PADDING], their positions in this order.
    """

    def __init__(self, bounds: tuple[tuple[float, float], ...], reach: float) -> None:
        """bounds: (begin, end) of the box in z, y, x, no thinner than the reach."""
        low, high = np.array(bounds)[::-1].T
        inner = np.maximum((high - low) // reach, 1.0)
        self.low, self.per_length = low.copy(), inner / (high - low)
        self.shape = inner.astype(np.int64) + 2
        self.starts = np.zeros(int(self.shape.prod()) + 1, np.int64)
        self._cell = np.empty(0, np.int32)
        self.order = np.empty(0, np.int32)
        self.sorted = np.empty((3, 0))

    @property
    def n_bytes(self) -> int:
        """Memory held."""
        return sum(array.nbytes for array in (self.starts, self._cell, self.order, self.sorted))

    def fill(self, rows: NDArray[np.float64], n: int) -> None:
        """Sort the first n rows, which begin with x, y, z."""
        if len(self._cell) < n + PADDING:
            room = int(SPARE * n) + PADDING
            self._cell, self.order = np.zeros(room, np.int32), np.zeros(room, np.int32)
            self.sorted = np.zeros((3, room))
        sort_rows(rows, n, self.low, self.per_length, self.shape, self._cell, self.starts, self.order)
        copy_sorted(rows, n, self.order, self.sorted)


def kernels_of_cells() -> list[Specialisation]:
    """Return the kernels of `Cells`."""
    return specialise([sort_rows, copy_sorted])


@subroutine(inline="always")
def cell_along(x, low, per_length, cells):
    """Return the cell of x in a direction: 0 and cells - 1 are around the box and take what is beyond them."""
    place = np.floor((x - low) * per_length) + 1.0
    return int64(min(max(place, 0.0), cells - 1.0))


@kernel(
    lambda: (float64[:, ::1], int64, float64[::1], float64[::1], int64[::1], int32[::1], int64[::1], int32[::1]),
    nogil=True,
)  # fmt: skip
def sort_rows(rows, n, low, per_length, shape, cell, out_starts, out_order):
    """Count rows in cells, and list them cell after cell: those of a cell in the order that they had.

    rows: (m, w); cell: (n,) scratch; out_starts: (cells + 1,); out_order: (n,). See `Cells`.
    """
    out_starts[:] = 0
    for i in range(n):
        a = cell_along(rows[i, 0], low[0], per_length[0], shape[0])
        b = cell_along(rows[i, 1], low[1], per_length[1], shape[1])
        c = cell_along(rows[i, 2], low[2], per_length[2], shape[2])
        cell[i] = (c * shape[1] + b) * shape[0] + a
        out_starts[cell[i] + 1] += 1
    for c in range(out_starts.shape[0] - 1):
        out_starts[c + 1] += out_starts[c]
    for i in range(n):
        c = cell[i]
        out_order[out_starts[c]] = i
        out_starts[c] += 1
    for c in range(out_starts.shape[0] - 1, 0, -1):
        out_starts[c] = out_starts[c - 1]
    out_starts[0] = 0


@kernel(lambda: (float64[:, ::1], int64, int32[::1], float64[:, ::1]), nogil=True)
def copy_sorted(rows, n, order, out):
    """Copy positions in an order: out[:, k] = rows[order[k], :3]. out: (3, m)."""
    for k in range(n):
        for c in range(3):
            out[c, k] = rows[order[k], c]
