"""Pencils: the row exchange between planes (all z of some columns j_x) and rows (all x of some z).

A row of ranks works through its planes in groups: a group is transformed in z, exchanged, transformed in x, operated
on in physical space, and brought back before the next group comes. `RowExchange` does so by messages, through one
small arena; it is the plain path. `SharedRows` is the faster one, for a row of ranks on one node: planes lie in
memory that the row shares, so that each rank reads its rows from the planes of others and writes them back there.
Nothing is copied between planes and rows then, as on slabs; ranks only wait for each other.
"""

from __future__ import annotations

import math
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ridgeline.fourier.decomposition import PencilGrid
from ridgeline.fourier.exchanges.plain_transpose import Direction
from ridgeline.fourier.exchanges.shared_memory import SharedArray
from ridgeline.fourier.exchanges.tuned_transpose import Transpose
from ridgeline.fourier.packing import planes_to_rows, rows_to_planes
from ridgeline.fourier.stages import (
    PlaneLayout,
    PlaneOperation,
    RowOperation,
    XStage,
    ZStage,
    planes_of_rank,
    planes_per_exchange,
)
from ridgeline.fourier.tuning import Layout, TransposeTuning
from ridgeline.fourier.workers import Clock, Workers
from ridgeline.parallel.partition import split

if TYPE_CHECKING:
    from mpi4py import MPI


class PlanePass(NamedTuple):
    """The arguments of `FourierTransform.planes`, which describes them."""

    operation: RowOperation
    pack: PlaneOperation | None
    from_lines: int
    from_points: int


def pieces_of_rows(n_rows: int, block: int, workers: Workers) -> list[range]:
    """Return rows 0 ... n_rows - 1 in pieces for workers, of a block each."""
    size = n_rows if len(workers) == 1 else block
    return [range(r, min(r + size, n_rows)) for r in range(0, n_rows, size)]


class RowExchange:
    """The exchange of groups of `n_planes` planes within a row of ranks, by messages. Built collectively.

    Parameters
    ----------
    grid, comm : this rank's share; the ranks of its row
    all_ranks : of the process grid, all of whose rows must choose the same method
    from_lines, from_points : most variables from planes to rows and back
    dtype, tuning : of complex numbers; how they are moved

    Attributes
    ----------
    n_planes : planes of a group
    seconds : that this rank spent in exchanges so far
    """

    def __init__(
        self,
        grid: PencilGrid,
        comm: MPI.Comm,
        all_ranks: MPI.Comm,
        from_lines: int,
        from_points: int,
        dtype: DTypeLike,
        tuning: TransposeTuning,
    ) -> None:
        nz, rows = grid.shape[0], grid.process_grid[0]
        ranges = [split(nz, rows, r) for r in range(rows)]
        self.n_planes = planes_per_exchange(grid, from_points, np.dtype(dtype).itemsize)
        self._columns = [len(grid.columns_of(r)) for r in range(rows)]
        self._n_z = grid.z_range[1]
        self.seconds = 0.0
        self.transpose = Transpose(
            comm,
            [self.n_planes * n for _, n in ranges],
            self._columns,
            from_points,
            from_lines,
            dtype,
            tuning,
            agreement=all_ranks,
        )
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
        self, z_stage: ZStage, x_stage: XStage, workers: Workers, group: tuple[int, int], step: PlanePass
    ) -> None:
        """Take a group of planes, first to end - 1, through transforms in z and x and back. Collective."""
        (first, end), (operation, pack, from_lines, from_points) = group, step
        clocks, pieces = workers.clocks, z_stage.pieces(*group)
        forward, inverse = self.transpose.forward, self.transpose.inverse

        def planes_to_arena(worker: int, piece: tuple[int, int]) -> None:
            z_stage.inverse(worker, clocks[worker], *piece, from_lines)
            planes = z_stage.work[worker].numbers
            self._pack(planes, z_stage.layout, clocks[worker], piece[0] - first, piece[1], from_lines)

        def transform_rows(worker: int, piece: range) -> None:
            starts = inverse.row_start, forward.row_start
            x_stage.run(
                worker,
                clocks[worker],
                self._flat,
                starts,
                1,
                first,
                piece,
                operation,
                from_lines,
                from_points,
            )

        def arena_to_planes(worker: int, piece: tuple[int, int]) -> None:
            planes = z_stage.work[worker].numbers
            self._unpack(planes, z_stage.layout, clocks[worker], piece[0] - first, piece[1], from_points)
            z_stage.forward(worker, clocks[worker], *piece, from_points, pack)
            if worker == 0:
                z_stage.progress()

        if from_lines:
            inverse.open()
            workers.run(pieces, planes_to_arena)
            self._exchange(inverse, from_lines)
        if from_points:
            forward.open()
        workers.run(pieces_of_rows((end - first) * self._n_z, x_stage.block, workers), transform_rows)
        if from_points:
            self._exchange(forward, from_points)
            workers.run(pieces, arena_to_planes)

    def _exchange(self, direction: Direction, n: int) -> None:
        t0 = perf_counter()
        direction.exchange(n)
        self.seconds += perf_counter() - t0

    def _pack(
        self, planes: NDArray[Any], layout: PlaneLayout, clock: Clock, first: int, n: int, from_lines: int
    ) -> None:
        """Write planes `first` ... of the group into the arena."""
        t0 = perf_counter()
        inverse = self.transpose.inverse
        planes_to_rows(
            planes,
            layout.step_z,
            layout.step,
            self._nz,
            inverse.column_start,
            inverse.group_columns,
            self._rows,
            first,
            n,
            from_lines,
            self.transpose.arena,
        )
        clock.pack += perf_counter() - t0

    def _unpack(
        self, planes: NDArray[Any], layout: PlaneLayout, clock: Clock, first: int, n: int, from_points: int
    ) -> None:
        """Fill planes `first` ... of the group from what is back in the arena."""
        t0 = perf_counter()
        forward = self.transpose.forward
        rows_to_planes(
            self.transpose.arena,
            forward.column_start,
            forward.group_columns,
            self._rows,
            first,
            n,
            from_points,
            layout.step_z,
            layout.step,
            self._nz,
            planes,
        )
        clock.pack += perf_counter() - t0


def shared_shape(
    grid: PencilGrid, row: int, n_variables: int, itemsize: int, layout: Layout
) -> tuple[int, ...]:
    """Return the shape of the planes of a group on the ranks of a row index: [piece, variable, plane, place]."""
    planes, per_piece = planes_of_rank(grid, row, n_variables, itemsize, layout)
    n_pieces = -(-planes_per_exchange(grid, n_variables, itemsize) // per_piece)
    return n_pieces, n_variables, per_piece, planes.size


def shared_numbers(grid: PencilGrid, n_variables: int, itemsize: int, layouts: tuple[Layout, ...]) -> int:
    """Return the numbers that this rank's planes of a group take in the largest of some layouts."""
    shapes = [shared_shape(grid, grid.row, n_variables, itemsize, layout) for layout in layouts]
    return max(math.prod(shape) for shape in shapes)


class SharedRows:
    """Groups of `n_planes` planes in memory that a row of ranks shares. Built collectively.

    Each rank of a row transforms its planes in z and waits for the others. Then it transforms its share of all ranks'
    rows in x, there and back, waits again, and goes on with its planes.

    Parameters
    ----------
    grid, comm : this rank's share; the ranks of its row, which are on one node
    n_variables, dtype : most variables that planes hold; of complex numbers
    layouts : in which planes may lie

    Attributes
    ----------
    n_planes : planes of a group
    own : complex, this rank's part of the memory, for `n_places` times the planes of a `ZStage`
    seconds : that this rank has waited for others so far
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
        """Find this rank's rows in the planes of all ranks, which lie in this layout from now on."""
        parts = []
        for row, begin in enumerate(self._shared.begin):
            shape = shared_shape(self._grid, row, self._n_variables, self._itemsize, layout)
            _, n_variables, per_piece, size = shape
            planes, _ = planes_of_rank(self._grid, row, self._n_variables, self._itemsize, layout)
            z0, n_z = self._grid.z_range
            plane = np.arange(self.n_planes)
            variable = np.arange(n_variables)[:, np.newaxis]
            place = (plane // per_piece * n_variables + variable) * per_piece + plane % per_piece
            first = begin + place * size + z0 * planes.step_z
            start = first[:, :, np.newaxis] + np.arange(n_z) * planes.step_z
            parts.append(start.reshape(n_variables, -1))
        self._start = np.ascontiguousarray(np.stack(parts, axis=2))

    def planes(
        self, z_stage: ZStage, x_stage: XStage, workers: Workers, group: tuple[int, int], step: PlanePass
    ) -> None:
        """Take a group of planes, first to end - 1, through transforms in z and x and back. Collective."""
        (first, end), (_, pack, from_lines, from_points) = group, step
        clocks, pieces = workers.clocks, list(enumerate(z_stage.pieces(*group)))

        def transform_planes(worker: int, numbered: tuple[int, tuple[int, int]]) -> None:
            place, piece = numbered
            z_stage.inverse(place, clocks[worker], *piece, from_lines)

        def transform_rows(worker: int, piece: range) -> None:
            self.transform_rows(worker, clocks[worker], z_stage, x_stage, first, piece, step)

        def transform_planes_back(worker: int, numbered: tuple[int, tuple[int, int]]) -> None:
            place, piece = numbered
            z_stage.work[place].index = worker
            z_stage.forward(place, clocks[worker], *piece, from_points, pack)
            if worker == 0:
                z_stage.progress()

        if from_lines:
            workers.run(pieces, transform_planes)
        self._wait()  # until all planes are here, or those of the last group have been read
        workers.run(
            pieces_of_rows((end - first) * self._grid.z_range[1], x_stage.block, workers), transform_rows
        )
        self._wait()
        if from_points:
            workers.run(pieces, transform_planes_back)

    def transform_rows(
        self,
        worker: int,
        clock: Clock,
        z_stage: ZStage,
        x_stage: XStage,
        plane: int,
        piece: range,
        step: PlanePass,
    ) -> None:
        """Take some of this rank's rows of a group, which begins at `plane`, through transforms in x and back."""
        x_stage.run(
            worker,
            clock,
            self._flat,
            (self._start, self._start),
            z_stage.layout.step,
            plane,
            piece,
            step.operation,
            step.from_lines,
            step.from_points,
        )

    def _wait(self) -> None:
        t0 = perf_counter()
        self._shared.wait()
        self.seconds += perf_counter() - t0

    def memory(self) -> int:
        """Return the bytes of tables. The planes count as work space of the stages."""
        return self._start.nbytes

    def describe(self) -> str:
        """Return the method in words."""
        return f"shared memory, {self.n_planes} plane{'s' * (self.n_planes != 1)} at a time"

    def free(self) -> None:
        """Free the shared memory; not usable afterwards. Collective."""
        del self.own, self._flat
        self._shared.free()
