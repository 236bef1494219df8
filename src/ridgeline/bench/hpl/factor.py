"""LU on a P x Q grid: right-looking, with look-ahead of depth 1, with and without pivoting, on hosts and on GPUs.

Block (I, J) lies on process (I mod P, J mod Q). Step k has panel k: block column k, and without pivoting block row k,
in factored form. All processes that need it receive it, and update the trailing matrix with it. The blocks of panel k
+ 1 are updated first. The processes that have them factor them and begin to send the panel, and only then update the
rest, so that panels travel while the processes compute (look-ahead). `factor` is that loop.

With pivoting (`PivotedLU`, HPL, float64) a panel is a block column with a search for pivots. An update has three
parts: rows are exchanged, U = L^-1 U, A <- A - L U. On P > 1 process rows the columns are cut into two parts. Rows of
the right part are exchanged while the left part is updated. Rows of the left part, for panel k + 1, are exchanged
while the right part is updated for panel k (split update).

Without pivoting (`UnpivotedLU`, HPL-MxP, float32) the owner of block (k, k) factors it and sends it along its process
row and column. They compute L = A U_kk^-1 of block column k and U = L_kk^-1 A of block row k. L is broadcast along
process rows, U along process columns. Both, and the diagonal block, are rounded once to `storage`, when they are
complete. What is still to be factored stays float32, and products are accumulated in float32, as hardware for 16-bit
numbers does.

A `PivotedBackend` or an `UnpivotedBackend` holds the matrix: those in `factor_host` use threads and BLAS, those in
`device.factor_cuda` streams and cuBLAS. Repeated runs are equal in every bit on both.
Sources: Petitet et al., "HPL", overview; rocHPL (AMD) for the split update; hpl-mxp.org for the rules of HPL-MxP.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.bench.hpl.blas import blas_addresses
from ridgeline.bench.hpl.block_cyclic import ColumnParts, PanelColumns, ProcessGrid
from ridgeline.bench.hpl.broadcast import PanelBroadcast
from ridgeline.bench.hpl.panel import ColumnPanel, PanelFactoriser, factor_block
from ridgeline.bench.hpl.record import Broadcast, HplSettings, Storage
from ridgeline.runtime.regions import Regions

Poll = Callable[[], None]  # called from time to time, so that messages advance


class PivotedPanel(Protocol):
    """A panel of LU with pivoting, in host or device memory."""

    @property
    def host(self) -> ColumnPanel:
        """The panel in host memory, where it is factored and from where it is sent."""


Pivoted = TypeVar("Pivoted", bound=PivotedPanel)
Unpivoted = TypeVar("Unpivoted")  # L, U and the diagonal block of a step


class Elimination(Protocol):
    """The parts of a step of LU. All are collective over the grid, in the order of `factor`."""

    def factor_panel(self, k: int) -> None:
        """Factor panel k where it lies, and begin to send it."""

    def receive_panel(self, k: int) -> None:
        """Wait for panel k."""

    def update_ahead(self, k: int) -> None:
        """Update the blocks of panel k + 1 by panel k, and begin with the rest."""

    def update_rest(self, k: int) -> None:
        """Finish the update by panel k, or launch it on a GPU, while messages advance."""

    def finish(self) -> None:
        """Wait for all updates and messages."""


def factor(lu: Elimination, n: int, nb: int, on_columns: Callable[[int], None]) -> None:
    """Factor a matrix of order n in place. on_columns: called with the number of columns done, everywhere."""
    blocks = -(-n // nb)
    lu.factor_panel(0)
    lu.receive_panel(0)
    for k in range(blocks):
        lu.update_ahead(k)
        if k + 1 < blocks:
            lu.factor_panel(k + 1)
        lu.update_rest(k)
        if k + 1 < blocks:
            lu.receive_panel(k + 1)
        on_columns(min((k + 1) * nb, n))
    lu.finish()


class PivotedBackend(Protocol[Pivoted]):
    """A process's part of [A, b] and the operations of LU with pivoting on it. Columns are local ones.

    panels: two panels, each of which is used at every other step. The methods are called for a panel in the order
    below, those that exchange rows only on P > 1 process rows.
    """

    panels: list[Pivoted]

    def wait_for_buffer(self, panel: Pivoted) -> None:
        """Wait until nothing reads the host memory of the panel before the last one."""

    def fetch(self, panel: Pivoted, first: int, here: bool, poll: Poll) -> None:
        """Shape the panel at global column `first`; copy its columns to the host if this process has them."""

    def keep(self, panel: Pivoted) -> None:
        """Keep the factored top block of a panel for the back substitution."""

    def accept(self, panel: Pivoted, parts: ColumnParts) -> None:
        """Prepare the update by a panel that has arrived on the host."""

    def start_exchange(self, panel: Pivoted, parts: ColumnParts, behind_left: bool, poll: Poll) -> None:
        """Begin to exchange rows of the left part.

        behind_left: whether the panel before updated them with its left part; otherwise it did with its right part.
        """

    def progress_exchange(self) -> None:
        """Let the exchange of rows advance."""

    def finish_exchange(self) -> None:
        """Wait for the rows, and store them in their places."""

    def update_ahead(
        self, panel: Pivoted, other: Pivoted, parts: ColumnParts, following: int, here: bool, poll: Poll
    ) -> None:
        """Update the columns of the panel at global column `following`, and begin with the left part after them.

        The exchange of rows of the right part, if there is one, begins too. other: the panel before, whose memory the
        next one reuses; here: whether this process has the columns.
        """

    def update_left(self, panel: Pivoted, poll: Poll, complete: bool) -> None:
        """Continue with the left part until all of it is done (complete), or until no tile waits for a thread."""

    def update_right(self, panel: Pivoted, parts: ColumnParts, poll: Poll) -> None:
        """Update the right part."""

    def finish(self) -> None:
        """Wait for all updates."""


class PivotedLU(Generic[Pivoted]):
    """LU with partial pivoting of [A, b], whose last column is b. U remains in the upper triangle, L is not kept."""

    def __init__(
        self,
        settings: HplSettings,
        grid: ProcessGrid,
        backend: PivotedBackend[Pivoted],
        broadcast: Broadcast,
        regions: Regions,
    ) -> None:
        self._n, self._nb = settings.n, settings.nb
        self._rows, self._backend, self._regions = grid.place.rows, backend, regions
        self._divided = grid.column_comm.size > 1
        self._columns = PanelColumns(grid.place.columns, self._divided)
        self._factoriser = PanelFactoriser(
            grid.column_comm, blas_addresses(), settings.nb, settings.nbmin, settings.ndiv
        )
        self._broadcast = PanelBroadcast(grid.row_comm, broadcast)
        self._owner_of = grid.place.columns.owner
        self._global_rows = self._rows.globals()
        self._received = -1  # the last panel whose update has begun

    def factor_panel(self, k: int) -> None:
        """Factor block column k by its column of processes, and begin to broadcast it along rows."""
        first, rows, panel = k * self._nb, self._rows, self._panel(k)
        here = self._columns.here(first) > 0
        with self._regions("broadcast"):
            self._backend.wait_for_buffer(panel)
            self._broadcast.wait_for_buffer()
        self._backend.fetch(panel, first, here, self._progress)
        if here:
            with self._regions("panel"):
                diagonal = rows.owner(first) == rows.part
                self._factoriser.factor(panel.host, self._global_rows[rows.count(first) :], diagonal)
                if diagonal:
                    self._backend.keep(panel)
        self._broadcast.start(self._owner_of(first), panel.host.message)

    def receive_panel(self, k: int) -> None:
        """Wait for the panel, unless its update has begun while the update before was still running."""
        with self._regions("broadcast"):
            self._broadcast.wait()
        if self._received < k:
            self._begin(k)

    def _begin(self, k: int) -> None:
        """Begin the update by a panel that has arrived: rows of the left part are exchanged."""
        panel, parts = self._panel(k), self._parts(k)
        self._received = k
        self._backend.accept(panel, parts)
        if self._divided:
            behind_left = k > 0 and self._parts(k - 1).split == parts.split
            self._backend.start_exchange(panel, parts, behind_left, self._progress)

    def update_ahead(self, k: int) -> None:
        """Update the columns of the next panel, while rows of the right part are exchanged."""
        backend, panel, parts = self._backend, self._panel(k), self._parts(k)
        following = self._columns.after(k * self._nb)
        if self._divided:
            backend.finish_exchange()
        here = self._columns.here(following) > 0
        backend.update_ahead(panel, self._panel(k + 1), parts, following, here, self._progress)

    def update_rest(self, k: int) -> None:
        """Update the left part, then the right one if there are two."""
        backend, panel, parts = self._backend, self._panel(k), self._parts(k)
        last = (k + 1) * self._nb >= self._n

        def begin_next() -> None:
            if not last and self._received == k and self._broadcast.progress():
                self._begin(k + 1)
            backend.progress_exchange()

        if not self._divided:
            backend.update_left(panel, begin_next, last)
            return
        backend.update_left(panel, self._progress, True)
        backend.finish_exchange()
        # The part that is updated now must not be one whose rows are being exchanged.
        early = self._parts(k + 1).split == parts.split < parts.stop
        backend.update_right(panel, parts, begin_next if early else self._progress)

    def finish(self) -> None:
        self._backend.finish()
        self._broadcast.finish()

    def _progress(self) -> None:
        self._broadcast.progress()
        self._backend.progress_exchange()

    def _panel(self, k: int) -> Pivoted:
        return self._backend.panels[k % 2]

    def _parts(self, k: int) -> ColumnParts:
        return self._columns.right_of(k * self._nb)


class TrailingStart(NamedTuple):
    """The first local row and column of the trailing matrix after step k, and those after step k + 1."""

    row: int
    column: int
    next_row: int
    next_column: int


class BlockPlace(NamedTuple):
    """The place of diagonal block k: its first local row and column, its order, and its owner.

    on_row, on_column: whether this process belongs to the row, or the column, of processes that has the block.
    """

    k: int
    row: int
    column: int
    size: int
    on_row: bool
    on_column: bool


class UnpivotedBackend(Protocol[Unpivoted]):
    """A process's part of A and the operations of LU without pivoting on it, float32 on the host and on a GPU.

    panels: two pairs of panels, L and U, each of which is used at every other step.
    """

    panels: list[Unpivoted]

    def host_block(self, panel: Unpivoted, size: int) -> NDArray[np.float32]:
        """Return host memory for a diagonal block, [column, row], that is free to be written."""

    def fetch(self, panel: Unpivoted, at: BlockPlace) -> None:
        """Copy the diagonal block, which this process has, to the host."""

    def keep(self, panel: Unpivoted, at: BlockPlace) -> None:
        """Keep the factored diagonal block, which this process has, for the triangular solves."""

    def make_panels(self, panel: Unpivoted, at: BlockPlace, trailing: TrailingStart) -> None:
        """Compute and round this process's parts of L and U from the factored diagonal block on the host."""

    def messages(self, panel: Unpivoted) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
        """Return L on the host, sent along rows, and U, sent along columns; None if no other process needs it."""

    def accept(self, panel: Unpivoted, at: BlockPlace) -> None:
        """Prepare the products with panels that have arrived on the host."""

    def update_ahead(
        self, panel: Unpivoted, other: Unpivoted, trailing: TrailingStart, following: BlockPlace | None
    ) -> None:
        """Update block column and block row k + 1, and begin with the rest.

        other: the panels before, whose memory the next ones reuse; following: diagonal block k + 1, if there is one.
        """

    def finish_update(self, poll: Poll) -> None:
        """Update the rest."""

    def finish(self) -> None:
        """Wait for all updates."""


class UnpivotedLU(Generic[Unpivoted]):
    """LU without pivoting: L, whose diagonal is 1, and U replace A."""

    def __init__(self, grid: ProcessGrid, backend: UnpivotedBackend[Unpivoted], storage: Storage) -> None:
        self._row_comm, self._column_comm = grid.row_comm, grid.column_comm
        self._rows, self._columns = grid.place.rows, grid.place.unknowns
        self._n, self._nb = self._rows.n, self._rows.nb
        self._backend, self._storage = backend, storage
        self._requests: list[MPI.Request] = []

    def factor_panel(self, k: int) -> None:
        """Factor the diagonal block, send it, compute L and U, and begin to broadcast them."""
        backend, panel, at = self._backend, self._backend.panels[k % 2], self._block(k)
        block = backend.host_block(panel, at.size)
        owner_row, owner_column = self._rows.owner(k * self._nb), self._columns.owner(k * self._nb)
        if at.on_row and at.on_column:
            backend.fetch(panel, at)
            factor_block(block, self._storage)
            backend.keep(panel, at)
        if at.on_column:
            self._column_comm.Bcast(block, owner_row)
        if at.on_row:
            self._row_comm.Bcast(block, owner_column)
        backend.make_panels(panel, at, self._trailing_start(k))
        left, right = backend.messages(panel)
        self._requests = []
        if left is not None:
            self._requests.append(self._row_comm.Ibcast(left, owner_column))
        if right is not None:
            self._requests.append(self._column_comm.Ibcast(right, owner_row))

    def receive_panel(self, k: int) -> None:
        """Wait for L and U."""
        MPI.Request.Waitall(self._requests)
        self._backend.accept(self._backend.panels[k % 2], self._block(k))

    def update_ahead(self, k: int) -> None:
        """Subtract L U from block column and block row k + 1 first."""
        following = self._block(k + 1) if (k + 1) * self._nb < self._n else None
        panel, other = self._backend.panels[k % 2], self._backend.panels[(k + 1) % 2]
        self._backend.update_ahead(panel, other, self._trailing_start(k), following)

    def update_rest(self, k: int) -> None:
        """Subtract L U from the rest."""
        self._backend.finish_update(self._progress)

    def finish(self) -> None:
        self._backend.finish()

    def _progress(self) -> None:
        MPI.Request.Testall(self._requests)

    def _block(self, k: int) -> BlockPlace:
        start, rows, columns = k * self._nb, self._rows, self._columns
        on_row, on_column = rows.owner(start) == rows.part, columns.owner(start) == columns.part
        size = min(self._nb, self._n - start)
        return BlockPlace(k, rows.count(start), columns.count(start), size, on_row, on_column)

    def _trailing_start(self, k: int) -> TrailingStart:
        (row, column), (next_row, next_column) = (
            (self._rows.count(index), self._columns.count(index))
            for index in ((k + 1) * self._nb, (k + 2) * self._nb)
        )
        return TrailingStart(row, column, next_row, next_column)
