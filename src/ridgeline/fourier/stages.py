"""The three stages of a distributed transform, one per direction: unpack pieces, transform them, and pack them again.

    y: `YStage`   tiles of lines [variable, line, y], between operations on modes and the column transpose's arena
    z: `ZStage`   planes [variable, plane, z and j_x], between that arena and rows along x
    x: `XStage`   rows [variable, pair of rows, x], between planes (or the row transpose's arena) and operations in
                  physical space

The order is that of a transform from modes to points; the way back runs through the same stages in reverse. Each
stage works on pieces that fit a second-level cache, one piece at a time for each thread, with buffers and FFT plans
made once. Nothing here communicates: exchanges are made by `transform`, between the stages.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.fourier.decomposition import PencilGrid
from ridgeline.fourier.fft import FFTPlan
from ridgeline.fourier.packing import gather_lines, pack_planes, scatter_lines, unpack_planes
from ridgeline.fourier.real_pairs import load_pairs, store_pairs
from ridgeline.fourier.tuning import Layout
from ridgeline.fourier.workers import Clock, Workers
from ridgeline.runtime.aligned import aligned_empty

if TYPE_CHECKING:
    from ridgeline.fourier.exchanges.tuned_transpose import Transpose
    from ridgeline.fourier.planning import Planner

# Bytes of the lines of a tile. Lines and what they meet there fit a second-level cache.
TILE_BYTES = 400_000
MOST_LINES = 64  # in a tile; pieces of this many numbers are long enough for memory
PLANE_BYTES = 400_000  # of the planes that are worked on together, if more than one fits
LEAST_PIECES = 8  # of a rank's planes, for threads to share
EXCHANGE_BYTES = 1_000_000  # of rows that pencils exchange together: about a second-level cache
VECTOR_BYTES = 32  # of columns that FFTW transforms together in z
# Bytes of both arrays of pairs of rows: more would not stay in the second-level cache, fewer would need more calls.
BLOCK_BYTES = 700_000


class Tile:
    """Lines of one worker.

    Attributes
    ----------
    modes : complex [variable, line, y], what operations read and write; y is contiguous, the first N_y are used
    real : the same memory as real numbers
    scattered : complex, of the same shape: the other side of the transforms in y
    index : of the worker
    """

    def __init__(self, index: int, shape: tuple[int, int, int], dtype: np.dtype[Any]) -> None:
        self.index = index
        # Transforms go from one array to the other, because they are faster out of place.
        self.scattered = aligned_empty(shape, dtype)
        self.modes = aligned_empty(shape, dtype)
        self.scattered[...] = 0
        self.modes[...] = 0
        self.real = self.modes.view(self.modes.real.dtype)


LineOperation = Callable[[Tile, int, int], None]
"""Called with a tile, its first line and its number of lines."""


def lines_per_tile(n_y: int, n_variables: int, itemsize: int) -> int:
    """Return how many lines of n_y complex numbers and n_variables a tile should have, a multiple of 4."""
    fitting = TILE_BYTES // (n_variables * n_y * itemsize)
    return max(4, min(MOST_LINES, fitting) // 4 * 4)


def pitched(n: int, itemsize: int) -> int:
    """Return a pitch >= n that is an odd number of cache lines, so that columns of such rows collide in no cache."""
    per_line = max(1, 64 // itemsize)
    return (-(-n // per_line) | 1) * per_line


class YStage:
    """Transforms in y, between the arena of the column transpose and operations on tiles of lines.

    Parameters
    ----------
    transpose : its rows are planes y, its columns are lines
    n_y, tile : points in y; most lines of a tile
    workers : threads that share the tiles
    from_planes, to_planes : most variables transformed forward and inverse
    """

    def __init__(
        self, transpose: Transpose, n_y: int, tile: int, workers: Workers, *, from_planes: int, to_planes: int
    ) -> None:
        self._transpose, self._n_y, self._workers = transpose, n_y, workers
        dtype = transpose.arena.dtype
        groups = transpose.forward.group_columns.tolist()
        self.tiles = [
            [(group, line, min(tile, end - line)) for line in range(first, end, tile)]
            for group, (first, end) in enumerate(itertools.pairwise(groups))
        ]
        most = max((n for tiles in self.tiles for _, _, n in tiles), default=0)
        pitch = pitched(n_y, dtype.itemsize)
        self.work = [Tile(i, (max(from_planes, to_planes), most, pitch), dtype) for i in range(len(workers))]
        tables = transpose.forward.column_start, transpose.inverse.column_start
        self._starts = [
            [np.ascontiguousarray(table[:, :, group]) for group in range(len(self.tiles))] for table in tables
        ]
        self._first = groups
        self._variables = {1, from_planes}, {1, to_planes}
        self._plans: list[dict[tuple[bool, int, int], FFTPlan]] = []

    def plan(self, planner: Planner) -> None:
        """Make the FFT plans. No communication."""
        sizes = {n for tiles in self.tiles for _, _, n in tiles}
        self._plans = []
        for tile in self.work:
            plans: dict[tuple[bool, int, int], FFTPlan] = {}
            for n in sizes:
                for v in self._variables[0]:
                    source, target = tile.scattered[:v, :n, : self._n_y], tile.modes[:v, :n, : self._n_y]
                    plans[True, v, n] = planner(source, target, 2, "forward")
                for v in self._variables[1]:
                    source, target = tile.modes[:v, :n, : self._n_y], tile.scattered[:v, :n, : self._n_y]
                    plans[False, v, n] = planner(source, target, 2, "inverse")
            self._plans.append(plans)

    def clear(self) -> None:
        """Set the tiles to zero again after planning, which overwrites them."""
        for tile in self.work:
            tile.scattered[...] = 0
            tile.modes[...] = 0

    def memory(self) -> int:
        """Return the bytes of tiles and tables."""
        tiles = sum(tile.scattered.nbytes + tile.modes.nbytes for tile in self.work)
        return tiles + sum(start.nbytes for starts in self._starts for start in starts)

    def run(self, group: int, operation: LineOperation, *, from_planes: int, to_planes: int) -> None:
        """For each tile of a group: gather variables and transform them, operate, transform variables and scatter.

        from_planes and to_planes are the numbers of variables that are gathered and scattered: 1, or as many as were
        planned, or 0, which leaves that side out. Threads share the tiles.
        """
        arena, workers = self._transpose.arena, self._workers
        begin = self._starts[0][group], self._starts[1][group]
        origin, end = self._first[group], self._first[group + 1]

        def work(worker: int, piece: tuple[int, int, int]) -> None:
            _, line, n = piece
            tile, plans, clock = self.work[worker], self._plans[worker], workers.clocks[worker]
            if from_planes:
                t0 = perf_counter()
                n_next = min(n, end - line - n)
                gather_lines(arena, begin[0], line - origin, n, from_planes, n_next, tile.scattered)
                t1 = perf_counter()
                plans[True, from_planes, n].execute()
                clock.pack += t1 - t0
                clock.fft += perf_counter() - t1
            operation(tile, line, n)
            if to_planes:
                t0 = perf_counter()
                plans[False, to_planes, n].execute()
                t1 = perf_counter()
                scatter_lines(tile.scattered, begin[1], line - origin, n, to_planes, arena)
                clock.fft += t1 - t0
                clock.pack += perf_counter() - t1

        workers.run(self.tiles[group], work)


def planes_per_piece(nz: int, n_columns: int, n_variables: int, itemsize: int, n_planes: int) -> int:
    """Return how many planes to work on together: small ones several at a time, so that calls cost little.

    The number does not depend on the threads, because FFTW may round differently for another number of planes.
    """
    fitting = PLANE_BYTES // (n_variables * nz * n_columns * itemsize)
    return max(1, min(fitting, -(-n_planes // LEAST_PIECES)))


def planes_per_exchange(grid: PencilGrid, n_variables: int, itemsize: int) -> int:
    """Return how many planes the row exchange of pencils moves at a time, the same on all ranks of a row.

    The number is small enough that rows and planes meet in the caches. It is at most a quarter of a rank's planes,
    for a smaller buffer. It is as large as that allows, for long messages.
    """
    rows = -(-grid.shape[0] // grid.process_grid[0])
    fitting = EXCHANGE_BYTES // (n_variables * rows * grid.truncation.n_columns * itemsize)
    return max(1, min(fitting, -(-grid.y_range[1] // 4)))


def planes_of_rank(
    grid: PencilGrid, row: int, n_variables: int, itemsize: int, layout: Layout
) -> tuple[PlaneLayout, int]:
    """Return how planes lie on the ranks of a row index, and how many of them these ranks work on together."""
    n_columns = len(grid.columns_of(row))
    per_piece = planes_per_piece(grid.shape[0], n_columns, n_variables, itemsize, grid.y_range[1])
    return PlaneLayout(grid.shape[0], n_columns, itemsize, layout), per_piece


class PlaneLayout:
    """Where the numbers of a plane of n_z x n_columns lie.

    "strided" is z x columns, so that transforms in z are strided; "packed" is columns x z, transposed while
    unpacking. Which is faster depends on the size and is measured (paper, Table 1). step_z and step lead from one z
    and from one column to the next.
    """

    def __init__(self, nz: int, n_columns: int, itemsize: int, layout: Layout) -> None:
        self.nz, self.n_columns, self.layout = nz, n_columns, layout
        if layout == "strided":
            self.pitch, n_rows = pitched(n_columns, itemsize), nz
            self.step_z, self.step = self.pitch, 1
        else:
            self.pitch, n_rows = pitched(nz, itemsize), n_columns
            self.step_z, self.step = 1, self.pitch
        self.shape = n_rows, self.pitch
        self.size = n_rows * self.pitch

    def lines(self, planes: NDArray[Any]) -> tuple[NDArray[Any], int]:
        """Return planes [variable, plane, size] as an array to transform, and the axis of z."""
        whole = planes.reshape(*planes.shape[:2], *self.shape)
        if self.layout == "strided":
            # With the zeros behind them, because FFTW takes the last columns one by one where they fill no vector.
            per_vector = max(1, VECTOR_BYTES // planes.itemsize)
            return whole[..., : -(-self.n_columns // per_vector) * per_vector], 2
        return whole[..., : self.nz], 3

    def zeros(self, filled: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return (place, length) of the contiguous runs that hold no mode. filled: int64 [n_z], columns with one."""
        if self.layout == "strided":
            runs = [(z * self.pitch + n, self.n_columns - n) for z, n in enumerate(filled.tolist())]
        else:
            empty = [np.flatnonzero(filled <= j) for j in range(self.n_columns)]
            runs = [(j * self.pitch + int(z[0]), len(z)) for j, z in enumerate(empty) if len(z)]
            assert all(len(z) == 0 or z[-1] - z[0] + 1 == len(z) for z in empty)  # the gap at large |j_z|
        return np.array([run for run in runs if run[1] > 0], np.int64).reshape(-1, 2)


def runs_of_lines(
    grid: PencilGrid, layout: PlaneLayout, segment_columns: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the runs of consecutive columns among the lines of a row of ranks, see `fourier.packing.unpack_planes`.

    segment_columns: int64 [n_segments + 1], first line of each segment.
    """
    places, columns, _ = grid.lines_of(grid.row)
    n = len(places)
    cuts = np.flatnonzero(np.diff(places)) + 1
    first = np.unique(np.concatenate([[0], cuts, segment_columns[:-1]])).astype(np.int64)
    first = first[first < n]
    length = np.diff(np.append(first, n))
    segment = np.searchsorted(segment_columns, first, side="right") - 1
    z, column = places[first], columns[first]
    place = z * layout.step_z + column * layout.step
    return np.ascontiguousarray(
        np.stack([segment, first - segment_columns[segment], place, length, z, column], axis=1)
    )


class Planes:
    """Planes of one worker, between the transforms in x and in z.

    Attributes
    ----------
    numbers : complex [variable, plane, place], see PlaneLayout
    real, flat : the same memory as real numbers, flat in one dimension
    index : of the worker
    """

    def __init__(self, index: int, numbers: NDArray[Any]) -> None:
        self.index = index
        self.numbers = numbers
        self.numbers[...] = 0
        self.real = self.numbers.view(self.numbers.real.dtype)
        self.flat = self.real.reshape(-1)


PlaneOperation = Callable[[Planes, int, int], None]
"""Called with planes after the transform in z, the first plane y (local) and their number: writes arena rows."""


class ZStage:
    """Transforms in z of a rank's planes, between rows of the column transpose's arena and `Planes`.

    Parameters
    ----------
    grid, transpose : this rank's share; the column transpose, whose rows are planes
    layout : of planes
    from_lines, from_points : most variables transformed inverse, on their way to points, and forward, on the way back
    n_places : number of `Planes` to work in: one for each worker, or more if they lie in `memory`
    memory : complex numbers in which the planes lie; None allocates them
    """

    def __init__(
        self,
        grid: PencilGrid,
        transpose: Transpose,
        layout: Layout,
        from_lines: int,
        from_points: int,
        n_places: int,
        memory: NDArray[Any] | None = None,
    ) -> None:
        self._transpose = transpose
        dtype = transpose.arena.dtype
        most = max(from_lines, from_points)
        self.layout, self.n_per_piece = planes_of_rank(grid, grid.row, most, dtype.itemsize, layout)
        self.runs = runs_of_lines(grid, self.layout, transpose.inverse.segment_columns)
        filled = np.zeros(grid.shape[0], np.int64)
        np.add.at(filled, self.runs[:, 4], self.runs[:, 3])
        self._zeros = self.layout.zeros(filled)
        shape = (most, self.n_per_piece, self.layout.size)
        size = math.prod(shape)
        if memory is None:
            memory = aligned_empty(n_places * size, dtype)
        self.work = [Planes(i, memory[i * size :][:size].reshape(shape)) for i in range(n_places)]
        self._variables = {1, from_lines}, {1, from_points}
        self._plans: list[dict[tuple[bool, int, int], FFTPlan]] = []

    def row_places(self) -> NDArray[np.int64]:
        """Return where the rows of a worker's planes begin: int64 [variable, plane and z, 1]."""
        n_variables, n_planes, size = self.work[0].numbers.shape
        place = np.arange(n_variables)[:, np.newaxis, np.newaxis] * n_planes
        start = (place + np.arange(n_planes)[:, np.newaxis]) * size
        start = start + np.arange(self.layout.nz) * self.layout.step_z
        return np.ascontiguousarray(start.reshape(n_variables, -1, 1))

    def pieces(self, first: int, end: int) -> list[tuple[int, int]]:
        """Return (first plane, planes) of the pieces of planes first ... end - 1."""
        return [(y, min(self.n_per_piece, end - y)) for y in range(first, end, self.n_per_piece)]

    def plan(self, planner: Planner, sizes: set[int]) -> None:
        """Make the FFT plans for each number of planes in `sizes`. No communication."""
        self._plans = []
        for work in self.work:
            plans: dict[tuple[bool, int, int], FFTPlan] = {}
            for forward, variables in zip((False, True), self._variables):
                for v in variables:
                    for n in sizes:
                        lines, axis = self.layout.lines(work.numbers[:v, :n])
                        plans[forward, v, n] = planner(
                            lines, lines, axis, "forward" if forward else "inverse"
                        )
            self._plans.append(plans)

    def clear(self) -> None:
        """Set the planes to zero again after planning, which overwrites them."""
        for work in self.work:
            work.numbers[...] = 0

    def progress(self) -> None:
        """Let MPI move on the planes that were handed over to lines."""
        self._transpose.forward.progress()

    def memory(self) -> int:
        """Return the bytes of planes and tables."""
        return sum(work.numbers.nbytes for work in self.work) + self.runs.nbytes + self._zeros.nbytes

    def inverse(self, place: int, clock: Clock, first: int, n: int, from_lines: int) -> None:
        """Unpack variables of planes first ... into work[place] and transform them in z."""
        t0 = perf_counter()
        unpack_planes(
            self._transpose.arena,
            self._transpose.inverse.row_start,
            self.runs,
            self._zeros,
            self.layout.step,
            first,
            n,
            from_lines,
            self.work[place].numbers,
        )
        t1 = perf_counter()
        self._plans[place][False, from_lines, n].execute()
        clock.pack += t1 - t0
        clock.fft += perf_counter() - t1

    def forward(
        self, place: int, clock: Clock, first: int, n: int, from_points: int, pack: PlaneOperation | None
    ) -> None:
        """Transform variables of planes first ... in z and pack them, as they are unless `pack` does it."""
        t0 = perf_counter()
        self._plans[place][True, from_points, n].execute()
        t1 = perf_counter()
        work = self.work[place]
        if pack is None:
            pack_planes(
                work.numbers,
                self._transpose.forward.row_start,
                self.runs,
                self.layout.step,
                first,
                n,
                from_points,
                self._transpose.arena,
            )
        else:
            pack(work, first, n)
        clock.fft += t1 - t0
        clock.pack += perf_counter() - t1


class RowBlock:
    """Pairs of rows in physical space of one worker, what operations read and write.

    Attributes
    ----------
    source : real [variable, pair, 2 N_x and more], what transforms of both directions start from. Operations write
        here what the forward transform shall take back; rows 2 q and 2 q + 1 alternate
    target : of the same shape, the results of transforms of both directions. Operations read points here
    scratch : real [2, as long as a pair], for a row without a partner
    index : of the worker
    """

    def __init__(self, index: int, shape: tuple[int, int, int], dtype: np.dtype[Any]) -> None:
        self.index = index
        self._target = aligned_empty(shape, dtype)
        self._source = aligned_empty(shape, dtype)
        self.target = self._target.view(self._target.real.dtype)
        self.source = self._source.view(self.target.dtype)
        self.scratch = np.zeros((2, 2 * shape[2]), self.target.dtype)
        self.clear()

    def clear(self) -> None:
        """Set all to zero."""
        self._target[...] = 0
        self._source[...] = 0

    def plans(
        self, planner: Planner, nx: int, from_lines: set[int], from_points: set[int]
    ) -> dict[tuple[bool, int], FFTPlan]:
        """Return the FFT plans by (whether forward, number of variables). No communication."""
        plans: dict[tuple[bool, int], FFTPlan] = {}
        a, b = self._source[..., :nx], self._target[..., :nx]
        for v in from_lines:
            plans[False, v] = planner(a[:v], b[:v], 2, "inverse")
        for v in from_points:
            plans[True, v] = planner(a[:v], b[:v], 2, "forward")
        return plans

    @property
    def n_bytes(self) -> int:
        """Bytes of pairs and scratch."""
        return self.target.nbytes + self.source.nbytes + self.scratch.nbytes


RowOperation = Callable[[RowBlock, int, int, int], None]
"""Called with a block, the local plane y from which rows are counted, the first row and the number of rows.

Row r is the point (z, y) = (r mod n_z, plane + r div n_z) of the rank's block in physical space.
"""


def rows_per_block(nx: int, n_rows: int, n_variables: int, itemsize: int) -> int:
    """Return how many of n_rows rows a block should have, even, in blocks of about equal size."""
    most = max(2, BLOCK_BYTES // (2 * n_variables * nx * itemsize) * 2)
    if n_rows <= most:
        return n_rows + n_rows % 2
    n_blocks = -(-n_rows // most)
    rows = -(-n_rows // n_blocks)
    return rows + rows % 2


class XStage:
    """Transforms in x of rows whose modes lie anywhere: in planes, or in the arena of the row transpose.

    Parameters
    ----------
    nx, n_columns : points in x; retained j_x
    segments : int64 [n, 3], first column, step and length of each piece of a row
    block : rows that are transformed together
    from_lines, from_points : most variables of inverse and of forward transforms
    dtype, n_workers : of complex numbers; threads
    """

    def __init__(
        self,
        nx: int,
        n_columns: int,
        segments: NDArray[np.int64],
        block: int,
        from_lines: int,
        from_points: int,
        dtype: np.dtype[Any],
        n_workers: int,
    ) -> None:
        self.nx, self.n_columns, self.segments, self.block = nx, n_columns, segments, block
        self._variables = {1, from_lines}, {1, from_points}
        pitch = nx + max(1, 64 // dtype.itemsize)  # place nx is used, rows begin at cache lines
        shape = (max(from_lines, from_points), (block + 1) // 2, pitch)
        self.work = [RowBlock(i, shape, dtype) for i in range(n_workers)]
        self._plans: list[dict[tuple[bool, int], FFTPlan]] = []

    def plan(self, planner: Planner) -> None:
        """Make the FFT plans. No communication."""
        self._plans = [work.plans(planner, self.nx, *self._variables) for work in self.work]

    def clear(self) -> None:
        """Set the rows to zero again after planning, which overwrites them."""
        for work in self.work:
            work.clear()

    def memory(self) -> int:
        """Return the bytes of all rows."""
        return sum(work.n_bytes for work in self.work)

    def run(
        self,
        worker: int,
        clock: Clock,
        source: NDArray[Any],
        start: tuple[NDArray[np.int64], NDArray[np.int64]],
        pitch: int,
        plane: int,
        rows: range,
        operation: RowOperation,
        from_lines: int,
        from_points: int,
    ) -> None:
        """Join rows to pairs, transform, operate, transform back and part them, block by block, in place in `source`.

        Parameters
        ----------
        worker, clock : number of the thread, and what its seconds are added to
        source : real view of the complex numbers that hold the modes of rows
        start : int64 [variable, row, segment], where pieces are read from and where they are written to
        pitch : from one column to the next, in complex numbers
        plane, rows : see RowOperation
        from_lines, from_points : 1, or as many as planned, or 0, which leaves that side out
        """
        work, plans, nx = self.work[worker], self._plans[worker], self.nx
        inverse, forward = plans.get((False, from_lines)), plans.get((True, from_points))
        fft = pack = 0.0
        for first in range(rows.start, rows.stop, self.block):
            n = min(self.block, rows.stop - first)
            if inverse is not None:
                t0 = perf_counter()
                load_pairs(
                    source,
                    start[0],
                    pitch,
                    self.segments,
                    self.n_columns,
                    first,
                    n,
                    from_lines,
                    nx,
                    work.scratch,
                    work.source,
                )
                t1 = perf_counter()
                inverse.execute()
                pack += t1 - t0
                fft += perf_counter() - t1
            operation(work, plane, first, n)
            if forward is not None:
                t0 = perf_counter()
                forward.execute()
                t1 = perf_counter()
                store_pairs(
                    work.target,
                    self.segments,
                    first,
                    n,
                    from_points,
                    nx,
                    start[1],
                    pitch,
                    work.scratch,
                    source,
                )
                fft += t1 - t0
                pack += perf_counter() - t1
        clock.fft += fft
        clock.pack += pack
