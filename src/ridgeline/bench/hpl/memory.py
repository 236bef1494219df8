"""What a process of HPL and of HPL-MxP takes on its host and on its GPU, counted before anything is allocated."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import NamedTuple

from mpi4py import MPI

from ridgeline.bench.hpl.block_cyclic import Axis
from ridgeline.bench.hpl.record import MXP_BASIS, Storage
from ridgeline.bench.hpl.update_kernels import BLOCK
from ridgeline.bench.node_memory import memory_per_rank
from ridgeline.bench.shared_options import ComputeDevice
from ridgeline.parallel.devices import device_memory_per_rank, select_device

BytesOf = Callable[[int, int, int, int], int]  # of n, nb, p, q: the most that a rank needs
_ALIGNED = 32  # numbers: columns in device memory begin at multiples of 256 bytes of float64
LISTS = 4  # of rows that change places, for each panel
MESSAGES = 4  # of an exchange of rows: given, gathered, scattered, received


class FreeMemory(NamedTuple):
    """The free bytes of every rank, on its host or its device, and what a system takes of them."""

    free: float
    bytes_of: BytesOf


def free_memory(comm: MPI.Comm, device: ComputeDevice, on_host: BytesOf, on_device: BytesOf) -> FreeMemory:
    """Return the memory of ranks, on their hosts or their GPUs. Collective over comm, the same on all ranks.

    on_host, on_device: what a system takes there. Raises DeviceError if a rank has no GPU.
    """
    if device == "cpu":
        return FreeMemory(memory_per_rank(comm), on_host)
    free = device_memory_per_rank(comm, select_device(comm))
    # A simulated device has no limit, and lies in host memory.
    return FreeMemory(free if isfinite(free) else memory_per_rank(comm), on_device)


def pitch_on_device(rows: int) -> int:
    """Return the distance of two columns of a matrix in device memory, in numbers."""
    return -(-max(rows, 1) // _ALIGNED) * _ALIGNED


def padding(rows: int) -> int:
    """Return by how much columns of float32 on a host lie further apart: an odd number of whole cache lines."""
    lines = -(-rows // 16)
    return (lines + 1 - lines % 2) * 16 - rows


def hpl_bytes(n: int, nb: int, p: int, q: int) -> int:
    """Return the bytes of a host: its part of the matrix, two panels, rows that change places."""
    rows, columns = Axis(n, nb, p, 0).count(), Axis(n + 1, nb, q, 0).count()
    return 8 * ((rows + 16) * columns + 2 * nb * (rows + nb + 1) + 3 * nb * columns)


def mxp_bytes(n: int, nb: int, p: int, q: int) -> int:
    """Return the bytes of a host: the factors, two pairs of panels, a block, and vectors of all unknowns."""
    rows, columns = Axis(n, nb, p, 0).count(), Axis(n, nb, q, 0).count()
    panels = 2 * nb * (rows * (q > 1) + columns * (p > 1))
    return 4 * (columns * (rows + padding(rows)) + panels + nb * nb) + 8 * n * (2 * MXP_BASIS + 16)


def hpl_device_parts(n: int, nb: int, p: int, q: int) -> dict[str, float]:
    """Return the bytes that a process of HPL needs on its GPU at most, by what they are for."""
    rows, columns = Axis(n, nb, p, 0).count(), Axis(n + 1, nb, q, 0).count()
    copies = 1 if p == 1 else 2 + MESSAGES  # rows of U before the solve; after it, and an exchange
    numbers = {
        "matrix": pitch_on_device(rows) * columns,
        "panels": 2 * nb * (rows + nb + 1 + BLOCK + LISTS),
        "rows of U": copies * nb * columns,
        "vectors": 4 * (rows + columns) + nb,
    }
    return {name: 8.0 * count for name, count in numbers.items()}


def mxp_device_parts(n: int, nb: int, p: int, q: int, storage: Storage) -> dict[str, float]:
    """Return the bytes that a process of HPL-MxP needs on its GPU at most, by what they are for."""
    rows, columns = Axis(n, nb, p, 0).count(), Axis(n, nb, q, 0).count()
    block, item = min(nb, n), 4 if storage == "float32" else 2
    panels = item * sum(panel_sizes(rows, columns, block, storage, p, q))
    tables = 8 * (columns + 2 * rows)  # of elements
    diagonal = (8 + 4) * rows  # its places and elements
    return {
        "matrix": 4.0 * pitch_on_device(rows) * columns,
        "panels": 2.0 * (panels + 4 * block * block),
        "tables": float(tables + diagonal),
        "vectors": float(8 * (rows + columns) + 4 * (rows + block)),
    }


def panel_sizes(rows: int, columns: int, nb: int, storage: Storage, p: int, q: int) -> tuple[int, int]:
    """Return the numbers of L and of U of a step that are kept beside the matrix of HPL-MxP on a GPU.

    Copies of 16 bits always are; panels in float32 are where other processes need them.
    """
    narrow = storage != "float32"
    return pitch_on_device(rows) * nb * (narrow or q > 1), pitch_on_device(nb) * columns * (narrow or p > 1)
