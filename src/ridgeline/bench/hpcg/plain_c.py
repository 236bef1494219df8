"""HPCG in plain C (bench/c/hpcg_reference.c) in this process, with mpi4py's communicator.

Its data are laid out as the official code's, and its residuals have the bits of our reference implementation's.
"""

from __future__ import annotations

import ctypes

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.bench.c_library import address_of, load_c

TIMES = ("total", "dot", "waxpby", "spmv", "allreduce", "multigrid")  # seconds, as the C code orders them
FLAGS = ((),)  # no more than -O3 for any processor of the family, as the official code is shipped

_P, _I, _D = ctypes.c_void_p, ctypes.c_int, ctypes.c_double
_FUNCTIONS = {
    "hpcg_make": (_P, _P, *(_I,) * 7),
    "hpcg_free": (None, _P),
    "hpcg_spmv": (None, _P, _P, _P),
    "hpcg_multigrid": (None, _P, _P, _P),
    "hpcg_solution": (None, _P, _P),
    "hpcg_cg": (_I, _P, _I, _D, _I, _P, _P),
}


class PlainCUnavailable(Exception):
    """Raised where the C code cannot be built; the message says why."""


class PlainC:
    """HPCG's problem in C: a box of (nx, ny, nz) rows on each rank of a process grid (npx, npy, npz).

    All methods are collective over comm, which must live as long as this object. Vectors are float64 [n], the rows of
    this rank, x fastest. Raises PlainCUnavailable on all ranks where there is no compiler.
    """

    def __init__(
        self,
        comm: MPI.Comm,
        box: tuple[int, int, int],
        process_grid: tuple[int, int, int],
        levels: int = 4,
    ) -> None:
        library, self.how = load_c(comm, "hpcg_reference", _FUNCTIONS, optional=FLAGS)
        if library is None:
            raise PlainCUnavailable(self.how)
        self._c = library
        self.n_rows = int(np.prod(box))
        self._problem = library["hpcg_make"](address_of(comm), *box, *process_grid, levels)

    def close(self) -> None:
        """Free the problem."""
        if self._problem:
            self._c["hpcg_free"](self._problem)
        self._problem = None

    def _apply(self, name: str, x: NDArray[np.float64]) -> NDArray[np.float64]:
        x, y = np.ascontiguousarray(x, np.float64), np.empty(self.n_rows)
        self._c[name](self._problem, x.ctypes.data, y.ctypes.data)
        return y

    def spmv(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return A x. Collective."""
        return self._apply("hpcg_spmv", x)

    def precondition(self, r: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return M^-1 r by one multigrid cycle. Collective."""
        return self._apply("hpcg_multigrid", r)

    def cg(
        self, max_iterations: int, tolerance: float, preconditioned: bool = True
    ) -> tuple[list[float], dict[str, float]]:
        """Solve A x = b from zero. Collective.

        Return the scaled residuals, which begin with 1 before the first iteration, and the seconds of each part.
        """
        history, seconds = np.empty(max_iterations + 1), np.zeros(len(TIMES))
        done = self._c["hpcg_cg"](
            self._problem, max_iterations, tolerance, preconditioned, history.ctypes.data, seconds.ctypes.data
        )
        return history[: done + 1].tolist(), dict(zip(TIMES, seconds.tolist(), strict=True))

    def solution(self) -> NDArray[np.float64]:
        """Return x of the last solve."""
        x = np.empty(self.n_rows)
        self._c["hpcg_solution"](self._problem, x.ctypes.data)
        return x
