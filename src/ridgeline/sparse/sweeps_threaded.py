"""The passes of `sparse.sweeps` shared by several threads, under the same names and with the same bits.

Every pass takes a `Team` first, and is one parallel region. The strips of a wavefront are shared among the threads by
rows, and a barrier separates the wavefronts. Rows should be ordered by wavefronts of the whole matrix
(`sparse.wavefronts.WHOLE`), which are few and wide.

The passes need as many Numba threads running at the same time as the team has; `make_team` checks that.
"""

from typing import Any, NamedTuple

import numba
import numpy as np
from numba import float64, int32, prange, types
from numpy.typing import NDArray

from ridgeline.jit.barrier import COUNTS, make_barrier, meet, threads_meet, wait_for_team
from ridgeline.jit.kernel import Specialisation, kernel, specialise, subroutine
from ridgeline.runtime.errors import ConfigError
from ridgeline.sparse.row_strips import STRIPS, Strips, deal_strips
from ridgeline.sparse.sweeps import (
    backward_dot_strips,
    backward_strips,
    forward_strips,
    forward_zero_strips,
    multiply_strips,
)


class Team(NamedTuple):
    """The data that threads share during a pass over one matrix."""

    bounds: NDArray[Any]  # int32 [n_fronts, n_threads + 1], of `deal_strips`
    shares: NDArray[Any]  # int32 [n_threads + 1], strips of each thread in passes without wavefronts
    counts: NDArray[Any]  # int64 [n_threads, 8], barriers that each thread has reached
    sums: NDArray[Any]  # float64 [n_strips], each strip's part of a sum


TEAM = types.NamedTuple((int32[:, ::1], int32[::1], COUNTS, float64[::1]), Team)


def make_team(strips: Strips, n_threads: int) -> Team:
    """Share the strips of a matrix (of one of its triangles) among n_threads threads.

    Raises ConfigError if Numba does not run that many threads at the same time: because fewer are set
    (`numba.set_num_threads`), or because its threading layer runs the parts of a loop one after the other.
    """
    n_strips = strips.strip_rows.size - 1
    whole = strips._replace(front_strips=np.array([0, n_strips], np.int32))
    team = Team(
        deal_strips(strips, n_threads),
        deal_strips(whole, n_threads)[0],
        make_barrier(n_threads),
        np.zeros(n_strips),
    )
    if not threads_meet(n_threads):
        raise ConfigError(
            f"{n_threads} threads must run at once, but Numba has {numba.get_num_threads()} threads or runs their "
            f"parts one after the other. Set NUMBA_NUM_THREADS={n_threads} and NUMBA_THREADING_LAYER=workqueue."
        )
    return team


@subroutine
def _forward_zero_part(thread, team, lower, r, inverse_diagonal, x, half_product):
    for front in range(team.bounds.shape[0]):
        first, end = team.bounds[front, thread], team.bounds[front, thread + 1]
        forward_zero_strips(lower, first, end, r, inverse_diagonal, x, half_product)
        wait_for_team(team.counts, thread)


@kernel(lambda: (TEAM, STRIPS, *[float64[::1]] * 4), parallel=True, nogil=True)
def forward_zero(team, lower, r, inverse_diagonal, x, half_product):
    """Make the pass `sparse.sweeps.forward_zero`."""
    for thread in prange(team.counts.shape[0]):
        _forward_zero_part(thread, team, lower, r, inverse_diagonal, x, half_product)


@subroutine
def _forward_part(thread, team, lower, r, half_product, inverse_diagonal, x):
    for front in range(team.bounds.shape[0]):
        first, end = team.bounds[front, thread], team.bounds[front, thread + 1]
        forward_strips(lower, first, end, r, half_product, inverse_diagonal, x)
        wait_for_team(team.counts, thread)


@kernel(lambda: (TEAM, STRIPS, *[float64[::1]] * 4), parallel=True, nogil=True)
def forward(team, lower, r, half_product, inverse_diagonal, x):
    """Make the pass `sparse.sweeps.forward`."""
    for thread in prange(team.counts.shape[0]):
        _forward_part(thread, team, lower, r, half_product, inverse_diagonal, x)


@subroutine
def _backward_part(thread, team, upper, half_product, inverse_diagonal, x):
    for front in range(team.bounds.shape[0] - 1, -1, -1):
        first, end = team.bounds[front, thread], team.bounds[front, thread + 1]
        backward_strips(upper, first, end, half_product, inverse_diagonal, x)
        wait_for_team(team.counts, thread)


@kernel(lambda: (TEAM, STRIPS, *[float64[::1]] * 3), parallel=True, nogil=True)
def backward(team, upper, half_product, inverse_diagonal, x):
    """Make the pass `sparse.sweeps.backward`."""
    for thread in prange(team.counts.shape[0]):
        _backward_part(thread, team, upper, half_product, inverse_diagonal, x)


@subroutine
def _backward_dot_part(thread, team, upper, half_product, inverse_diagonal, x, r):
    for front in range(team.bounds.shape[0] - 1, -1, -1):
        first, end = team.bounds[front, thread], team.bounds[front, thread + 1]
        backward_dot_strips(upper, first, end, half_product, inverse_diagonal, x, r, team.sums)
        wait_for_team(team.counts, thread)


@kernel(lambda: (TEAM, STRIPS, *[float64[::1]] * 4), parallel=True, nogil=True)
def backward_dot(team, upper, half_product, inverse_diagonal, x, r):
    """Make the pass `sparse.sweeps.backward_dot`."""
    for thread in prange(team.counts.shape[0]):
        _backward_dot_part(thread, team, upper, half_product, inverse_diagonal, x, r)
    total = 0.0
    for strip in range(team.sums.size - 1, -1, -1):
        total += team.sums[strip]
    return total


@kernel(lambda: (TEAM, STRIPS, STRIPS, *[float64[::1]] * 3), parallel=True, nogil=True)
def multiply_dot(team, lower, upper, diagonal, x, y):
    """Make the pass `sparse.sweeps.multiply_dot`."""
    for thread in prange(team.counts.shape[0]):
        first, end = team.shares[thread], team.shares[thread + 1]
        multiply_strips(lower, upper, first, end, diagonal, x, y, team.sums)
    total = 0.0
    for strip in range(team.sums.size):
        total += team.sums[strip]
    return total


def kernels() -> list[Specialisation]:
    """Return the kernels of this file."""
    return specialise([meet, forward_zero, forward, backward, backward_dot, multiply_dot])
