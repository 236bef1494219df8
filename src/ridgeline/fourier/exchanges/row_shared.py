"""Pencils within a node: rows are read from the planes of other ranks, and written back there, in shared memory.

Nothing is copied between planes and rows, as on slabs. Each rank of a row transforms its planes in z and waits for
the others. It transforms its share of all ranks' rows in x, there and back, waits, and goes on with its planes.
"""

from __future__ import annotations

import math
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ridgeline.fourier.exchanges.row_exchange import PlanePass, pieces_of_rows
from ridgeline.fourier.exchanges.shared_memory import SharedArray
from ridgeline.fourier.pencil import PencilGrid
from ridgeline.fourier.planes import PlaneStage, planes_of_rank, planes_per_exchange
from ridgeline.fourier.rows import RowStage
from ridgeline.fourier.tuning import Layout
from ridgeline.fourier.workers import Clock, Workers

if TYPE_CHECKING:
    from mpi4py import MPI


def shared_shape(
    grid: PencilGrid, row: int, n_variables: int, itemsize: int, layout: Layout
) -> tuple[int, ...]:
    """Return the shape of the planes of a group on the ranks of a row index: [piece, variable, plane, place]."""
    planes, together = planes_of_rank(grid, row, n_variables, itemsize, layout)
    n_pieces = -(-planes_per_exchange(grid, n_variables, itemsize) // together)
    return n_pieces, n_variables, together, planes.size


def shared_numbers(grid: PencilGrid, n_variables: int, itemsize: int, layouts: tuple[Layout, ...]) -> int:
    """Return the numbers of this rank's planes of a group, in whichever of the layouts."""
    shapes = [shared_shape(grid, grid.row, n_variables, itemsize, layout) for layout in layouts]
    return max(math.prod(shape) for shape in shapes)


class SharedRows:
    """Groups of `n_planes` planes in memory that a row of ranks shares. Built collectively.

    comm: the row, of a process grid; n_variables: most that planes hold; layouts: in which they may lie.
    Attributes: own: complex, this rank's part, for the planes of a PlaneStage, n_places of them; seconds: of this
    rank in waiting for others so far.
    """

    def __init__(
        self,
        grid: PencilGrid,
        comm: MPI.Comm,
        n_variables: int,
        dtype: DTypeLike,
        layouts: tuple[Layout, ...],
    ) -> None:
        kind = np.dtype(dtype)
        self._grid, self._n_variables, self._itemsize = grid, n_variables, kind.itemsize
        self.n_planes = planes_per_exchange(grid, n_variables, kind.itemsize)
        self.n_places = shared_shape(grid, grid.row, n_variables, kind.itemsize, layouts[0])[0]
        self._shared = SharedArray(comm, shared_numbers(grid, n_variables, kind.itemsize, layouts), kind)
        self.own: NDArray[Any] = self._shared.own
        self._flat = self._shared.whole.view(self._shared.whole.real.dtype)
        self._start = np.zeros((0, 0, 0), np.int64)
        self.seconds = 0.0

    def segments(self) -> NDArray[np.int64]:
        """Return (first j_x, step, length) of the pieces of a row, one of each rank, int64 [P_r, 3]."""
        rows = self._grid.process_grid[0]
        return np.array([[r, rows, len(self._grid.columns_of(r))] for r in range(rows)], np.int64)

    def use(self, layout: Layout) -> None:
        """Find this rank's rows in the planes of all, which lie in this layout."""
        parts = []
        for row, begin in enumerate(self._shared.begin):
            shape = shared_shape(self._grid, row, self._n_variables, self._itemsize, layout)
            _, n_variables, together, size = shape
            planes, _ = planes_of_rank(self._grid, row, self._n_variables, self._itemsize, layout)
            z0, n_z = self._grid.z_range
            plane = np.arange(self.n_planes)
            variable = np.arange(n_variables)[:, np.newaxis]
            place = (plane // together * n_variables + variable) * together + plane % together
            first = begin + place * size + z0 * planes.step_z
            start = first[:, :, np.newaxis] + np.arange(n_z) * planes.step_z
            parts.append(start.reshape(n_variables, -1))
        self._start = np.ascontiguousarray(np.stack(parts, axis=2))

    def planes(
        self, stage: PlaneStage, rows: RowStage, workers: Workers, group: tuple[int, int], step: PlanePass
    ) -> None:
        """Take a group of planes, first to end - 1, through transforms in z and x and back. Collective."""
        (first, end), (_, pack, n_in, n_mid) = group, step
        clocks, pieces = workers.clocks, list(enumerate(stage.pieces(*group)))

        def down(worker: int, numbered: tuple[int, tuple[int, int]]) -> None:
            place, piece = numbered
            stage.inverse(place, clocks[worker], *piece, n_in)

        def across(worker: int, piece: range) -> None:
            self.across(worker, clocks[worker], stage, rows, first, piece, step)

        def up(worker: int, numbered: tuple[int, tuple[int, int]]) -> None:
            place, piece = numbered
            stage.work[place].index = worker
            stage.forward(place, clocks[worker], *piece, n_mid, pack)
            if worker == 0:
                stage.progress()

        if n_in:
            workers.run(pieces, down)
        self._wait()  # until all planes are here, or those of the last group read
        workers.run(pieces_of_rows((end - first) * self._grid.z_range[1], rows.block, workers), across)
        self._wait()
        if n_mid:
            workers.run(pieces, up)

    def across(
        self,
        worker: int,
        clock: Clock,
        stage: PlaneStage,
        rows: RowStage,
        plane: int,
        piece: range,
        step: PlanePass,
    ) -> None:
        """Take some of this rank's rows of a group, which begins at `plane`, through transforms in x and back."""
        rows.run(
            worker, clock, self._flat, (self._start, self._start), stage.layout.step,
            plane, piece, step.operation, step.n_in, step.n_mid,
        )  # fmt: skip

    def _wait(self) -> None:
        t0 = perf_counter()
        self._shared.wait()
        self.seconds += perf_counter() - t0

    def memory(self) -> int:
        """Return the bytes of tables; the planes count with those who work on them."""
        return self._start.nbytes

    def describe(self) -> str:
        """Return the method in words."""
        return f"shared, {self.n_planes} plane{'s' * (self.n_planes != 1)} at a time in place"

    def free(self) -> None:
        """Give the memory back. Not usable afterwards. Collective."""
        del self.own, self._flat
        self._shared.free()
