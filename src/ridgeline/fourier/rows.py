"""The first direction: rows along x, joined in pairs, transformed, worked on in physical space, transformed back."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.fourier.fft import FFTPlan
from ridgeline.fourier.row_pairs import load_pairs, store_pairs
from ridgeline.fourier.workers import Clock
from ridgeline.runtime.aligned import aligned_empty

if TYPE_CHECKING:
    from ridgeline.fourier.planning import Planner

BLOCK_BYTES = (
    700_000  # of both arrays of pairs: more fall out of the second-level cache, fewer are more calls
)


class RowBlock:
    """Pairs of rows in physical space of one worker, what operations read and write.

    inverse: real [variable, pair, 2 N_x + pitch]: results of inverse transforms; rows 2 q and 2 q + 1 alternate.
    forward: the same, from which forward transforms start; as many variables as `n_forward`.
    index: of the worker.
    """

    def __init__(self, index: int, shape: tuple[int, int, int], dtype: np.dtype[Any]) -> None:
        self.index = index
        self._inverse = aligned_empty(shape, dtype)
        self._forward = aligned_empty(shape, dtype)
        self.inverse = self._inverse.view(self._inverse.real.dtype)
        self.forward = self._forward.view(self.inverse.dtype)
        self.scratch = np.zeros((2, 2 * shape[2]), self.inverse.dtype)
        self.clear()

    def clear(self) -> None:
        """Set all to zero."""
        self._inverse[...] = 0
        self._forward[...] = 0

    def plans(
        self, planner: Planner, nx: int, n_in: set[int], n_mid: set[int]
    ) -> dict[tuple[bool, int], FFTPlan]:
        """Return the transforms by (forward?, variables). No communication."""
        plans: dict[tuple[bool, int], FFTPlan] = {}
        a, b = self._forward[..., :nx], self._inverse[..., :nx]
        for v in n_in:
            plans[False, v] = planner(a[:v], b[:v], 2, "inverse")
        for v in n_mid:
            plans[True, v] = planner(a[:v], b[:v], 2, "forward")
        return plans

    @property
    def n_bytes(self) -> int:
        """Memory held."""
        return self.inverse.nbytes + self.forward.nbytes + self.scratch.nbytes


RowOperation = Callable[[RowBlock, int, int, int], None]
"""Called with a block, the local plane y from which rows are counted, the first row and the number of rows.

Row r is the point (z, y) = (r mod n_z, plane + r div n_z) of the rank's block in physical space.
"""


def rows_per_block(nx: int, n_rows: int, n_variables: int, itemsize: int) -> int:
    """Return how many of n_rows rows a block should have, even, in blocks of about equal size."""
    most = max(2, BLOCK_BYTES // (2 * n_variables * nx * itemsize) * 2)
    if n_rows <= most:
        return n_rows + n_rows % 2
    n_blocks = -(-n_rows // most)
    rows = -(-n_rows // n_blocks)
    return rows + rows % 2


class RowStage:
    """Transforms in x of rows whose modes lie anywhere: in planes, or in the arena of the row transpose.

    nx: points; n_columns: retained j_x; segments: int64 [n, 3], first column, step and length of each piece of a row;
    block: rows; n_in, n_mid: variables of inverse and of forward transforms.
    """

    def __init__(
        self,
        nx: int,
        n_columns: int,
        segments: NDArray[np.int64],
        block: int,
        n_in: int,
        n_mid: int,
        dtype: np.dtype[Any],
        n_workers: int,
    ) -> None:
        self.nx, self.n_columns, self.segments, self.block = nx, n_columns, segments, block
        self._variables = {1, n_in}, {1, n_mid}
        pitch = nx + max(1, 64 // dtype.itemsize)  # place nx is used, rows begin at cache lines
        shape = (max(n_in, n_mid), (block + 1) // 2, pitch)
        self.work = [RowBlock(i, shape, dtype) for i in range(n_workers)]
        self._plans: list[dict[tuple[bool, int], FFTPlan]] = []

    def plan(self, planner: Planner) -> None:
        """Make the transforms. No communication."""
        self._plans = [work.plans(planner, self.nx, *self._variables) for work in self.work]

    def clear(self) -> None:
        """Forget what planning left."""
        for work in self.work:
            work.clear()

    def memory(self) -> int:
        """Return the bytes held."""
        return sum(work.n_bytes for work in self.work)

    def run(
        self,
        worker: int,
        clock: Clock,
        source: NDArray[Any],
        start: tuple[NDArray[np.int64], NDArray[np.int64]],
        pitch: int,
        plane: int,
        rows: range,
        operation: RowOperation,
        n_in: int,
        n_mid: int,
    ) -> None:
        """Join, transform, operate, transform and part rows, block by block, in place in `source`.

        source: real view of complex numbers; start: int64 [variable, row, segment] to read from and to write to;
        pitch: between columns; plane: see RowOperation; n_in, n_mid: 1, as planned, or 0, which leaves that side out.
        """
        work, plans, nx = self.work[worker], self._plans[worker], self.nx
        inverse, forward = plans.get((False, n_in)), plans.get((True, n_mid))
        fft = pack = 0.0
        for first in range(rows.start, rows.stop, self.block):
            n = min(self.block, rows.stop - first)
            if inverse is not None:
                t0 = perf_counter()
                load_pairs(
                    source, start[0], pitch, self.segments, self.n_columns, first, n, n_in, nx,
                    work.scratch, work.forward,
                )  # fmt: skip
                t1 = perf_counter()
                inverse.execute()
                pack += t1 - t0
                fft += perf_counter() - t1
            operation(work, plane, first, n)
            if forward is not None:
                t0 = perf_counter()
                forward.execute()
                t1 = perf_counter()
                store_pairs(
                    work.inverse, self.segments, first, n, n_mid, nx, start[1], pitch, work.scratch, source
                )
                fft += t1 - t0
                pack += perf_counter() - t1
        clock.fft += fft
        clock.pack += pack
