"""How an array of a Zarr data set is cut into chunks and shards. It follows from the array alone, not from the ranks.

A chunk is what a reader reads at least, a box of about 1 MiB whose edges are halves of the array's. A shard is a file
with many chunks, up to 64 MiB, and has one writer. Shards extend along the last axes first, so that they are slabs of
the array where its planes are small enough. An array that takes little in a step has chunks of several steps, because
a file for each of its steps would be mostly overhead; such a file is replaced as a whole at every step.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from ridgeline.io.store import Shape

CHUNK = 2**20  # bytes at most
SHARD = 64 * 2**20
MOST_STEPS = 1024  # of a chunk
REPLACED = 2**18  # bytes of a file with several steps


@dataclass(frozen=True)
class ArrayLayout:
    """The shape of an array without steps, of its chunks and of its shards, and the steps that a chunk holds."""

    shape: Shape
    chunk: Shape
    shard: Shape
    steps: int

    @classmethod
    def of(cls, shape: Shape, itemsize: int) -> ArrayLayout:
        """Return the layout of an array of this shape."""
        chunk = [max(1, n) for n in shape]
        while prod(chunk) * itemsize > CHUNK and max(chunk) > 1:
            axis = chunk.index(max(chunk))
            chunk[axis] = -(-chunk[axis] // 2)
        shard = list(chunk)
        for axis in reversed(range(len(shape))):
            # Doubled, so that few of the chunks in the last shard of an axis lie beyond the array.
            while shard[axis] < shape[axis] and 2 * prod(shard) * itemsize <= SHARD:
                shard[axis] *= 2
            if shard[axis] < shape[axis]:
                break
        steps = REPLACED // max(1, prod(shape) * itemsize)
        return cls(shape, tuple(chunk), tuple(shard), min(max(1, steps), MOST_STEPS))

    @property
    def largest_shard(self) -> int:
        """Return the most items that a shard has inside the array."""
        return prod(min(n, whole) for n, whole in zip(self.shard, self.shape))

    def boxes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the first indices of all shards and the ends of their parts inside the array, [shards, axes]."""
        starts = [range(0, whole, n) for n, whole in zip(self.shard, self.shape)]
        first = np.array(list(product(*starts)), np.int64).reshape(prod(map(len, starts)), len(self.shape))
        return first, np.minimum(first + self.shard, self.shape)
