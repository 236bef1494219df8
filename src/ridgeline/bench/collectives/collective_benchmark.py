"""Collective operations over message sizes and numbers of ranks: the latency, and the bandwidth of all-to-all.

Calls are measured as in the OSU micro-benchmarks: every call is timed separately, with a barrier between calls. The
latency of a rank is the mean over its calls; min, mean and max are over ranks. The aggregate bandwidth of all-to-all
is the bytes that all ranks send to others over the time of the slowest rank, as in "MPI on Aurora", Sec. 3.8.1,
Fig. 4.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mpi4py import MPI

from ridgeline.bench.collectives.collective_calls import COLLECTIVES, Collective
from ridgeline.bench.collectives.collectives_options import CollectiveOptions, Placement
from ridgeline.bench.node_memory import memory_per_rank
from ridgeline.bench.result import MICROSECONDS, SIZE, Column, Plot, Result
from ridgeline.bench.shared_options import MAX_COLLECTIVE_SIZE, Repetitions, message_sizes
from ridgeline.parallel.allreduce import errors_on_all_ranks
from ridgeline.parallel.communicator import sleeping_barrier
from ridgeline.parallel.layout import Layout, find_layout
from ridgeline.runtime.console import Phases, silent
from ridgeline.runtime.errors import ConfigError

if TYPE_CHECKING:
    from ridgeline.parallel.payload import Memory

_MEMORY_SHARE = 0.5  # of a node's free memory that messages may take
_WARM_UP_SHARE = 0.1  # of the seconds for a size


def alltoall_bandwidth(ranks: int, size: int, seconds: float) -> float:
    """Return the B/s that all ranks together send to others in an all-to-all with messages of `size` bytes."""
    return ranks * (ranks - 1) * size / seconds


def network_bandwidth(ranks_on_nodes: Sequence[int], size: int, seconds: float) -> float:
    """Return the B/s of an all-to-all that cross from one node to another. The nodes have these numbers of ranks."""
    ranks = sum(ranks_on_nodes)
    return sum(n * (ranks - n) for n in ranks_on_nodes) * size / seconds


def sweep_of(ranks: int) -> list[int]:
    """Return the numbers of ranks of a sweep: 2, 4, 8 ... and all."""
    return sorted({2**k for k in range(1, ranks.bit_length())} | {ranks})


def choose_ranks(layout: Layout, count: int, placement: Placement) -> list[int]:
    """Return `count` ranks in order: "packed" fills node after node, "spread" takes one from each node in turn."""
    places = zip(layout.node_of_rank, layout.local_rank)
    order = [
        ((node, local) if placement == "packed" else (local, node), rank)
        for rank, (node, local) in enumerate(places)
    ]
    return sorted(rank for _, rank in sorted(order)[:count])


def measure_collective(
    comm: MPI.Comm, options: CollectiveOptions, memory: Memory = "host", progress: Phases | None = None
) -> Result:
    """Measure one collective operation. Collective over comm; the rows are complete on rank 0.

    Every size is verified before and after the timed calls. Raises ConfigError for options out of range, and
    VerificationError on all ranks for wrong data.
    """
    operation, in_place, seconds = options.operation, options.in_place, options.seconds
    kind = COLLECTIVES[operation]
    counts = _counts(comm.size, operation, options.sweep, options.among)
    if in_place and not kind.has_in_place:
        raise ConfigError(f"--in-place cannot be used with {operation}, which MPI does not offer in place.")
    sizes = _sizes(kind, options.sizes)
    repetitions = Repetitions("collective", options.iterations, options.warm_up)
    layout = find_layout(comm, options.ranks_per_node)
    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    formula = "latency = t of one call, each timed separately with a barrier between calls"
    if operation == "alltoall":
        formula += "; all MB/s = ranks x (ranks - 1) x size / t of the slowest rank"
    progress = progress or silent()
    for count in counts:
        fitting = _sizes_that_fit(comm, kind, count, sizes, in_place)
        if len(fitting) < len(sizes):
            notes.append(
                f"Messages above {fitting[-1]} B among {count} ranks are left out, because they do not fit into half "
                "of the free memory."
            )
        chosen = choose_ranks(layout, count, options.placement)
        group = comm.Split(0 if comm.rank in chosen else MPI.UNDEFINED, comm.rank)
        if group != MPI.COMM_NULL:
            on_nodes = list(Counter(layout.node_of_rank[rank] for rank in chosen).values())
            calls = kind(group, fitting[-1], in_place, memory)
            progress.begin(f"sizes on {count} ranks,", now=False)
            for done, size in enumerate(fitting):
                progress.update(done, len(fitting))
                row = _describe(operation, on_nodes, size) | _measure_size(calls, size, repetitions, seconds)
                if operation == "alltoall":
                    row["bandwidth"] = alltoall_bandwidth(count, size, row["most"])
                    row["network_bandwidth"] = network_bandwidth(on_nodes, size, row["most"])
                rows.append(row)
            del calls
            group.Free()
        # The ranks that do not measure sleep until the others have finished.
        sleeping_barrier(comm)
    return Result(
        benchmark=operation,
        pattern=kind.pattern + ", in place" * in_place,
        formula=formula,
        statistic="mean over the iterations of a rank; min, mean and max over ranks",
        ranks=comm.size,
        columns=_columns(operation, layout.n_nodes),
        rows=rows,
        nodes=layout.n_nodes,
        verified=operation != "barrier",
        settings={
            "sizes": sizes,
            "iterations": options.iterations,
            "warm_up": options.warm_up,
            "seconds": seconds,
            "in_place": in_place,
            "subsets": counts,
            "placement": options.placement,
            "ranks_per_node": layout.ranks_per_node(),
            "memory": memory,
        },
        notes=notes,
        plot=_plot(operation),
    )


def _counts(ranks: int, operation: str, sweep: bool, among: Sequence[int]) -> list[int]:
    if ranks < 2:
        raise ConfigError(f"{operation} requires at least 2 ranks. Start them with -n 2.")
    counts = sorted(set(among) | set(sweep_of(ranks) if sweep else ())) or [ranks]
    for count in counts:
        if not 2 <= count <= ranks:
            raise ConfigError(
                f"--among {count}: {operation} requires 2 ranks or more, and the job has {ranks} ranks."
            )
    return counts


def _sizes(kind: type[Collective], sizes: tuple[int, int] | None) -> list[int]:
    if kind.blocks(2) == (0, 0):
        if sizes is not None:
            raise ConfigError(f"--sizes cannot be used with {kind.name}, which sends no data.")
        return [0]
    smallest, largest = sizes or (kind.multiple, MAX_COLLECTIVE_SIZE)
    all_sizes = message_sizes(smallest, largest)
    for size in all_sizes:
        if size % kind.multiple:
            raise ConfigError(
                f"--sizes {size}: the sizes of {kind.name} must be multiples of {kind.multiple} B, the bytes of a "
                "number."
            )
    return all_sizes


def _sizes_that_fit(
    comm: MPI.Comm, kind: type[Collective], count: int, sizes: list[int], in_place: bool
) -> list[int]:
    """Return the sizes whose buffers fit into the memory of every node. Collective."""
    limit = _MEMORY_SHARE * memory_per_rank(comm)
    fitting = [size for size in sizes if kind.bytes_per_rank(count, size, in_place) <= limit]
    if not fitting:
        raise ConfigError(
            f"{kind.name} of {sizes[0]} B among {count} ranks requires more than half of a node's free memory. "
            "Use smaller --sizes."
        )
    return fitting


def _once(calls: Collective, size: int) -> float:
    """Do the operation once, and return its seconds."""
    function, arguments = calls.call(size)
    calls.comm.Barrier()
    if calls.receive.staged:
        return _timed_staged(calls, size, 1)
    return _timed(calls.comm.Barrier, function, arguments, 1)


def _timed(barrier: Any, function: Any, arguments: tuple[Any, ...], iterations: int) -> float:
    """Return the mean seconds of a call on this rank."""
    now = time.perf_counter
    total = 0.0
    for _ in range(iterations):
        start = now()
        function(*arguments)
        total += now() - start
        barrier()
    return total / max(iterations, 1)


def _timed_staged(calls: Collective, size: int, iterations: int) -> float:
    """Return the mean seconds of a call, including the copies from and to the GPU."""
    function, arguments = calls.call(size)
    now, barrier = time.perf_counter, calls.comm.Barrier
    stage_out, stage_in = calls.stage_out, calls.stage_in
    total = 0.0
    for _ in range(iterations):
        start = now()
        stage_out(size)
        function(*arguments)
        stage_in(size)
        total += now() - start
        barrier()
    return total / max(iterations, 1)


def bounded(iterations: int, warm_up: int, seconds: float, one_call: float) -> tuple[int, int]:
    """Return iterations and warm-up that take about `seconds` at most if a call takes one_call; at least (1, 0)."""
    fit = seconds / one_call if one_call > 0 else float(iterations)
    return max(1, int(min(iterations, fit))), int(min(warm_up, _WARM_UP_SHARE * fit))


def _measure_size(
    calls: Collective, size: int, repetitions: Repetitions, seconds: float | None
) -> dict[str, Any]:
    """Verify, warm up, time and verify messages of one size. Collective over calls.comm."""
    comm = calls.comm
    iterations, warm_up = repetitions.of(size)
    calls.prepare(size, 0)
    one_call = _once(calls, size)
    with errors_on_all_ranks(comm):
        calls.verify(size, 0)
    if seconds is not None:
        iterations, warm_up = bounded(iterations, warm_up, seconds, comm.allreduce(one_call, MPI.MAX))
    if calls.in_place:
        calls.calm(size)
    else:
        calls.prepare(size, 1)
    function, arguments = calls.call(size)
    comm.Barrier()
    if calls.receive.staged:
        _timed_staged(calls, size, warm_up)
        mine = _timed_staged(calls, size, iterations)
    else:
        _timed(comm.Barrier, function, arguments, warm_up)
        mine = _timed(comm.Barrier, function, arguments, iterations)
    # Many calls in place have mixed the data.
    if calls.in_place:
        calls.prepare(size, 1)
        _once(calls, size)
    with errors_on_all_ranks(comm):
        calls.verify(size, 1)
    all_ranks = comm.allgather(mine)
    return {
        "iterations": iterations,
        "seconds": sum(all_ranks) / comm.size,
        "least": min(all_ranks),
        "most": max(all_ranks),
        "slowest_rank": all_ranks.index(max(all_ranks)),
    }


def _describe(operation: str, on_nodes: Sequence[int], size: int) -> dict[str, Any]:
    per_node = f"{min(on_nodes)}" if len(set(on_nodes)) == 1 else f"{min(on_nodes)} to {max(on_nodes)}"
    facts = {"ranks": sum(on_nodes), "nodes": len(on_nodes), "ranks_per_node": per_node}
    return facts if operation == "barrier" else facts | {"size": size}


def _columns(operation: str, n_nodes: int) -> list[Column]:
    columns = [Column("ranks", "ranks"), Column("ranks_per_node", "per node")]
    if operation != "barrier":
        columns.append(SIZE)
    columns += [
        replace(MICROSECONDS, head="mean us"),
        replace(MICROSECONDS, key="least", head="min us"),
        replace(MICROSECONDS, key="most", head="max us"),
    ]
    if operation == "alltoall":
        columns.append(Column("bandwidth", "all MB/s", 1e6))
        if n_nodes > 1:
            columns.append(Column("network_bandwidth", "network MB/s", 1e6))
    return columns


def _plot(operation: str) -> Plot:
    if operation == "barrier":
        return Plot("ranks", ("seconds", "least", "most"), x_label="ranks", y_label="us", y_scale=1e-6)
    if operation == "alltoall":
        label = "GB/s of all ranks together"
        return Plot(
            "size", ("bandwidth",), ("ranks",), x_label="message size in B", y_label=label, y_scale=1e9
        )
    return Plot("size", ("seconds",), ("ranks",), x_label="message size in B", y_label="us", y_scale=1e-6)
