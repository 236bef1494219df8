"""Pencils: the row exchange between planes (all z of some columns j_x) and rows (all x of some z).

Groups of planes are exchanged one after the other through one small arena. The products of a group are formed and
sent back before the next group comes.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ridgeline.fourier.packing import planes_to_rows, rows_to_planes
from ridgeline.fourier.pencil import PencilGrid
from ridgeline.fourier.planes import PlaneLayout, planes_per_exchange
from ridgeline.fourier.transpose import Transpose
from ridgeline.fourier.tuning import TransposeTuning
from ridgeline.fourier.workers import Clock
from ridgeline.parallel.partition import split

if TYPE_CHECKING:
    from mpi4py import MPI


class RowExchange:
    """The exchange of groups of `n_planes` planes within a row of ranks. Built collectively.

    comm: the row, of a process grid whose ranks are `everyone`; n_in, n_mid: variables from planes to rows and back.
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
        self.transpose = Transpose(
            comm, [self.n_planes * n for _, n in ranges], self._columns, n_mid, n_in, dtype,
            tuning, agreement=everyone,
        )  # fmt: skip
        self.flat = self.transpose.arena.view(self.transpose.arena.real.dtype)
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

    def starts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where the pieces of rows begin on their way in and out, int64 [variable, row, segment]."""
        return self.transpose.inverse.row_start, self.transpose.forward.row_start

    def give(
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

    def take(
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
