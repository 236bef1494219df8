"""The Fourier modes of one rank with their wavenumbers, and the spherical shells over which spectra are summed.

A *spectral field* is a complex array [n_modes] over a rank's retained modes in the order of `Lines`: line by line,
and in a line j_y = 0, 1, ..., -2, -1. Only j_x >= 0 is stored; in sums over all modes a mode counts twice unless j_x
= 0.

A *shell* n holds the modes whose |k| is nearer to n dk than to any other multiple of dk. A mode in the middle belongs
to the upper shell. dk is the smallest wavenumber of the box, 2 pi over its longest side (1 for the default box).

All is plain data, without communication.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ridgeline.fourier.decomposition import Dealias, Lines, PencilGrid, Truncation
from ridgeline.parallel.partition import Triple

Lengths = tuple[float, float, float]
# Added to |k| over the width of a shell, so that a mode on the border of two belongs to the upper one however k
# rounds.
HALF = 0.5 + 1e-9


@dataclass(frozen=True, eq=False)
class Modes:
    """The modes that a rank owns. Wavenumbers k_i = 2 pi j_i / L_i are float64.

    Attributes
    ----------
    lines : their lines
    shape : (N_z, N_y, N_x) of the grid
    lengths : (L_z, L_y, L_x) of the box
    dealias : which modes of the grid are retained
    """

    lines: Lines
    shape: Triple
    lengths: Lengths
    dealias: Dealias

    @classmethod
    def of(cls, grid: PencilGrid, lengths: Lengths) -> Modes:
        """Return the modes of a rank's share of a grid."""
        return cls(grid.lines, grid.shape, lengths, grid.dealias)

    @property
    def n_modes(self) -> int:
        """Number of modes of this rank."""
        return self.lines.n_modes

    @property
    def truncation(self) -> Truncation:
        """The retained modes of all ranks."""
        return Truncation(self.shape, self.dealias)

    @property
    def unit(self) -> tuple[float, float, float]:
        """Smallest wavenumbers (2 pi / L_z, 2 pi / L_y, 2 pi / L_x)."""
        z, y, x = self.lengths
        return 2 * math.pi / z, 2 * math.pi / y, 2 * math.pi / x

    @cached_property
    def kx(self) -> NDArray[np.float64]:
        """k_x of each line, float64 [n_lines]."""
        return self.unit[2] * self.lines.jx.astype(np.float64)

    @cached_property
    def kz(self) -> NDArray[np.float64]:
        """k_z of each line, float64 [n_lines]."""
        return self.unit[0] * self.lines.jz.astype(np.float64)

    @cached_property
    def line_weight(self) -> NDArray[np.float64]:
        """How often the modes of each line count in a sum over all modes: 1 or 2, float64 [n_lines]."""
        return np.where(self.lines.jx == 0, 1.0, 2.0)

    def expand(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return (k_z, k_y, k_x) of every mode, float64 [n_modes] each. For set-up, not for the step loop."""
        jz, jy, jx = (j.astype(np.float64) for j in self.lines.expand())
        z, y, x = self.unit
        return z * jz, y * jy, x * jx

    def weight(self) -> NDArray[np.float64]:
        """Return how often each mode counts in a sum over all modes: 1 or 2, float64 [n_modes]."""
        return np.repeat(self.line_weight, np.diff(self.lines.start))

    def blocks(self, n_modes: int) -> list[tuple[int, int]]:
        """Cut the lines into runs [first, end) of about n_modes modes, to work through them in a cache."""
        ends = np.searchsorted(self.lines.start, np.arange(n_modes, self.n_modes + n_modes, n_modes))
        cuts = np.unique(np.concatenate([[0], np.minimum(ends, self.lines.n_lines)]))
        return list(zip(cuts[:-1].tolist(), cuts[1:].tolist()))


def mode_numbers(n: int) -> NDArray[np.int64]:
    """Return the numbers j of the modes of n points, 0, 1, ..., -2, -1: int64 [n]."""
    return np.fft.fftfreq(n, 1 / n).round().astype(np.int64)


def mirrored(jz: NDArray[np.int64], jy: NDArray[np.int64], jx: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which modes are the second of a stored pair (j, -j), where a real field has the conjugate of the first.

    Both modes of a pair are stored where j_x = 0. The second one has j_z < 0, or j_z = 0 and j_y < 0.
    """
    return np.asarray((jx == 0) & ((jz < 0) | ((jz == 0) & (jy < 0))))


@dataclass(frozen=True, eq=False)
class Shells:
    """The shells of the retained modes of all ranks; needs no communication."""

    modes: Modes

    @cached_property
    def width(self) -> float:
        """Width dk of a shell: the smallest wavenumber of the box."""
        return min(self.modes.unit)

    @cached_property
    def n_shells(self) -> int:
        """Number of shells, from that of k = 0 to that of the largest |k| retained anywhere."""
        table = self.modes.truncation.table
        nz, columns = table.shape
        unit_z, unit_y, unit_x = self.modes.unit
        kz = unit_z * np.fft.fftfreq(nz, 1 / nz)
        kx = unit_x * np.arange(columns)
        k2 = (kx * kx)[np.newaxis] + (kz * kz)[:, np.newaxis] + (unit_y * table) ** 2
        return int(self.of(np.sqrt(k2[table >= 0].max()))) + 1

    @property
    def wavenumbers(self) -> NDArray[np.float64]:
        """Wavenumber at the middle of each shell, float64 [n_shells]."""
        return self.width * np.arange(self.n_shells, dtype=np.float64)

    def of(self, k: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the shell of wavenumbers |k|, int64 of the same shape."""
        return (k / self.width + HALF).astype(np.int64)
