"""One multigrid cycle of HPCG that reads the matrix of each level 2 1/8 times instead of five times.

HPCG's cycle on a level is a symmetric Gauss-Seidel sweep from zero, the residual at the coarse points, the coarse
cycle, its correction, and another symmetric sweep. The matrix is A = L + D + U (+ H, the columns of other ranks).
Every sweep leaves the half product h = D x + U x. The steps are then:

1. forward (D + L) x = r reads L and keeps h = r - L x; backward (D + U) x = h reads U;
2. the residual at the coarse points, r - h - L x - H x, reads L at those rows;
3. the correction x += P e becomes h += U P e, which reads U at those columns;
4. forward x += (r - H x - L x - h) / D reads L and keeps h = r - H x - L x; backward reads U.

Step 3 leaves x itself unchanged, except for the values that other ranks receive: in step 4 a row's own correction
would cancel (`sparse.grid_transfer` shows how).

The arithmetic is that of the reference implementation to rounding. Halo exchanges: x before step 2 and before step 4,
as there, without the exchanges of zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.bench.hpcg import cg_passes
from ridgeline.bench.hpcg.optimised_matrix import OptimisedLevel
from ridgeline.jit.kernel import Specialisation
from ridgeline.sparse import grid_transfer, sweeps, sweeps_threaded
from ridgeline.sparse.external_columns import move_external, subtract_external
from ridgeline.sparse.grid_transfer import correct, restore
from ridgeline.sparse.halo import HaloVector

Array = NDArray[np.float64]
Pass = Callable[..., Any]  # a compiled function, with its threads bound


class Passes:
    """The compiled passes over one level, under the same names and with the same arguments for any number of threads.

    They are functions of `sparse.sweeps`, `sparse.grid_transfer` and `cg_passes`, or their twins for the threads that
    the level names. Passes over external columns always run on one thread, because they are short.

    Raises ConfigError if Numba cannot run this many threads at once.
    """

    def __init__(self, level: OptimisedLevel) -> None:
        self.team: sweeps_threaded.Team | None = None
        if level.n_threads > 1:
            self._share(level, level.n_threads)
            return
        self.forward_zero: Pass = sweeps.forward_zero
        self.forward: Pass = sweeps.forward
        self.backward: Pass = sweeps.backward
        self.backward_dot: Pass = sweeps.backward_dot
        self.multiply_dot: Pass = sweeps.multiply_dot
        self.coarse_residual: Pass = grid_transfer.coarse_residual
        self.add_product: Pass = grid_transfer.add_product
        self.dot: Pass = cg_passes.dot
        self.residual_dot: Pass = cg_passes.residual_dot
        self.update_x_and_p: Pass = cg_passes.update_x_and_p

    def _share(self, level: OptimisedLevel, n_threads: int) -> None:
        self.team = sweeps_threaded.make_team(level.lower, n_threads)
        self.forward_zero = partial(sweeps_threaded.forward_zero, self.team)
        self.forward = partial(sweeps_threaded.forward, self.team)
        self.backward = partial(sweeps_threaded.backward, self.team)
        self.backward_dot = partial(sweeps_threaded.backward_dot, self.team)
        self.multiply_dot = partial(sweeps_threaded.multiply_dot, self.team)
        self.coarse_residual = partial(grid_transfer.coarse_residual_threaded, n_threads)
        self.add_product = partial(grid_transfer.add_product_threaded, n_threads)
        self.dot = partial(cg_passes.dot_threaded, n_threads)
        self.residual_dot = partial(cg_passes.residual_dot_threaded, n_threads)
        self.update_x_and_p = partial(cg_passes.update_x_and_p_threaded, n_threads)

    def memory(self) -> int:
        """Return the bytes that the threads share."""
        return 0 if self.team is None else sum(array.nbytes for array in self.team)


class MultigridLevel:
    """The cycle from one level down: its vectors, and the arguments of every compiled call, prepared once.

    comm: all ranks of the matrix. Coarser levels own their r and x; the finest level gets them from `bind`.
    """

    def __init__(self, comm: MPI.Comm, level: OptimisedLevel) -> None:
        self.level = level
        self.passes = Passes(level)
        self.coarse = None if level.coarse is None else MultigridLevel(comm, level.coarse)
        self._half_product = np.zeros(level.n_rows)
        self._saved = np.zeros(level.external.rows.size)
        self._sent = np.zeros(0 if level.transfer is None else level.transfer.sent.size)
        self._r: Array | None = None
        self._x: HaloVector | None = None
        if self.coarse is not None:
            below = self.coarse.level
            self.coarse.bind(np.zeros(below.n_rows), HaloVector(comm, below.plan))

    def bind(self, r: Array, x: HaloVector) -> None:
        """Let the cycle read r, float64 [n], and write x. It changes r on the way and restores it bit for bit."""
        if r is self._r and x is self._x:
            return
        level, half_product, values = self.level, self._half_product, x.values
        inverse = level.inverse_diagonal
        self._r, self._x = r, x
        self._forward_zero_arguments = level.lower, r, inverse, values, half_product
        self._forward_arguments = level.lower, r, half_product, inverse, values
        self._backward_arguments = level.upper, half_product, inverse, values
        self._backward_dot_arguments = level.upper, half_product, inverse, values, r
        if level.transfer is None or self.coarse is None:
            return
        assert self.coarse._r is not None  # bound when made
        assert self.coarse._x is not None
        transfer, external = level.transfer, values[level.n_rows :]
        coarse_r, coarse_x = self.coarse._r, self.coarse._x.values
        columns, points = level.lower.slot_columns, transfer.points
        self._coarse_residual_arguments = transfer.lower, points, columns, r, half_product, values, coarse_r
        self._coarse_external_arguments = transfer.external, external, coarse_r
        self._correct_arguments = transfer.sent, transfer.sent_points, coarse_x, values, self._sent
        self._undo_correct_arguments = transfer.sent, self._sent, values
        self._add_product_arguments = transfer.upper, coarse_x, half_product
        self._move_arguments = level.external, external, r, self._saved
        self._undo_move_arguments = level.external.rows, self._saved, r

    def clear(self) -> None:
        """Set x to zero on this level and below: sweeps multiply old values by zero, and a NaN would survive that."""
        assert self._x is not None  # bound
        self._x.values.fill(0.0)
        if self.coarse is not None:
            self.coarse.clear()

    def cycle(self) -> None:
        """Set x to the cycle's approximation of A^-1 r, from x = 0. Collective: two halo exchanges a level."""
        self._to_last_sweep()
        self.passes.backward(*self._backward_arguments)

    def cycle_dot(self) -> float:
        """Run `cycle` and return r.x of this rank, which the last sweep adds up."""
        self._to_last_sweep()
        return float(self.passes.backward_dot(*self._backward_dot_arguments))

    def _to_last_sweep(self) -> None:
        passes, x, coarse = self.passes, self._x, self.coarse
        passes.forward_zero(*self._forward_zero_arguments)
        if coarse is None:
            return
        assert x is not None  # bound
        passes.backward(*self._backward_arguments)
        x.start()
        passes.coarse_residual(*self._coarse_residual_arguments)
        x.finish()
        if self._saved.size:
            subtract_external(*self._coarse_external_arguments)
        coarse.cycle()
        if self._sent.size:
            correct(*self._correct_arguments)
            x.start()
            restore(*self._undo_correct_arguments)
        else:
            x.start()
        passes.add_product(*self._add_product_arguments)
        x.finish()
        if self._saved.size:
            move_external(*self._move_arguments)
            passes.forward(*self._forward_arguments)
            restore(*self._undo_move_arguments)
        else:
            passes.forward(*self._forward_arguments)

    def memory(self) -> int:
        """Return the bytes of the vectors of this level and the coarser ones, without r and x of the finest."""
        total = self._half_product.nbytes + self._saved.nbytes + self._sent.nbytes + self.passes.memory()
        if self.coarse is not None and self.coarse._r is not None and self.coarse._x is not None:
            total += self.coarse._r.nbytes + self.coarse._x.values.nbytes + self.coarse.memory()
        return total


def kernels(threads: int) -> list[Specialisation]:
    """Return the kernels of all passes, for one thread (small levels) and for several."""
    shared = sweeps_threaded.kernels() if threads > 1 else []
    return [*sweeps.kernels(), *shared, *grid_transfer.kernels(threads), *cg_passes.kernels(threads)]
