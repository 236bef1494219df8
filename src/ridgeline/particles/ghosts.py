"""Ghosts: copies of the particles of other ranks, and of periodic images, within a given reach of a rank's box.

Ghosts come in six messages in three stages, one direction after the other. What arrived in one stage is passed on in
the next, so that edges and corners need no messages of their own. Directions that are not cut among ranks come first,
because their ghosts are images of this rank's own particles and need no message. Source: Plimpton, J. Comput. Phys.
117 (1995), Sec. 5.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mpi4py import MPI
from numba import float64, int64
from numpy.typing import DTypeLike, NDArray

from ridgeline.jit.kernel import Specialisation, kernel, specialise
from ridgeline.particles.boxes import Boxes
from ridgeline.particles.particles import capacity_for
from ridgeline.runtime.errors import DecompositionError

Rows = NDArray[Any]
PROGRESS_CALLS = 4  # tests of pending messages in a stage: MPI moves long ones only while it is called


@dataclass
class _Swap:
    """One message: rows that are sent to one neighbour, and rows that are received from the opposite one."""

    places: NDArray[np.int64]  # indices of the rows that are sent
    shift: NDArray[np.float64]  # added to positions: the length of the domain across a periodic side
    to: int
    source: int
    first: int  # index of the first row that is received
    count: int
    buffer: NDArray[np.uint8] = field(default_factory=lambda: np.empty(0, np.uint8))

    @property
    def received(self) -> slice:
        """The rows that are received."""
        return slice(self.first, self.first + self.count)

    def packed(self, rows: Rows, shift: Rows) -> Rows:
        """Return the rows to send, shifted, in a buffer that the next message uses again."""
        shape = len(self.places), rows.shape[1]
        size = shape[0] * shape[1] * rows.itemsize
        if len(self.buffer) < size:
            self.buffer = np.empty(size, np.uint8)
        going = self.buffer[:size].view(rows.dtype).reshape(shape)
        take_rows(rows, self.places, shift, going)
        return going


class Ghosts:
    """Keep copies of the particles of other ranks, and of periodic images, within a reach of this rank's box.

    Arrays have rows [m, w]; rows of positions begin with x, y, z.

    Parameters
    ----------
    comm : MPI.Comm
        The ranks that own the boxes.
    boxes : Boxes
        The boxes of all ranks.
    reach : float
        The distance from the box up to which particles of others are copied.

    Attributes
    ----------
    n, n_local, n_all : int
        Rows 0 ... n - 1 are owned particles, rows n ... n_local - 1 images of owned particles, and rows
        n_local ... n_all - 1 ghosts that arrive in messages.
    stages : int
        Number of stages with messages in one `forward`.
    bytes_sent, messages : int
        What this rank sends to other ranks in one `forward` of positions.

    Raises
    ------
    DecompositionError
        If a box is thinner than the reach: ghosts come from direct neighbours only.

    Notes
    -----
    Collective over comm, except for the constructor. Ghosts come in at most six messages in three stages, one
    direction after the other. Source: Plimpton, J. Comput. Phys. 117 (1995), Sec. 5.

    Examples
    --------
    With two ranks, started by `mpiexec -n 2 python program.py`, each of which owns one particle near the common side:

    >>> import numpy as np
    >>> from mpi4py import MPI
    >>> from ridgeline.jit.kernel import compile_kernels
    >>> from ridgeline.parallel.communicator import compile_on_nodes
    >>> from ridgeline.particles.boxes import even_boxes
    >>> from ridgeline.particles.ghosts import Ghosts, kernels_of_ghosts
    >>> comm = MPI.COMM_WORLD
    >>> compile_on_nodes(comm, lambda: compile_kernels(kernels_of_ghosts()))
    >>> boxes = even_boxes((0, 0, 0), (1, 1, 1), np.arange(2).reshape(1, 1, 2), (False, False, False))
    >>> ghosts = Ghosts(comm, boxes, reach=0.1)
    >>> rows = ghosts.build(np.array([[0.45 + 0.1 * comm.rank, 0.5, 0.5]]), 1)
    >>> comm.allgather(float(rows[1, 0].round(2)))  # x of the ghost: the particle of the other rank
    [0.55, 0.45]
    """

    def __init__(self, comm: MPI.Comm, boxes: Boxes, reach: float) -> None:
        check_reach(boxes, reach)
        self._comm, self._boxes, self._reach = comm, boxes, reach
        cut = [size > 1 for size in boxes.ranks.shape[::-1]]
        self._axes = sorted(range(3), key=lambda axis: cut[axis])
        self.stages = sum(cut)
        self._swaps: list[tuple[_Swap, _Swap]] = []  # for each direction, to both sides
        self.n = self.n_local = self.n_all = self.bytes_sent = self.messages = 0

    def build(self, rows: NDArray[np.float64], n: int) -> NDArray[np.float64]:
        """Determine the ghosts of the present positions and append them.

        Parameters
        ----------
        rows : float64 [m, w]
            Positions, of which the first n are owned.
        n : int
            Number of owned particles.

        Returns
        -------
        float64 [>= n_all, w]
            The rows with the ghosts, in a larger array if they do not fit.

        Notes
        -----
        Communicates with the neighbours in each direction.
        """
        self._swaps, self.n, self.n_local, self.n_all = [], n, n, n
        self.bytes_sent = self.messages = 0
        bounds = self._boxes.bounds(self._comm.rank)
        for axis in self._axes:
            low, high = bounds[2 - axis]
            before, swaps = self.n_all, []
            for side in (-1, 1):
                to, source, shift = self._partners(2 - axis, side)
                places = np.empty(before if to != MPI.PROC_NULL else 0, np.int64)
                edge = low + self._reach if side < 0 else high - self._reach
                places = places[: find_near_side(rows[: len(places)], axis, side, edge, places)].copy()
                rows, swap = self._first_exchange(rows, places, axis, shift, (to, source))
                swaps.append(swap)
            self._swaps.append((swaps[0], swaps[1]))
            if self._boxes.ranks.shape[2 - axis] == 1:
                self.n_local = self.n_all
        return rows

    def _partners(self, direction: int, side: int) -> tuple[int, int, float]:
        """Return the rank to send to, the rank to receive from, and the shift of positions. direction: 0 for z."""
        ranks, periodic = self._boxes.ranks, self._boxes.periodic[direction]
        here = self._boxes.coords(self._comm.rank)
        n = ranks.shape[direction]

        def neighbour(step: int) -> int:
            at = list(here)
            at[direction] += step
            if not (0 <= at[direction] < n or periodic):
                return int(MPI.PROC_NULL)
            at[direction] %= n
            return int(ranks[tuple(at)])

        crosses = here[direction] == (0 if side < 0 else n - 1)
        length = self._boxes.high[direction] - self._boxes.low[direction]
        return neighbour(side), neighbour(-side), -side * length if crosses else 0.0

    def _first_exchange(
        self,
        rows: NDArray[np.float64],
        places: NDArray[np.int64],
        axis: int,
        shift: float,
        partners: tuple[int, int],
    ) -> tuple[NDArray[np.float64], _Swap]:
        """Plan one message and exchange positions; return the rows, or a larger array, and the plan."""
        come = np.zeros(1, np.int64)
        self._comm.Sendrecv(np.array([len(places)], np.int64), partners[0], 0, come, partners[1], 0)
        shifts = np.zeros(rows.shape[1])
        shifts[axis] = shift
        swap = _Swap(places, shifts, *partners, self.n_all, int(come[0]))
        self.n_all += swap.count
        if partners[0] not in (self._comm.rank, MPI.PROC_NULL):
            self.bytes_sent += len(places) * rows.shape[1] * rows.itemsize
            self.messages += 1
        if self.n_all > len(rows):
            larger = np.zeros((capacity_for(self.n_all), rows.shape[1]))
            larger[: swap.first] = rows[: swap.first]
            rows = larger
        MPI.Request.Waitall(self._start(0, swap, rows, swap.shift))
        return rows, swap

    def _start(self, side: int, swap: _Swap, rows: Rows, shift: Rows) -> list[MPI.Request]:
        """Copy rows to ghosts on this rank, or start sending them; return the pending requests. side: message tag."""
        if swap.to == self._comm.rank:
            take_rows(rows, swap.places, shift, rows[swap.received])
            return []
        receive = self._comm.Irecv(rows[swap.received], swap.source, side)
        return [receive, self._comm.Isend(swap.packed(rows, shift), swap.to, side)]

    def forward_overlapped(self, rows: Rows, shifted: bool = False) -> Iterator[None]:
        """Copy rows [n_all, w] to ghosts, and yield while messages are pending so that the caller can compute.

        It yields at most PROGRESS_CALLS times a stage. Meanwhile the caller may read rows below `n_local` and must
        not write any. shifted: the rows are positions, to which the domain's length is added across periodic sides.
        Communicates with neighbours.
        """
        nothing = np.zeros(rows.shape[1], rows.dtype)
        for swaps in self._swaps:
            pending = [
                request
                for side, swap in enumerate(swaps)
                for request in self._start(side, swap, rows, swap.shift if shifted else nothing)
            ]
            for _ in range(PROGRESS_CALLS):
                if not pending or MPI.Request.Testall(pending):
                    break
                yield
            MPI.Request.Waitall(pending)

    def forward(self, positions: NDArray[np.float64]) -> None:
        """Update the positions of ghosts. The domain's length is added across periodic sides.

        Parameters
        ----------
        positions : float64 [>= n_all, w]
            Rows that begin with x, y, z. The rows of ghosts are overwritten.

        Notes
        -----
        Communicates with neighbours: `messages` messages of `bytes_sent` bytes in all.
        """
        for _ in self.forward_overlapped(positions, shifted=True):
            pass

    def forward_values(self, rows: Rows) -> None:
        """Copy values other than positions to ghosts: rows [n_all, w], float64 or int64. Neighbours."""
        for _ in self.forward_overlapped(rows):
            pass

    def reverse(self, rows: Rows) -> None:
        """Add the values of ghosts, such as forces, to the particles that they are copies of.

        Parameters
        ----------
        rows : float64 or int64 [>= n_all, w]
            Values of owned particles, which are added to, and of ghosts.

        Notes
        -----
        Communicates with neighbours, in the order opposite to `forward`.
        """
        for swap in (swap for swaps in reversed(self._swaps) for swap in reversed(swaps)):
            if swap.to == self._comm.rank:
                add_rows(rows[swap.received], swap.places, rows)
                continue
            come = np.empty((len(swap.places), rows.shape[1]), rows.dtype)
            self._comm.Sendrecv(rows[swap.received], swap.source, 0, come, swap.to, 0)
            add_rows(come, swap.places, rows)


def check_reach(boxes: Boxes, reach: float) -> None:
    """Raise DecompositionError if a box is thinner than the reach in a direction that has ghosts."""
    for axis, edges, n, periodic in zip("zyx", boxes.edges, boxes.ranks.shape, boxes.periodic):
        thinnest = float(np.diff(edges).min())
        if (n > 1 or periodic) and thinnest < reach:
            most = int((edges[-1] - edges[0]) / reach)
            advice = f"Divide {axis} into at most {most} boxes" if most else "Make the domain larger"
            raise DecompositionError(
                f"{n} boxes in {axis} are {thinnest:.4g} thick, which is less than the {reach:.4g} within which a "
                f"neighbour needs ghosts (cut-off and skin). {advice}, or shorten the cut-off or the skin."
            )


def kernels_of_ghosts(dtypes: tuple[DTypeLike, ...] = (np.float64,)) -> list[Specialisation]:
    """Return the kernels of `Ghosts`.

    Parameters
    ----------
    dtypes : tuple of dtypes
        Of the rows that are exchanged.

    Returns
    -------
    list of Specialisation
        Kernels and argument types, for `compile_kernels`.

    Examples
    --------
    >>> from ridgeline.particles.ghosts import kernels_of_ghosts
    >>> [wanted.kernel.__name__ for wanted in kernels_of_ghosts()]
    ['take_rows', 'add_rows', 'find_near_side']
    """
    row_kernels = [each for dtype in dtypes for each in specialise([take_rows, add_rows], dtype)]
    return [*row_kernels, *specialise([find_near_side])]


@kernel(lambda: (float64[:, ::1], int64, int64, float64, int64[::1]), nogil=True)
def find_near_side(rows, axis, side, edge, out_places):
    """List the rows with x < edge (side -1), or x >= edge (side 1), in out_places; return their number."""
    found = 0
    for i in range(rows.shape[0]):
        x = rows[i, axis]
        if (side < 0 and x < edge) or (side > 0 and x >= edge):
            out_places[found] = i
            found += 1
    return found


@kernel(lambda T: (T[:, ::1], int64[::1], T[::1], T[:, ::1]), nogil=True)
def take_rows(rows, places, shift, out):
    """Copy rows, shifted: out[k] = rows[places[k]] + shift. rows: (n, w), shift: (w,), out: (m, w)."""
    for k in range(places.shape[0]):
        for c in range(shift.shape[0]):
            out[k, c] = rows[places[k], c] + shift[c]


@kernel(lambda T: (T[:, ::1], int64[::1], T[:, ::1]), nogil=True)
def add_rows(values, places, out):
    """Add rows: out[places[k]] += values[k]. values: (m, w), out: (n, w)."""
    for k in range(places.shape[0]):
        for c in range(values.shape[1]):
            out[places[k], c] += values[k, c]
