"""One multigrid cycle that reads each level's matrix twice, and an eighth of it once more, instead of five times.

HPCG's cycle on a level begins with a symmetric Gauss-Seidel sweep from zero. The residual at the coarse points, the
coarse cycle, its correction, and another symmetric sweep follow. A = L + D + U (+ H over other ranks' columns). Every
sweep leaves the half-product h = D x + U x, and so

1. forward (D + L) x = r reads L and keeps h = r - L x; backward (D + U) x = h reads U;
2. the residual at the coarse points, r - h - L x - H x, reads L at those rows;
3. the correction x += P e becomes h += U P e, which reads U at those columns;
4. forward x += (r - H x - L x - h) / D reads L and keeps h = r - H x - L x; backward reads U.

In 3 x itself does not change. In 4 a row's own correction would cancel, D_i e_i of h_i / D_i against e_i of x_i. No
other row of this rank reads x before the sweep has renewed it. Only what other ranks get is corrected.

The arithmetic is that of the reference implementation to rounding. Halo exchanges: x before 2 and before 4, as there,
without those of zeros.
"""

from __future__ import annotations

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.bench.hpcg.optimise import OptimisedLevel
from ridgeline.bench.hpcg.passes import Passes
from ridgeline.sparse.halo import HaloVector
from ridgeline.sparse.transfer import correct, move_boundary, restore, subtract_boundary

Array = NDArray[np.float64]


class MultigridLevel:
    """The cycle from one level down: its vectors, and the arguments of every compiled call, made once.

    comm: all ranks of the matrix. Coarser levels have r and x of their own; the finest is given its by `bind`.
    """

    def __init__(self, comm: MPI.Comm, level: OptimisedLevel) -> None:
        self.level = level
        self.passes = Passes(level)
        self.coarse = None if level.coarse is None else MultigridLevel(comm, level.coarse)
        self._half_product = np.zeros(level.n_rows)
        self._saved = np.zeros(level.boundary.rows.size)
        self._sent = np.zeros(0 if level.transfer is None else level.transfer.sent.size)
        self._r: Array | None = None
        self._x: HaloVector | None = None
        if self.coarse is not None:
            below = self.coarse.level
            self.coarse.bind(np.zeros(below.n_rows), HaloVector(comm, below.plan))

    def bind(self, r: Array, x: HaloVector) -> None:
        """Let the cycle read r, float64 [n], and write x; r is changed meanwhile and comes back bit for bit."""
        if r is self._r and x is self._x:
            return
        level, half_product, inverse, values = (
            self.level,
            self._half_product,
            self.level.inverse_diagonal,
            x.values,
        )
        self._r, self._x = r, x
        self._forward_zero = level.lower, r, inverse, values, half_product
        self._forward = level.lower, r, half_product, inverse, values
        self._backward = level.upper, half_product, inverse, values
        self._backward_dot = level.upper, half_product, inverse, values, r
        if level.transfer is None or self.coarse is None:
            return
        assert self.coarse._r is not None  # bound when made
        assert self.coarse._x is not None
        transfer, external = level.transfer, values[level.n_rows :]
        coarse_r, correction = self.coarse._r, self.coarse._x.values
        columns = level.lower.slot_columns
        self._coarse_residual = transfer.lower, transfer.points, columns, r, half_product, values, coarse_r
        self._coarse_boundary = transfer.boundary, external, coarse_r
        self._correct = transfer.sent, transfer.sent_points, correction, values, self._sent
        self._uncorrect = transfer.sent, self._sent, values
        self._add_product = transfer.upper, correction, half_product
        self._move = level.boundary, external, r, self._saved
        self._restore = level.boundary.rows, self._saved, r

    def clear(self) -> None:
        """Set x to zero on this level and below: sweeps multiply what it holds by zeros, a NaN would stay."""
        assert self._x is not None  # bound
        self._x.values.fill(0.0)
        if self.coarse is not None:
            self.coarse.clear()

    def cycle(self) -> None:
        """Set x to the cycle's approximation of A^-1 r, from x = 0. Collective: two halo exchanges a level."""
        self._to_last_sweep()
        self.passes.backward(*self._backward)

    def cycle_dot(self) -> float:
        """Do `cycle` and return r.x of this rank, which the last sweep adds up on its way."""
        self._to_last_sweep()
        return float(self.passes.backward_dot(*self._backward_dot))

    def _to_last_sweep(self) -> None:
        passes, x, coarse = self.passes, self._x, self.coarse
        passes.forward_zero(*self._forward_zero)
        if coarse is None:
            return
        assert x is not None  # bound
        passes.backward(*self._backward)
        x.start()
        passes.coarse_residual(*self._coarse_residual)
        x.finish()
        if self._saved.size:
            subtract_boundary(*self._coarse_boundary)
        coarse.cycle()
        if self._sent.size:
            correct(*self._correct)
            x.start()
            restore(*self._uncorrect)
        else:
            x.start()
        passes.add_product(*self._add_product)
        x.finish()
        if self._saved.size:
            move_boundary(*self._move)
            passes.forward(*self._forward)
            restore(*self._restore)
        else:
            passes.forward(*self._forward)

    def memory(self) -> int:
        """Bytes of the vectors of this level and the coarser ones, without r and x of the finest."""
        total = self._half_product.nbytes + self._saved.nbytes + self._sent.nbytes + self.passes.memory()
        if self.coarse is not None and self.coarse._r is not None and self.coarse._x is not None:
            total += self.coarse._r.nbytes + self.coarse._x.values.nbytes + self.coarse.memory()
        return total
