"""Memory and messages of the algebraic coarse solver on any number of ranks, counted on one rank without MPI.

The hierarchy does not depend on the ranks (`hierarchy`). One rank can therefore set it up, and its rows are assigned
to ranks as a run on many ranks would assign them. In a run on so many ranks `AlgebraicCoarse.cost` returns the same
figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ridgeline.elements.coarse.algebraic import EXCHANGES, CoarseCost
from ridgeline.elements.coarse.direct import WHOLE
from ridgeline.elements.coarse.hierarchy import AlgebraicLevel, Hierarchy
from ridgeline.parallel.partition import split

Numbers = NDArray[np.int64]


@dataclass
class _Traffic:
    """For each rank, int64 [ranks]: bytes of memory, and messages and values sent in one exchange."""

    memory: Numbers
    messages: Numbers
    values: Numbers


def _messages(sender: Numbers, receiver: Numbers, ranks: int) -> Numbers:
    """Return the number of receivers of each rank."""
    return np.bincount(np.unique(sender * ranks + receiver) // ranks, minlength=ranks)


def _matrix_traffic(matrix: Any, rows: Numbers, columns: Numbers | None, ranks: int, size: int) -> _Traffic:
    """Return the cost of a CSR matrix by the owners of its rows and columns; None if every rank has all columns."""
    per_row = np.diff(matrix.indptr)
    receiver = np.repeat(rows, per_row)
    own_rows = np.bincount(rows, minlength=ranks)
    entries = np.bincount(receiver, minlength=ranks)
    memory = 8 * (own_rows + 1) + (4 + size) * entries
    if columns is None:
        return _Traffic(memory + size * matrix.shape[1], *np.zeros((2, ranks), np.int64))
    outer = receiver != columns[matrix.indices]
    needed = np.unique(receiver[outer] * matrix.shape[1] + matrix.indices[outer])
    receiver, column = np.divmod(needed, matrix.shape[1])
    sender = columns[column]
    external, values = (np.bincount(each, minlength=ranks) for each in (receiver, sender))
    memory += size * (np.bincount(columns, minlength=ranks) + external) + (4 + size) * values
    return _Traffic(memory, _messages(sender, receiver, ranks), values)


def _point_traffic(number: Numbers, element_rank: Numbers, ranks: int) -> _Traffic:
    """Return the messages of one sum over elements. number: int64 [E, c], -1 for points that are left out."""
    numbered = number >= 0
    rank = np.broadcast_to(element_rank[:, None], number.shape)[numbered]
    owned = np.unique(number[numbered] * ranks + rank)
    point, rank = np.divmod(owned, ranks)
    first = np.searchsorted(point, point)
    copies = np.searchsorted(point, point, side="right") - first
    sender = np.repeat(rank, copies)
    within = np.arange(copies.sum()) - np.repeat(np.cumsum(copies) - copies, copies)
    receiver = rank[np.repeat(first, copies) + within]
    other = sender != receiver
    sender, receiver = sender[other], receiver[other]
    return _Traffic(
        np.zeros(ranks, np.int64), _messages(sender, receiver, ranks), np.bincount(sender, minlength=ranks)
    )


def _operators(level: AlgebraicLevel) -> list[Any]:
    """Return A, P^T and P as SciPy's matrices."""
    return [each.local for each in (level.matrix, level.restriction, level.prolongation) if each is not None]


def count_ranks(hierarchy: Hierarchy, ranks: int, dtype: DTypeLike = np.float32) -> list[CoarseCost]:
    """Return the cost on each of `ranks` ranks. hierarchy: set up on one rank with all elements. No communication."""
    size = np.dtype(dtype).itemsize
    number = hierarchy.number.reshape(len(hierarchy.number), -1)
    element_rank = np.repeat(np.arange(ranks), [split(len(number), ranks, rank)[1] for rank in range(ranks)])
    finest = np.full(hierarchy.rows.total, ranks)
    np.minimum.at(
        finest, number[number >= 0], np.broadcast_to(element_rank[:, None], number.shape)[number >= 0]
    )
    names = hierarchy.levels[0].names
    order = np.argsort(names)
    owners = [finest[order[np.searchsorted(names, level.names, sorter=order)]] for level in hierarchy.levels]
    total = [len(owner) for owner in owners]
    first_whole = 0 if ranks == 1 else next((k for k, n in enumerate(total) if n <= WHOLE), len(total) - 1)
    points = _point_traffic(number, element_rank, ranks)
    distributed, messages, values = np.zeros(ranks, np.int64), 2 * points.messages, 2 * points.values
    for place in range(first_whole):
        rows, below = owners[place : place + 2]
        columns = (rows, rows, None if place + 1 == first_whole else below)
        operators = _operators(hierarchy.levels[place])
        for matrix, owner, across, exchanges in zip(operators, (rows, below, rows), columns, EXCHANGES):
            traffic = _matrix_traffic(matrix, owner, across, ranks, size)
            distributed += traffic.memory
            messages += exchanges * traffic.messages
            values += exchanges * traffic.values
        distributed += size * (3 * np.bincount(rows, minlength=ranks) + np.bincount(below, minlength=ranks))
    whole = hierarchy.coarsest.size * size
    for place in range(first_whole, len(total) - 1):
        whole += size * (3 * total[place] + total[place + 1])
        for matrix in _operators(hierarchy.levels[place]):
            whole += 8 * (matrix.shape[0] + 1) + (4 + size) * matrix.nnz + size * matrix.shape[1]
    own = np.bincount(finest, minlength=ranks)
    return [
        CoarseCost(
            int(own[r]),
            int(distributed[r]),
            whole,
            int(messages[r]),
            int(values[r]) * size,
            total[first_whole] * size,
        )
        for r in range(ranks)
    ]
