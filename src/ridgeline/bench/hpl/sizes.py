"""The order, block, process grid and memory of a dense system, chosen and checked before anything is allocated.

Sizes that are not given are chosen. The order N follows from a share of the free memory, the block NB from N. The
grid P x Q is the nearest to a square with P <= Q. Notes state every choice. The time is predicted from a short
measurement of matrix products.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from mpi4py import MPI

from ridgeline.bench.hpl.block_cyclic import Axis, check_grid
from ridgeline.bench.hpl.hpl_options import SystemOptions, parse_number
from ridgeline.bench.hpl.panel import BLOCK
from ridgeline.bench.hpl.record import MXP_BASIS, Storage
from ridgeline.bench.node_memory import memory_per_rank
from ridgeline.bench.shared_options import ComputeDevice
from ridgeline.parallel.devices import device_memory_per_rank, select_device
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.units import number

BytesOf = Callable[[int, int, int, int], int]  # the most bytes that a rank needs, from n, nb, p, q
_ALIGNED = 32  # numbers: columns in device memory begin at multiples of 256 bytes of float64
LISTS = 4  # lists of rows that are exchanged, for each panel
MESSAGES = 4  # buffers of an exchange of rows: sent, gathered, scattered, received
FEWEST = 16  # fewest unknowns that `--order auto` chooses


class FreeMemory(NamedTuple):
    """The free bytes of every rank, on its host or its device, and the function that counts those of a system."""

    free: float
    bytes_of: BytesOf


class Sizes(NamedTuple):
    """Order, block and process grid, and notes on what was chosen."""

    n: int
    nb: int
    p: int
    q: int
    notes: tuple[str, ...] = ()


def nearest_square(ranks: int) -> tuple[int, int]:
    """Return (P, Q) with P Q = ranks, P <= Q, P as large as possible."""
    p = next(p for p in range(math.isqrt(ranks), 0, -1) if ranks % p == 0)
    return p, ranks // p


def choose_grid(ranks: int, p: int, q: int) -> tuple[int, int]:
    """Return the process grid: as given, completed where one direction is 0, or the nearest to a square.

    Raises DecompositionError unless P x Q is the number of ranks.
    """
    if not p and not q:
        return nearest_square(ranks)
    rows = p or max(ranks // q, 1)
    columns = q or max(ranks // rows, 1)
    check_grid(ranks, rows, columns)
    return rows, columns


def largest_order(bytes_of: BytesOf, limit: float, nb: int, p: int, q: int) -> int:
    """Return the largest N, a multiple of NB where it is more, of which a rank needs at most `limit` bytes; or 0."""
    low, high = 0, 1
    while bytes_of(high, nb, p, q) <= limit:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if bytes_of(middle, nb, p, q) <= limit else (low, middle)
    return low if low < nb else low - low % nb


def choose_sizes(
    comm: MPI.Comm, options: SystemOptions, memory: FreeMemory, blocks: Callable[[int], int]
) -> Sizes:
    """Return sizes that fit. Collective over comm, the same on all ranks.

    blocks: returns NB for N. Raises ConfigError for an N that does not fit, with one that does, and
    DecompositionError for a grid that does not have the ranks of comm.
    """
    n, nb = parse_number(options.n, "--order"), parse_number(options.nb, "--nb")
    p, q, share = options.p, options.q, options.memory_share
    grid = choose_grid(comm.size, p, q)
    free, bytes_of = memory
    notes = []
    if n is None:
        # The block of a large system serves for the estimate, because panels take little of the memory.
        n = largest_order(bytes_of, share * free, nb or blocks(2**31), *grid)
        if n < FEWEST:
            raise ConfigError(
                f"--memory-share {share:g}: this fraction of the free memory, {number(free, 'B')} per rank, is too "
                "small for any system. Free some memory, or use a larger --memory-share."
            )
        notes.append(f"N = {n} fills {share:g} of the free memory, which is {number(free, 'B')} per rank.")
    if nb is None:
        nb = blocks(n)
        notes.append(f"NB = {nb} was chosen for N = {n}.")
    if not p and not q:
        notes.append(f"The grid {grid[0]} x {grid[1]} was chosen, which is nearest to a square with P <= Q.")
    require_fit(n, nb, grid, memory)
    return Sizes(n, nb, *grid, tuple(notes))


def require_fit(n: int, nb: int, grid: tuple[int, int], memory: FreeMemory) -> None:
    """Raise ConfigError if a rank would need more than its share of free memory."""
    free, bytes_of = memory
    needed = bytes_of(n, nb, *grid)
    if needed > free:
        fits = largest_order(bytes_of, 0.95 * free, nb, *grid)
        advice = f"Use N = {fits}, which fits, or more nodes" if fits else "No size fits. Use more nodes"
        raise ConfigError(
            f"N = {n} with NB = {nb} on {grid[0]} x {grid[1]} ranks requires {number(needed, 'B')} per rank, but "
            f"only {number(free, 'B')} per rank are free. {advice}."
        )


def require_time(work: float, rate: float, limit: float, notes: list[str]) -> float:
    """Return the least seconds of all systems, and add a note. Raises ConfigError if they exceed the limit.

    work: operations; rate: FLOP/s of matrix products of all ranks; limit: seconds, 0 for none.
    """
    seconds = work / rate
    notes.append(
        f"The run takes at least {number(seconds, 's')}, because all ranks together do matrix products at "
        f"{number(rate, 'FLOP/s')}."
    )
    if limit and seconds > limit:
        fits = int((limit * rate * 1.5) ** (1 / 3))
        raise ConfigError(
            f"--time-limit {limit:g}: the run takes at least {seconds:.0f} s, because all ranks together do matrix "
            f"products at {number(rate, 'FLOP/s')}. Use N = {fits}, which takes about {limit:g} s, or a longer limit."
        )
    return seconds


def hpl_block(n: int) -> int:
    """Return NB of HPL for an order: at least a dozen blocks, 16 to 256 columns wide."""
    return min(256, max(16, n // 12 // 16 * 16))


def mxp_block(n: int, storage: Storage = "float32", on_device: bool = False) -> int:
    """Return NB of HPL-MxP for an order: wide blocks give the fastest products, narrow ones more steps.

    On GPUs a product has 2 NB operations on 8 bytes, so that blocks of large systems are wider there.
    """
    if on_device and n >= 16384:
        return 512 if storage == "float32" else 1024
    return 256 if n >= 4096 else 128 if n >= 1024 else 64


def free_memory(comm: MPI.Comm, device: ComputeDevice, on_host: BytesOf, on_device: BytesOf) -> FreeMemory:
    """Return the free memory of ranks, on hosts or GPUs. Collective over comm, the same on all ranks.

    on_host, on_device: count the bytes of a system there. Raises DeviceError if a rank has no GPU.
    """
    if device == "cpu":
        return FreeMemory(memory_per_rank(comm), on_host)
    free = device_memory_per_rank(comm, select_device(comm))
    # A simulated device has no limit, and its memory is that of the host.
    return FreeMemory(free if math.isfinite(free) else memory_per_rank(comm), on_device)


def pitch_on_device(rows: int) -> int:
    """Return the distance between two columns of a matrix in device memory, in numbers."""
    return -(-max(rows, 1) // _ALIGNED) * _ALIGNED


def padding(rows: int) -> int:
    """Return the padding of columns of float32 on a host, whose length is then an odd number of cache lines."""
    lines = -(-rows // 16)
    return (lines + 1 - lines % 2) * 16 - rows


def hpl_bytes(n: int, nb: int, p: int, q: int) -> int:
    """Return the bytes on a host: its part of the matrix, two panels, rows that are exchanged."""
    rows, columns = Axis(n, nb, p, 0).count(), Axis(n + 1, nb, q, 0).count()
    return 8 * ((rows + 16) * columns + 2 * nb * (rows + nb + 1) + 3 * nb * columns)


def mxp_bytes(n: int, nb: int, p: int, q: int) -> int:
    """Return the bytes on a host: the factors, two pairs of panels, a block, and vectors of all unknowns."""
    rows, columns = Axis(n, nb, p, 0).count(), Axis(n, nb, q, 0).count()
    panels = 2 * nb * (rows * (q > 1) + columns * (p > 1))
    return 4 * (columns * (rows + padding(rows)) + panels + nb * nb) + 8 * n * (2 * MXP_BASIS + 16)


def hpl_device_parts(n: int, nb: int, p: int, q: int) -> dict[str, float]:
    """Return the most bytes that a process of HPL needs on its GPU, by purpose."""
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
    """Return the most bytes that a process of HPL-MxP needs on its GPU, by purpose."""
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
    """Return how many numbers of L and of U of a step are stored beside the matrix of HPL-MxP on a GPU.

    Copies of 16 bits always are; panels in float32 are stored where other processes need them.
    """
    narrow = storage != "float32"
    return pitch_on_device(rows) * nb * (narrow or q > 1), pitch_on_device(nb) * columns * (narrow or p > 1)
