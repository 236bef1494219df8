"""How arrays are divided over ranks: even splits, process grids, and one rank's part of a global array.

Nothing here communicates, and NumPy is imported for its types alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import isqrt
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Triple = tuple[int, int, int]


def split(n: int, parts: int, index: int) -> tuple[int, int]:
    """Return (offset, size) of part `index` of n cells over `parts`; the first n % parts parts get one more."""
    size, more = divmod(n, parts)
    return index * size + min(index, more), size + (index < more)


def owner_of(cell: NDArray[np.int64], n: int, parts: int) -> NDArray[np.int64]:
    """Return the index of the part of `split` that has each of some cells, int64 of the same shape."""
    size, more = divmod(n, parts)
    # The first counts in parts that have one more cell, the second in the others, from where both agree.
    return (cell // (size + 1)).clip(min=(cell - more) // max(size, 1))


def factorizations(n: int) -> Iterator[Triple]:
    """Yield all (pz, py, px) with pz * py * px = n, pz and then py increasing."""
    for pz in divisors(n):
        for py in divisors(n // pz):
            yield pz, py, n // pz // py


def divisors(n: int) -> list[int]:
    """Return the divisors of n >= 1, increasing."""
    small = [d for d in range(1, isqrt(n) + 1) if n % d == 0]
    return small + [n // d for d in reversed(small) if d * d != n]


@dataclass(frozen=True)
class DistributedArray:
    """Describe one rank's part of a global array, as outputs save it and diagnostics reduce it.

    It is plain data without a communicator. The parts of all ranks tile `shape_global` exactly once.

    Parameters
    ----------
    name : str
        The name of the array.
    shape_global : tuple of int
        Shape of the whole array.
    offset_global : tuple of int
        Index of this rank's first cell in the whole array.
    local : array
        The owned part, a view without ghosts whose rows may be strided.

    Examples
    --------
    >>> import numpy as np
    >>> from ridgeline.parallel.partition import DistributedArray
    >>> part = DistributedArray("U", shape_global=(8, 4), offset_global=(4, 0), local=np.zeros((4, 4)))
    >>> part.shape_local
    (4, 4)
    """

    name: str
    shape_global: tuple[int, ...]
    offset_global: tuple[int, ...]
    local: NDArray[Any]

    def read_only(self) -> DistributedArray:
        """Return the same part, through a view that cannot be written to."""
        view = self.local.view()
        view.flags.writeable = False
        return replace(self, local=view)

    @property
    def shape_local(self) -> tuple[int, ...]:
        """Shape of this rank's part."""
        return tuple(self.local.shape)
