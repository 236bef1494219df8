"""How transforms within thread blocks lie on threads, registers and shared memory of a GPU. Needs no device."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

MOST_POINTS = 4096
SIZES = f"8 x 2^a or 12 x 2^a, at most {MOST_POINTS}"
# In shared memory one place is left out after so many numbers, so that threads access different banks.
SPACING = 8
_SEGMENT = 32, 64  # bytes of neighbouring columns: at least a sector of memory, and at most
_SHARED, _THREADS = 48 * 1024, 1024  # bytes and threads of a thread block, at most
_QUARTER = 16384  # registers of a quarter of a multiprocessor, which has warps of its own
# Registers of a thread, by the points that it holds and the bytes of a real number. A sum holds two variables, a row
# holds two at points.
_REGISTERS = {(8, 8): 80, (8, 4): 64, (12, 8): 128, (12, 4): 64}
_SUM_REGISTERS = {(8, 8): 128, (8, 4): 80, (12, 8): 168, (12, 4): 128}
_ROW_REGISTERS = {(8, 8): 168, (8, 4): 128, (12, 8): 255, (12, 4): 168}


class BlockTransform(NamedTuple):
    """How a transform of n points lies on threads: each holds `held` points; the passes have these radices."""

    n: int
    held: int
    radices: tuple[int, ...]

    @property
    def threads(self) -> int:
        """Number of threads of one transform."""
        return self.n // self.held

    @property
    def room(self) -> int:
        """Real numbers in shared memory that one transform needs."""
        return self.n + self.n // SPACING + 1


@cache
def block_transform(n: int) -> BlockTransform | None:
    """Return how n points are transformed; None for an n that is not one of SIZES."""
    for held, first in ((8, 8), (12, 12)):
        if n % held or n > MOST_POINTS:
            continue
        left, radices = n // held, [first]
        for radix in (8, 4, 2) if held == 8 else (4, 2):
            while left % radix == 0:
                radices.append(radix)
                left //= radix
        if left == 1:
            return BlockTransform(n, held, tuple(radices))
    return None


def _blocks(registers: int, threads: int) -> int:
    """Return how many thread blocks whose threads have so many registers fit on a multiprocessor."""
    return 4 * (_QUARTER // (32 * registers)) // -(-threads // 32)


class ColumnShape(NamedTuple):
    """A transform along z: how many columns x a thread block has, and how many blocks fit on a multiprocessor."""

    plan: BlockTransform
    columns: int
    blocks: int

    @property
    def threads(self) -> int:
        """Threads of a thread block."""
        return self.plan.threads * self.columns

    def launch(self, n_columns: int, ny: int) -> tuple[tuple[int, int], int]:
        """Return grid and block for so many columns x of planes of ny."""
        return (-(-n_columns // self.columns), ny), self.threads


@cache
def column_shape(n: int, dtype: DTypeLike, summed: bool = False) -> ColumnShape | None:
    """Return the shape of kernels for n points in z; None for an n that has no transform within thread blocks.

    A thread block has as many columns as still let two blocks fit on a multiprocessor, so that one loads while
    another computes.
    """
    plan, itemsize = block_transform(n), np.dtype(dtype).itemsize
    if plan is None:
        return None
    registers = (_SUM_REGISTERS if summed else _REGISTERS)[plan.held, itemsize]
    shapes = []
    columns = _SEGMENT[1] // (2 * itemsize)
    while columns * 2 * itemsize >= _SEGMENT[0]:
        threads = plan.threads * columns
        blocks = _blocks(registers, threads)
        if blocks > 0 and threads <= _THREADS and plan.room * columns * itemsize <= _SHARED:
            shapes.append(ColumnShape(plan, columns, blocks))
        columns //= 2
    return next((shape for shape in shapes if shape.blocks > 1), shapes[0] if shapes else None)


class RowShape(NamedTuple):
    """A transform along x: how many pairs of rows a thread block has, and how many blocks fit on a multiprocessor.

    kept: variables at points whose pairs are in shared memory during the transform.
    """

    plan: BlockTransform
    kept: int
    pairs: int
    blocks: int

    @property
    def threads(self) -> int:
        """Threads of a thread block."""
        return self.plan.threads * self.pairs

    @property
    def room(self) -> int:
        """Real numbers in the shared memory of a thread block: of transforms, and after them points."""
        return self.plan.room * self.pairs + 2 * self.plan.held * self.threads * self.kept

    def launch(self, n_rows: int, most: int) -> tuple[int, int]:
        """Return the grid, of at most so many thread blocks, and the block."""
        return max(1, min(-(-n_rows // (2 * self.pairs)), most)), self.threads


@cache
def row_shape(n: int, dtype: DTypeLike, kept: int, least_threads: int = 64) -> RowShape | None:
    """Return the shape of kernels for n points in x; None where thread blocks have not enough memory for them.

    least_threads: the fewest that a thread block has; it takes several pairs of rows where these are needed for it.
    """
    plan, itemsize = block_transform(n), np.dtype(dtype).itemsize
    if plan is None:
        return None
    pairs = max(1, least_threads // plan.threads)
    blocks = _blocks(_ROW_REGISTERS[plan.held, itemsize], plan.threads * pairs)
    shape = RowShape(plan, kept, pairs, blocks)
    return shape if blocks > 0 and shape.room * itemsize <= _SHARED else None
