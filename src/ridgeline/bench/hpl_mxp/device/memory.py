"""What a process of HPL-MxP takes on its GPU, counted without one."""

from __future__ import annotations

from ridgeline.bench.hpl.block_cyclic import Axis
from ridgeline.bench.hpl.device.memory import pitch_for
from ridgeline.bench.hpl_mxp.storage import Storage

ITEM = 4  # bytes of a number of the matrix
SETS = 2  # of panels: those that update, and those that are being made


def panel_sizes(rows: int, columns: int, nb: int, storage: Storage, p: int, q: int) -> tuple[int, int]:
    """Return the numbers of L and of U that are kept beside the matrix.

    Copies of 16 bits always are; panels in float32 are where other processes need them.
    """
    narrow = storage != "float32"
    return pitch_for(rows) * nb * (narrow or q > 1), pitch_for(nb) * columns * (narrow or p > 1)


def item_of(storage: Storage) -> int:
    """Return the bytes of a number of a panel."""
    return ITEM if storage == "float32" else 2


def device_parts(n: int, nb: int, p: int, q: int, storage: Storage) -> dict[str, float]:
    """Return the bytes that a process needs on its GPU at most, by what they are for."""
    rows, columns = Axis(n, nb, p, 0).count(), Axis(n, nb, q, 0).count()
    block = min(nb, n)
    panels = item_of(storage) * sum(panel_sizes(rows, columns, block, storage, p, q))
    tables = 8 * (columns + 2 * rows)  # of elements
    diagonal = (8 + ITEM) * rows  # its places and elements
    return {
        "matrix": float(ITEM * pitch_for(rows) * columns),
        "panels": float(SETS * (panels + ITEM * block * block)),
        "tables": float(tables + diagonal),
        "vectors": float(8 * (rows + columns) + ITEM * (rows + block)),
    }


def device_bytes_of(n: int, nb: int, p: int, q: int, storage: Storage) -> int:
    """Return the bytes that a process needs on its GPU at most."""
    return int(sum(device_parts(n, nb, p, q, storage).values()))
