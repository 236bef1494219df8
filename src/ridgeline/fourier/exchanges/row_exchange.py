"""Pencils: the row exchange between planes (all z of some columns j_x) and rows (all x of some z).

Groups of planes are exchanged one after the other through one small arena. The products of a group are formed and
sent back before the next group comes.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ridgeline.fourier.exchanges.transpose import Direction, Transpose
from ridgeline.fourier.packing import planes_to_rows, rows_to_planes
from ridgeline.fourier.pencil import PencilGrid
from ridgeline.fourier.planes import PlaneLayout, PlaneOperation, PlaneStage, planes_per_exchange
from ridgeline.fourier.rows import RowOperation, RowStage
from ridgeline.fourier.tuning import TransposeTuning
from ridgeline.fourier.workers import Clock, Workers
from ridgeline.parallel.partition import split

if TYPE_CHECKING:
    from mpi4py import MPI


class PlanePass(NamedTuple):
    """What `FourierTransform.planes` does; see there."""

    operation: RowOperation
    pack: PlaneOperation | None
    n_in: int
    n_mid: int


def pieces_of_rows(n_rows: int, block: int, workers: Workers) -> list[range]:
    """Return rows 0 ... n_rows - 1 in pieces for workers, of a block each."""
    size = n_rows if len(workers) == 1 else block
    return [range(r, min(r + size, n_rows)) for r in range(0, n_rows, size)]


class RowExchange:
    """The exchange of groups of `n_planes` planes within a row of ranks. Built collectively.

    comm: the row, of a process grid whose ranks are `everyone`; n_in, n_mid: variables from planes to rows and back.
    seconds: of this rank in exchanges so far.
    """

    def __init__(
        self,
        grid: PencilGrid,
        comm: MPI.Comm,
        everyone: MPI.Comm,
        n_in: int,
        n_mid: int,
        dtype: DTypeLike,
        tuning: TransposeTuning,
    ) -> None:
        nz, rows = grid.shape[0], grid.process_grid[0]
        ranges = [split(nz, rows, r) for r in range(rows)]
        self.n_planes = planes_per_exchange(grid, n_mid, np.dtype(dtype).itemsize)
        self._columns = [len(grid.columns_of(r)) for r in range(rows)]
        self._n_z = grid.z_range[1]
        self.seconds = 0.0
        self.transpose = Transpose(
            comm, [self.n_planes * n for _, n in ranges], self._columns, n_mid, n_in, dtype,
            tuning, agreement=everyone,
        )  # fmt: skip
        self._flat = self.transpose.arena.view(self.transpose.arena.real.dtype)
        # Row (plane p, z) of owner r is n_planes z0_r + p n_r + z - z0_r: owner by owner, then plane by plane.
        self._rows = np.concatenate(
            [np.stack([self.n_planes * z0 + np.arange(n), np.full(n, n)], axis=1) for z0, n in ranges]
        )
        self._nz = nz

    def segments(self) -> NDArray[np.int64]:
        """Return (first j_x, step, length) of the pieces of a row in the arena, int64 [n_segments, 3]."""
        rows = len(self._columns)
        owner = np.repeat(np.arange(rows), self._columns)
        place = np.concatenate([np.arange(n) for n in self._columns])
        cuts = self.transpose.inverse.segment_columns
        first, length = cuts[:-1], np.diff(cuts)
        jx = np.append(owner + rows * place, 0)[first]
        return np.ascontiguousarray(np.stack([jx, np.full_like(first, rows), length], axis=1))

    def planes(
        self, stage: PlaneStage, rows: RowStage, workers: Workers, group: tuple[int, int], step: PlanePass
    ) -> None:
        """Take a group of planes, first to end - 1, through transforms in z and x and back. Collective."""
        (first, end), (operation, pack, n_in, n_mid) = group, step
        clocks, pieces = workers.clocks, stage.pieces(*group)
        forward, inverse = self.transpose.forward, self.transpose.inverse

        def down(worker: int, piece: tuple[int, int]) -> None:
            stage.inverse(worker, clocks[worker], *piece, n_in)
            planes = stage.work[worker].numbers
            self._give(planes, stage.layout, clocks[worker], piece[0] - first, piece[1], n_in)

        def across(worker: int, piece: range) -> None:
            starts = inverse.row_start, forward.row_start
            rows.run(worker, clocks[worker], self._flat, starts, 1, first, piece, operation, n_in, n_mid)

        def up(worker: int, piece: tuple[int, int]) -> None:
            planes = stage.work[worker].numbers
            self._take(planes, stage.layout, clocks[worker], piece[0] - first, piece[1], n_mid)
            stage.forward(worker, clocks[worker], *piece, n_mid, pack)
            if worker == 0:
                stage.progress()

        if n_in:
            inverse.open()
            workers.run(pieces, down)
            self._exchange(inverse, n_in)
        if n_mid:
            forward.open()
        workers.run(pieces_of_rows((end - first) * self._n_z, rows.block, workers), across)
        if n_mid:
            self._exchange(forward, n_mid)
            workers.run(pieces, up)

    def _exchange(self, direction: Direction, n: int) -> None:
        t0 = perf_counter()
        direction.exchange(n)
        self.seconds += perf_counter() - t0

    def _give(
        self, planes: NDArray[Any], layout: PlaneLayout, clock: Clock, first: int, n: int, n_in: int
    ) -> None:
        """Write planes `first` ... of the group into the arena."""
        t0 = perf_counter()
        inverse = self.transpose.inverse
        planes_to_rows(
            planes, layout.step_z, layout.step, self._nz, inverse.column_start, inverse.group_columns,
            self._rows, first, n, n_in, self.transpose.arena,
        )  # fmt: skip
        clock.pack += perf_counter() - t0

    def _take(
        self, planes: NDArray[Any], layout: PlaneLayout, clock: Clock, first: int, n: int, n_mid: int
    ) -> None:
        """Fill planes from what is back in the arena."""
        t0 = perf_counter()
        forward = self.transpose.forward
        rows_to_planes(
            self.transpose.arena, forward.column_start, forward.group_columns, self._rows, first, n, n_mid,
            layout.step_z, layout.step, self._nz, planes,
        )  # fmt: skip
        clock.pack += perf_counter() - t0
