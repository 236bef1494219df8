"""How lines and planes of slabs lie in device memory, and what they take: plain numbers, without a device."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ridgeline.fourier.pencil import PencilGrid
from ridgeline.parallel.partition import split
from ridgeline.runtime.errors import DeviceError

SECTOR = 4  # complex numbers that rows are rounded up to: whole sectors of memory, 32 bytes in float32


@dataclass(frozen=True)
class DeviceLayout:
    """Extents of one rank's arrays; all counts are complex numbers of one variable.

    n_lines: lines of this rank; ny_local: its y in physical space; pitch: of rows of modes in x
    most: largest retained |j_y| of any line. Stored fields have the rows j_y = 0 ... most, -most ... -1 of lines
    counts_of_lines, counts_of_planes: what the exchange moves to and from each rank
    """

    grid: PencilGrid
    n_lines: int
    ny_local: int
    pitch: int
    most: int
    counts_of_lines: tuple[int, ...]
    counts_of_planes: tuple[int, ...]

    @classmethod
    def of(cls, grid: PencilGrid) -> DeviceLayout:
        """Return the layout of a rank's share of slabs. Raises DeviceError for pencils."""
        if grid.process_grid[0] > 1:
            raise DeviceError(
                f"GPUs transform slabs only, and the process grid is {list(grid.process_grid)}; "
                'set grid.decomposition = "slabs"'
            )
        ny, columns = grid.shape[1], grid.process_grid[1]
        n_lines, ny_local = grid.lines.n_lines, grid.y_range[1]
        return cls(
            grid,
            n_lines,
            ny_local,
            -(-(grid.shape[2] // 2 + 1) // SECTOR) * SECTOR,
            int(grid.truncation.table.max()),
            tuple(split(ny, columns, c)[1] * n_lines for c in range(columns)),
            tuple(ny_local * grid.line_range(0, c)[1] for c in range(columns)),
        )

    @property
    def line_numbers(self) -> int:
        """Of this rank's lines, all y."""
        return self.grid.shape[1] * self.n_lines

    @property
    def piece_numbers(self) -> int:
        """Of all ranks' lines, this rank's y."""
        return self.ny_local * self.grid.truncation.n_lines

    @property
    def plane_numbers(self) -> int:
        """Of planes, padding included."""
        return self.grid.shape[0] * self.ny_local * self.pitch

    @property
    def rows(self) -> int:
        """Rows j_y of a stored field."""
        return 2 * self.most + 1

    @property
    def field_numbers(self) -> int:
        """Of a stored field: lines whose modes are fewer than `rows` have places that are not used."""
        return self.rows * self.n_lines

    def tables(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return place and step of each (z, x), [nz * pitch], of `kernels_cuda`: pieces of lines by rank."""
        grid = self.grid
        place = np.full((grid.shape[0], self.pitch), -1, np.int64)
        step = np.zeros((grid.shape[0], self.pitch), np.int32)
        places, columns, _ = grid.lines_of(0)
        for c in range(grid.process_grid[1]):
            first, n = grid.line_range(0, c)
            mine = places[first : first + n], columns[first : first + n]
            place[mine] = self.ny_local * first + np.arange(n)
            step[mine] = n
        return place.ravel(), step.ravel()

    def n_bytes(self, itemsize: int, n_fields: int, n_lines: int, n_planes: int) -> dict[str, int]:
        """Return the bytes on the device by what they are for; itemsize: of a complex number.

        n_fields: stored; n_lines, n_planes: variables of lines and planes. What cuFFT works in is not known here.
        """
        pieces = self.piece_numbers if self.grid.process_grid[1] > 1 else 0
        return {
            "fields": n_fields * self.field_numbers * itemsize,
            "lines": n_lines * self.line_numbers * itemsize,
            "planes": n_planes * self.plane_numbers * itemsize,
            "exchange": n_lines * pieces * itemsize,
            "tables": 12 * self.grid.shape[0] * self.pitch + 24 * self.n_lines,
        }
