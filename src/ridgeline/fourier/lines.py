"""The last direction: lines along y of a rank's modes, gathered in tiles that fit a cache, transformed, scattered."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from ridgeline.fourier.fft import FFTPlan
from ridgeline.fourier.packing import gather_lines, scatter_lines
from ridgeline.fourier.workers import Workers
from ridgeline.runtime.aligned import aligned_empty

if TYPE_CHECKING:
    from ridgeline.fourier.exchanges.transpose import Transpose
    from ridgeline.fourier.planning import Planner

TILE_BYTES = 400_000  # of the lines of a tile, once: they fit a second-level cache with what they meet there
MOST_LINES = 64  # of a tile; pieces of this many numbers are long enough for memory


class Tile:
    """Lines of one worker. modes: complex [variable, line, y], what operations read and write.

    real: the same as real numbers; index: of the worker; y is contiguous and pitched, the first N_y are used.
    """

    def __init__(self, index: int, shape: tuple[int, int, int], dtype: np.dtype[Any]) -> None:
        self.index = index
        # Transforms go from one to the other: out of place is faster, and neither grows what is left over.
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


class LineStage:
    """Transforms in y between the arena of the column transpose and operations on tiles of lines.

    transpose: rows are planes y, columns are lines; tile: most lines of a tile;
    n_in, n_out: most variables transformed forward and inverse.
    """

    def __init__(
        self, transpose: Transpose, n_y: int, tile: int, n_in: int, n_out: int, workers: Workers
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
        self.work = [Tile(i, (max(n_in, n_out), most, pitch), dtype) for i in range(len(workers))]
        tables = transpose.forward.column_start, transpose.inverse.column_start
        self._starts = [
            [np.ascontiguousarray(table[:, :, group]) for group in range(len(self.tiles))] for table in tables
        ]
        self._first = groups
        self._variables = {1, n_in}, {1, n_out}
        self._plans: list[dict[tuple[bool, int, int], FFTPlan]] = []

    def plan(self, planner: Planner) -> None:
        """Make the transforms. No communication."""
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
        """Forget what planning left in the tiles."""
        for tile in self.work:
            tile.scattered[...] = 0
            tile.modes[...] = 0

    def memory(self) -> int:
        """Return the bytes of tiles and tables."""
        tiles = sum(tile.scattered.nbytes + tile.modes.nbytes for tile in self.work)
        return tiles + sum(start.nbytes for starts in self._starts for start in starts)

    def run(self, group: int, operation: LineOperation, n_in: int, n_out: int) -> None:
        """For each tile of a group: gather n_in variables and transform them, operate, transform n_out and scatter.

        n_in, n_out: 1, or as many as were planned, or 0, which leaves that side out. Threads.
        """
        arena, workers = self._transpose.arena, self._workers
        begin = self._starts[0][group], self._starts[1][group]
        origin, end = self._first[group], self._first[group + 1]

        def work(worker: int, piece: tuple[int, int, int]) -> None:
            _, line, n = piece
            tile, plans, clock = self.work[worker], self._plans[worker], workers.clocks[worker]
            if n_in:
                t0 = perf_counter()
                n_next = min(n, end - line - n)
                gather_lines(arena, begin[0], line - origin, n, n_in, n_next, tile.scattered)
                t1 = perf_counter()
                plans[True, n_in, n].execute()
                clock.pack += t1 - t0
                clock.fft += perf_counter() - t1
            operation(tile, line, n)
            if n_out:
                t0 = perf_counter()
                plans[False, n_out, n].execute()
                t1 = perf_counter()
                scatter_lines(tile.scattered, begin[1], line - origin, n, n_out, arena)
                clock.fft += t1 - t0
                clock.pack += perf_counter() - t1

        workers.run(self.tiles[group], work)


def pitched(n: int, itemsize: int) -> int:
    """Return a pitch >= n of whole cache lines, odd in number: columns of such rows collide in no cache."""
    per_line = max(1, 64 // itemsize)
    return (-(-n // per_line) | 1) * per_line
