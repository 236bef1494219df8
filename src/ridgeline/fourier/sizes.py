"""What distributed transforms need and move, counted before they are made. No MPI, no allocation.

Counts are exact: only retained lines count, and memory is what `FourierTransform` allocates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ridgeline.fourier.decomposition import PencilGrid, ProcessGrid, Truncation
from ridgeline.fourier.exchanges.plain_transpose import TransposePlan
from ridgeline.fourier.stages import (
    PlaneLayout,
    lines_per_tile,
    pitched,
    planes_per_exchange,
    planes_per_piece,
    rows_per_block,
)
from ridgeline.fourier.tuning import Layout
from ridgeline.parallel.partition import split
from ridgeline.runtime.aligned import CACHE_LINE


class VariableCounts(NamedTuple):
    """Numbers of variables: from_lines, from_points and to_lines of `FourierTransform`.

    They go inward from lines to physical space, outward from there to planes, and combined from planes to lines.
    """

    inward: int
    outward: int
    combined: int

    @property
    def of_rows(self) -> tuple[int, int]:
        """Variables that go through the row exchange and the transforms in x and z: (there, back)."""
        return self.inward, self.outward

    @property
    def of_columns(self) -> tuple[int, int]:
        """Variables that go through the column exchange and the transforms in y: (there, back)."""
        return self.inward, self.combined


@dataclass(frozen=True)
class Share:
    """Sizes on all ranks of a process grid: rows r = 0 ... P_r - 1, columns c = 0 ... P_c - 1.

    Attributes
    ----------
    lines, modes : int64 [P_r, P_c], of each rank
    columns : int64 [P_r], retained j_x of each row
    planes : int64 [P_c], number of y of each column
    rows : int64 [P_r], number of z of each row in physical space
    """

    lines: NDArray[np.int64]
    modes: NDArray[np.int64]
    columns: NDArray[np.int64]
    planes: NDArray[np.int64]
    rows: NDArray[np.int64]

    @classmethod
    def of(cls, truncation: Truncation, grid: ProcessGrid) -> Share:
        """Return the sizes that `PencilGrid` assigns."""
        n_rows, n_columns = grid
        nz, ny, _ = truncation.shape
        lines, modes = np.zeros((2, n_rows, n_columns), np.int64)
        first = PencilGrid(truncation.shape, truncation.dealias, grid, 0)
        for r in range(n_rows):
            most = first.lines_of(r)[2]
            until = np.concatenate([[0], np.cumsum(2 * most + 1)])
            cuts = np.array([*(split(len(most), n_columns, c)[0] for c in range(n_columns)), len(most)])
            lines[r], modes[r] = np.diff(cuts), np.diff(until[cuts])
        return cls(
            lines,
            modes,
            np.array([len(first.columns_of(r)) for r in range(n_rows)]),
            np.array([split(ny, n_columns, c)[1] for c in range(n_columns)]),
            np.array([split(nz, n_rows, r)[1] for r in range(n_rows)]),
        )


def apart(first: NDArray[np.int64], second: NDArray[np.int64]) -> int:
    """Return the sum of first[a] second[b] over a != b, which an exchange of an outer product moves between ranks."""
    return int(first.sum() * second.sum() - (first * second).sum())


def exchanged(share: Share, nz: int, rows: int, columns: int) -> tuple[int, int]:
    """Return the complex numbers that go to other ranks, (row exchange, column exchange), for so many variables."""
    column = sum(apart(share.planes, lines) for lines in share.lines) * columns
    row = 0
    if len(share.rows) > 1:
        # Each plane is exchanged among the ranks of a row: its z are cut over them, its j_x are dealt out to them.
        row = int(share.planes.sum()) * apart(share.rows, share.columns) * rows
    return row, column


def messages(grid: ProcessGrid, rows: Sequence[int], columns: Sequence[int], batch: int) -> int:
    """Return the number of messages between ranks, for batches of Q variables and one chunk.

    rows, columns: numbers of variables that go through the row and the column exchange at a time.
    """
    n_rows, n_columns = grid

    def calls(counts: Sequence[int]) -> int:
        return sum(-(-count // batch) for count in counts)

    return n_rows * n_columns * ((n_columns - 1) * calls(columns) + (n_rows - 1) * calls(rows))


def transform_flops(truncation: Truncation, rows: int, columns: int) -> float:
    """Return the operations of transforms of `rows` variables in x and z and `columns` in y.

    A transform of N points counts 5 N log2 N, half of it if it is real.
    """
    nz, ny, nx = truncation.shape
    in_planes = ny * (nz * 2.5 * nx * math.log2(nx) + truncation.n_columns * 5.0 * nz * math.log2(nz))
    return rows * in_planes + columns * truncation.n_lines * 5.0 * ny * math.log2(ny)


def buffer_bytes(
    rank: int, rows: Sequence[int], columns: Sequence[int], variables: int, batch: int, itemsize: int
) -> float:
    """Return the bytes of arena and tables of an exchange by "alltoallv" between owners of rows and of columns."""
    plan = TransposePlan(rank, tuple(rows), tuple(columns), variables, batch, itemsize)
    pieces = rows[rank] * len(columns) + sum(rows)
    return float(plan.arena_size * itemsize + 8 * variables * pieces)


def exchange_bytes(
    first: PencilGrid, share: Share, counts: VariableCounts, batch: int, itemsize: int
) -> float:
    """Return the bytes of a rank's buffers of the column exchange and, for pencils, of the row exchange."""
    on_lines, on_rows = max(counts.inward, counts.combined), max(counts.inward, counts.outward)
    lines = share.lines[first.row].tolist()
    needed = buffer_bytes(first.column, share.planes.tolist(), lines, on_lines, batch, itemsize)
    if first.process_grid[0] > 1:
        n_planes = planes_per_exchange(first, on_rows, itemsize)
        rows = [n_planes * n for n in share.rows.tolist()]
        needed += buffer_bytes(first.row, rows, share.columns.tolist(), on_rows, batch, itemsize)
    return needed


def work_bytes(
    grid: PencilGrid, counts: VariableCounts, workers: int, itemsize: int, layout: Layout
) -> float:
    """Return the bytes in which the threads of a rank work: tiles of lines, planes, blocks of rows, their tables."""
    nz, ny, nx = grid.shape
    on_lines, on_rows = max(counts.inward, counts.combined), max(counts.inward, counts.outward)
    n_lines, n_columns = grid.lines.n_lines, len(grid.columns_of(grid.row))
    tile = min(lines_per_tile(ny, on_lines, itemsize), n_lines)
    tiles = 2 * on_lines * tile * pitched(ny, itemsize) * itemsize
    starts = 8 * (counts.combined + counts.inward) * ny
    piece = planes_per_piece(nz, n_columns, on_rows, itemsize, grid.y_range[1])
    planes = on_rows * piece * PlaneLayout(nz, n_columns, itemsize, layout).size * itemsize
    pencils = grid.process_grid[0] > 1
    n_rows = planes_per_exchange(grid, on_rows, itemsize) * grid.z_range[1] if pencils else piece * nz
    pairs = (rows_per_block(nx, n_rows, on_rows, itemsize) + 1) // 2
    pitch = nx + max(1, CACHE_LINE // itemsize)
    rows = (2 * on_rows * pairs + 2) * pitch * itemsize
    return float(workers * (tiles + planes + rows) + starts + 8 * on_rows * piece * nz)
