"""Acceptance: a health check of every rank before a large spectral-element run, with the worst and the best rank.

It has six figures, as the paper's Tables 2 to 4. All ranks measure each of them at the same time, so that a core
that shares memory or network is judged as it will work:

- tensor kernels, s = 1: GFLOP/s of the reference gradient of one element again and again, in cache (6 n operations a
  point, generated matrix products, elements/tensor.py); float64
- tensor kernels, s large: GB/s of the same on s elements that do not fit into cache, 32 bytes a point (read u, write
  three derivatives). The number s is 768 as in the paper, or more where the last-level cache requires it
- STREAM triad in GB/s, ordinary stores, 24 bytes an element as STREAM counts
- MPI Allreduce of one double in us, mean of many calls in a row
- gather-scatter (sum) of one field in us, elements of this order in a brick over all ranks, mean of many calls
- HPL in GFLOP/s of a rank: each node solves its own system, and its rate is divided by its ranks

Rates are the best of several repeats, that of HPL of one run; times are means of many calls, the best of several such
means. `judge` names the nodes with a rank far below the median, whose core, memory channel or processor is slow.

Source: Hadri et al. (NekBox on Cray XC40), Sec. 3.3, Tables 2 to 4.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from mpi4py import MPI
from numba import float64, int64, types

from ridgeline.bench.elements.elements_options import ACCEPTANCE, AcceptanceOptions
from ridgeline.bench.elements.nekbone import brick
from ridgeline.bench.hpl.hpl_options import HplOptions
from ridgeline.bench.hpl.hpl_run import measure_hpl
from ridgeline.bench.node_memory import require_memory
from ridgeline.bench.result import Column, Plot, Result
from ridgeline.config.machine_file import MachineFile
from ridgeline.elements.gather_scatter import GatherScatter
from ridgeline.elements.mesh import BoxMesh, ElementGrid
from ridgeline.elements.quadrature import gll_derivative
from ridgeline.elements.tensor import GENERATED, along_x, along_y, along_z
from ridgeline.io.machine_file import read_named_machine
from ridgeline.io.output_files import write_text
from ridgeline.jit.kernel import kernel
from ridgeline.limits.stream import StreamArrays, compile_stream, last_level_caches
from ridgeline.parallel.communicator import compile_on_nodes, node_communicator
from ridgeline.parallel.layout import Layout, find_layout, place_on_node
from ridgeline.runtime.console import Phases, silent
from ridgeline.runtime.errors import VerificationError
from ridgeline.runtime.machine import usable_cores
from ridgeline.runtime.units import counted

PAPER_ELEMENTS = 768  # elements of a rank out of cache
_CACHES = 2  # u and its derivatives fill the last-level caches of a node at least this many times
_UNKNOWN_CACHE = 64 * 2**20  # bytes of a cache whose size is not known
_REPEATS = 5
_IN_CACHE_POINTS = 2**22  # points of a timed call in cache
_CALLS = 200  # calls of a communication in a timed mean

COLUMNS = (
    Column("name", "Data per rank"),
    Column("unit", "Unit"),
    *(Column(key, key.capitalize(), form=".1f", scale_key="scale") for key in ("min", "max", "average")),
    Column("worst_rank", "Worst rank"),
    Column("worst_node", "Worst node"),
)
_HPL, _TRIAD, _ALLREDUCE = "HPL on each node, per rank", "STREAM triad", "MPI Allreduce (1 double)"


@dataclass(frozen=True)
class HealthCheck:
    """One figure on every rank: name, values by rank in SI units, and whether more is better.

    unit, scale: the printed unit, and what values are divided by for it.
    """

    name: str
    unit: str
    scale: float
    values: list[float]
    more_is_better: bool

    @property
    def worst_rank(self) -> int:
        """The rank with the worst value."""
        return int(np.argmin(self.values) if self.more_is_better else np.argmax(self.values))

    def row(self) -> dict[str, Any]:
        """Return the row of the table: min, max, average and the worst rank."""
        values = np.array(self.values)
        return {
            "name": self.name,
            "unit": f"[{self.unit}]",
            "scale": self.scale,
            "min": float(values.min()),
            "max": float(values.max()),
            "average": float(values.mean()),
            "worst_rank": self.worst_rank,
        }


def elements_out_of_cache(n: int, cache_bytes: int, ranks_per_node: int) -> int:
    """Return s: 768, or as many elements per rank as the ranks of a node need to fill its caches twice."""
    per_element = 4 * 8 * n**3
    return max(PAPER_ELEMENTS, -(-_CACHES * cache_bytes // (ranks_per_node * per_element)))


def measure_acceptance(comm: MPI.Comm, options: AcceptanceOptions, progress: Phases | None = None) -> Result:
    """Measure all figures on all ranks and judge the nodes. Collective, the same result everywhere.

    Raises ConfigError for too little memory, or a machine file that cannot be read.
    """
    n = options.points
    machine = None if options.machine is None else read_named_machine(options.machine)
    large, cache_bytes, per_node = _sizes(comm, n)
    progress = progress or silent()
    progress.begin("tensor kernels")
    in_cache, out_of_cache = _tensor_rates(comm, n, large)
    progress.begin("memory and messages")
    triad = comm.allgather(_triad(comm, 4 * cache_bytes // per_node))
    shared = comm.allgather(_gather_scatter(comm, n, options.elements))

    mine, total = np.ones(1), np.zeros(1)

    def allreduces() -> None:
        for _ in range(_CALLS):
            comm.Allreduce(mine, total)

    allreduce = comm.allgather(_best(comm, allreduces) / _CALLS)
    checks = [
        HealthCheck("Tensor kernels, s = 1", "GFLOP/s", 1e9, comm.allgather(in_cache), True),
        HealthCheck(f"Tensor kernels, s = {large}", "GB/s", 1e9, comm.allgather(out_of_cache), True),
        HealthCheck(_TRIAD, "GB/s", 1e9, triad, True),
        HealthCheck(_ALLREDUCE, "us", 1e-6, allreduce, False),
        HealthCheck("Gather-scatter", "us", 1e-6, shared, False),
    ]
    if options.hpl:
        progress.begin(f"HPL, N = {options.hpl}")
        checks.append(HealthCheck(_HPL, "GFLOP/s", 1e9, comm.allgather(_hpl(comm, options.hpl)), True))
    layout = find_layout(comm)
    return _result(layout, options, large, checks, machine)


def _hpl(comm: MPI.Comm, n: int) -> float:
    """Return the FLOP/s of HPL on this node, divided by its ranks. Collective; every node solves its own system."""
    with node_communicator(comm) as node:
        result = measure_hpl(node, HplOptions(n=str(n), dgemm=False), silent())
        if result.failures:
            raise VerificationError(" ".join(result.failures))
        rate: float = result.extra["solves"][0]["flops_per_second"]
        return rate / node.size


def judge(
    checks: Sequence[HealthCheck], layout: Layout, least: float, expected: Mapping[str, float]
) -> dict[str, list[str]]:
    """Return the reasons to leave a node out, by its name, in the order of the nodes.

    A rate of a rank below `least` times the median of all ranks, or times what is expected of a rank, by figure.
    Times are not judged, because the slowest rank decides on that of all.
    """
    reasons: dict[str, list[str]] = {}
    for check in checks:
        if not check.more_is_better:
            continue
        references = {"the median": float(np.median(check.values))}
        if check.name in expected:
            references["the machine file's figure"] = expected[check.name]
        nodes = np.array(layout.node_of_rank)
        for node, host in enumerate(layout.hosts):
            slowest = float(np.array(check.values)[nodes == node].min())
            for words, reference in references.items():
                if slowest < least * reference:
                    share = f"{check.name}: {slowest / reference:.2f} of {words}"
                    reasons.setdefault(host, []).append(share)
    return {host: reasons[host] for host in layout.hosts if host in reasons}


def _expected(machine: MachineFile | None, ranks_per_node: int) -> dict[str, float]:
    """Return what a rank should reach by the machine file, by figure: its share of the node's STREAM."""
    if machine is None or machine.node.memory_bandwidth is None:
        return {}
    return {_TRIAD: machine.node.memory_bandwidth.value / ranks_per_node}


def _machine_notes(
    machine: MachineFile | None, checks: Sequence[HealthCheck], ranks_per_node: int
) -> list[str]:
    """Return what the machine file says beside figures that blame no node."""
    if machine is None:
        return []
    notes = []
    values = {check.name: check.values for check in checks}
    if machine.network.allreduce is not None:
        ratio = float(np.mean(values[_ALLREDUCE])) / machine.network.allreduce.value
        notes.append(f"An allreduce takes {ratio:.2f} times what the machine file says.")
    if machine.node.peak is not None and _HPL in values:
        share = float(np.mean(values[_HPL])) * ranks_per_node / machine.node.peak.value
        notes.append(f"HPL reaches {100 * share:.1f} % of the peak of a node in the machine file.")
    return notes or ["The machine file says nothing of STREAM, allreduces or the peak of a node."] * (
        not _expected(machine, ranks_per_node)
    )


def write_leave_out(result: Result, options: AcceptanceOptions) -> list[str]:
    """Write the names of the nodes to leave out; return the line that says where."""
    if options.leave_out is None:
        return []
    names = list(result.extra["leave_out"])
    write_text(options.leave_out, "".join(f"{name}\n" for name in names), "--leave-out")
    return [f"{options.leave_out}: {counted(len(names), 'node')} to leave out"]


def _result(
    layout: Layout,
    options: AcceptanceOptions,
    large: int,
    checks: list[HealthCheck],
    machine: MachineFile | None,
) -> Result:
    """Return the figures as the paper's Tables 2 to 4 have them, with the worst rank and its node."""
    per_node = max(Counter(layout.node_of_rank).values())
    leave_out = judge(checks, layout, options.least, _expected(machine, per_node))
    notes = [f"Leave out {host}: {'; '.join(why)}." for host, why in leave_out.items()]
    if not leave_out:
        notes = [f"No node has a rank below {options.least:g} of what is expected."]
    return Result(
        benchmark=ACCEPTANCE.name,
        pattern=f"health check with nx1 = {options.points} in float64 on all ranks at the same time",
        formula="tensor kernels count 6 nx1 operations or 32 B per point, and triad counts 24 B per element; the "
        f"gather-scatter has {options.elements} elements per rank"
        + f"; HPL solves {options.hpl} unknowns on each node"
        * (options.hpl > 0),
        statistic="a rate is the best of several repeats (HPL: one run), a time the best of several means over many "
        "calls",
        ranks=len(layout.node_of_rank),
        nodes=layout.n_nodes,
        columns=COLUMNS,
        rows=[
            check.row() | {"worst_node": layout.hosts[layout.node_of_rank[check.worst_rank]]}
            for check in checks
        ],
        verified=False,
        settings={
            "nx1": options.points,
            "large": large,
            "elements": options.elements,
            "hpl": options.hpl,
            "least": options.least,
            "machine": options.machine,
        },
        extra={
            "by_rank": {check.name: check.values for check in checks},
            "nodes": [layout.hosts[node] for node in layout.node_of_rank],
            "leave_out": leave_out,
            "samples": {check.name: [v / np.mean(check.values) for v in check.values] for check in checks},
        },
        notes=notes + _machine_notes(machine, checks, per_node),
        plot=Plot(kind="boxes", y_label="value of a rank / mean of all ranks", log_y=False),
    )


def _sizes(comm: MPI.Comm, n: int) -> tuple[int, int, int]:
    """Return s, the bytes of a node's caches and the ranks of a node, the largest of all nodes. Checks the memory."""
    per_node = comm.allreduce(place_on_node(comm).ranks, MPI.MAX)
    mine = sum(last_level_caches(usable_cores()).values()) or _UNKNOWN_CACHE
    cache_bytes = comm.allreduce(mine, MPI.MAX)
    large = elements_out_of_cache(n, cache_bytes, per_node)
    # Fewer points need less while the paper's number of elements decides, not the size of the caches.
    advice = "Use a smaller --nx1" if large == PAPER_ELEMENTS else "Stop the other programs on the node"
    require_memory(comm, large * 4 * 8 * n**3 + 12 * cache_bytes // per_node, "the check requires", advice)
    return large, cache_bytes, per_node


def _best(comm: MPI.Comm, action: Callable[[], object]) -> float:
    """Return the shortest seconds of several calls on this rank, made by all ranks at the same time. Collective."""
    action()
    best = float("inf")
    for _ in range(_REPEATS):
        comm.Barrier()
        start = time.perf_counter()
        action()
        best = min(best, time.perf_counter() - start)
    return best


def _tensor_rates(comm: MPI.Comm, n: int, large: int) -> tuple[float, float]:
    """Return the FLOP/s of tensor kernels in cache, and their B/s out of cache, on this rank. Collective."""
    derivative = np.ascontiguousarray(gll_derivative(n))
    transposed = np.ascontiguousarray(derivative.T)
    u, out = np.ones((1, n, n, n)), np.zeros((1, 3, n, n, n))

    probe = compile_on_nodes(comm, lambda: make_gradient_probe(n))
    repeats = max(1, _IN_CACHE_POINTS // n**3)
    seconds = _best(comm, lambda: probe(u, derivative, transposed, repeats, out))
    in_cache = 6.0 * n * n**3 * repeats / seconds
    u, out = np.ones((large, n, n, n)), np.zeros((large, 3, n, n, n))
    seconds = _best(comm, lambda: probe(u, derivative, transposed, 1, out))
    return in_cache, (u.nbytes + out.nbytes) / seconds


def _triad(comm: MPI.Comm, n_bytes: int) -> float:
    """Return the B/s of STREAM triad on this rank, with arrays that are freed on return. Collective."""
    compile_on_nodes(comm, compile_stream)
    arrays = StreamArrays(n_bytes, 1)
    seconds = _best(comm, lambda: arrays.run("triad"))
    return arrays.bytes_moved("triad") / seconds


def _gather_scatter(comm: MPI.Comm, n: int, elements: int) -> float:
    """Return the seconds of a gather-scatter of one field on this rank. Collective."""
    mesh = BoxMesh.box(brick(elements * comm.size), (1.0, 1.0, 1.0))
    gather_scatter = GatherScatter(comm, ElementGrid(mesh, n - 1, comm.size, comm.rank).ids, max_fields=1)
    u = np.zeros(gather_scatter.shape)

    def calls() -> None:
        for _ in range(_CALLS // 10):
            gather_scatter.sum(u)

    seconds = _best(comm, calls) / (_CALLS // 10)
    gather_scatter.free()
    return seconds


@cache
def make_gradient_probe(n: int) -> Any:
    """Return the compiled kernel(u, derivative, transposed, repeats, out): reference derivatives of every element.

    u [s, n, n, n] -> out [s, 3, n, n, n] (d/dr, d/ds, d/dt), float64, computed `repeats` times for all elements; the
    derivative matrix and its transpose are [n, n]. There are 6 n operations per point; 1 word is read, 3 are written.
    """
    rows, points = n * n, n**3
    derivative = types.Array(float64, 2, "C", readonly=True)

    @kernel((float64[:, :, :, ::1], derivative, derivative, int64, float64[:, :, :, :, ::1]), nogil=True)
    def probe(u, derivative, transposed, repeats, out):
        u, out = u.reshape(-1), out.reshape(-1)
        for _ in range(repeats):
            for e in range(u.size // points):
                here, there = e * points, 3 * e * points
                along_x(GENERATED, n, n, rows, False, out, there, transposed, u, here)
                along_y(GENERATED, n, n, n, n, False, out, there + points, derivative, u, here)
                along_z(GENERATED, n, n, rows, False, out, there + 2 * points, derivative, u, here)

    return probe
