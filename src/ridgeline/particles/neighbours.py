"""Verlet lists: the neighbours of each particle within a given reach, valid until a particle moves by half the skin.

A full list has every neighbour of every owned particle. A half list has every pair once, whether the neighbour is
owned or a ghost: it has the neighbours in the upper half of space, where z is larger, or z is equal and y larger, or
both are equal and x larger. The two ranks of a pair agree on which of them lists it, provided that the positions of
ghosts are shifted without rounding. Forces on ghosts then return to their owners (`Ghosts.reverse`).

Sources: Verlet, Phys. Rev. 159 (1967) 98; Plimpton, J. Comput. Phys. 117 (1995), Sec. 5.
"""

from __future__ import annotations

import math

import numba
import numpy as np
from numba import boolean, float64, int32, int64
from numpy.typing import NDArray

from ridgeline.jit.kernel import Specialisation, kernel, specialise, subroutine
from ridgeline.particles.cells import Cells, kernels_of_cells
from ridgeline.particles.neighbours_llvm import LANES, append_near, gather_near_box

# The length of a list is padded to a multiple of this with a row that is far away: vector loops need no remainder.
MULTIPLE = 16
SPARE = 1.1  # allocated lists over those needed now
FAR = 1e6  # coordinates of the padding row: beyond every reach, and its powers are finite


class NeighbourList:
    """List the neighbours within `reach` of the owned particles of one rank.

    Parameters
    ----------
    cells : Cells
        The cells of the rank's box, which `build` fills.
    reach : float
        Largest distance of a neighbour.
    half : bool
        List every pair once, instead of once for each of its particles.
    threads : int
        Threads that build the lists; Numba must have been given as many.

    Attributes
    ----------
    rows : int32 [>= n, capacity]
        For each owned particle the rows of its neighbours, padded to a multiple of MULTIPLE with the row n_all. The
        caller puts that row far from all particles.
    counts : int64 [>= n]
        Length of each list with its padding.
    pairs : int
        Number of listed pairs, without padding.
    order : int64 [n]
        The owned rows. The first `inner` of them have no neighbour that arrives in a message.

    Notes
    -----
    Local. Building costs some 27 cells of distances for each particle. Sources: Verlet, Phys. Rev. 159 (1967) 98;
    Plimpton, J. Comput. Phys. 117 (1995), Sec. 5.

    Examples
    --------
    >>> import numpy as np
    >>> from ridgeline.jit.kernel import compile_kernels
    >>> from ridgeline.particles.cells import Cells
    >>> from ridgeline.particles.neighbours import FAR, NeighbourList, kernels_of_neighbours
    >>> compile_kernels(kernels_of_neighbours())
    >>> positions = np.array([[0.1, 0.5, 0.5], [0.2, 0.5, 0.5], [0.8, 0.5, 0.5], [FAR, FAR, FAR]])
    >>> lists = NeighbourList(Cells(((0.0, 1.0), (0.0, 1.0), (0.0, 1.0)), reach=0.3), reach=0.3)
    >>> lists.build(positions, n=3, n_local=3, n_all=3)
    >>> lists.pairs, int(lists.rows[0, 0]), int(lists.rows[1, 0])
    (2, 1, 0)
    """

    def __init__(self, cells: Cells, reach: float, half: bool = False, threads: int = 1) -> None:
        self._cells, self._reach, self._half, self._threads = cells, reach, half, threads
        self.rows = np.empty((0, 0), np.int32)
        self.counts = np.empty(0, np.int64)
        self.order = np.empty(0, np.int64)
        self.pairs = self.inner = 0
        self._capacity = list_capacity(0)

    def build(self, positions: NDArray[np.float64], n: int, n_local: int, n_all: int) -> None:
        """List the neighbours of the first n rows among all n_all rows.

        Parameters
        ----------
        positions : float64 [m, >= 3]
            Rows that begin with x, y, z.
        n : int
            Number of owned rows.
        n_local, n_all : int
            Rows from n on are ghosts, and those from n_local to n_all - 1 arrive in messages (`Ghosts`).
        """
        self._cells.fill(positions, n_all)
        outer = np.empty(n, bool)
        cells = self._cells
        # How many owned rows are before each cell, and the cells at which the threads begin.
        owned = np.concatenate([[0], np.cumsum(cells.order[:n_all] < n)])[cells.starts]
        shares = np.searchsorted(owned, np.arange(self._threads + 1) * n // self._threads)
        shares[-1] = len(owned) - 1
        # Scratch for everything in a cell and around it, for each thread.
        widest = 9 * int((cells.starts[3:] - cells.starts[:-3]).max(initial=0)) + LANES
        near = np.empty((self._threads, 3, widest))
        near_rows = np.empty((self._threads, widest), np.int32)
        most = np.empty(self._threads, np.int64)
        totals = np.empty(self._threads, np.int64)
        while True:
            if self.rows.shape[0] < n or self.rows.shape[1] != self._capacity:
                self.rows = np.empty((math.ceil(SPARE * n), self._capacity), np.int32)
                self.counts = np.empty(len(self.rows), np.int64)
            find_neighbours(
                n,
                n_local,
                n_all,
                cells.shape,
                cells.starts,
                cells.order,
                cells.sorted,
                owned,
                shares,
                self._reach**2,
                self._half,
                near,
                near_rows,
                self.rows.reshape(-1),
                self._capacity,
                self.counts,
                outer,
                most,
                totals,
            )
            if most.max() + LANES + MULTIPLE <= self._capacity:
                break
            self._capacity += 2 * MULTIPLE  # a list that was cut off does not tell its length
        self.pairs = int(totals.sum())
        self.order = np.argsort(outer, kind="stable")
        self.inner = n - int(outer.sum())


def list_capacity(longest: int) -> int:
    """Return the capacity to allocate for each list when the longest has `longest` entries."""
    return 2 * MULTIPLE * max(2, -(-(longest + LANES + MULTIPLE) // (2 * MULTIPLE)))


def kernels_of_neighbours() -> list[Specialisation]:
    """Return the kernels that `NeighbourList` and its cells call.

    Returns
    -------
    list of Specialisation
        Kernels and argument types, for `compile_kernels`.

    Examples
    --------
    >>> from ridgeline.particles.neighbours import kernels_of_neighbours
    >>> [wanted.kernel.__name__ for wanted in kernels_of_neighbours()]
    ['sort_rows', 'copy_sorted', 'find_neighbours']
    """
    return [*kernels_of_cells(), *specialise([find_neighbours])]


@kernel(
    lambda: (
        int64,
        int64,
        int64,
        int64[::1],
        int64[::1],
        int32[::1],
        float64[:, ::1],
        int64[::1],
        int64[::1],
        float64,
        boolean,
        float64[:, :, ::1],
        int32[:, ::1],
        int32[::1],
        int64,
        int64[::1],
        boolean[::1],
        int64[::1],
        int64[::1],
    ),
    parallel=True,
    nogil=True,
)
def find_neighbours(
    n,
    n_local,
    n_all,
    shape,
    starts,
    order,
    places,
    owned,
    shares,
    square,
    half,
    near,
    near_rows,
    out_rows,
    capacity,
    out_counts,
    out_outer,
    out_most,
    out_totals,
):
    """List the rows that are nearer than sqrt(square) to each of the first n rows; see `NeighbourList`.

    Candidates that are near any particle of a cell are gathered first, so that all particles of the cell search one
    contiguous range of memory.

    shape, starts, order, places : the attributes of `Cells` (places are its `sorted`); owned : (cells + 1,) owned
    rows before each cell; shares : (threads + 1,) first cell of each thread; near, near_rows : (threads, 3, m),
    (threads, m) scratch; out_outer : (n,) whether a row has a neighbour from n_local on; out_most, out_totals :
    (threads,) longest list and number of pairs of each thread. A list that reaches capacity - MULTIPLE is cut off
    there.
    """
    for t in numba.prange(out_most.shape[0]):
        most, total = 0, 0
        mine, mine_rows, box = near[t], near_rows[t], np.empty(6)
        for cell in range(shares[t], shares[t + 1]):
            if owned[cell + 1] == owned[cell]:
                continue
            begin, end = starts[cell], starts[cell + 1]
            _bound(places, order, begin, end, n, box)
            found = _gather(shape, starts, order, places, cell, half, box, square, mine, mine_rows)
            messages = False
            for place in range(found):
                messages |= mine_rows[place] >= n_local
            for k in range(begin, end):
                i = int64(order[k])
                if i >= n:
                    continue
                first = i * capacity
                at = append_near(
                    mine[0],
                    mine[1],
                    mine[2],
                    mine_rows,
                    0,
                    found,
                    places[0, k],
                    places[1, k],
                    places[2, k],
                    square,
                    i,
                    half,
                    out_rows,
                    first,
                    first + capacity - MULTIPLE,
                )
                listed = at - first
                most, total = max(most, listed), total + listed
                last = int32(0)
                if messages:
                    for place in range(first, at):
                        last = max(last, out_rows[place])
                out_outer[i] = last >= n_local
                for place in range(MULTIPLE):
                    out_rows[at + place] = n_all
                out_counts[i] = -(-listed // MULTIPLE) * MULTIPLE
        out_most[t], out_totals[t] = most, total


@subroutine
def _bound(places, order, begin, end, n, out_box):
    """Set out_box to the bounding box of the owned particles of a cell: three lower ends, then three upper ones."""
    for c in range(3):
        out_box[c], out_box[3 + c] = np.inf, -np.inf
        for k in range(begin, end):
            if order[k] < n:
                out_box[c], out_box[3 + c] = min(out_box[c], places[c, k]), max(out_box[3 + c], places[c, k])


@subroutine
def _gather(shape, starts, order, places, cell, half, box, square, out_near, out_rows):
    """Gather the particles near `box` from the cell and the 26 around it; return their number.

    A particle at the edge of the domain may be rounded into the layer outside; such a cell searches around the
    nearest cell inside. half: layers of smaller z are left out.
    """
    own = cell // (shape[0] * shape[1])
    a = min(max(cell % shape[0], 1), shape[0] - 2)
    b = min(max(cell // shape[0] % shape[1], 1), shape[1] - 2)
    c = min(max(own, 1), shape[2] - 2)
    found = 0
    for k in range(own if half else c - 1, c + 2):
        for j in range(b - 1, b + 2):
            run = (k * shape[1] + j) * shape[0] + a
            found = gather_near_box(
                places, order, starts[run - 1], starts[run + 2], box, square, out_near, out_rows, found
            )
    return found
