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

import numpy as np
from mpi4py import MPI

from ridgeline.bench.collectives.collective_calls import COLLECTIVES, Collective
from ridgeline.bench.collectives.collectives_options import CollectiveOptions
from ridgeline.bench.iteration_figures import (
    ITERATION_COLUMNS,
    buffer_note,
    iteration_figures,
    python_call_note,
    python_call_seconds,
)
from ridgeline.bench.language.loops import compute
from ridgeline.bench.node_memory import memory_per_rank
from ridgeline.bench.result import MICROSECONDS, SIZE, Column, Plot, Result
from ridgeline.bench.shared_options import MAX_COLLECTIVE_SIZE, Repetitions, message_sizes
from ridgeline.bench.sweep_points import choose_ranks, sweep_points
from ridgeline.parallel.allreduce import errors_on_all_ranks
from ridgeline.parallel.communicator import sleeping_barrier
from ridgeline.parallel.layout import Layout, find_layout
from ridgeline.parallel.payload import MessageForm
from ridgeline.runtime.console import Phases, silent
from ridgeline.runtime.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray

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


def measure_collective(
    comm: MPI.Comm, options: CollectiveOptions, memory: Memory = "host", progress: Phases | None = None
) -> Result:
    """Measure one collective operation. Collective over comm; the rows are complete on rank 0.

    Every size is verified before and after the timed calls. Raises ConfigError for options out of range, and
    VerificationError on all ranks for wrong data.
    """
    kind = COLLECTIVES[options.operation]
    form = MessageForm(memory, options.pages, options.datatype)
    layout = find_layout(comm, options.ranks_per_node)
    groups = _groups(layout, options)
    _check(kind, options, memory)
    sizes = _sizes(kind, options.sizes, form)
    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    huge: list[float] = []
    progress = progress or silent()
    for chosen in groups:
        count = len(chosen)
        fitting = _sizes_that_fit(comm, kind, count, sizes, options.in_place, form)
        if len(fitting) < len(sizes):
            notes.append(
                f"Messages above {fitting[-1]} B among {count} ranks are left out, because they do not fit into half "
                "of the free memory."
            )
        group = comm.Split(0 if comm.rank in chosen else MPI.UNDEFINED, comm.rank)
        if group != MPI.COMM_NULL:
            on_nodes = list(Counter(layout.node_of_rank[rank] for rank in chosen).values())
            calls = kind(group, fitting[-1], options.in_place, form)
            progress.begin(f"sizes on {count} ranks,", now=False)
            for done, size in enumerate(fitting):
                progress.update(done, len(fitting))
                row = _describe(options.operation, on_nodes, size) | _measure_size(calls, size, options)
                if options.operation == "alltoall":
                    row["bandwidth"] = alltoall_bandwidth(count, size, row["most"])
                    row["network_bandwidth"] = network_bandwidth(on_nodes, size, row["most"])
                rows.append(row)
            share = calls.receive.huge_pages()
            huge += [] if share is None else [share]
            calls.free()
            del calls
            group.Free()
        # The ranks that do not measure sleep until the others have finished.
        sleeping_barrier(comm)
    return _result(comm, layout, options, form, sizes, groups, rows, notes, min(huge, default=None))


def _result(
    comm: MPI.Comm,
    layout: Layout,
    options: CollectiveOptions,
    form: MessageForm,
    sizes: list[int],
    groups: list[list[int]],
    rows: list[dict[str, Any]],
    notes: list[str],
    huge: float | None,
) -> Result:
    """Return the result, with what the times include as notes. Collective."""
    operation, kind = options.operation, COLLECTIVES[options.operation]
    call_seconds = comm.bcast(python_call_seconds(form.buffer(8).message(0)))
    notes = [*notes, python_call_note(call_seconds)]
    if kind.blocks(2) != (0, 0):
        notes.append(buffer_note(options.pages, huge, options.datatype))
    formula = "latency = t of one call, each timed separately with a barrier between calls"
    if options.overlap:
        formula = (
            "mean = t of starting and completing a call; overall = t of starting, computing for about that mean, and "
            "completing; hidden = 1 - (overall - compute) / mean, 0 at least; MPI is not called while computing"
        )
    if operation == "alltoall":
        formula += "; all MB/s = ranks x (ranks - 1) x size / t of the slowest rank"
    statistic = "mean over the iterations of a rank; min, mean and max over ranks"
    if options.percentiles:
        statistic += "; fastest, percentiles and slowest over iterations, each of its slowest rank"
    return Result(
        benchmark=operation,
        pattern=kind.pattern + ", in place" * options.in_place + ", non-blocking" * options.overlap,
        formula=formula,
        statistic=statistic,
        ranks=comm.size,
        columns=_columns(options, layout.n_nodes),
        rows=rows,
        nodes=layout.n_nodes,
        verified=operation != "barrier",
        settings={
            "sizes": sizes,
            "iterations": options.iterations,
            "warm_up": options.warm_up,
            "seconds": options.seconds,
            "in_place": options.in_place,
            "overlap": options.overlap,
            "subsets": [len(chosen) for chosen in groups],
            "placement": options.placement,
            "ranks_per_node": layout.ranks_per_node(),
            "call_seconds": call_seconds,
            **form.settings(huge),
        },
        notes=notes,
        plot=_plot(operation, options.sweep),
    )


def _groups(layout: Layout, options: CollectiveOptions) -> list[list[int]]:
    """Return the ranks of each point: all ranks, unless numbers are named. Raises ConfigError."""
    ranks, operation = len(layout.node_of_rank), options.operation
    if ranks < 2:
        raise ConfigError(f"{operation} requires at least 2 ranks. Start them with -n 2.")
    for count in options.among:
        if not 2 <= count <= ranks:
            raise ConfigError(
                f"--among {count}: {operation} requires 2 ranks or more, and the job has {ranks} ranks."
            )
    if options.sweep:
        if options.among:
            raise ConfigError("--among cannot be used with --sweep. Name --nodes and --per-node instead.")
        return [list(point.ranks) for point in sweep_points(layout, options)]
    return [choose_ranks(layout, count, options.placement) for count in sorted(set(options.among)) or [ranks]]


def _check(kind: type[Collective], options: CollectiveOptions, memory: Memory) -> None:
    if options.in_place and not kind.has_in_place:
        raise ConfigError(
            f"--in-place cannot be used with {options.operation}, which MPI does not offer in place."
        )
    if options.overlap and memory == "cuda-staged":
        raise ConfigError(
            "--overlap with --device cuda requires an MPI library that accepts GPU memory, because copies through "
            "host memory would be timed too. Use --device cpu."
        )


def _sizes(kind: type[Collective], sizes: tuple[int, int] | None, form: MessageForm) -> list[int]:
    if kind.blocks(2) == (0, 0):
        if sizes is not None:
            raise ConfigError(f"--sizes cannot be used with {kind.name}, which sends no data.")
        return [0]
    multiple = max(kind.multiple, form.multiple)
    return message_sizes(*(sizes or (multiple, MAX_COLLECTIVE_SIZE)), multiple)


def _sizes_that_fit(
    comm: MPI.Comm, kind: type[Collective], count: int, sizes: list[int], in_place: bool, form: MessageForm
) -> list[int]:
    """Return the sizes whose buffers fit into the memory of every node. Collective."""
    limit = _MEMORY_SHARE * memory_per_rank(comm)
    fitting = [size for size in sizes if form.spread * kind.bytes_per_rank(count, size, in_place) <= limit]
    if not fitting:
        raise ConfigError(
            f"{kind.name} of {sizes[0]} B among {count} ranks requires more than half of a node's free memory. "
            "Use smaller --sizes."
        )
    return fitting


def _once(calls: Collective, size: int, overlap: bool = False) -> float:
    """Do the operation once, and return its seconds."""
    calls.comm.Barrier()
    if overlap:
        return float(_timed_begun(calls, size, 1, 0)[0, 0])
    return float(_timed(calls, size, 1)[0])


def _timed(calls: Collective, size: int, iterations: int) -> NDArray[np.float64]:
    """Return the seconds of each call on this rank. The clock is read outside of what is stored."""
    if calls.receive.staged:
        return _timed_staged(calls, size, iterations)
    (function, arguments), barrier, now = calls.call(size), calls.comm.Barrier, time.perf_counter
    seconds = np.zeros(iterations)
    for i in range(iterations):
        start = now()
        function(*arguments)
        seconds[i] = now() - start
        barrier()
    return seconds


def _timed_staged(calls: Collective, size: int, iterations: int) -> NDArray[np.float64]:
    """Return the seconds of each call on this rank, including the copies from and to the GPU."""
    (function, arguments), barrier, now = calls.call(size), calls.comm.Barrier, time.perf_counter
    stage_out, stage_in = calls.stage_out, calls.stage_in
    seconds = np.zeros(iterations)
    for i in range(iterations):
        start = now()
        stage_out(size)
        function(*arguments)
        stage_in(size)
        seconds[i] = now() - start
        barrier()
    return seconds


def _timed_begun(calls: Collective, size: int, iterations: int, flops: int) -> NDArray[np.float64]:
    """Return the seconds of each non-blocking call and of the computation in it on this rank, [iterations, 2]."""
    (begin, arguments), barrier, now = calls.begin(size), calls.comm.Barrier, time.perf_counter
    seconds = np.zeros((iterations, 2))
    for i in range(iterations):
        start = now()
        request = begin(*arguments)
        begun = now()
        compute(1.0, flops)
        computed = now()
        request.Wait()
        seconds[i] = now() - start, computed - begun
        barrier()
    return seconds


def hidden_share(alone: float, overall: float, computing: float) -> float:
    """Return the share of a non-blocking operation that computation hides, 0 to 1, as OSU's overlap.

    alone: the seconds of the operation; overall: with `computing` seconds of computation between start and end.
    """
    return min(1.0, max(0.0, 1.0 - (overall - computing) / alone))


def _overlap(calls: Collective, size: int, iterations: int, alone: float) -> dict[str, float]:
    """Return the figures of the operation beside a computation that takes as long. Collective over calls.comm."""
    comm = calls.comm
    flops = 1 << 20
    compute(1.0, 2)
    start = time.perf_counter()
    compute(1.0, flops)
    rate = flops / (time.perf_counter() - start)
    both = _timed_begun(calls, size, iterations, int(alone * rate)).mean(axis=0)
    figures = np.array([alone, *both])
    comm.Allreduce(MPI.IN_PLACE, figures)
    mean, overall, computing = (figures / comm.size).tolist()
    hidden = hidden_share(mean, overall, computing)
    return {"overall": overall, "compute": computing, "hidden": hidden}


def bounded(iterations: int, warm_up: int, seconds: float, one_call: float) -> tuple[int, int]:
    """Return iterations and warm-up that take about `seconds` at most if a call takes one_call; at least (1, 0)."""
    fit = seconds / one_call if one_call > 0 else float(iterations)
    return max(1, int(min(iterations, fit))), int(min(warm_up, _WARM_UP_SHARE * fit))


def _measure_size(calls: Collective, size: int, options: CollectiveOptions) -> dict[str, Any]:
    """Verify, warm up, time and verify messages of one size. Collective over calls.comm."""
    comm, seconds, overlap = calls.comm, options.seconds, options.overlap
    iterations, warm_up = Repetitions("collective", options.iterations, options.warm_up).of(size)
    calls.prepare(size, 0)
    one_call = _once(calls, size, overlap)
    with errors_on_all_ranks(comm):
        calls.verify(size, 0)
    if seconds is not None:
        iterations, warm_up = bounded(iterations, warm_up, seconds, comm.allreduce(one_call, MPI.MAX))
    if calls.in_place:
        calls.calm(size)
    else:
        calls.prepare(size, 1)

    def run(count: int) -> NDArray[np.float64]:
        return _timed_begun(calls, size, count, 0)[:, 0].copy() if overlap else _timed(calls, size, count)

    comm.Barrier()
    run(warm_up)
    single = run(iterations)
    mine = float(single.mean())
    beside = _overlap(calls, size, iterations, mine) if overlap else {}
    # Many calls in place have mixed the data.
    if calls.in_place:
        calls.prepare(size, 1)
        _once(calls, size, overlap)
    with errors_on_all_ranks(comm):
        calls.verify(size, 1)
    all_ranks = comm.allgather(mine)
    row = {
        "iterations": iterations,
        "seconds": sum(all_ranks) / comm.size,
        "least": min(all_ranks),
        "most": max(all_ranks),
        "slowest_rank": all_ranks.index(max(all_ranks)),
        **beside,
    }
    if options.percentiles:
        slowest = np.zeros_like(single)
        comm.Allreduce(single, slowest, MPI.MAX)
        row |= iteration_figures([slowest])
    return row


def _describe(operation: str, on_nodes: Sequence[int], size: int) -> dict[str, Any]:
    per_node = f"{min(on_nodes)}" if len(set(on_nodes)) == 1 else f"{min(on_nodes)} to {max(on_nodes)}"
    facts = {"ranks": sum(on_nodes), "nodes": len(on_nodes), "ranks_per_node": per_node}
    return facts if operation == "barrier" else facts | {"size": size}


def _columns(options: CollectiveOptions, n_nodes: int) -> list[Column]:
    operation = options.operation
    columns = [Column("nodes", "nodes")] if options.sweep else [Column("ranks", "ranks")]
    columns.append(Column("ranks_per_node", "per node"))
    if operation != "barrier":
        columns.append(SIZE)
    columns += [
        replace(MICROSECONDS, head="mean us"),
        replace(MICROSECONDS, key="least", head="min us"),
        replace(MICROSECONDS, key="most", head="max us"),
    ]
    if options.overlap:
        columns += [
            replace(MICROSECONDS, key="overall", head="overall us"),
            replace(MICROSECONDS, key="compute", head="compute us"),
            Column("hidden", "hidden %", 0.01, ".1f"),
        ]
    if options.percentiles:
        columns += ITERATION_COLUMNS
    if operation == "alltoall":
        columns.append(Column("bandwidth", "all MB/s", 1e6))
        if n_nodes > 1:
            columns.append(Column("network_bandwidth", "network MB/s", 1e6))
    return columns


def _plot(operation: str, sweep: bool) -> Plot:
    by: tuple[str, ...] = ("nodes", "ranks_per_node") if sweep else ("ranks",)
    if operation == "barrier":
        by = ("ranks_per_node",) if sweep else ()
        return Plot("ranks", ("seconds", "least", "most"), by, x_label="ranks", y_label="us", y_scale=1e-6)
    if operation == "alltoall":
        label = "GB/s of all ranks together"
        return Plot("size", ("bandwidth",), by, x_label="message size in B", y_label=label, y_scale=1e9)
    return Plot("size", ("seconds",), by, x_label="message size in B", y_label="us", y_scale=1e-6)
