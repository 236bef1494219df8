"""Cell lists: the particles of a box and their ghosts, sorted into cells that are at least as thick as a given reach.

Everything within the reach of a particle is then in its own cell or in one of the 26 around it. These are nine
contiguous ranges of memory, because cells that are neighbours in x follow each other. Source: Hockney and Eastwood,
"Computer Simulation Using Particles" (1988), Sec. 8-3-2.
"""

from __future__ import annotations

import numpy as np
from numba import float64, int32, int64
from numpy.typing import NDArray

from ridgeline.jit.kernel import Specialisation, kernel, specialise, subroutine
from ridgeline.particles.particles import SPARE

PADDING = 16  # entries beyond the last particle that vector loads may read


class Cells:
    """Sort the particles of one rank's box, and their ghosts, into cells with one layer of cells around the box.

    Triples are in the order x, y, z.

    Parameters
    ----------
    bounds : three pairs of floats
        (begin, end) of the box in z, y, x. The box is at least as thick as the reach.
    reach : float
        Least thickness of a cell.

    Attributes
    ----------
    shape : int64 [3]
        Number of cells, the layer included.
    low, per_length : float64 [3]
        Lower corner of the box, and cells per unit of length.
    order : int32 [>= n + PADDING]
        Rows of the particles, cell after cell.
    starts : int64 [cells + 1]
        Index in `order` at which each cell begins.
    sorted : float64 [3, >= n + PADDING]
        Positions of the particles in this order.

    Notes
    -----
    Local. `fill` is a counting sort: its cost grows linearly with the particles and the cells.

    Examples
    --------
    >>> import numpy as np
    >>> from ridgeline.jit.kernel import compile_kernels
    >>> from ridgeline.particles.cells import Cells, kernels_of_cells
    >>> compile_kernels(kernels_of_cells())
    >>> cells = Cells(((0.0, 1.0), (0.0, 1.0), (0.0, 1.0)), reach=0.5)
    >>> cells.fill(np.array([[0.9, 0.1, 0.1], [0.1, 0.1, 0.1]]), 2)
    >>> cells.shape, cells.order[:2]
    (array([4, 4, 4]), array([1, 0], dtype=int32))
    """

    def __init__(self, bounds: tuple[tuple[float, float], ...], reach: float) -> None:
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
        """Bytes of memory that are allocated."""
        return sum(array.nbytes for array in (self.starts, self._cell, self.order, self.sorted))

    def fill(self, rows: NDArray[np.float64], n: int) -> None:
        """Sort particles into the cells.

        Parameters
        ----------
        rows : float64 [m, >= 3]
            Positions, in rows that begin with x, y, z.
        n : int
            Number of rows that are sorted.
        """
        if len(self._cell) < n + PADDING:
            capacity = int(SPARE * n) + PADDING
            self._cell, self.order = np.zeros(capacity, np.int32), np.zeros(capacity, np.int32)
            self.sorted = np.zeros((3, capacity))
        sort_rows(rows, n, self.low, self.per_length, self.shape, self._cell, self.starts, self.order)
        copy_sorted(rows, n, self.order, self.sorted)


def kernels_of_cells() -> list[Specialisation]:
    """Return the kernels that `Cells` calls."""
    return specialise([sort_rows, copy_sorted])


@subroutine(inline="always")
def cell_along(x, low, per_length, cells):
    """Return the cell of x in one direction. Cells 0 and cells - 1 are outside the box and take all beyond them."""
    place = np.floor((x - low) * per_length) + 1.0
    return int64(min(max(place, 0.0), cells - 1.0))


@kernel(
    lambda: (
        float64[:, ::1],
        int64,
        float64[::1],
        float64[::1],
        int64[::1],
        int32[::1],
        int64[::1],
        int32[::1],
    ),
    nogil=True,
)
def sort_rows(rows, n, low, per_length, shape, cell, out_starts, out_order):
    """List the rows cell after cell; the rows of one cell keep their order (a counting sort).

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
