"""The middle direction: planes y of a rank, with z transforms between the arena's rows and rows along x.

Transforms in z are strided (a plane is z x columns) or packed (columns x z, transposed while unpacking). Which is
faster depends on the size and is measured (paper, Table 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.fourier.fft import FFTPlan
from ridgeline.fourier.lines import pitched
from ridgeline.fourier.packing import pack_planes, unpack_planes
from ridgeline.fourier.pencil import PencilGrid
from ridgeline.fourier.tuning import Layout
from ridgeline.fourier.workers import Clock
from ridgeline.runtime.aligned import aligned_empty

if TYPE_CHECKING:
    from ridgeline.fourier.exchanges.transpose import Transpose
    from ridgeline.fourier.planning import Planner

EXCHANGE_BYTES = 1_000_000  # of rows that pencils exchange together: of a second-level cache
LEAST_PIECES = 8  # of a rank's planes, for threads to share
VECTOR_BYTES = 32  # of columns that FFTW transforms together in z
PLANE_BYTES = 400_000  # of the planes that are worked on together, if more than one fits


def planes_per_piece(nz: int, n_columns: int, n_variables: int, itemsize: int, n_planes: int) -> int:
    """Return how many planes to work on together: small ones several at a time, so that calls cost little.

    Not asked: the number of threads. FFTW may round differently for another number of planes.
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
    """Return how planes lie on the ranks of a row index, and how many of them they work on together."""
    n_columns = len(grid.columns_of(row))
    together = planes_per_piece(grid.shape[0], n_columns, n_variables, itemsize, grid.y_range[1])
    return PlaneLayout(grid.shape[0], n_columns, itemsize, layout), together


class PlaneLayout:
    """Where the numbers of a plane of n_z x n_columns lie. step_z, step: from one z, one column to the next."""

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
            # With the zeros behind them: FFTW takes the last columns one by one where they fill no vector.
            together = max(1, VECTOR_BYTES // planes.itemsize)
            return whole[..., : -(-self.n_columns // together) * together], 2
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
    """Planes of one worker between the transforms.

    numbers: complex [variable, plane, place], see PlaneLayout; real: the same as real numbers; index: of the worker.
    """

    def __init__(self, index: int, numbers: NDArray[Any]) -> None:
        self.index = index
        self.numbers = numbers
        self.numbers[...] = 0
        self.real = self.numbers.view(self.numbers.real.dtype)
        self.flat = self.real.reshape(-1)


PlaneOperation = Callable[[Planes, int, int], None]
"""Called with planes after the transform in z, the first plane y (local) and their number: writes arena rows."""


class PlaneStage:
    """Transforms in z of a rank's planes, between rows of the column transpose's arena and `Planes`.

    n_places: `Planes` to work in, one for each worker unless `memory` has room for more; memory: complex numbers to
    take them from.
    """

    def __init__(
        self,
        grid: PencilGrid,
        transpose: Transpose,
        layout: Layout,
        n_in: int,
        n_mid: int,
        n_places: int,
        memory: NDArray[Any] | None = None,
    ) -> None:
        self._transpose = transpose
        dtype = transpose.arena.dtype
        most = max(n_in, n_mid)
        self.layout, self.n_together = planes_of_rank(grid, grid.row, most, dtype.itemsize, layout)
        self.runs = runs_of_lines(grid, self.layout, transpose.inverse.segment_columns)
        filled = np.zeros(grid.shape[0], np.int64)
        np.add.at(filled, self.runs[:, 4], self.runs[:, 3])
        self._zeros = self.layout.zeros(filled)
        shape = (most, self.n_together, self.layout.size)
        size = math.prod(shape)
        if memory is None:
            memory = aligned_empty(n_places * size, dtype)
        self.work = [Planes(i, memory[i * size :][:size].reshape(shape)) for i in range(n_places)]
        self._variables = {1, n_in}, {1, n_mid}
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
        return [(y, min(self.n_together, end - y)) for y in range(first, end, self.n_together)]

    def plan(self, planner: Planner, sizes: set[int]) -> None:
        """Make the transforms of as many planes at a time as in `sizes`. No communication."""
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
        """Forget what planning left."""
        for work in self.work:
            work.numbers[...] = 0

    def progress(self) -> None:
        """Let MPI move on the planes that were handed over to lines."""
        self._transpose.forward.progress()

    def memory(self) -> int:
        """Return the bytes held."""
        return sum(work.numbers.nbytes for work in self.work) + self.runs.nbytes + self._zeros.nbytes

    def inverse(self, place: int, clock: Clock, first: int, n: int, n_in: int) -> None:
        """Unpack n_in variables of planes first ... into work[place] and transform them in z."""
        t0 = perf_counter()
        unpack_planes(
            self._transpose.arena, self._transpose.inverse.row_start, self.runs, self._zeros, self.layout.step,
            first, n, n_in, self.work[place].numbers,
        )  # fmt: skip
        t1 = perf_counter()
        self._plans[place][False, n_in, n].execute()
        clock.pack += t1 - t0
        clock.fft += perf_counter() - t1

    def forward(
        self, place: int, clock: Clock, first: int, n: int, n_mid: int, pack: PlaneOperation | None
    ) -> None:
        """Transform n_mid variables of planes first ... in z and pack them, as they are unless `pack` does it."""
        t0 = perf_counter()
        self._plans[place][True, n_mid, n].execute()
        t1 = perf_counter()
        work = self.work[place]
        if pack is None:
            pack_planes(
                work.numbers, self._transpose.forward.row_start, self.runs, self.layout.step, first, n, n_mid,
                self._transpose.arena,
            )  # fmt: skip
        else:
            pack(work, first, n)
        clock.fft += t1 - t0
        clock.pack += perf_counter() - t1
