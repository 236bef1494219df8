"""The compiled passes of one level, for one thread or several, under the same names and with the same arguments."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ridgeline.bench.hpcg import cg_passes
from ridgeline.bench.hpcg.optimise import OptimisedLevel
from ridgeline.jit.kernel import Specialisation
from ridgeline.sparse import sweeps, sweeps_threaded, transfer

Pass = Callable[..., Any]


class Passes:
    """Functions of `sparse.sweeps`, `sparse.transfer` and `cg_passes`, or their twins for several threads.

    As many threads as the level names share them. Passes over the boundary always take one: they are short. Raises
    ConfigError if Numba does not run so many threads at once.
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
        self.coarse_residual: Pass = transfer.coarse_residual
        self.add_product: Pass = transfer.add_product
        self.dot: Pass = cg_passes.dot
        self.residual: Pass = cg_passes.residual
        self.direction: Pass = cg_passes.direction

    def _share(self, level: OptimisedLevel, n_threads: int) -> None:
        self.team = sweeps_threaded.make_team(level.lower, n_threads)
        self.forward_zero = partial(sweeps_threaded.forward_zero, self.team)
        self.forward = partial(sweeps_threaded.forward, self.team)
        self.backward = partial(sweeps_threaded.backward, self.team)
        self.backward_dot = partial(sweeps_threaded.backward_dot, self.team)
        self.multiply_dot = partial(sweeps_threaded.multiply_dot, self.team)
        self.coarse_residual = partial(transfer.coarse_residual_threaded, n_threads)
        self.add_product = partial(transfer.add_product_threaded, n_threads)
        self.dot = partial(cg_passes.dot_threaded, n_threads)
        self.residual = partial(cg_passes.residual_threaded, n_threads)
        self.direction = partial(cg_passes.direction_threaded, n_threads)

    def memory(self) -> int:
        """Bytes of what threads share."""
        return 0 if self.team is None else sum(array.nbytes for array in self.team)


def kernels(threads: int) -> list[Specialisation]:
    """Return the kernels of all passes: of one thread, which sweeps small levels, and of several for the others."""
    shared = sweeps_threaded.kernels() if threads > 1 else []
    return [*sweeps.kernels(), *shared, *transfer.kernels(threads), *cg_passes.kernels(threads)]
