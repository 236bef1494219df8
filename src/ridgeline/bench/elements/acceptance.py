"""Acceptance: a health check of every rank before a large spectral-element run, worst and best rank beside the mean.

Five figures, as in the paper's Tables 2 to 4, each measured by all ranks at the same time (a core that shares memory
or network with others is judged as it will work):

- tensor kernels, s = 1: GFLOP/s of the reference gradient of one element again and again, in cache (6 n operations a
  point, generated matrix products, elements/tensor.py); float64
- tensor kernels, s large: GB/s of the same on s elements that do not fit into cache, 32 bytes a point (read u, write
  three derivatives); s = 768 as in the paper, or more where the last-level cache asks for it
- STREAM triad in GB/s, ordinary stores, 24 bytes an element as STREAM counts
- MPI Allreduce of one double in us, mean of many calls in a row
- gather-scatter (sum) of one field in us, elements of this order in a brick over all ranks, mean of many calls

Rates are the best of several repeats, times the mean of many calls, the best of several such means. A rank far below
the mean is a core, a memory channel or a node to leave out.

Source: Hadri et al. (NekBox on Cray XC40), Sec. 3.3, Tables 2 to 4.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from mpi4py import MPI
from rich.table import Table

from ridgeline.bench.elements.nekbone import brick
from ridgeline.bench.elements.tensor_probe import make_gradient_probe
from ridgeline.bench.memory.stream import StreamArrays, compile_stream, last_level_caches
from ridgeline.bench.node_memory import require_memory
from ridgeline.elements.gather_scatter import GatherScatter
from ridgeline.elements.mesh import ElementGrid, ElementMesh
from ridgeline.elements.quadrature import gll_derivative
from ridgeline.parallel.communicator import in_turn_per_node
from ridgeline.parallel.layout import place_on_node
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.progress import Phases, silent

PAPER_ELEMENTS = 768  # out of cache
_CACHES = 2  # times the last-level caches of a node, that u and its derivatives fill at the least
_UNKNOWN_CACHE = 64 * 2**20  # bytes
_LEAST_N, _MOST_N = 2, 32
_REPEATS = 5
_IN_CACHE_POINTS = 2**22  # worked on per timed call
_CALLS = 200  # of a communication per timed mean


@dataclass(frozen=True)
class Check:
    """One figure on every rank: name, unit, values by rank, and whether more is better."""

    name: str
    unit: str
    values: list[float]
    more_is_better: bool

    @property
    def worst_rank(self) -> int:
        """The rank to look at first."""
        return int(np.argmin(self.values) if self.more_is_better else np.argmax(self.values))

    def to_dict(self) -> dict[str, Any]:
        """Return fields, min, max, average and the worst rank for JSON."""
        values = np.array(self.values)
        derived = {"min": values.min(), "max": values.max(), "average": values.mean()}
        return (
            asdict(self)
            | {key: float(value) for key, value in derived.items()}
            | {"worst_rank": self.worst_rank}
        )


@dataclass(frozen=True)
class Acceptance:
    """All checks, and what was measured: points per direction, elements per rank out of cache and shared."""

    n: int
    ranks: int
    large: int
    shared_elements: int
    checks: list[Check]

    def to_dict(self) -> dict[str, Any]:
        """Return everything for JSON."""
        return asdict(self) | {"checks": [check.to_dict() for check in self.checks]}


def elements_out_of_cache(n: int, cache_bytes: int, ranks_per_node: int) -> int:
    """Return s: 768, or as many elements per rank as make a node's ranks fill its caches twice."""
    per_element = 4 * 8 * n**3
    return max(PAPER_ELEMENTS, -(-_CACHES * cache_bytes // (ranks_per_node * per_element)))


def measure_acceptance(
    comm: MPI.Comm, n: int = 16, shared_elements: int = 64, progress: Phases | None = None
) -> Acceptance:
    """Measure all five figures on all ranks. Collective, the same result everywhere; some seconds.

    n: points per direction. shared_elements: per rank, of the gather-scatter.
    Raises ConfigError for arguments out of range or too little memory.
    """
    if not _LEAST_N <= n <= _MOST_N:
        raise ConfigError(f"{n} points per direction: from {_LEAST_N} to {_MOST_N} are possible")
    if shared_elements < 1:
        raise ConfigError(f"{shared_elements} elements per rank: at least 1 is needed")
    large, cache_bytes, per_node = _sizes(comm, n)
    progress = progress or silent()
    progress.begin("tensor kernels")
    one, three = _tensor_rates(comm, n, large)
    progress.begin("memory and messages")
    checks = [
        Check("Tensor kernels, s = 1", "GFLOP/s", comm.allgather(one), True),
        Check(f"Tensor kernels, s = {large}", "GB/s", comm.allgather(three), True),
        Check("STREAM triad", "GB/s", comm.allgather(_triad(comm, 4 * cache_bytes // per_node)), True),
        Check("MPI Allreduce (1 double)", "us", comm.allgather(_allreduce(comm)), False),
        Check("Gather-scatter", "us", comm.allgather(_gather_scatter(comm, n, shared_elements)), False),
    ]
    return Acceptance(n, comm.size, large, shared_elements, checks)


def _sizes(comm: MPI.Comm, n: int) -> tuple[int, int, int]:
    """Return s, bytes of a node's caches, ranks of a node: the largest of all nodes. Checks the memory."""
    per_node = comm.allreduce(place_on_node(comm).ranks, MPI.MAX)
    cpus = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    mine = sum(last_level_caches(cpus).values()) or _UNKNOWN_CACHE
    cache_bytes = comm.allreduce(mine, MPI.MAX)
    large = elements_out_of_cache(n, cache_bytes, per_node)
    # Fewer points need less while the paper's number of elements decides, not the size of the caches.
    advice = "use a smaller --nx1" if large == PAPER_ELEMENTS else "end what else uses the node's memory"
    require_memory(comm, large * 4 * 8 * n**3 + 12 * cache_bytes // per_node, "the check needs", advice)
    return large, cache_bytes, per_node


def _best(comm: MPI.Comm, action: Callable[[], object]) -> float:
    """Return the shortest seconds of some calls on this rank, all ranks at the same time."""
    action()
    best = float("inf")
    for _ in range(_REPEATS):
        comm.Barrier()
        start = time.perf_counter()
        action()
        best = min(best, time.perf_counter() - start)
    return best


def _tensor_rates(comm: MPI.Comm, n: int, large: int) -> tuple[float, float]:
    derivative = np.ascontiguousarray(gll_derivative(n))
    transposed = np.ascontiguousarray(derivative.T)
    u, out = np.ones((1, n, n, n)), np.zeros((1, 3, n, n, n))

    probe = in_turn_per_node(comm, lambda: make_gradient_probe(n))
    repeats = max(1, _IN_CACHE_POINTS // n**3)
    seconds = _best(comm, lambda: probe(u, derivative, transposed, repeats, out))
    in_cache = 6.0 * n * n**3 * repeats / seconds / 1e9
    u, out = np.ones((large, n, n, n)), np.zeros((large, 3, n, n, n))
    seconds = _best(comm, lambda: probe(u, derivative, transposed, 1, out))
    return in_cache, (u.nbytes + out.nbytes) / seconds / 1e9


def _triad(comm: MPI.Comm, n_bytes: int) -> float:
    in_turn_per_node(comm, compile_stream)
    arrays = StreamArrays(n_bytes, 1)
    seconds = _best(comm, lambda: arrays.run("triad"))
    return arrays.bytes_moved("triad") / seconds / 1e9


def _allreduce(comm: MPI.Comm) -> float:
    mine, total = np.ones(1), np.zeros(1)

    def calls() -> None:
        for _ in range(_CALLS):
            comm.Allreduce(mine, total)

    return _best(comm, calls) / _CALLS * 1e6


def _gather_scatter(comm: MPI.Comm, n: int, elements: int) -> float:
    mesh = ElementMesh.box(brick(elements * comm.size), (1.0, 1.0, 1.0))
    gather_scatter = GatherScatter(comm, ElementGrid(mesh, n - 1, comm.size, comm.rank).ids, max_fields=1)
    u = np.zeros(gather_scatter.shape)

    def calls() -> None:
        for _ in range(_CALLS // 10):
            gather_scatter.sum(u)

    seconds = _best(comm, calls) / (_CALLS // 10)
    gather_scatter.free()
    return seconds * 1e6


def make_table(result: Acceptance) -> Table:
    """Return the figures as the paper's Tables 2 to 4 have them, and the rank to look at first."""
    table = Table(
        box=None,
        pad_edge=False,
        title_justify="left",
        caption_justify="left",
        title=f"Health check of {result.ranks} rank{'s' * (result.ranks > 1)}, nx1 = {result.n}, float64",
        caption=f"Gather-scatter: {result.shared_elements} elements per rank. All ranks at the same time.",
    )
    table.add_column("Data per rank", no_wrap=True)
    table.add_column("Unit", no_wrap=True)
    for head in ("Min", "Max", "Average", "Worst rank"):
        table.add_column(head, justify="right", no_wrap=True)
    for check in result.checks:
        facts = check.to_dict()
        figures = (f"{facts[key]:.1f}" for key in ("min", "max", "average"))
        table.add_row(check.name, f"[{check.unit}]", *figures, str(check.worst_rank))
    return table
