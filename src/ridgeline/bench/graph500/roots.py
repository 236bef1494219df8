"""The roots of the searches: distinct vertices with a neighbour, drawn from the seeds of the graph.

They are those of the reference implementation's main program: numbers of the generator after 2 2^128 steps, four of
them a candidate. They depend on seeds and scale alone, so any number of ranks finds the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.bench.graph500.generator import drawn_after
from ridgeline.bench.graph500.generator_kernels import TO_UNIT
from ridgeline.bench.graph500.vertices import VertexBlocks

_STEPS = 2 << 128  # of the generator to the first candidate
_TO_UNIT_SQUARED = (
    0.0000000000000000002168404346990492787  # 1 / (2^31 - 1)^2, as the reference code writes it
)
_BATCH = 64  # candidates that all ranks look at in one turn


def candidates(seeds: tuple[int, int], total: int) -> Iterator[int]:
    """Yield vertices of 0 ... total - 1 in the order in which they are tried, `total` of them."""
    drawn = drawn_after(seeds, _STEPS)
    for _ in range(total):
        high, low, high_2, low_2 = islice(drawn, 4)
        first = high * TO_UNIT + low * _TO_UNIT_SQUARED
        second = high_2 * TO_UNIT + low_2 * _TO_UNIT_SQUARED
        yield int((first + second) * total) % total


def choose_roots(
    comm: MPI.Comm, blocks: VertexBlocks, joined: NDArray[np.bool_], count: int, seeds: tuple[int, int]
) -> list[int]:
    """Return `count` distinct vertices with a neighbour, fewer if the graph's candidates have fewer. Collective.

    joined: bool [owned vertices], whether an edge joins a vertex to another one; self-loops do not.
    Communication: an Allreduce of 64 bytes for 64 candidates.
    """
    roots: dict[int, None] = {}
    tried = candidates(seeds, blocks.total)
    while len(roots) < count and (batch := np.array(list(islice(tried, _BATCH)), np.int64)).size:
        mine = blocks.owner(batch) == comm.rank
        good = np.zeros(batch.size, np.int8)
        good[mine] = joined[blocks.local(batch[mine])]
        comm.Allreduce(MPI.IN_PLACE, good, MPI.MAX)
        roots |= dict.fromkeys(batch[good > 0].tolist())
    return list(roots)[:count]
