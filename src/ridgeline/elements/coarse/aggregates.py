"""Aggregates of algebraic multigrid over ranks, the same for any number of ranks.

The roots are a maximal set of rows of which no two are within two strong connections (Bell, Dalton and Olson,
SIAM J. Sci. Comput. 34 (2012) C123). A row is a root where its key is the largest within two connections, among rows
that are not decided yet. Keys follow from the numbers of mesh points alone, and connections are compared with a
bound, never with each other. So neither the partition nor rounding chooses. Each root takes its neighbours, and what
is left joins the neighbouring aggregate of largest key.
"""

from __future__ import annotations

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.sparse.distributed import DistributedMatrix, Numbering

Array = NDArray[np.float64]
Numbers = NDArray[np.int64]

_BITS = np.uint64(2**52 - 1)  # of a key: float64 holds it, and keys travel as vectors do
_ROOT = 2.0**53  # above all keys
_ODD = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9))


def keys_of(names: Numbers, level: int) -> Array:
    """Return distinct keys in 1 ... 2^52 of distinct names below 2^52, scattered anew on each level."""
    key = (names.astype(np.uint64) + np.uint64(level << 40)) & _BITS
    for odd in _ODD:  # each step is one to one on 52 bits
        key = (key * odd) & _BITS
        key ^= key >> np.uint64(26)
    return np.asarray(key.astype(np.float64) + 1.0)


class _Strong:
    """The strong connections of a matrix: |a_ij| >= theta sqrt(a_ii a_jj), each row with itself."""

    def __init__(self, matrix: DistributedMatrix, theta: float) -> None:
        local = matrix.local
        n = matrix.rows.count
        row = np.repeat(np.arange(n), np.diff(local.indptr))
        diagonal = matrix.with_external(local.diagonal())
        bound = theta**2 * diagonal[row] * diagonal[local.indices]
        kept = (local.data**2 >= bound) | (row == local.indices)
        self._matrix, self._row, self._column = matrix, row[kept], local.indices[kept]
        self._first = np.searchsorted(self._row, np.arange(n))

    def largest(self, own: Array) -> Array:
        """Return the largest value at each row and its connections. Communication: neighbours."""
        return self._reduce(self._matrix.with_external(own)[self._column])

    def join(self, key: Array, number: Array) -> tuple[Array, Array]:
        """Return the largest key at each row and its connections, and the number beside it."""
        keys, numbers = (self._matrix.with_external(own)[self._column] for own in (key, number))
        best = self._reduce(keys)
        return best, self._reduce(np.where(keys == best[self._row], numbers, -1.0))

    def _reduce(self, values: Array) -> Array:
        return np.maximum.reduceat(values, self._first) if self._first.size else np.zeros(0)


def _roots(strong: _Strong, keys: Array, comm: MPI.Comm) -> NDArray[np.bool_]:
    """Return which rows are roots. Communication: twice the neighbours and one sum, some ten times."""
    state = keys.copy()  # the key while undecided, _ROOT, or 0
    while True:
        open_rows = (state > 0) & (state < _ROOT)
        if not comm.allreduce(bool(open_rows.any()), MPI.LOR):
            return np.asarray(state == _ROOT)
        reached = strong.largest(strong.largest(state))
        state[open_rows & (reached == _ROOT)] = 0.0
        state[open_rows & (reached == keys)] = _ROOT


def aggregate(
    matrix: DistributedMatrix, names: Numbers, level: int, theta: float
) -> tuple[Numbering, Numbers, Numbers]:
    """Return the aggregates' numbering, the aggregate of each row, and the aggregates' names. Collective.

    names: int64 [rows], distinct over all ranks; an aggregate has its root's name and its root's rank as owner.
    """
    comm = matrix.rows.comm
    strong, keys = _Strong(matrix, theta), keys_of(names, level)
    root = _roots(strong, keys, comm)
    below = Numbering(comm, int(root.sum()))
    key, number = np.where(root, keys, 0.0), np.full(keys.size, -1.0)
    number[root] = below.own
    for _ in range(2):
        best, beside = strong.join(key, number)
        free = number < 0
        key, number = np.where(free, best, key), np.where(free, beside, number)
    return below, number.astype(np.int64), names[root]
