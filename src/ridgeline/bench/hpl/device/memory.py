"""What a process of HPL takes on its GPU, counted without one."""

from __future__ import annotations

from ridgeline.bench.hpl.block_cyclic import Axis
from ridgeline.bench.hpl.update_kernels import BLOCK

_ITEM = 8  # bytes of a number
_ALIGNED = 32  # numbers: columns begin at multiples of 256 bytes
LISTS = 4  # of rows that change places, for each panel
ROOMS = 4  # of an exchange of rows: given, gathered, scattered, received


def pitch_for(rows: int) -> int:
    """Return the distance of two columns of the matrix, in numbers."""
    return -(-max(rows, 1) // _ALIGNED) * _ALIGNED


def device_parts(n: int, nb: int, p: int, q: int) -> dict[str, float]:
    """Return the bytes that a process needs on its GPU at most, by what they are for."""
    rows, columns = Axis(n, nb, p, 0).count(), Axis(n + 1, nb, q, 0).count()
    rooms = 1 if p == 1 else 2 + ROOMS  # rows of U before the solve; after it, and an exchange
    numbers = {
        "matrix": pitch_for(rows) * columns,
        "panels": 2 * nb * (rows + nb + 1 + BLOCK + LISTS),
        "rows of U": rooms * nb * columns,
        "vectors": 4 * (rows + columns) + nb,
    }
    return {name: float(_ITEM * count) for name, count in numbers.items()}


def device_bytes_of(n: int, nb: int, p: int, q: int) -> int:
    """Return the bytes that a process needs on its GPU at most."""
    return int(sum(device_parts(n, nb, p, q).values()))
