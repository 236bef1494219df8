"""The matrix in host memory: the backends of `factor` that use threads and BLAS, and the triangles that LU leaves.

The first thread of a team does what cannot be shared, and all communication. The others begin with the tiles of an
update in the meantime, and it joins them.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.bench.hpl.blas import (
    blas_addresses,
    solve_lower,
    solve_upper_from_right,
    subtract_product,
    subtract_product_of_vector,
)
from ridgeline.bench.hpl.block_cyclic import BlockCyclic, ColumnParts, ProcessGrid
from ridgeline.bench.hpl.factor import BlockPlace, Poll, TrailingStart
from ridgeline.bench.hpl.panel import ColumnPanel, Reals, Singles, round_to
from ridgeline.bench.hpl.record import HplSettings, Storage
from ridgeline.bench.hpl.sizes import padding
from ridgeline.bench.hpl.team import TileTeam, tiles
from ridgeline.bench.hpl.update import RowSwap, SwapExchange, copy_block, update_tile
from ridgeline.runtime.aligned import aligned_empty
from ridgeline.runtime.regions import Regions

# Columns of a tile: wide tiles have faster products, narrow ones balance the threads.
PIVOTED_WIDEST, PIVOTED_NARROWEST = 2048, 256
_WIDEST, _NARROWEST = 1536, 192
_MOST_ROWS, _FEWEST_ROWS = 4096, 512  # rows of a tile of the triangular solves


def allocate_reals(place: BlockCyclic) -> Reals:
    """Allocate a part of [A, b], float64 [at least rows, columns], column-major.

    Columns begin at cache lines, but not all in the same set of the cache.
    """
    rows, columns = place.shape
    lines = -(-max(rows, 1) // 8)
    return np.empty(((lines + (lines % 8 == 0)) * 8, columns), order="F")


def allocate_singles(rows: int, columns: int) -> Singles:
    """Allocate a part of A, float32 [columns, at least rows]: a row of the array is a column of A."""
    return aligned_empty((columns, rows + padding(rows)), np.float32)


class HostPanel(ColumnPanel):
    """A panel on a host.

    swap: its rows that are exchanged; submitted: how many tiles the team had with those of this panel, 0 for none.
    """

    swap: RowSwap
    submitted = 0

    @property
    def host(self) -> ColumnPanel:
        return self


class PivotedHost:
    """A process's part `a` of [A, b], float64 [at least rows, columns], column-major, and a team of threads."""

    def __init__(
        self, settings: HplSettings, grid: ProcessGrid, a: Reals, team: TileTeam, regions: Regions
    ) -> None:
        nb, place = settings.nb, grid.place
        n_rows, n_columns = place.shape
        self._nb, self._n, self._place, self._a, self._team = nb, settings.n, place, a, team
        self._regions, self._gemm = regions, blas_addresses().gemm
        self._alone = grid.column_comm.size == 1
        self._raw = np.full((nb, 0 if self._alone else n_columns), 0.0, order="F")
        # For each thread: U of one tile, before and after the solve.
        widest = min(max(PIVOTED_WIDEST, nb), n_columns)
        self._buffers = [
            [np.full((nb, widest), 0.0, order="F") for _ in range(2)] for _ in range(team.n_threads)
        ]
        self.panels = [HostPanel(n_rows, nb) for _ in range(2)]
        self._exchange = SwapExchange(grid.column_comm, place.rows, self._raw)

    def wait_for_buffer(self, panel: HostPanel) -> None:
        """Do nothing, because the last update has waited for all tiles that read the buffer."""

    def fetch(self, panel: HostPanel, first: int, here: bool, poll: Poll) -> None:
        rows, columns = self._place.rows, self._place.columns
        row = rows.count(first)
        panel.shape(first, rows.count() - row, min(self._nb, self._n - first))
        if here:
            with self._regions("panel"):
                copy_block(self._a.T, row, columns.local(first), panel.below.T)

    def keep(self, panel: HostPanel) -> None:
        """Write the top block into the matrix, where the back substitution reads it."""
        row, column = self._place.rows.local(panel.first), self._place.columns.local(panel.first)
        self._a[row : row + panel.width, column : column + panel.width] = panel.top

    def accept(self, panel: HostPanel, parts: ColumnParts) -> None:
        """Determine which rows are exchanged.

        Without an exchange between processes, the other threads continue with this panel after the one before.
        """
        with self._regions("swap"):
            panel.invert()
            panel.swap = RowSwap(panel, self._place.rows)
        panel.submitted = self._submit(panel, parts.ahead, parts.split) if self._alone else 0

    def start_exchange(self, panel: HostPanel, parts: ColumnParts, behind_left: bool, poll: Poll) -> None:
        self._exchange.start(panel.swap, self._a, parts.start, parts.split)

    def progress_exchange(self) -> None:
        self._exchange.progress()

    def finish_exchange(self) -> None:
        with self._regions("swap"):
            self._exchange.finish()

    def update_ahead(
        self,
        panel: HostPanel,
        other: HostPanel,
        parts: ColumnParts,
        following: int,
        here: bool,
        poll: Poll,
    ) -> None:
        """Update the next panel's columns in this thread, while the others begin with the left part."""
        if not self._alone:
            self._exchange.start(panel.swap, self._a, parts.split, parts.stop)
            self._submit(panel, parts.ahead, parts.split)
        with self._regions("update"):
            self._team.wait(other.submitted, parts.start, parts.ahead)
            if parts.ahead > parts.start:
                self._update(panel, parts.start, parts.ahead)
            self._team.wait(other.submitted)  # the memory of its panel is that of the next one

    def update_left(self, panel: HostPanel, poll: Poll, complete: bool) -> None:
        with self._regions("update"):
            if complete:
                self._team.finish(poll)
            else:
                poll()
                self._team.join(panel.submitted, poll)

    def update_right(self, panel: HostPanel, parts: ColumnParts, poll: Poll) -> None:
        with self._regions("update"):
            poll()
            self._submit(panel, parts.split, parts.stop)
            self._team.finish(poll)

    def finish(self) -> None:
        self._team.finish()

    def _submit(self, panel: HostPanel, start: int, stop: int) -> int:
        """Submit the update of local columns start ... stop - 1; return how many tiles the team ever had."""

        def update(first: int, last: int) -> None:
            self._update(panel, first, last)

        cut = tiles(start, stop, self._team.n_threads, PIVOTED_WIDEST, PIVOTED_NARROWEST)
        return self._team.start(update, cut)

    def _update(self, panel: HostPanel, start: int, stop: int) -> None:
        """Update local columns start ... stop - 1. Any thread may call this."""
        rows, swap = self._place.rows, panel.swap
        skip = panel.width if swap.root == rows.part else 0
        own = self._buffers.pop()  # atomic on a list: no two threads get the same buffers
        raw = own[0] if swap.alone else self._raw[:, start:stop]
        update_tile(
            self._gemm,
            panel.below.T,
            panel.top.T,
            panel.inverses.T,
            raw.T,
            own[1].T,
            self._a.T,
            swap.sources,
            swap.places,
            swap.targets,
            swap.replacements,
            rows.count(),
            skip,
            start,
            stop,
        )
        self._buffers.append(own)


class UnpivotedPanels:
    """L [local rows below, nb] and U [nb, local columns right of it] of a step, and memory for received ones."""

    def __init__(self, sizes: tuple[int, int]) -> None:
        self.for_left, self.for_right = (np.empty(size, np.float32) for size in sizes)
        self.left: Singles
        self.right: Singles
        self.block: Singles


class UnpivotedHost:
    """The part of A of this process in `memory`, float32 [columns, at least rows], and a team of threads."""

    def __init__(self, grid: ProcessGrid, memory: Singles, team: TileTeam, storage: Storage) -> None:
        self._rows, self._columns = grid.place.rows, grid.place.unknowns
        self._team, self._storage = team, storage
        rows, columns, nb = self._rows.count(), self._columns.count(), self._rows.nb
        self.matrix: Singles = memory.T[:rows]
        sizes = rows * (self._columns.parts > 1) * nb, columns * (self._rows.parts > 1) * nb
        self.panels = [UnpivotedPanels(sizes) for _ in range(2)]

    def host_block(self, panel: UnpivotedPanels, size: int) -> Singles:
        panel.block = np.empty((size, size), np.float32)
        return panel.block

    def fetch(self, panel: UnpivotedPanels, at: BlockPlace) -> None:
        panel.block[:] = self._block(at).T

    def keep(self, panel: UnpivotedPanels, at: BlockPlace) -> None:
        self._block(at)[:] = panel.block.T

    def make_panels(self, panel: UnpivotedPanels, at: BlockPlace, trailing: TrailingStart) -> None:
        """Solve for L and U in the matrix, and copy them for other processes."""
        row, column = trailing.row, trailing.column
        panel.left, panel.right = self.matrix[row:, at.column : column], self.matrix[at.row : row, column:]
        if at.on_column:
            solve_upper_from_right(panel.block.T, panel.left)
            round_to(self._storage, panel.left)
        if at.on_row:
            solve_lower(panel.block.T, panel.right)
            round_to(self._storage, panel.right)
        if self._columns.parts > 1:
            panel.left = _copy_panel(
                panel.left, panel.for_left, (self._rows.count() - row, at.size), at.on_column
            )
        if self._rows.parts > 1:
            shape = at.size, self._columns.count() - column
            panel.right = _copy_panel(panel.right, panel.for_right, shape, at.on_row)

    def messages(self, panel: UnpivotedPanels) -> tuple[Singles | None, Singles | None]:
        return (
            panel.left.T.reshape(-1) if self._columns.parts > 1 else None,
            panel.right.T.reshape(-1) if self._rows.parts > 1 else None,
        )

    def accept(self, panel: UnpivotedPanels, at: BlockPlace) -> None:
        """Do nothing, because products read the panels where they arrived."""

    def update_ahead(
        self,
        panel: UnpivotedPanels,
        other: UnpivotedPanels,
        trailing: TrailingStart,
        following: BlockPlace | None,
    ) -> None:
        """Update block column and block row k + 1 in this thread, while the others begin with the rest."""
        left, right, out = panel.left, panel.right, self.matrix
        row, column, next_row, next_column = trailing
        width, height = next_column - column, next_row - row

        def update(start: int, stop: int) -> None:
            subtract_product(
                left[height:], right[:, start - column : stop - column], out[next_row:, start:stop]
            )

        n_threads = self._team.n_threads
        self._team.start(update, tiles(next_column, self._columns.count(), n_threads, _WIDEST, _NARROWEST))
        subtract_product(left, right[:, :width], out[row:, column:next_column])
        subtract_product(left[:height], right[:, width:], out[row:next_row, next_column:])

    def finish_update(self, poll: Poll) -> None:
        self._team.finish(poll)

    def finish(self) -> None:
        """Do nothing, because every update has ended."""

    def _block(self, at: BlockPlace) -> Singles:
        return self.matrix[at.row : at.row + at.size, at.column : at.column + at.size]


def _copy_panel(panel: Singles, memory: Singles, shape: tuple[int, int], here: bool) -> Singles:
    """Return the beginning of `memory` as a column-major matrix, a copy of the panel if this process has it."""
    rows, columns = shape
    copy = memory[: rows * columns].reshape(columns, rows).T
    if here:
        copy[:] = panel
    return copy


class HostTriangles:
    """L and U in host memory, and sums of their rows, a `Triangles`.

    matrix: as LU left it, column-major [at least rows, columns]; sums: the initial ones, [rows].
    """

    def __init__(self, grid: ProcessGrid, matrix: NDArray[Any], team: TileTeam, sums: NDArray[Any]) -> None:
        self.grid, self._matrix, self._team, self._sums = grid, matrix, team, sums
        self._x, self._columns = sums[:0], slice(0)

    def clear(self) -> None:
        self._sums[:] = 0.0

    def sums(self, rows: slice) -> NDArray[Any]:
        return self._sums[rows]

    def diagonal(self, k: int, rows: slice, columns: slice) -> NDArray[Any]:
        block: NDArray[Any] = self._matrix[rows, columns]
        return block

    def set_solution(self, columns: slice, x: NDArray[Any]) -> None:
        self._columns, self._x = columns, x

    def subtract(self, rows: slice) -> None:
        """Multiply by all threads, if there are enough rows for more than one."""
        count, team = rows.stop - rows.start, self._team
        left, sums = self._matrix[rows, self._columns], self._sums[rows]
        if team.n_threads == 1 or count <= _FEWEST_ROWS:
            subtract_product_of_vector(left, self._x, sums)
            return
        team.start(
            partial(_subtract_rows, left, self._x, sums),
            tiles(0, count, team.n_threads, _MOST_ROWS, _FEWEST_ROWS),
        )
        team.finish()


def _subtract_rows(left: NDArray[Any], x: NDArray[Any], sums: NDArray[Any], start: int, stop: int) -> None:
    subtract_product_of_vector(left[start:stop], x, sums[start:stop])
