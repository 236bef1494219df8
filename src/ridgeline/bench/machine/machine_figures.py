"""The figures of a node and of the network between nodes that a machine file holds.

Every figure is measured by the benchmark of its name: peak, STREAM, caches, latency, bandwidth, all-to-all. Nothing
is measured in another way, and nothing is taken from data sheets.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from mpi4py import MPI

from ridgeline.bench.collectives.collective_benchmark import measure_collective
from ridgeline.bench.collectives.collectives_options import CollectiveOptions
from ridgeline.bench.machine.machine_options import MachineFileOptions
from ridgeline.bench.memory.limit_tables import measure_peak
from ridgeline.bench.memory.memory_options import PeakOptions
from ridgeline.bench.pairs.pairs_options import ManyPairsRateOptions, OneWayOptions
from ridgeline.bench.pairs.point_to_point import (
    measure_bandwidth,
    measure_latency,
    measure_multi_bandwidth,
)
from ridgeline.bench.result import Column, Plot, Result
from ridgeline.bench.shared_options import MAX_COLLECTIVE_SIZE
from ridgeline.bench.sweep_points import doubling
from ridgeline.config.machine_file import Quantity
from ridgeline.io.machine_file import write_machine_file
from ridgeline.io.output_files import check_writable
from ridgeline.limits.stream import measure_caches, measure_stream
from ridgeline.parallel.allreduce import broadcast_decision, errors_on_all_ranks
from ridgeline.parallel.communicator import node_communicator, sleeping_barrier
from ridgeline.parallel.layout import Layout, busiest_share, find_layout
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.machine import describe_machine, usable_cores
from ridgeline.runtime.node_load import read_load
from ridgeline.runtime.node_topology import read_sysfs
from ridgeline.runtime.units import number, scale_of

if TYPE_CHECKING:
    from ridgeline.runtime.console import Phases

_PEAK_SECONDS = 0.05  # of a piece of work
_STREAM_REPEATS = 5
_LATENCY_ROUNDS, _BANDWIDTH_ROUNDS = 500, 10
_COLUMNS = (
    Column("figure", "figure"),
    Column("at", "at"),
    Column("value", "value", scale_key="scale", form=".4g"),
    Column("shown_in", "unit"),
)


@dataclass
class MachineFigures:
    """The measured figures: the rows of the table and the document of the machine file."""

    # How they were measured, which the source of every figure says.
    how: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    document: dict[str, Any] = field(default_factory=dict)

    def add_row(self, figure: str, at: str, value: float, unit: str, **further: Any) -> None:
        """Add a row to the table."""
        scale, shown = scale_of(value, unit)
        self.rows.append(
            {
                "figure": figure,
                "at": at,
                "value": float(value),
                "unit": unit,
                "scale": scale,
                "shown_in": shown,
            }
            | further
        )

    def keep(self, table: str, key: str, value: float, source: str) -> None:
        """Add a figure to a table of the machine file."""
        self.document.setdefault(table, {})[key] = self.quantity(value, source)

    def quantity(self, value: float, source: str) -> list[Any]:
        """Return a figure of the machine file as JSON holds it."""
        return [float(value), f"{self.how}: {source}"]


def measure_machine(comm: MPI.Comm, options: MachineFileOptions, progress: Phases) -> Result:
    """Measure the first node alone, then all nodes together. Collective over comm; the rows are complete on rank 0.

    Raises, on all ranks, OutputError for a file that cannot be written, ConfigError if ranks x threads are not the
    cores of every node, and what the benchmarks raise.
    """
    with errors_on_all_ranks(comm):
        if comm.rank == 0:
            check_writable(options.machine_file, "--machine-file")
    layout, before = find_layout(comm, options.ranks_per_node), read_load()
    if options.ranks_per_node is None:
        _check_whole_node(comm, options.threads)
    machine = describe_machine()
    figures = MachineFigures(
        f"ridgeline bench machine-file on {layout.ranks_per_node()} ranks x {options.threads} threads"
    )
    name = options.name or layout.hosts[0]
    absent = [
        "The fractions of the bandwidth that codes reach, and the rates of transforms and of storage, were not "
        "measured."
    ]
    if layout.n_nodes == 1:
        absent.append("The network was not measured, because the job had one node.")
    figures.document["machine"] = {"name": name, "absent": absent}
    figures.keep("machine", "nodes", layout.n_nodes, "the nodes of the job")
    cores = len(layout.ranks_on(0)) * options.threads
    figures.add_row("cores", "per node", cores, "")
    figures.keep("node", "ranks", max(1, cores // options.threads), "the ranks of the measurement")
    figures.add_row("memory", "per node", machine.memory, "B")
    figures.keep(
        "node",
        "memory",
        machine.memory,
        "reported by the operating system, or the limit of its control groups",
    )
    progress.begin("peak")
    _measure_peaks(comm, options, layout, figures)
    first = comm.Split(0 if layout.node_of_rank[comm.rank] == 0 else MPI.UNDEFINED, comm.rank)
    if first != MPI.COMM_NULL:
        _measure_node(first, options, figures, progress)
        first.Free()
    sleeping_barrier(comm)
    figures = comm.bcast(figures)
    if layout.n_nodes > 1:
        progress.begin("network")
        _measure_network(comm, options, layout, figures)
    figures.keep(
        "machine",
        "others_share",
        busiest_share(comm, before),
        "the processors that other processes used on the busiest node during the measurement",
    )
    return Result(
        benchmark="machine-file",
        pattern="one node and the network between nodes, each value measured by the benchmark of its name",
        formula="as in those benchmarks; efficiency: rate / rate of the link between two ranks, or / injection rate "
        "of a node",
        statistic="the best of the repeats for computation and memory, the mean of the iterations for messages",
        ranks=comm.size,
        nodes=layout.n_nodes,
        columns=_COLUMNS,
        rows=figures.rows,
        settings={"threads": options.threads, "repeats": options.repeats, "sizes": list(options.sizes)},
        extra={"document": figures.document},
        plot=Plot("size", ("rate",), ("figure",), x_label="message size in B", y_label="GB/s", y_scale=1e9),
    )


def _check_whole_node(comm: MPI.Comm, threads: int) -> None:
    """Raise ConfigError on all ranks unless every node's ranks x threads are its cores. Collective."""
    with node_communicator(comm) as node:
        cpus = set().union(*node.allgather(usable_cores()))
        own_node = (
            node.size * threads,
            broadcast_decision(node, lambda: read_sysfs().only(cpus).n_cores),
            len(cpus),
        )
    for host, used, cores, most in comm.allgather((describe_machine().host, *own_node)):
        if not cores <= used <= most:
            raise ConfigError(
                f"a machine file describes whole nodes, but {used // threads} ranks x {threads} threads are not the "
                f"{cores} cores of {host}. Start {cores // threads or 1} ranks per node, as with "
                f"-n {cores // threads or 1} on one node."
            )


def _measure_peaks(
    comm: MPI.Comm, options: MachineFileOptions, layout: Layout, figures: MachineFigures
) -> None:
    """Measure the peak rates, and the spread of equal pieces of work over ranks and repeats. Collective over comm."""
    result = measure_peak(
        comm, PeakOptions(threads=options.threads, seconds=_PEAK_SECONDS, repeats=options.repeats)
    )
    for row in result.rows:
        figures.add_row(f"peak, {row['dtype']}", "per node", row["total"] / layout.n_nodes, "FLOP/s")
    source = f"multiply-adds in float64, best of {options.repeats} repeats"
    figures.keep("node", "peak", result.rows[0]["total"] / layout.n_nodes, source)
    spread = half_width(1.0 / np.array(result.extra["by_repeat"]["float64"]))
    figures.add_row("spread of equal work", f"{comm.size} ranks x {options.repeats} repeats", spread, "")
    source = f"times of {options.repeats} equal pieces of multiply-adds on each of {comm.size} ranks"
    figures.keep("variability", "node", spread, source)


def half_width(times: np.ndarray) -> float:
    """Return half of the interval that holds the middle 80 % of the times, over their median."""
    low, middle, high = np.percentile(times, (10.0, 50.0, 90.0))
    return float((high - low) / 2 / middle)


def _measure_node(
    node: MPI.Comm, options: MachineFileOptions, figures: MachineFigures, progress: Phases
) -> None:
    """Measure the memory, caches and links of one node. Collective over its ranks."""
    for count in doubling(node.size):
        progress.begin(f"memory bandwidth, {count} of {node.size} ranks")
        part = node.Split(0 if node.rank < count else MPI.UNDEFINED, node.rank)
        if part != MPI.COMM_NULL:
            stream = measure_stream(part, options.threads, repeats=_STREAM_REPEATS)
            part.Free()
            figures.add_row(
                "memory bandwidth", f"{count} rank{'s' * (count > 1)}", stream.best, "B/s", ranks=count
            )
            figures.keep("node", "memory_bandwidth", stream.best, f"STREAM {stream.best_name}, {count} ranks")
        sleeping_barrier(node)
    caches = []
    progress.begin("caches")
    for cache in measure_caches(node, options.threads, "float64"):
        figures.add_row(f"L{cache.level} cache", number(cache.capacity, "B"), cache.rate, "B/s")
        source = f"level {cache.level}, STREAM's kernels on arrays of half its size"
        caches.append(
            {
                "capacity": figures.quantity(cache.capacity, "reported by the operating system"),
                "bandwidth": figures.quantity(cache.rate, source),
            }
        )
    if caches:
        figures.document["cache"] = caches
    if node.size > 1:
        progress.begin("links")
        _measure_links(node, options, figures)


def _measure_links(node: MPI.Comm, options: MachineFileOptions, figures: MachineFigures) -> None:
    """Measure latency and bandwidth of two ranks, and all-to-all of all. Collective over the ranks of a node."""
    latency = measure_latency(
        node, OneWayOptions(sizes=options.sizes, iterations=_LATENCY_ROUNDS, warm_up=10)
    )
    for row in latency.rows:
        figures.add_row("latency in the node", f"{row['size']} B", row["seconds"], "s", size=row["size"])
    smallest = latency.rows[0]
    figures.keep("links", "latency", smallest["seconds"], f"ping-pong of {smallest['size']} B")
    sizes = _collective_sizes(options)
    # They are those of the all-to-all, beside which the link is put: buffers of 4 MiB and more would lie in huge
    # pages, through which messages are faster.
    rates = measure_bandwidth(node, OneWayOptions(sizes=sizes, iterations=_BANDWIDTH_ROUNDS, warm_up=1))
    for row in rates.rows:
        size = row["size"]
        rate = row["bandwidth"]
        figures.add_row("bandwidth of two ranks", f"{size} B", rate, "B/s", size=size, rate=rate)
    link = rates.rows[-1]
    source = f"one rank sends to another, 64 messages of {link['size']} B in flight"
    figures.keep("links", "between_ranks", link["bandwidth"], source)
    result = measure_collective(node, _all_to_all(options))
    for row in result.rows:
        rate = row["bandwidth"] / node.size
        at = f"{row['size']} B, {node.size} ranks"
        figures.add_row("all-to-all, per rank", at, rate, "B/s", size=row["size"], rate=rate)
    share = result.rows[-1]["bandwidth"] / node.size / link["bandwidth"]
    figures.add_row("efficiency of all-to-all", f"{result.rows[-1]['size']} B", share, "")
    source = f"all-to-all of {result.rows[-1]['size']} B, rate of a rank / rate between two ranks"
    figures.keep("links", "efficiency", share, source)


def _all_to_all(options: MachineFileOptions, ranks_per_node: int | None = None) -> CollectiveOptions:
    return CollectiveOptions(
        operation="alltoall",
        sizes=_collective_sizes(options),
        seconds=options.seconds,
        ranks_per_node=ranks_per_node,
    )


def _collective_sizes(options: MachineFileOptions) -> tuple[int, int]:
    first, last = (max(1, min(size, MAX_COLLECTIVE_SIZE)) for size in options.sizes)
    return first, last


def _measure_network(
    comm: MPI.Comm, options: MachineFileOptions, layout: Layout, figures: MachineFigures
) -> None:
    """Measure latency, injection rate and all-to-all between nodes. Collective over comm."""
    smallest, largest = options.sizes
    across: dict[str, Any] = {"pairing": "node-halves", "ranks_per_node": options.ranks_per_node}
    latency = measure_latency(
        comm, OneWayOptions(sizes=(smallest, smallest), iterations=_LATENCY_ROUNDS, warm_up=10, **across)
    ).rows[0]["seconds"]
    figures.add_row("latency between nodes", f"{smallest} B", latency, "s")
    figures.keep("network", "latency", latency, f"ping-pong of {smallest} B between two nodes")
    all_pairs = ManyPairsRateOptions(
        sizes=(largest, largest), iterations=_BANDWIDTH_ROUNDS, warm_up=1, **across
    )
    rate = measure_multi_bandwidth(comm, all_pairs).rows[0]["bandwidth"] / (layout.n_nodes // 2)
    figures.add_row("injection rate", "per node", rate, "B/s")
    source = f"all ranks of a node send {largest} B to another node, {layout.n_nodes // 2} pairs of nodes"
    figures.keep("network", "injection", rate, source)
    rows = []
    for row in measure_collective(comm, _all_to_all(options, options.ranks_per_node)).rows:
        share = row["network_bandwidth"] / layout.n_nodes / rate
        at = f"{row['size']} B, {layout.n_nodes} nodes"
        figures.add_row("efficiency between nodes", at, share, "", size=row["size"])
        rows.append(
            {
                "nodes": figures.quantity(layout.n_nodes, "the nodes of the job"),
                "message": figures.quantity(row["size"], "the size of the measurement"),
                "efficiency": figures.quantity(
                    share, "all-to-all, rate at which data leave a node / its injection rate"
                ),
            }
        )
    figures.document["all_to_all"] = rows


def write_file(result: Result, options: MachineFileOptions) -> list[str]:
    """Write the machine file; return the line that says where. Raises OutputError if it cannot be written."""
    document = {
        name: [_quantities(table) for table in content] if isinstance(content, list) else _quantities(content)
        for name, content in result.extra["document"].items()
    }
    return [f"machine file: {write_machine_file(document, options.machine_file)}"]


def _quantities(table: dict[str, Any]) -> dict[str, Any]:
    """Return a table whose figures, lists of a number and its source, have become `Quantity`s."""
    return {
        key: Quantity(*value) if isinstance(value, list) and isinstance(value[0], float) else value
        for key, value in table.items()
    }
