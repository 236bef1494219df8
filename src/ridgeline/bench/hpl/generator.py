"""The random matrix of HPL 2.3: the same numbers on every process grid.

One sequence of 64-bit states, X_(n+1) = a X_n + c modulo 2^64, runs through the columns of [A, b], N numbers each.
An element is 1/2 - X / 2^64, rounded as HPL 2.3 rounds it, which lies in [-1/2, 1/2]. A process jumps to the first
number of each of its blocks: k steps are one of another pair (a, c).
Source: HPL 2.3, `testing/matgen` and `testing/pmatgen` (what is computed; the code is our own); Knuth, Sec. 3.2.1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ridgeline.bench.hpl.block_cyclic import BlockCyclic
from ridgeline.bench.hpl.generator_kernels import fill_columns
from ridgeline.bench.hpl.record import SEED
from ridgeline.jit.kernel import Specialisation, specialise

_MULTIPLIER, _INCREMENT = 6364136223846793005, 1
_MASK = 2**64 - 1


class Step(NamedTuple):
    """A number of steps of the sequence as one: X <- multiplier X + increment modulo 2^64."""

    multiplier: int
    increment: int

    def __call__(self, state: int) -> int:
        """Return the state after these steps."""
        return (self.multiplier * state + self.increment) & _MASK

    def then(self, other: Step) -> Step:
        """Return both as one."""
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


def first_states(place: BlockCyclic, first: int, last: int, seed: int = SEED) -> NDArray[np.uint64]:
    """Return the state at the first local row of local columns first ... last - 1, uint64. No communication."""
    rows, columns = place.rows, place.columns
    states = np.empty(last - first, np.uint64)
    to_next_column, before, state = jump(rows.n), -1, 0
    for at, column in enumerate(columns.globals()[first:last].tolist()):
        if at and column == before + 1:
            state = to_next_column(state)
        else:
            state = jump(1 + column * rows.n + rows.part * rows.nb)(seed)
        states[at], before = state, column
    return states


def fill_matrix(
    out: NDArray[np.float64], place: BlockCyclic, first: int, last: int, seed: int = SEED
) -> None:
    """Write local columns first ... last - 1 of [A, b] into `out`, which holds them all.

    out: this process's part, float64 [at least rows, columns], column-major. No communication; releases the GIL, so
    that threads can share the columns.
    """
    rows = place.rows
    constants = np.array([*jump(1), *jump((rows.parts - 1) * rows.nb)], np.uint64)
    fill_columns(first_states(place, first, last, seed), constants, rows.nb, rows.count(), out.T[first:last])


def kernels() -> list[Specialisation]:
    """Return the kernels that `fill_matrix` calls."""
    return specialise([fill_columns])
