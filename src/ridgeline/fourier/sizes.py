"""What distributed transforms need and move, before they are made: no MPI, no allocation.

Counts are exact: of the retained lines alone, and of what `FourierTransform` allocates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ridgeline.fourier.exchanges.transpose_plan import TransposePlan
from ridgeline.fourier.lines import lines_per_tile, pitched
from ridgeline.fourier.pencil import PencilGrid, ProcessGrid, Truncation
from ridgeline.fourier.planes import PlaneLayout, planes_per_exchange, planes_per_piece
from ridgeline.fourier.rows import rows_per_block
from ridgeline.fourier.tuning import Layout
from ridgeline.parallel.partition import split
from ridgeline.runtime.aligned import CACHE_LINE


class VariableCounts(NamedTuple):
    """How many variables go where: n_in, n_mid and n_out of `FourierTransform`.

    inward: from lines to physical space; outward: from there to planes; combined: from planes to lines.
    """

    inward: int
    outward: int
    combined: int

    @property
    def of_rows(self) -> tuple[int, int]:
        """Variables through the row exchange and transforms in x and z: there, back."""
        return self.inward, self.outward

    @property
    def of_columns(self) -> tuple[int, int]:
        """Variables through the column exchange and transforms in y: there, back."""
        return self.inward, self.combined


@dataclass(frozen=True)
class Share:
    """Sizes on all ranks of a process grid: rows r = 0 ... P_r - 1, columns c = 0 ... P_c - 1.

    lines, modes: int64 [P_r, P_c]; columns: retained j_x of each row [P_r]; planes: y of each column [P_c];
    rows: z of each row in physical space [P_r].
    """

    lines: Any
    modes: Any
    columns: Any
    planes: Any
    rows: Any

    @classmethod
    def of(cls, truncation: Truncation, grid: ProcessGrid) -> Share:
        """Return the sizes that `PencilGrid` gives."""
        n_rows, n_columns = grid
        nz, ny, _ = truncation.shape
        lines, modes = np.zeros((2, n_rows, n_columns), np.int64)
        first = PencilGrid(truncation.shape, truncation.dealias, grid, 0)
        for r in range(n_rows):
            most = first.lines_of(r)[2]
            until = np.concatenate([[0], np.cumsum(2 * most + 1)])
            for c in range(n_columns):
                begin, lines[r, c] = first.line_range(r, c)
                modes[r, c] = until[begin + lines[r, c]] - until[begin]
        return cls(
            lines,
            modes,
            np.array([len(first.columns_of(r)) for r in range(n_rows)]),
            np.array([split(ny, n_columns, c)[1] for c in range(n_columns)]),
            np.array([split(nz, n_rows, r)[1] for r in range(n_rows)]),
        )


def apart(first: Any, second: Any) -> int:
    """Return sum of first[a] second[b] over a != b: what an exchange of an outer product moves between ranks."""
    return int(first.sum() * second.sum() - (first * second).sum())


def exchanged(share: Share, nz: int, rows: int, columns: int) -> tuple[int, int]:
    """Return complex numbers that go to other ranks: (row exchange, column exchange) of so many variables."""
    column = sum(apart(share.planes, lines) for lines in share.lines) * columns
    row = 0
    if len(share.rows) > 1:
        # Each plane is exchanged among the ranks of a row: its z are cut over them, its j_x are dealt to them.
        row = int(share.planes.sum()) * apart(share.rows, share.columns) * rows
    return row, column


def messages(grid: ProcessGrid, rows: Sequence[int], columns: Sequence[int], batch: int) -> int:
    """Return the messages between ranks, for batches of Q variables and one chunk.

    rows, columns: variables that go through the row and the column exchange together.
    """
    n_rows, n_columns = grid

    def calls(counts: Sequence[int]) -> int:
        return sum(-(-count // batch) for count in counts)

    return n_rows * n_columns * ((n_columns - 1) * calls(columns) + (n_rows - 1) * calls(rows))


def transform_flops(truncation: Truncation, rows: int, columns: int) -> float:
    """Return operations by 5 N log2 N, half of it if real: `rows` variables in x and z, `columns` in y."""
    nz, ny, nx = truncation.shape
    in_planes = ny * (nz * 2.5 * nx * math.log2(nx) + truncation.n_columns * 5.0 * nz * math.log2(nz))
    return rows * in_planes + columns * truncation.n_lines * 5.0 * ny * math.log2(ny)


def buffer_bytes(
    rank: int, rows: Sequence[int], columns: Sequence[int], variables: int, batch: int, itemsize: int
) -> float:
    """Return the bytes of an exchange between owners of rows and of columns: arena and tables of "alltoallv"."""
    plan = TransposePlan(rank, tuple(rows), tuple(columns), variables, batch, itemsize)
    pieces = rows[rank] * len(columns) + sum(rows)
    return float(plan.arena_size * itemsize + 8 * variables * pieces)


def exchange_bytes(
    first: PencilGrid, share: Share, counts: VariableCounts, batch: int, itemsize: int
) -> float:
    """Return the bytes of a rank's exchange buffers: of the column exchange, and for pencils the row exchange."""
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
    """Return the bytes that the threads of a rank work in: tiles of lines, planes, blocks of rows, their tables."""
    nz, ny, nx = grid.shape
    on_lines, on_rows = max(counts.inward, counts.combined), max(counts.inward, counts.outward)
    n_lines, n_columns = grid.lines.n_lines, len(grid.columns_of(grid.row))
    tile = min(lines_per_tile(ny, on_lines, itemsize), n_lines)
    tiles = 2 * on_lines * tile * pitched(ny, itemsize) * itemsize
    starts = 8 * (counts.combined + counts.inward) * ny
    together = planes_per_piece(nz, n_columns, on_rows, itemsize, grid.y_range[1])
    planes = on_rows * together * PlaneLayout(nz, n_columns, itemsize, layout).size * itemsize
    pencils = grid.process_grid[0] > 1
    n_rows = planes_per_exchange(grid, on_rows, itemsize) * grid.z_range[1] if pencils else together * nz
    pairs = (rows_per_block(nx, n_rows, on_rows, itemsize) + 1) // 2
    pitch = nx + max(1, CACHE_LINE // itemsize)
    rows = (2 * on_rows * pairs + 2) * pitch * itemsize
    return float(workers * (tiles + planes + rows) + starts + 8 * on_rows * together * nz)
