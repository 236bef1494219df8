"""The random matrix of HPL 2.3 and that of HPL-MxP, the same numbers on every process grid.

One sequence of 64-bit states, X_(n+1) = a X_n + c modulo 2^64, runs through the columns of [A, b], N numbers each. An
element is 1/2 - X / 2^64, rounded as HPL 2.3 rounds it, which lies in [-1/2, 1/2]. k steps are one step with another
pair (a, c), so that the state (i, j) is an affine function of the state (0, j), which depends on i alone: an element
costs one multiplication and one addition of integers, wherever it is generated.
Source: HPL 2.3, `testing/matgen` and `testing/pmatgen` (what is computed; the code is our own); Knuth, Sec. 3.2.1.

The matrix of HPL-MxP is A = R + diag(d), where R and b are these numbers. The diagonal is scaled mildly,

    d = (1 + sqrt(N)) / 2

R / sqrt(N / 12) has its eigenvalues in the unit disc, and its symmetric part has them within sqrt(2) of zero (the
circular and the semicircle law). The symmetric part of A is therefore positive definite: d > sqrt(N / 6). Elimination
preserves this, so that no pivot vanishes and the factors stay moderate (Golub and Van Loan, Matrix Computations,
Sec. 4.3.2). The sum of |r| over a row is N / 4 on average, so that the matrix is not diagonally dominant from N = 9
on. The condition number is about 6.5 for every N, and GMRES without the factors would need more than 50 iterations.
The elements of the matrix are not stored in float64.
Source: hpl-mxp.org, rules since June 2025: HPL's generator with "mild scaling of the diagonal".
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from mpi4py import MPI
from numba import float64, uint64
from numpy.typing import NDArray

from ridgeline.bench.hpl.block_cyclic import Axis, BlockCyclic
from ridgeline.bench.hpl.record import SEED
from ridgeline.bench.hpl.team import TileTeam, tiles
from ridgeline.jit.kernel import Specialisation, kernel, specialise, subroutine

Vector = NDArray[np.float64]
TILE = 512  # fewest rows or columns of a thread's share
_MULTIPLIER, _INCREMENT = 6364136223846793005, 1
_MASK = 2**64 - 1
_SCALE = 2.0**-64
_PIECE = 256  # rows at a time: their multipliers, increments and sums stay in the first cache
# A product with a power of two is exact, so that contraction into multiply-adds does not change any element.
_FAST = {"nogil": True, "fastmath": {"contract"}}
_TABLES = (uint64[::1], uint64[::1], uint64[::1])


class Step(NamedTuple):
    """Several steps of the sequence as one: X <- multiplier X + increment modulo 2^64."""

    multiplier: int
    increment: int

    def __call__(self, state: int) -> int:
        """Return the state after these steps."""
        return (self.multiplier * state + self.increment) & _MASK

    def then(self, other: Step) -> Step:
        """Return these steps followed by others, as one."""
        return Step((other.multiplier * self.multiplier) & _MASK, other(self.increment))


def jump(steps: int) -> Step:
    """Return `steps` >= 0 steps as one, by repeated squaring."""
    total, power = Step(1, 0), Step(_MULTIPLIER, _INCREMENT)
    while steps:
        if steps & 1:
            total = total.then(power)
        power = power.then(power)
        steps >>= 1
    return total


@dataclass(frozen=True)
class Tables:
    """Tables that give elements: multipliers and increments of some rows, states at the start of some columns."""

    starts: NDArray[np.uint64]
    multipliers: NDArray[np.uint64]
    increments: NDArray[np.uint64]

    def rows(self, first: int, last: int) -> Tables:
        """Return the tables of rows first ... last - 1."""
        return Tables(self.starts, self.multipliers[first:last], self.increments[first:last])

    def columns(self, first: int, last: int) -> Tables:
        """Return the tables of columns first ... last - 1."""
        return Tables(self.starts[first:last], self.multipliers, self.increments)

    @property
    def arrays(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64]]:
        """The arrays in the order of the kernels."""
        return self.starts, self.multipliers, self.increments


def make_tables(n: int, rows: NDArray[np.int64], columns: NDArray[np.int64], seed: int = SEED) -> Tables:
    """Return the tables of global rows and columns of a matrix of order n."""
    multipliers, increments = jumps(rows)
    to_columns, plus = jumps(1 + columns * n)
    return Tables(to_columns * np.uint64(seed) + plus, multipliers, increments)


# Called as fill(out, first, last) by any thread: writes local columns first ... last - 1 of [A, b] into out, float64
# [at least rows, columns], column-major, which has all local columns.
Fill = Callable[[NDArray[np.float64], int, int], None]


def random_matrix(place: BlockCyclic, seed: int) -> Fill:
    """Return a function that writes this process's part of HPL's matrix. It releases the GIL. No communication."""
    tables = make_tables(place.rows.n, place.rows.globals(), place.columns.globals(), seed)

    def write(out: NDArray[np.float64], first: int, last: int) -> None:
        fill(*tables.columns(first, last).arrays, out.T[first:last])

    return write


def jumps(steps: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the multipliers and increments of given numbers of steps of HPL's sequence, each as in `jump`."""
    multipliers, increments = np.ones(steps.size, np.uint64), np.zeros(steps.size, np.uint64)
    for bit in range(int(steps.max(initial=0)).bit_length()):
        power = jump(1 << bit)
        has_bit = (steps >> bit) & 1 == 1
        multipliers[has_bit] *= np.uint64(power.multiplier)
        increments[has_bit] *= np.uint64(power.multiplier)
        increments[has_bit] += np.uint64(power.increment)
    return multipliers, increments


def shift(n: int) -> float:
    """Return d, which is added to the diagonal of the random matrix of order n."""
    return 0.5 * (1.0 + math.sqrt(n))


class MxpMatrix(ABC):
    """One process's part of the matrix, generated wherever it is used. Vectors are float64 [n], whole on all ranks.

    dominant: the diagonal is 1 + the sum of magnitudes beside it, strictly dominant, for tests (`--testing`);
    diagonal: added to the random diagonal in place of d, float64 [n].
    """

    def __init__(
        self,
        comm: MPI.Comm,
        rows: Axis,
        columns: Axis,
        tables: Tables,
        dominant: bool = False,
        diagonal: Vector | None = None,
    ) -> None:
        """Compute the diagonal and the norm. Collective over comm, the ranks of the grid. tables: of this process."""
        self.comm, self.rows, self.columns, self.n = comm, rows, columns, rows.n
        self._tables = tables
        self._my_rows, self._my_columns = rows.globals(), columns.globals()
        on_diagonal, self._row_of, self._column_of = np.intersect1d(
            self._my_rows, self._my_columns, assume_unique=True, return_indices=True
        )
        mine = np.zeros(self.n)
        mine[on_diagonal] = self._random(self._row_of, self._column_of)
        random = self._sum(mine)
        beside = self._over_ranks(self._magnitudes()) - np.abs(random)
        self.diagonal: Vector = np.full(self.n, shift(self.n))
        if dominant:
            self.diagonal = beside + 1.0
        if diagonal is not None:
            self.diagonal = diagonal
        self.norm = float((beside + np.abs(random + self.diagonal)).max(initial=0.0))

    @abstractmethod
    def _magnitudes(self) -> Vector:
        """Return the sums of magnitudes of this process's part of R by local rows."""

    @abstractmethod
    def _products(self, x: Vector) -> Vector:
        """Return the product of this process's part of R with x, of local columns, by local rows."""

    def _random(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> Vector:
        """Return the random parts of elements at local rows and columns."""
        starts, multipliers, increments = self._tables.arrays
        states = multipliers[rows] * starts[columns] + increments[rows]
        elements: Vector = 0.5 - states.astype(np.float64) * 2.0**-64
        return elements

    def _on_diagonal(self) -> Vector:
        """Return the elements of A at local rows `_row_of` and columns `_column_of`."""
        random = self._random(self._row_of, self._column_of)
        elements: Vector = random + self.diagonal[self._my_rows[self._row_of]]
        return elements

    def _sum(self, mine: Vector) -> Vector:
        """Return the sum over ranks."""
        total = np.empty_like(mine)
        self.comm.Allreduce(mine, total)
        return total

    def _over_ranks(self, sums: Vector) -> Vector:
        """Return the sum over ranks of sums by local rows."""
        mine = np.zeros(self.n)
        mine[self._my_rows] = sums
        return self._sum(mine)

    def product(self, x: Vector) -> Vector:
        """Return A x in float64 from elements generated here. Collective: one allreduce of n numbers."""
        return self._over_ranks(self._products(x[self._my_columns])) + self.diagonal * x

    def right_hand_side(self) -> Vector:
        """Return b, float64 [n]. No communication."""
        tables = make_tables(self.n, np.arange(self.n), np.array([self.n]))
        states = tables.multipliers * tables.starts + tables.increments
        elements: Vector = 0.5 - states.astype(np.float64) * 2.0**-64
        return elements


class MxpHostMatrix(MxpMatrix):
    """A part that the threads of a team generate. dominant, diagonal: as for `MxpMatrix`."""

    def __init__(
        self,
        comm: MPI.Comm,
        rows: Axis,
        columns: Axis,
        team: TileTeam,
        dominant: bool = False,
        diagonal: Vector | None = None,
    ) -> None:
        """Compute tables and norms. Collective over comm, the ranks of the grid."""
        self._team = team
        tables = make_tables(rows.n, rows.globals(), columns.globals())
        super().__init__(comm, rows, columns, tables, dominant, diagonal)

    def _share(self, work: Callable[[int, int], None], size: int) -> None:
        """Share work(first, last) for parts of 0 ... size - 1 among the threads."""
        self._team.start(work, tiles(0, size, self._team.n_threads, max(size, 1), TILE))
        self._team.finish()

    def _by_rows(self, kernel: Callable[..., None], *arguments: Any) -> Vector:
        """Return the sums that a kernel adds up for each row, shared among the threads."""
        sums = np.zeros(self._my_rows.size)

        def work(first: int, last: int) -> None:
            kernel(*self._tables.rows(first, last).arrays, *arguments, sums[first:last])

        self._share(work, sums.size)
        return sums

    def _magnitudes(self) -> Vector:
        return self._by_rows(add_magnitudes)

    def _products(self, x: Vector) -> Vector:
        return self._by_rows(add_product, x)

    def write(self, out: NDArray[np.float32]) -> None:
        """Write this process's part, rounded to float32, into out [columns, at least rows], a row for a column."""

        def work(first: int, last: int) -> None:
            fill(*self._tables.columns(first, last).arrays, out[first:last])

        self._share(work, self._my_columns.size)
        out[self._column_of, self._row_of] = self._on_diagonal()


# The kernels. The state of element (i, j) is multipliers[i] starts[j] + increments[i] modulo 2^64. Tables are uint64,
# those of rows [rows], those of columns [columns].


@subroutine(fastmath={"contract"}, inline="always")
def _value(multiplier, start, increment):
    return 0.5 - np.float64(multiplier * start + increment) * _SCALE


@kernel(lambda T: (*_TABLES, T[:, ::1]), **_FAST)
def fill(starts, multipliers, increments, out):
    """Write the elements of columns into out [columns, at least rows]: a row of out is a column of the matrix."""
    for j in range(starts.size):
        for i in range(multipliers.size):
            out[j, i] = _value(multipliers[i], starts[j], increments[i])


@kernel(lambda: (*_TABLES, float64[::1], float64[::1]), **_FAST)
def add_product(starts, multipliers, increments, x, out):
    """Add the product with x [columns] to out [rows], four columns at a time."""
    columns, rows = starts.size, multipliers.size
    whole = columns - columns % 4
    for first in range(0, rows, _PIECE):
        last = min(first + _PIECE, rows)
        for j in range(0, whole, 4):
            a, b, c, d = starts[j], starts[j + 1], starts[j + 2], starts[j + 3]
            f, g, h, q = x[j], x[j + 1], x[j + 2], x[j + 3]
            for i in range(first, last):
                m, p = multipliers[i], increments[i]
                left = _value(m, a, p) * f + _value(m, b, p) * g
                out[i] += left + (_value(m, c, p) * h + _value(m, d, p) * q)
        for j in range(whole, columns):
            for i in range(first, last):
                out[i] += _value(multipliers[i], starts[j], increments[i]) * x[j]


@kernel(lambda: (*_TABLES, float64[::1]), **_FAST)
def add_magnitudes(starts, multipliers, increments, out):
    """Add the sum of the magnitudes of each row to out [rows]."""
    for first in range(0, multipliers.size, _PIECE):
        last = min(first + _PIECE, multipliers.size)
        for j in range(starts.size):
            for i in range(first, last):
                out[i] += abs(_value(multipliers[i], starts[j], increments[i]))


def kernels() -> list[Specialisation]:
    """Return all kernels of this file."""
    fills = [declared for kind in ("float32", "float64") for declared in specialise([fill], kind)]
    return fills + specialise([add_product, add_magnitudes])
