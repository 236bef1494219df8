"""The compiled passes of one level, for one thread or several, under the same names and with the same arguments."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ridgeline.bench.hpcg.optimise import OptimisedLevel
from ridgeline.kernels import cg_passes, sparse_sweeps, sparse_transfer

Pass = Callable[..., Any]


class Passes:
    """Functions of `kernels.sparse_sweeps`, `sparse_transfer` and `cg_passes` for a level's number of rows.

    With more threads the bits are the same. Passes over the boundary stay with one thread: they are short.
    """

    def __init__(self, level: OptimisedLevel, n_threads: int) -> None:
        self.forward_zero: Pass = sparse_sweeps.forward_zero
        self.forward: Pass = sparse_sweeps.forward
        self.backward: Pass = sparse_sweeps.backward
        self.backward_dot: Pass = sparse_sweeps.backward_dot
        self.multiply_dot: Pass = sparse_sweeps.multiply_dot
        self.coarse_residual: Pass = sparse_transfer.coarse_residual
        self.add_product: Pass = sparse_transfer.add_product
        self.dot: Pass = cg_passes.dot
        self.residual: Pass = cg_passes.residual
        self.direction: Pass = cg_passes.direction
        if n_threads > 1:
            self.coarse_residual = partial(sparse_transfer.coarse_residual_threaded, n_threads)
            self.add_product = partial(sparse_transfer.add_product_threaded, n_threads)
            self.dot = partial(cg_passes.dot_threaded, n_threads)
            self.residual = partial(cg_passes.residual_threaded, n_threads)
            self.direction = partial(cg_passes.direction_threaded, n_threads)
