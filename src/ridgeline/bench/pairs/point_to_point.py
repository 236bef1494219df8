"""Latency, bandwidth and message rate between pairs of ranks.

The patterns are those of the OSU micro-benchmarks 7.4 (osu_latency, osu_bw, osu_bibw, osu_multi_lat, osu_mbw_mr)
and of ALCF: "synchronous send-recv pairs, and the reported latency is an average over 16 outstanding messages in a
communication window", where several ranks share a NIC ("MPI on Aurora", Sec. 5.1, Figs. 10 and 11).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ridgeline.bench.iteration_figures import (
    ITERATION_COLUMNS,
    buffer_note,
    iteration_figures,
    python_call_note,
    python_call_seconds,
)
from ridgeline.bench.pairs.pair_matrix import measure_all_pairs
from ridgeline.bench.pairs.pairing import Pair, check_pairs, halves, neighbours, node_halves
from ridgeline.bench.pairs.pairs_options import (
    ManyPairsOptions,
    ManyPairsRateOptions,
    Method,
    OneWayOptions,
    Pairing,
    PairOptions,
    WindowOptions,
)
from ridgeline.bench.result import MICROSECONDS, SIZE, Column, Plot, Result
from ridgeline.bench.shared_options import WINDOW, Family, Repetitions, message_sizes
from ridgeline.bench.sweep_points import sweep_points
from ridgeline.limits.messages import Loop, PairTimes, bandwidth, message_rate, time_pairs
from ridgeline.parallel.layout import Layout, find_layout
from ridgeline.parallel.payload import Memory, MessageForm
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.units import counted

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.runtime.console import Phases

ALCF_WINDOW = 16  # outstanding messages (Sec. 5.1)
_PAIRINGS = {
    "halves": "rank i of the first half with rank i of the second",
    "node-halves": "ranks of the first half of the nodes with those of the same local number in the second half",
    "neighbours": "rank 0 with 1, 2 with 3 and so on",
}
_RATES = [Column("bandwidth", "MB/s", 1e6), Column("message_rate", "messages/s", 1.0, ".0f")]


def measure_latency(
    comm: MPI.Comm, options: OneWayOptions, memory: Memory = "host", progress: Phases | None = None
) -> Result:
    """Measure the latency over message sizes, or of all pairs at one size. Collective over comm.

    The method "osu" is a ping-pong (osu_latency), t / (2 iterations); "alcf" is windows of synchronous sends, t /
    (iterations x window). Rows hold the mean, the smallest and the largest over pairs, the same on all ranks.

    Raises ConfigError on all ranks for wrong options, and VerificationError if a message is damaged.
    """
    if options.all_pairs:
        return measure_all_pairs(comm, "latency", options, memory, progress)
    if options.method == "osu":
        if options.window is not None:
            raise ConfigError("--window requires --method alcf, because a ping-pong has no window.")
        return _ping_pongs(comm, "latency", options, memory)
    window = ALCF_WINDOW if options.window is None else options.window
    run = _measure(comm, options, memory, "windows", "bandwidth", window, synchronous=True)
    return run.latency_result(
        "latency (ALCF)",
        f"{window} synchronous sends (MPI_Ssend_init) in flight at once, in one direction and without a reply",
        f"latency = t / (iterations x {window})",
        window,
    )


def measure_multi_latency(comm: MPI.Comm, options: ManyPairsOptions, memory: Memory = "host") -> Result:
    """Measure the latency of all pairs at the same time over message sizes (osu_multi_lat). Collective over comm.

    Raises what `measure_latency` raises.
    """
    return _ping_pongs(comm, "multi-latency", options, memory)


def measure_bandwidth(
    comm: MPI.Comm, options: OneWayOptions, memory: Memory = "host", progress: Phases | None = None
) -> Result:
    """Measure bandwidth and message rate in one direction, over sizes or of all pairs. Collective over comm.

    The method "osu" is windows of 64 messages, each with a reply of 4 bytes (osu_bw); "alcf" is windows of 16
    synchronous sends without a reply. Raises what `measure_latency` raises.
    """
    if options.all_pairs:
        return measure_all_pairs(comm, "bandwidth", options, memory, progress)
    return _one_way(comm, "bandwidth", options, options.method, options.window, memory)


def measure_multi_bandwidth(comm: MPI.Comm, options: ManyPairsRateOptions, memory: Memory = "host") -> Result:
    """Measure aggregate bandwidth and message rate of all pairs at the same time (osu_mbw_mr). Collective over comm.

    Methods and errors are those of `measure_bandwidth`.
    """
    return _one_way(comm, "multi-bandwidth", options, options.method, options.window, memory)


def measure_bibandwidth(comm: MPI.Comm, options: WindowOptions, memory: Memory = "host") -> Result:
    """Measure bandwidth and message rate while both ranks send at the same time (osu_bibw). Collective over comm.

    Raises what `measure_latency` raises.
    """
    window = WINDOW if options.window is None else options.window
    run = _measure(comm, options, memory, "both ways", "bandwidth", window)
    return run.bandwidth_result(
        "bibandwidth",
        f"{window} messages in flight at once in each direction (MPI_Send_init, MPI_Startall)",
        window,
        2,
    )


def _ping_pongs(comm: MPI.Comm, name: str, options: PairOptions, memory: Memory) -> Result:
    run = _measure(comm, options, memory, "ping-pong", "latency", 1)
    return run.latency_result(
        name,
        "one message and its answer (MPI_Send, MPI_Recv)",
        "latency = t / (2 iterations)",
    )


def _one_way(
    comm: MPI.Comm, name: str, options: PairOptions, method: Method, window: int | None, memory: Memory
) -> Result:
    alcf = method == "alcf"
    window = (ALCF_WINDOW if alcf else WINDOW) if window is None else window
    run = _measure(comm, options, memory, "windows", "bandwidth", window, alcf)
    how = (
        "synchronous sends (MPI_Ssend_init) without a reply"
        if alcf
        else "messages (MPI_Send_init), each window with a reply of 4 B"
    )
    return run.bandwidth_result(
        f"{name} (ALCF)" if alcf else name, f"one direction, windows of {window} {how}", window, 1
    )


@dataclass(frozen=True)
class _PairPoint:
    """One point of a table: its nodes and ranks, its pairs, what they measured, and single iterations by size."""

    nodes: int
    ranks_per_node: str
    pairs: list[Pair]
    times: PairTimes
    iterations: list[dict[str, float]]


@dataclass
class _PairRun:
    """A loop at all points: how it was measured, and its times."""

    ranks: int
    layout: Layout
    options: PairOptions
    form: MessageForm
    loop: Loop
    window: int
    sizes: list[int]
    counts: list[int]
    points: list[_PairPoint]
    call_seconds: float

    def latency_result(self, name: str, pattern: str, formula: str, window: int = 0) -> Result:
        """Return the mean, smallest and largest over pairs of latencies.

        window: the messages of a window, whose seconds the times are; 0 where they are those of one message.
        """
        rows = []
        for point in self.points:
            for size, count, place, times in self._by_size(point):
                values = [seconds / (count * window) if window else seconds for seconds in times]
                row: dict[str, Any] = {**place, "size": size, "seconds": sum(values) / len(values)}
                rows.append(row | {"min_seconds": min(values), "max_seconds": max(values)})
        columns = [SIZE, MICROSECONDS]
        if self._most_pairs() > 1:
            columns = [
                SIZE,
                Column("seconds", "mean us", 1e-6),
                Column("min_seconds", "min us", 1e-6),
                Column("max_seconds", "max us", 1e-6),
            ]
        self._add_iterations(rows, max(window, 1))
        plot = Plot(
            "size",
            ("seconds",),
            self._by(),
            x_label="message size in B",
            y_label="latency in us",
            y_scale=1e-6,
        )
        return self._result(name, pattern, formula, columns, rows, plot)

    def bandwidth_result(self, name: str, pattern: str, window: int, directions: int) -> Result:
        """Return the rates of all pairs together, from the mean over pairs of the senders' seconds."""
        rows = []
        for point in self.points:
            for size, count, place, times in self._by_size(point):
                seconds = sum(times) / len(times)
                messages = count * window
                rows.append(
                    {
                        **place,
                        "size": size,
                        "bandwidth": bandwidth(size, messages, seconds, len(times), directions),
                        "message_rate": message_rate(messages, seconds, len(times), directions),
                    }
                )
        self._add_iterations(rows, 1)
        factors = "window x iterations" + " x 2" * (directions == 2) + " x pairs" * (self._most_pairs() > 1)
        plot = Plot(
            "size",
            ("bandwidth",),
            self._by(),
            x_label="message size in B",
            y_label="bandwidth in MB/s",
            y_scale=1e6,
        )
        return self._result(
            name,
            pattern,
            f"message rate = {factors} / t; bandwidth = bytes x message rate",
            [SIZE, *_RATES],
            rows,
            plot,
        )

    def _by_size(self, point: _PairPoint) -> Iterator[tuple[int, int, dict[str, Any], tuple[float, ...]]]:
        """Yield size, iterations, what tells the point apart, and the seconds of each pair."""
        place = {"nodes": point.nodes, "ranks_per_node": point.ranks_per_node, "pairs": len(point.pairs)}
        for size, count, *times in zip(self.sizes, self.counts, *point.times.seconds):
            yield size, count, place if self._by() else {}, tuple(times)

    def _add_iterations(self, rows: list[dict[str, Any]], messages: int) -> None:
        """Add the figures of single iterations to the rows, each divided by the messages that it sends."""
        if self.options.percentiles:
            found = [figures for point in self.points for figures in point.iterations]
            for row, figures in zip(rows, found, strict=True):
                row |= {key: value / messages for key, value in figures.items()}

    def _of_pairs(self) -> dict[str, Any]:
        """Return the seconds by pair and size, for those who look for a slow pair. A sweep has none."""
        if len(self.points) > 1 or self._most_pairs() < 2:
            return {}
        return {"pair_ranks": self.points[0].pairs, "pair_seconds": self.points[0].times.seconds}

    def _most_pairs(self) -> int:
        return max(len(point.pairs) for point in self.points)

    def _by(self) -> tuple[str, ...]:
        """Return the keys that tell the points of a table apart."""
        if self.options.sweep:
            return ("nodes", "ranks_per_node", "pairs")
        return ("pairs",) if len(self.points) > 1 else ()

    def _result(
        self,
        name: str,
        pattern: str,
        formula: str,
        columns: list[Column],
        rows: list[dict[str, Any]],
        plot: Plot,
    ) -> Result:
        options, every = self.options, [point.pairs for point in self.points]
        n = self._most_pairs()
        ranks = f"ranks {every[0][0][0]} and {every[0][0][1]}"
        if n > 1 or len(every) > 1:
            fewest = min(map(len, every))
            most = counted(n, "pair") if fewest == n else f"{fewest} to {n} pairs"
            ranks = f"{most} at the same time, {_PAIRINGS[options.pairing]}"
        statistic = "mean of all iterations" + (", mean over pairs" if n > 1 else "")
        if options.percentiles:
            unit = "iterations" if name.startswith(("latency", "multi-latency")) else "windows"
            statistic += f"; fastest, percentiles and slowest are over the single {unit} of all pairs"
            columns = [*columns, *ITERATION_COLUMNS]
        busy = {rank for pairs in every for pair in pairs for rank in pair}
        huge = [point.times.huge_pages for point in self.points]
        least = min((share for share in huge if share is not None), default=None)
        heads = {"nodes": "nodes", "ranks_per_node": "per node", "pairs": "pairs"}
        return Result(
            benchmark=name,
            pattern=f"{ranks}: {pattern}",
            formula=formula,
            statistic=statistic,
            ranks=self.ranks,
            nodes=self.layout.n_nodes,
            columns=[*(Column(key, heads[key]) for key in self._by()), *columns],
            rows=rows,
            left_out=[rank for rank in range(self.ranks) if rank not in busy],
            settings={
                "pairing": options.pairing,
                "pairs": every[-1][:64],
                "n_pairs": n,
                "placement": options.placement,
                "window": self.window,
                "iterations": dict(zip(map(str, self.sizes), self.counts)),
                "ranks_per_node": self.layout.ranks_per_node(),
                "call_seconds": self.call_seconds,
                **self.form.settings(least),
            },
            notes=[
                python_call_note(self.call_seconds),
                buffer_note(options.pages, least, options.datatype),
            ],
            extra=self._of_pairs(),
            plot=plot,
        )


def choose_pairs(layout: Layout, pairing: Pairing, n_pairs: int | None) -> list[Pair]:
    """Return the first n_pairs pairs of ranks, or all. Raises ConfigError if there are fewer."""
    n = len(layout.node_of_rank)
    if pairing == "node-halves" and layout.n_nodes < 2 <= n:
        raise ConfigError(
            "--pairing node-halves requires at least 2 nodes, but there is 1. Use more nodes, or --pairing halves."
        )
    if pairing == "node-halves":
        pairs = node_halves(layout.node_of_rank)
    else:
        pairs = halves(n) if pairing == "halves" else neighbours(n)
    return pairs[: check_pairs(n_pairs, len(pairs), n)]


def _measure(
    comm: MPI.Comm,
    options: PairOptions,
    memory: Memory,
    loop: Loop,
    family: Family,
    window: int,
    synchronous: bool = False,
) -> _PairRun:
    """Run a loop for every message size on all pairs of each point at the same time. Collective."""
    form = MessageForm(memory, options.pages, options.datatype)
    sizes = message_sizes(*options.sizes, form.multiple)
    repetitions = Repetitions(family, options.iterations, options.warm_up)
    layout = find_layout(comm, options.ranks_per_node)
    rounds = [(size, *repetitions.of(size)) for size in sizes]
    points = []
    for place, pairs in _points(layout, options):
        times = time_pairs(comm, pairs, rounds, form, loop, window, synchronous, options.percentiles)
        single = comm.bcast([iteration_figures(of_size) for of_size in zip(*times.samples)])
        points.append(_PairPoint(place.n_nodes, place.ranks_per_node(), pairs, times, single))
    call_seconds = comm.bcast(python_call_seconds(form.buffer(8).message(0)))
    counts = [iterations for _, iterations, _ in rounds]
    return _PairRun(comm.size, layout, options, form, loop, window, sizes, counts, points, call_seconds)


def _points(layout: Layout, options: PairOptions) -> list[tuple[Layout, list[Pair]]]:
    """Return the layout and the pairs of each point: of the whole job, or of a sweep. Raises ConfigError.

    A sweep leaves out the numbers of pairs that a point does not have.
    """
    pairing, numbers = options.pairing, sorted(set(options.pairs))
    if not options.sweep:
        wanted: list[int | None] = [*numbers] or [1 if options.ONE_PAIR else None]
        return [(layout, choose_pairs(layout, pairing, number)) for number in wanted]
    choose_pairs(layout, pairing, max(numbers, default=None))
    found = []
    for point in sweep_points(layout, options, least_nodes=2 if pairing == "node-halves" else 1):
        part = layout.part(point.ranks)
        every = [(point.ranks[a], point.ranks[b]) for a, b in choose_pairs(part, pairing, None)]
        found += [(part, every[:number]) for number in numbers or [len(every)] if number <= len(every)]
    return found
