"""Rows that change places after a panel's factorisation, and the broadcast of U within a column of processes.

Each process packs the rows that it gives to U. One Allgatherv spreads them, and one Scatterv brings rows of the top
block to the processes that gave one up. Both do not block, and go on while other columns are updated. That is the
volume of HPL's "long" variant (spread and roll). A column of one process moves its rows within each tile's update.
Source: Petitet et al., "HPL", overview, "Update"; the split update is that of rocHPL (AMD).
"""

from __future__ import annotations

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.bench.hpl import update_kernels
from ridgeline.bench.hpl.block_cyclic import Axis
from ridgeline.bench.hpl.panel import ColumnPanel, Reals

Indices = NDArray[np.int64]
_NOTHING = np.zeros(0, np.int64)


class RowSwap:
    """Which rows change places for one panel, as seen by one process of the column.

    sources, places, targets, taken: for a process that is alone in its column, local rows in ascending order, and
    where they go; empty otherwise. Else given and given_up are local rows, and given_places and top_rows, of each
    process, are rows of U and local rows of the top block.
    """

    def __init__(self, panel: ColumnPanel, rows: Axis) -> None:
        width = panel.width
        sources, targets, taken = (np.empty(width, np.int64) for _ in range(3))
        count = update_kernels.compose_exchanges(panel.pivots, panel.first, sources, targets, taken)
        targets, taken = targets[:count], taken[:count]
        self.root = rows.owner(panel.first)  # has the top block
        self.alone = rows.parts == 1
        if self.alone:
            self.places = np.argsort(sources)
            order = np.argsort(targets)
            self.sources, self.targets = sources[self.places], targets[order]
            self.taken = panel.first + taken[order]
            return
        self.sources = self.places = self.targets = self.taken = _NOTHING
        self.width = width
        owners, owners_of_targets = rows.owner(sources), rows.owner(targets)
        # In the order of processes: places in U of the rows that each gives, and rows of the top block that it gets.
        self.given_places = [np.flatnonzero(owners == part) for part in range(rows.parts)]
        to_each = [np.flatnonzero(owners_of_targets == part) for part in range(rows.parts)]
        self.given = rows.local(sources[self.given_places[rows.part]])
        self.given_up = rows.local(targets[to_each[rows.part]])
        first = rows.local(panel.first)
        self.top_rows = [first + taken[those] for those in to_each]

    @property
    def lists(self) -> list[Indices]:
        """Four lists of at most a panel's width: sources, places, targets and taken of a process that is alone.

        Else given, given_places of all processes, given_up, top_rows of all processes.
        """
        if self.alone:
            return [self.sources, self.places, self.targets, self.taken]
        return [self.given, np.concatenate(self.given_places), self.given_up, np.concatenate(self.top_rows)]


class RowMessages:
    """The messages of one exchange at a time in a column of processes: `post`, `progress` now and then, `wait`.

    comm: the column of processes; rows: of the matrix; rooms: for rows that are given, gathered, scattered and
    received, float64, contiguous, for a panel's rows of all local columns each. Packed rows are [rows, columns],
    column-major, those of each process behind those of the one before.
    """

    def __init__(self, comm: MPI.Comm, rows: Axis, rooms: list[Reals]) -> None:
        self._comm, self._rows, self.rooms = comm, rows, rooms
        self._requests: list[MPI.Request] = []

    @property
    def under_way(self) -> bool:
        """Whether messages were posted that `wait` has not waited for."""
        return bool(self._requests)

    def post(self, swap: RowSwap, columns: int) -> None:
        """Send what lies in the rooms "given" and, where the top block is, "scattered"; waits for nobody."""
        given, gathered, scattered, received = self.rooms
        counts = [places.size * columns for places in swap.given_places]
        mine = given[: swap.given.size * columns]
        self._requests = [self._comm.Iallgatherv(mine, [gathered, counts])]
        part = self._rows.part
        counts = [rows.size * columns for rows in swap.top_rows]
        message = [scattered, counts] if part == swap.root else None
        self._requests.append(self._comm.Iscatterv(message, received[: counts[part]], swap.root))

    def progress(self) -> None:
        """Let the messages advance."""
        if self._requests:
            MPI.Request.Testall(self._requests)

    def wait(self) -> None:
        """Wait until the rooms "gathered" and "received" are filled."""
        MPI.Request.Waitall(self._requests)
        self._requests = []


class SwapExchange:
    """One exchange of rows at a time in host memory: `start`, `progress` now and then, `finish`.

    comm: the column of processes; rows: of the matrix; u: room for the rows of U, float64 [nb, local columns]; a
    process that is alone needs none.
    """

    def __init__(self, comm: MPI.Comm, rows: Axis, u: Reals) -> None:
        self._rows, self._u = rows, u
        rooms = [np.full(u.size, 0.0) for _ in range(4)] if comm.size > 1 else []
        self._messages = RowMessages(comm, rows, rooms)

    def start(self, swap: RowSwap, a: Reals, start: int, stop: int) -> None:
        """Begin to exchange rows of local columns start ... stop - 1. Collective in order, waits for nobody."""
        if swap.alone or stop <= start:
            return
        columns = stop - start
        self._swap, self._a, self._range = swap, a, (start, stop)
        given, _, scattered, _ = self._messages.rooms
        _pack(a, swap.given, start, _block(given, 0, swap.given.size, columns))
        if self._rows.part == swap.root:
            offset = 0
            for rows in swap.top_rows:
                _pack(a, rows, start, _block(scattered, offset, rows.size, columns))
                offset += rows.size * columns
        self._messages.post(swap, columns)

    def progress(self) -> None:
        """Let the exchange advance."""
        self._messages.progress()

    def finish(self) -> None:
        """Wait for the exchange, and put the rows in their places: U into its room, others into the matrix."""
        if not self._messages.under_way:
            return
        self._messages.wait()
        swap, (start, stop) = self._swap, self._range
        _, gathered, _, received = self._messages.rooms
        offset = 0
        for places in swap.given_places:
            packed = _block(gathered, offset, places.size, stop - start)
            _unpack(packed, self._u, places, start)
            offset += packed.size
        packed = _block(received, 0, swap.given_up.size, stop - start)
        _unpack(packed, self._a, swap.given_up, start)


def _pack(a: Reals, rows: Indices, start: int, out: Reals) -> None:
    """Copy rows of a, from column `start` on, into out [rows.size, columns]."""
    update_kernels.copy_rows(a.T, rows, start, out.T, np.arange(rows.size), 0, out.shape[1])


def _unpack(packed: Reals, a: Reals, rows: Indices, start: int) -> None:
    """Copy packed [rows.size, columns] into rows of a, from column `start` on."""
    update_kernels.copy_rows(packed.T, np.arange(rows.size), 0, a.T, rows, start, packed.shape[1])


def _block(room: Reals, offset: int, rows: int, columns: int) -> Reals:
    return room[offset : offset + rows * columns].reshape((rows, columns), order="F")
