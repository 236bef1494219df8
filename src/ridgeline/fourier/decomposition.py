"""Slabs and pencils: which rank owns which grid points and which Fourier modes of a periodic box.

There are P_r x P_c ranks; slabs are P_r = 1. Rank (r, c), numbered r + P_r c so that a row is consecutive ranks, owns

- in physical space the points of a range of z (cut over r) and a range of y (cut over c), all x;
- after the transform in x the *columns* j_x = r, r + P_r, ... (dealt like cards, so that the many short and the few
  long ones are spread evenly), for its range of y, all z;
- after the transform in z a range of the *lines* (j_x, j_z), all y.

Modes are numbered by integers j along each direction; the wavenumber is 2 pi j / length. Only retained modes are
stored, and lines without one are never moved or transformed. Only j_x >= 0 is stored, because the other modes follow
from conjugate symmetry. Lines are ordered by j_z = 0, 1, ..., -2, -1, then by j_x; the modes of a line by j_y = 0, 1,
..., -2, -1. This *canonical order* of all modes does not depend on the ranks; the lines of a rank are in it too.

Source: Yeung et al. (GESTS), Secs. 2.1 and 3.1; leaving out lines is ours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ridgeline.parallel.partition import Triple, divisors, split
from ridgeline.runtime.errors import DecompositionError

Dealias = Literal["phase-shift", "two-thirds", "none"]
ProcessGrid = tuple[int, int]


@dataclass(frozen=True)
class Truncation:
    """The set of Fourier modes that a grid of `shape` (N_z, N_y, N_x), all even, keeps.

    phase-shift: |j/N| < sqrt(2)/3, the sphere of Eq. (7)'s k_max (an ellipsoid where the N differ).
    two-thirds: |j_i| < N_i/3 in each direction. none: |j_i| < N_i/2, without the Nyquist modes.
    """

    shape: Triple
    dealias: Dealias

    def most_y(self, jz: NDArray[np.int64], jx: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the largest retained j_y of lines (jz, jx), -1 where none is retained. int64; broadcasts."""
        nz, ny, nx = self.shape
        jz, jx = np.broadcast_arrays(np.abs(jz), np.abs(jx))
        if self.dealias == "phase-shift":
            # 9 sum (j_i w_i)^2 < 2 common^2 in integers, so that no rank rounds differently.
            common = math.lcm(*self.shape)
            wz, wy, wx = (common // n for n in self.shape)
            rest = 2 * common**2 - 9 * ((jz * wz) ** 2 + (jx * wx) ** 2)
            most = np.floor(np.sqrt(np.maximum(rest - 1, 0) / (9 * wy * wy))).astype(np.int64)
            most += 9 * wy * wy * (most + 1) ** 2 < rest  # the square root may have been rounded
            most -= 9 * wy * wy * most**2 >= rest
            inside = rest > 0
            most = np.minimum(most, ny // 2 - 1)
        else:
            bounds = [-(-n // 3) - 1 if self.dealias == "two-thirds" else n // 2 - 1 for n in self.shape]
            most = np.full(jz.shape, bounds[1], np.int64)
            inside = (jz <= bounds[0]) & (jx <= bounds[2])
        inside &= (jz < nz // 2) & (jx < nx // 2)
        return np.where(inside, most, -1)

    @cached_property
    def table(self) -> NDArray[np.int64]:
        """Largest retained j_y of every line, or -1: int64 [N_z, columns], j_z in the order 0, 1, ..., -2, -1."""
        nz, _, nx = self.shape
        jz = np.fft.fftfreq(nz, 1 / nz).round().astype(np.int64)
        whole = self.most_y(jz[:, np.newaxis], np.arange(nx // 2 + 1)[np.newaxis, :])
        return np.ascontiguousarray(whole[:, : self.n_columns])

    @cached_property
    def n_columns(self) -> int:
        """Number of retained j_x, which are 0 ... n_columns - 1."""
        nx = self.shape[2]
        return int((self.most_y(np.zeros(1, np.int64), np.arange(nx // 2 + 1)) >= 0).sum())

    @cached_property
    def n_lines(self) -> int:
        """Number of lines (j_x, j_z) with a retained mode, of the N_z (N_x/2 + 1) lines of a full transform."""
        return int((self.table >= 0).sum())

    @cached_property
    def n_modes(self) -> int:
        """Number of retained modes."""
        retained = self.table[self.table >= 0]
        return int((2 * retained + 1).sum())


@dataclass(frozen=True, eq=False)
class Lines:
    """Lines of Fourier modes and the order in which their modes are stored.

    Attributes
    ----------
    jx, jz, most : int64 [n_lines]; line i has the modes j_y = 0 ... most[i], -most[i] ... -1
    start : int64 [n_lines + 1]; the modes of line i are at the positions start[i] ... start[i + 1] - 1 of a field
    start_global : int64 [n_lines], position of each line's first mode in the canonical order of all modes
    """

    jx: NDArray[np.int64]
    jz: NDArray[np.int64]
    most: NDArray[np.int64]
    start: NDArray[np.int64]
    start_global: NDArray[np.int64]

    @property
    def n_lines(self) -> int:
        """Number of lines."""
        return len(self.jx)

    @property
    def n_modes(self) -> int:
        """Number of modes of all lines."""
        return int(self.start[-1])

    def expand(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return (jz, jy, jx) of every mode, int64 [n_modes] each. For set-up, not for the step loop."""
        counts = np.diff(self.start)
        place = np.arange(self.n_modes) - np.repeat(self.start[:-1], counts)
        most = np.repeat(self.most, counts)
        jy = np.where(place <= most, place, place - 2 * most - 1)
        return np.repeat(self.jz, counts), jy, np.repeat(self.jx, counts)


@dataclass(frozen=True)
class PencilGrid:
    """Describe one rank's share of the points and modes of a grid.

    It is plain data without a communicator.

    Parameters
    ----------
    shape : tuple of three ints
        Points (N_z, N_y, N_x) of the whole grid, all even.
    dealias : str
        Which modes are retained: "none" (all but Nyquist's), "two-thirds" or "phase-shift".
    process_grid : tuple of two ints
        Ranks (P_r, P_c) that divide z and y; slabs have P_r = 1.
    rank : int
        This rank, of all P_r P_c.

    Raises
    ------
    DecompositionError
        If some rank would have no points or no modes, or if an N is odd.

    Examples
    --------
    >>> from ridgeline.api import PencilGrid
    >>> grid = PencilGrid((6, 10, 12), "none", (1, 3), rank=0)
    >>> grid.block, grid.offset
    ((6, 4, 12), (0, 0, 0))
    >>> grid.truncation.n_modes, grid.lines.n_modes
    (270, 90)
    """

    shape: Triple
    dealias: Dealias
    process_grid: ProcessGrid
    rank: int

    def __post_init__(self) -> None:
        check_process_grid(self.truncation, self.process_grid)

    @cached_property
    def truncation(self) -> Truncation:
        """The retained modes."""
        return Truncation(self.shape, self.dealias)

    @property
    def row(self) -> int:
        """Index r within the row communicator, which has P_r ranks."""
        return self.rank % self.process_grid[0]

    @property
    def column(self) -> int:
        """Index c within the column communicator, which has P_c ranks."""
        return self.rank // self.process_grid[0]

    @property
    def z_range(self) -> tuple[int, int]:
        """(offset, size) of the owned z in physical space."""
        return split(self.shape[0], self.process_grid[0], self.row)

    @property
    def y_range(self) -> tuple[int, int]:
        """(offset, size) of the owned y in physical space and after the transforms in x and z."""
        return split(self.shape[1], self.process_grid[1], self.column)

    @property
    def block(self) -> Triple:
        """Shape of this rank's block in physical space, (z, y, x)."""
        return self.z_range[1], self.y_range[1], self.shape[2]

    @property
    def offset(self) -> Triple:
        """Global index of the block's first point."""
        return self.z_range[0], self.y_range[0], 0

    def columns_of(self, row: int) -> NDArray[np.int64]:
        """Return the j_x that row index `row` owns after the transform in x."""
        return np.arange(row, self.truncation.n_columns, self.process_grid[0])

    def lines_of(self, row: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return (place of j_z, 0 ... N_z - 1; index into columns_of(row); most) of the lines of a row index.

        They are in canonical order; `line_range` cuts them over c.
        """
        table = self.truncation.table[:, row :: self.process_grid[0]]
        places, columns = np.nonzero(table >= 0)
        return places, columns, table[places, columns]

    def line_range(self, row: int, column: int) -> tuple[int, int]:
        """Return (offset, size) of the lines of rank (row, column) among lines_of(row)."""
        n_lines = int((self.truncation.table[:, row :: self.process_grid[0]] >= 0).sum())
        return split(n_lines, self.process_grid[1], column)

    @cached_property
    def lines(self) -> Lines:
        """The lines of this rank."""
        return self.lines_of_rank(self.row, self.column)

    def lines_of_rank(self, row: int, column: int) -> Lines:
        """Return the lines of rank (row, column)."""
        table = self.truncation.table
        counts = np.where(table >= 0, 2 * table + 1, 0)
        before = (np.cumsum(counts) - counts.ravel()).reshape(counts.shape)
        places, columns, most = self.lines_of(row)
        first, size = self.line_range(row, column)
        mine = slice(first, first + size)
        places, most = places[mine], most[mine]
        jx = self.columns_of(row)[columns[mine]]
        nz = self.shape[0]
        start = np.concatenate([[0], np.cumsum(2 * most + 1)])
        return Lines(jx, np.where(places < nz // 2, places, places - nz), most, start, before[places, jx])

    @property
    def saved_lines(self) -> float:
        """Fraction of a full transform's lines that are never moved or transformed in y."""
        return 1.0 - self.truncation.n_lines / (self.shape[0] * (self.shape[2] // 2 + 1))


def check_process_grid(truncation: Truncation, process_grid: ProcessGrid) -> None:
    """Raise DecompositionError unless every rank of P_r x P_c gets points and modes of an even grid."""
    rows, columns = process_grid
    nz, ny, _ = truncation.shape
    for axis, n in zip("zyx", truncation.shape):
        if n % 2 or n < 4:
            raise DecompositionError(
                f"grid.shape has {n} points in {axis}, but it must have an even number that is at least 4."
            )
    words = f"grid.process_grid = [{rows}, {columns}]"
    if rows > nz:
        raise DecompositionError(
            f"{words} cannot divide {nz} points in z into {rows} parts. At most {nz} rows are possible."
        )
    if columns > ny:
        raise DecompositionError(
            f"{words} cannot divide {ny} points in y into {columns} parts. At most {ny} columns are possible."
        )
    if rows > truncation.n_columns:
        raise DecompositionError(
            f"{words} cannot divide {truncation.n_columns} retained wavenumbers in x over {rows} rows. "
            f"At most {truncation.n_columns} rows are possible."
        )
    fewest = min(int((truncation.table[:, r::rows] >= 0).sum()) for r in range(rows))
    if columns > fewest:
        raise DecompositionError(
            f"{words} cannot divide {fewest} lines of modes into {columns} parts. Use fewer ranks."
        )


def choose_process_grid(
    truncation: Truncation,
    n_ranks: int,
    decomposition: Literal["slabs", "pencils"],
    ranks_per_node: int,
    setting: ProcessGrid | Literal["auto"] = "auto",
) -> ProcessGrid:
    """Return (P_r, P_c): the setting, or with "auto" (1, P) for slabs, and for pencils the smallest P_r that fits.

    A P_r that divides the ranks of a node is preferred. A small P_r keeps the row exchange within a node, or makes it
    unnecessary (paper, Table 3). Raises DecompositionError if no process grid of n_ranks fits, or if the setting does
    not.
    """
    if setting != "auto":
        needed = setting[0] * setting[1]
        if needed != n_ranks:
            raise DecompositionError(
                f"grid.process_grid = {list(setting)} requires {needed} ranks, but there are {n_ranks}. "
                f'Use {needed} ranks or grid.process_grid = "auto".'
            )
        check_process_grid(truncation, setting)
        return setting
    if decomposition == "slabs":
        check_process_grid(truncation, (1, n_ranks))
        return 1, n_ranks
    for rows in sorted(divisors(n_ranks), key=lambda d: (ranks_per_node % d != 0, d)):
        try:
            check_process_grid(truncation, (rows, n_ranks // rows))
        except DecompositionError:
            continue
        return rows, n_ranks // rows
    raise DecompositionError(
        f"grid.shape = {list(truncation.shape)} cannot be divided over {n_ranks} ranks, because some would have no "
        f"points or modes. Use a larger grid or fewer ranks."
    )
