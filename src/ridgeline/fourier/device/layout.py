"""How lines, planes and rows of slabs and pencils lie in device memory, and the memory they take. Needs no device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ridgeline.fourier.decomposition import PencilGrid
from ridgeline.parallel.partition import split

DeviceArray = Any  # flat, of real numbers; Numba has no type for it
# What messages between GPUs go through.
TRANSPORT_WORDS = {"mpi": "GPU-aware MPI", "nccl": "NCCL", "host": "pinned host memory"}
SECTOR = 4  # complex numbers that rows are rounded up to: whole sectors of memory, 32 bytes in float32


class VariableBatch(NamedTuple):
    """Variables first ... first + width - 1, which are one message to each rank."""

    first: int
    width: int

    @property
    def variables(self) -> range:
        """Numbers of its variables."""
        return range(self.first, self.first + self.width)


def batches(begin: int, end: int, most: int) -> list[VariableBatch]:
    """Return variables begin ... end - 1 in batches of `most`; the last has what remains."""
    return [VariableBatch(first, min(most, end - first)) for first in range(begin, end, most)]


class BufferCounts(NamedTuple):
    """Variables that each kind of array has space for.

    Attributes
    ----------
    lines, planes : this rank's lines, and planes or rows
    messages : lines as they are sent in batches; 0 if they are sent from where they are
    pieces : on the planes' side of the column exchange
    row_pieces : on the rows' side of the row exchange
    shared : whether both kinds of pieces share one memory
    """

    lines: int
    planes: int
    messages: int
    pieces: int
    row_pieces: int
    shared: bool


@dataclass(frozen=True)
class DeviceLayout:
    """Extents of one rank's arrays; all counts are complex numbers of one variable.

    Attributes
    ----------
    grid : this rank's share
    n_lines : lines of the rank of this row that has most. Where a rank has one line less, its last one has no modes,
        so that the pieces of all ranks are equally wide
    ny_local, nz_local : number of this rank's y, and of its z in physical space
    pitch : of rows of points, counted as modes in x
    width : of rows of planes: the columns j_x of the row that has most, or for slabs the pitch
    most : largest retained |j_y| of any line. Stored fields have the rows j_y = 0 ... most, -most ... -1 of lines
    """

    grid: PencilGrid
    n_lines: int
    ny_local: int
    nz_local: int
    pitch: int
    width: int
    most: int

    @classmethod
    def of(cls, grid: PencilGrid) -> DeviceLayout:
        """Return the layout of a rank's share."""
        rows, columns = grid.process_grid
        pitch = _sectors(grid.shape[2] // 2 + 1)
        return cls(
            grid,
            max(grid.line_range(grid.row, c)[1] for c in range(columns)),
            grid.y_range[1],
            grid.z_range[1],
            pitch,
            _sectors(-(-grid.truncation.n_columns // rows)) if rows > 1 else pitch,
            int(grid.truncation.table.max()),
        )

    @property
    def line_numbers(self) -> int:
        """Numbers of this rank's lines, all y."""
        return self.grid.shape[1] * self.n_lines

    @property
    def piece_numbers(self) -> int:
        """Numbers of all lines of the ranks of this row, for this rank's y."""
        return self.ny_local * self.n_lines * self.grid.process_grid[1]

    @property
    def row_piece_numbers(self) -> int:
        """Numbers of all columns j_x for this rank's y and z, which the row exchange brings."""
        return self.nz_local * self.ny_local * self.width * self.grid.process_grid[0]

    @property
    def plane_numbers(self) -> int:
        """Numbers of planes, or of the rows that they become if these take more; padding included."""
        return self.ny_local * max(self.grid.shape[0] * self.width, self.nz_local * self.pitch)

    @property
    def rows(self) -> int:
        """Number of rows j_y of a stored field."""
        return 2 * self.most + 1

    @property
    def field_numbers(self) -> int:
        """Numbers of a stored field. Lines with fewer modes than `rows` have places that are not used."""
        return self.rows * self.n_lines

    @property
    def of_columns(self) -> tuple[list[int], list[int]]:
        """Numbers that the column exchange moves for each rank: on the side of lines, and of planes."""
        ny, columns = self.grid.shape[1], self.grid.process_grid[1]
        lines = [split(ny, columns, c)[1] * self.n_lines for c in range(columns)]
        return lines, [self.ny_local * self.n_lines] * columns

    @property
    def of_rows(self) -> tuple[list[int], list[int]]:
        """Numbers that the row exchange moves for each rank: on the side of planes, and of rows."""
        nz, rows = self.grid.shape[0], self.grid.process_grid[0]
        row = self.ny_local * self.width
        return [split(nz, rows, r)[1] * row for r in range(rows)], [self.nz_local * row] * rows

    def line_table(self, width: int) -> tuple[NDArray[np.int64], int]:
        """Return place and step of `kernels_cuda` for planes [nz, y, width]: where lines lie among pieces.

        Pieces are [rank][y][variable][line] in a batch of `width` variables. The table is for the first variable, and
        each further one begins `n_lines` numbers later.
        """
        grid, step = self.grid, width * self.n_lines
        place = np.full((grid.shape[0], self.width), -1, np.int64)
        places, columns, _ = grid.lines_of(grid.row)
        for c in range(grid.process_grid[1]):
            first, n = grid.line_range(grid.row, c)
            mine = places[first : first + n], columns[first : first + n]
            place[mine] = c * self.ny_local * step + np.arange(n)
        return place.ravel(), step

    def column_table(self) -> tuple[NDArray[np.int64], int]:
        """Return place and step of `kernels_cuda` for rows [z, y, pitch]: columns among pieces [rank][z][y][j_x]."""
        rows, plane = self.grid.process_grid[0], self.ny_local * self.width
        place = np.full((self.nz_local, self.pitch), -1, np.int64)
        jx, z = np.arange(self.grid.truncation.n_columns), np.arange(self.nz_local)[:, np.newaxis]
        place[:, : len(jx)] = (jx % rows * self.nz_local + z) * plane + jx // rows
        return place.ravel(), self.width

    def buffers(self, n_lines: int, n_planes: int, batch: int, keeps_pieces: bool) -> BufferCounts:
        """Return how many variables arrays have space for, where at most n_lines and n_planes go through exchanges.

        batch: Q; keeps_pieces: whether what the column exchange brought is still read after the row exchange.
        """
        rows, columns = self.grid.process_grid
        return BufferCounts(
            lines=n_lines,
            planes=n_planes,
            messages=n_lines if columns > 1 and batch > 1 else 0,
            pieces=n_lines if columns > 1 else 0,
            row_pieces=n_planes if rows > 1 else 0,
            shared=rows > 1 and columns > 1 and not keeps_pieces,
        )

    def piece_rooms(self, counts: BufferCounts) -> tuple[int, int]:
        """Return the numbers that a variable takes among the pieces of the column and of the row exchange."""
        of_columns, of_rows = self.piece_numbers, self.row_piece_numbers
        return (max(of_columns, of_rows),) * 2 if counts.shared else (of_columns, of_rows)

    def n_bytes(self, itemsize: int, n_fields: int, counts: BufferCounts, n_tables: int) -> dict[str, int]:
        """Return the bytes on the device by what they are for, without the work area of cuFFT.

        itemsize: of a complex number; n_fields: stored fields; n_tables: number of widths of batches.
        """
        of_columns, of_rows = self.piece_rooms(counts)
        pieces = counts.pieces * of_columns, counts.row_pieces * of_rows
        held = counts.messages * self.line_numbers + (max(pieces) if counts.shared else sum(pieces))
        nz, rows = self.grid.shape[0], self.grid.process_grid[0]
        tables = n_tables * nz * self.width + (self.nz_local * self.pitch if rows > 1 else 0)
        return {
            "fields": n_fields * self.field_numbers * itemsize,
            "lines": counts.lines * self.line_numbers * itemsize,
            "planes": counts.planes * self.plane_numbers * itemsize,
            "exchange": held * itemsize,
            "tables": 8 * tables + 24 * self.n_lines,
        }


def _sectors(numbers: int) -> int:
    return -(-numbers // SECTOR) * SECTOR
