"""Ghosts: copies of the particles of other ranks, and of periodic images, that are within a reach of a rank's box.

Six messages in three stages, one direction after the other: what came in x is passed on in y, and both in z. So
edges and corners need no messages of their own. Source: Plimpton, J. Comput. Phys. 117 (1995), Sec. 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from mpi4py import MPI
from numba import float64, int64
from numpy.typing import DTypeLike, NDArray

from ridgeline.jit.kernel import Specialisation, kernel, specialise
from ridgeline.particles.boxes import Boxes
from ridgeline.particles.particles import room_for
from ridgeline.runtime.errors import DecompositionError

Rows = NDArray[Any]


@dataclass(frozen=True)
class _Swap:
    """One message: rows that go to one neighbour, and those that come from the opposite one."""

    places: NDArray[np.int64]  # rows that are sent
    shift: NDArray[np.float64]  # added to positions: a length of the domain across a periodic side
    to: int
    source: int
    first: int  # row of the first that comes
    count: int

    @property
    def coming(self) -> slice:
        """Return the rows that come."""
        return slice(self.first, self.first + self.count)


class Ghosts:
    """The ghosts of this rank's particles. Rows are [m, w]; those of positions begin with x, y, z.

    n, n_all: owned rows, and those with ghosts: rows n ... n_all - 1 are the ghosts. bytes_sent, messages: to other
    ranks by this rank in one `forward` of positions.
    """

    def __init__(self, comm: MPI.Comm, boxes: Boxes, reach: float) -> None:
        """Raise DecompositionError if a box is thinner than the reach: ghosts come from direct neighbours alone."""
        check_reach(boxes, reach)
        self._comm, self._boxes, self._reach = comm, boxes, reach
        self._swaps: list[_Swap] = []
        self.n = self.n_all = self.bytes_sent = self.messages = 0

    def build(self, rows: NDArray[np.float64], n: int) -> NDArray[np.float64]:
        """Find anew who is whose ghost, and append the ghosts: return the rows, or larger ones. Neighbours.

        rows: float64 positions, the first n of them owned.
        """
        self._swaps, self.n, self.n_all = [], n, n
        self.bytes_sent = self.messages = 0
        bounds = self._boxes.bounds(self._comm.rank)
        for axis in range(3):
            low, high = bounds[2 - axis]
            before = self.n_all
            for side in (-1, 1):
                to, source, shift = self._partners(2 - axis, side)
                places = np.empty(before if to != MPI.PROC_NULL else 0, np.int64)
                edge = low + self._reach if side < 0 else high - self._reach
                places = places[: find_near_side(rows[: len(places)], axis, side, edge, places)].copy()
                rows = self._first_exchange(rows, places, axis, shift, (to, source))
        return rows

    def _partners(self, direction: int, side: int) -> tuple[int, int, float]:
        """Return whom to send to, whom to receive from, and the shift of positions. direction: of z, y, x."""
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
    ) -> NDArray[np.float64]:
        """Plan one message and exchange positions; return the rows, or larger ones."""
        come = np.zeros(1, np.int64)
        self._comm.Sendrecv(np.array([len(places)], np.int64), partners[0], 0, come, partners[1], 0)
        shifts = np.zeros(rows.shape[1])
        shifts[axis] = shift
        swap = _Swap(places, shifts, *partners, self.n_all, int(come[0]))
        self._swaps.append(swap)
        self.n_all += swap.count
        if partners[0] not in (self._comm.rank, MPI.PROC_NULL):
            self.bytes_sent += len(places) * rows.shape[1] * rows.itemsize
            self.messages += 1
        if self.n_all > len(rows):
            larger = np.zeros((room_for(self.n_all), rows.shape[1]))
            larger[: swap.first] = rows[: swap.first]
            rows = larger
        self._send(swap, rows, swap.shift)
        return rows

    def _send(self, swap: _Swap, rows: Rows, shift: Rows) -> None:
        if swap.to == self._comm.rank:
            take_rows(rows, swap.places, shift, rows[swap.coming])
            return
        packed = np.empty((len(swap.places), rows.shape[1]), rows.dtype)
        take_rows(rows, swap.places, shift, packed)
        self._comm.Sendrecv(packed, swap.to, 0, rows[swap.coming], swap.source, 0)

    def forward(self, positions: NDArray[np.float64]) -> None:
        """Bring the positions of ghosts up to date: across periodic sides a length is added. Neighbours."""
        for swap in self._swaps:
            self._send(swap, positions, swap.shift)

    def carry(self, rows: Rows) -> None:
        """Copy rows of any other values to ghosts, [n_all, w] float64 or int64. Neighbours."""
        nothing = np.zeros(rows.shape[1], rows.dtype)
        for swap in self._swaps:
            self._send(swap, rows, nothing)

    def reverse(self, rows: Rows) -> None:
        """Add what ghosts have to the particles that they are of, such as forces; the ghosts keep it. Neighbours."""
        for swap in reversed(self._swaps):
            if swap.to == self._comm.rank:
                add_rows(rows[swap.coming], swap.places, rows)
                continue
            come = np.empty((len(swap.places), rows.shape[1]), rows.dtype)
            self._comm.Sendrecv(rows[swap.coming], swap.source, 0, come, swap.to, 0)
            add_rows(come, swap.places, rows)


def check_reach(boxes: Boxes, reach: float) -> None:
    """Raise DecompositionError if a box is thinner than the reach where ghosts come from a neighbour."""
    for axis, edges, n, periodic in zip("zyx", boxes.edges, boxes.ranks.shape, boxes.periodic):
        thinnest = float(np.diff(edges).min())
        if (n > 1 or periodic) and thinnest < reach:
            most = int((edges[-1] - edges[0]) / reach)
            advice = f"cut {axis} into at most {most} boxes" if most else "make the domain larger"
            raise DecompositionError(
                f"{n} boxes in {axis} are {thinnest:.4g} thin, thinner than the {reach:.4g} from which a neighbour "
                f"takes ghosts (cut-off and skin); {advice}, or shorten the cut-off or the skin"
            )


def kernels_of_ghosts(dtypes: tuple[DTypeLike, ...] = (np.float64,)) -> list[Specialisation]:
    """Return the kernels of `Ghosts`, for rows of these dtypes."""
    of_rows = [each for dtype in dtypes for each in specialise([take_rows, add_rows], dtype)]
    return [*of_rows, *specialise([find_near_side])]


@kernel(lambda: (float64[:, ::1], int64, int64, float64, int64[::1]), nogil=True)
def find_near_side(rows, axis, side, edge, out_places):
    """List the rows with x < edge (side -1), or x >= edge (side 1), in out_places; return how many they are."""
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
