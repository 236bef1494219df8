"""The factorisation of [A, b] on a P x Q grid: right-looking, with look-ahead of depth 1 and the split update.

For panel k every process updates its columns right of it: rows change places, U = L^-1 U, A <- A - L U. The process
column that has panel k + 1 updates those columns first, factors them and begins to send them, and only then updates
the rest. So the panel travels while others compute (look-ahead).

On P > 1 process rows the columns are cut in two parts. Rows of the right part change places while the left part is
updated. Rows of the left part, for panel k + 1, change places while the right part is updated for panel k (split
update). Neither threads nor ranks wait for the other in a way that changes a result: repeats are equal in every bit.
Sources: Petitet et al., "HPL", overview; rocHPL (AMD) for the split update.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from mpi4py import MPI

from ridgeline.bench.hpl import panel_kernels, update_kernels
from ridgeline.bench.hpl.blas_calls import blas_addresses
from ridgeline.bench.hpl.block_cyclic import BlockCyclic
from ridgeline.bench.hpl.broadcast import PanelBroadcast
from ridgeline.bench.hpl.panel import ColumnPanel, PanelFactoriser, Reals
from ridgeline.bench.hpl.parts import ColumnParts, PanelColumns
from ridgeline.bench.hpl.record import Broadcast, HplSettings
from ridgeline.bench.hpl.swap import RowSwap, SwapExchange
from ridgeline.bench.hpl.team import Tile, TileTeam, tiles
from ridgeline.jit.kernel import Specialisation
from ridgeline.runtime.regions import Regions

WIDEST, NARROWEST = 2048, 256  # columns of a tile: wide for the product's rate, narrow for balance


class _Turn(NamedTuple):
    """The update by one panel. after: global column of the next one; given: tiles until its own, if begun, or 0."""

    after: int
    parts: ColumnParts
    swap: RowSwap
    update: Callable[[int, int], None]
    given: int


class Factorisation:
    """LU of this process's part `a` of [A, b], in place: U remains in the upper triangle, L is not kept.

    a: float64 [at least rows, columns], column-major; row_comm, column_comm: the processes of this row and column of
    the grid, ordered by their place; told: called with the columns that are done, on all processes.
    """

    def __init__(
        self,
        settings: HplSettings,
        place: BlockCyclic,
        a: Reals,
        row_comm: MPI.Comm,
        column_comm: MPI.Comm,
        broadcast: Broadcast,
        team: TileTeam,
        regions: Regions,
    ) -> None:
        self._settings, self._place, self._a, self._team = settings, place, a, team
        self.regions = regions
        self._blas = blas_addresses()
        n_rows, n_columns = place.shape
        alone = column_comm.size == 1
        self._raw = np.full((settings.nb, 0 if alone else n_columns), 0.0, order="F")
        # Room for U of one tile, before and after the solve, for each thread.
        self._rooms = [
            [
                np.full((settings.nb, min(max(WIDEST, settings.nb), n_columns)), 0.0, order="F")
                for _ in range(2)
            ]
            for _ in range(settings.threads)
        ]
        self._panels = [ColumnPanel(n_rows, settings.nb) for _ in range(2)]
        self._factoriser = PanelFactoriser(
            column_comm, self._blas, settings.nb, settings.nbmin, settings.ndiv
        )
        self._broadcast = PanelBroadcast(row_comm, broadcast)
        self._exchange = SwapExchange(column_comm, place.rows, self._raw)
        self._global_rows = place.rows.globals()
        self._columns = PanelColumns(place.columns, divided=not alone)

    def run(self, told: Callable[[int], None]) -> None:
        """Factor. Collective over the grid."""
        self._prepare(0)
        self._broadcast.wait()
        turn: _Turn | None = self._begin(0)
        before = 0  # tiles that were given until those of the panel before
        while turn is not None:
            following = self._step(turn, before)
            told(turn.after)
            before, turn = turn.given, following
        self._broadcast.finish()

    def _begin(self, first: int) -> _Turn:
        """Begin the update by the panel at global column `first`, which is here: of the left part, but for its head.

        Without an exchange of rows the other threads go on with it when they have done the tiles of the panel before.
        """
        with self.regions("swap"):
            panel = self._panel_at(first)
            panel.invert()
            swap = RowSwap(panel, self._place.rows)

        def update(start: int, stop: int) -> None:
            self._update(first, swap, start, stop)

        parts, given = self._columns.right_of(first), 0
        if swap.alone:
            given = self._team.start(update, self._tiles(parts.ahead, parts.split))
        else:
            self._exchange.start(swap, self._a, parts.start, parts.split)
        return _Turn(self._columns.after(first), parts, swap, update, given)

    def _step(self, turn: _Turn, before: int) -> _Turn | None:
        """Finish an update and factor the next panel meanwhile; return its turn, None after the last.

        before: tiles that were given until those of the panel before.
        """
        regions, exchange, team, parts = self.regions, self._exchange, self._team, turn.parts
        more, following = turn.after < self._settings.n, list[_Turn]()

        def arrive() -> None:
            if more and not following and self._broadcast.progress():
                following.append(self._begin(turn.after))
            exchange.progress()

        if not turn.swap.alone:
            with regions("swap"):
                exchange.finish()
            exchange.start(turn.swap, self._a, parts.split, parts.stop)
            team.start(turn.update, self._tiles(parts.ahead, parts.split))
        with regions("update"):
            team.wait(before, parts.start, parts.ahead)
            if parts.ahead > parts.start:
                turn.update(parts.start, parts.ahead)
            team.wait(before)  # the room of its panel is that of the next one
        if more:
            self._prepare(turn.after)
        if not turn.swap.alone:
            self._update_right_part(turn, arrive)
        elif more:
            with regions("update"):
                arrive()
                team.join(turn.given, arrive)
        else:
            with regions("update"):
                team.finish()
        if not more:
            return None
        with regions("broadcast"):
            self._broadcast.wait()
        return following[0] if following else self._begin(turn.after)

    def _update_right_part(self, turn: _Turn, arrive: Callable[[], None]) -> None:
        """Finish the left part and update the right one. `arrive` lets rows of the left part change places again."""
        team, parts = self._team, turn.parts
        with self.regions("update"):
            team.finish(self._progress)
        with self.regions("swap"):
            self._exchange.finish()
        # The part that is updated now must not be one whose rows change places.
        early = self._columns.right_of(turn.after).split == parts.split < parts.stop
        with self.regions("update"):
            if early:
                arrive()
            team.start(turn.update, self._tiles(parts.split, parts.stop))
            team.finish(arrive if early else self._progress)

    def _progress(self) -> None:
        self._broadcast.progress()
        self._exchange.progress()

    def _panel_at(self, first: int) -> ColumnPanel:
        return self._panels[first // self._settings.nb % 2]

    def _prepare(self, first: int) -> None:
        """Factor the panel at global column `first`, where it lies here, and begin to broadcast it."""
        rows, columns, panel = self._place.rows, self._place.columns, self._panel_at(first)
        row = rows.count(first)
        with self.regions("broadcast"):
            self._broadcast.make_room()
        panel.shape(first, rows.count() - row, min(self._settings.nb, self._settings.n - first))
        if self._columns.here(first):
            with self.regions("panel"):
                column, diagonal = columns.local(first), rows.owner(first) == rows.part
                update_kernels.copy_block(self._a.T, row, column, panel.below.T)
                self._factoriser.factor(panel, self._global_rows[row:], diagonal)
                if diagonal:
                    self._a[row : row + panel.width, column : column + panel.width] = panel.top
        self._broadcast.start(columns.owner(first), panel.message)

    def _tiles(self, start: int, stop: int) -> list[Tile]:
        return tiles(start, stop, self._settings.threads, WIDEST, NARROWEST)

    def _update(self, first: int, swap: RowSwap, start: int, stop: int) -> None:
        """Update local columns start ... stop - 1 by the panel at global column `first`. Any thread may."""
        panel, rows = self._panel_at(first), self._place.rows
        skip = panel.width if swap.root == rows.part else 0
        room = self._rooms.pop()  # of a list: no two threads get the same
        raw = room[0] if swap.alone else self._raw[:, start:stop]
        update_kernels.update_tile(
            self._blas.gemm, panel.below.T, panel.top.T, panel.inverses.T, raw.T, room[1].T, self._a.T,
            swap.sources, swap.places, swap.targets, swap.taken, rows.count(), skip, start, stop,
        )  # fmt: skip
        self._rooms.append(room)


def kernels() -> list[Specialisation]:
    """Return the kernels of a factorisation."""
    return [*panel_kernels.kernels(), *update_kernels.kernels()]
