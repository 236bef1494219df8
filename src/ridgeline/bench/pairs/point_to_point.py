"""Latency, bandwidth and message rate between pairs of ranks.

The patterns are those of the OSU micro-benchmarks 7.4 (osu_latency, osu_bw, osu_bibw, osu_multi_lat, osu_mbw_mr)
and of ALCF: "synchronous send-recv pairs, and the reported latency is an average over 16 outstanding messages in a
communication window", where several ranks share a NIC ("MPI on Aurora", Sec. 5.1, Figs. 10 and 11).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
from ridgeline.limits.messages import Loop, bandwidth, message_rate, time_pairs
from ridgeline.parallel.layout import Layout, find_layout
from ridgeline.parallel.payload import Memory
from ridgeline.runtime.errors import ConfigError

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
    each = [
        [seconds / (count * window) for seconds, count in zip(times, run.counts)] for times in run.seconds
    ]
    return run.latency_result(
        "latency (ALCF)",
        f"{window} synchronous sends (MPI_Ssend_init) in flight at once, in one direction and without a reply",
        f"latency = t / (iterations x {window})",
        each,
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
        run.seconds,
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


@dataclass
class _PairRun:
    """The seconds of a loop, [n_pairs][n_sizes]: one way of a ping-pong, or all windows; and how it was measured."""

    ranks: int
    layout: Layout
    options: PairOptions
    memory: Memory
    loop: Loop
    window: int
    pairs: list[Pair]
    sizes: list[int]
    counts: list[int]
    seconds: list[list[float]]

    def latency_result(
        self, name: str, pattern: str, formula: str, each: Sequence[Sequence[float]]
    ) -> Result:
        """Return the mean, smallest and largest over pairs of latencies in s, [n_pairs][n_sizes]."""
        rows = []
        for size, *values in zip(self.sizes, *each):
            row: dict[str, Any] = {"size": size, "seconds": sum(values) / len(values)}
            rows.append(row | {"min_seconds": min(values), "max_seconds": max(values)})
        columns = [SIZE, MICROSECONDS]
        if len(self.pairs) > 1:
            columns = [
                SIZE,
                Column("seconds", "mean us", 1e-6),
                Column("min_seconds", "min us", 1e-6),
                Column("max_seconds", "max us", 1e-6),
            ]
        plot = Plot("size", ("seconds",), x_label="message size in B", y_label="latency in us", y_scale=1e-6)
        return self._result(name, pattern, formula, columns, rows, plot)

    def bandwidth_result(self, name: str, pattern: str, window: int, directions: int) -> Result:
        """Return the rates of all pairs together, from the mean over pairs of the senders' seconds."""
        rows = []
        for size, count, *times in zip(self.sizes, self.counts, *self.seconds):
            seconds = sum(times) / len(times)
            messages = count * window
            rows.append(
                {
                    "size": size,
                    "bandwidth": bandwidth(size, messages, seconds, len(times), directions),
                    "message_rate": message_rate(messages, seconds, len(times), directions),
                }
            )
        factors = "window x iterations" + " x 2" * (directions == 2) + " x pairs" * (len(self.pairs) > 1)
        plot = Plot(
            "size", ("bandwidth",), x_label="message size in B", y_label="bandwidth in MB/s", y_scale=1e6
        )
        return self._result(
            name,
            pattern,
            f"message rate = {factors} / t; bandwidth = bytes x message rate",
            [SIZE, *_RATES],
            rows,
            plot,
        )

    def _result(
        self,
        name: str,
        pattern: str,
        formula: str,
        columns: list[Column],
        rows: list[dict[str, Any]],
        plot: Plot,
    ) -> Result:
        n = len(self.pairs)
        ranks = f"ranks {self.pairs[0][0]} and {self.pairs[0][1]}"
        if n > 1:
            ranks = f"{n} pairs at the same time, {_PAIRINGS[self.options.pairing]}"
        busy = {rank for pair in self.pairs for rank in pair}
        options = self.options
        return Result(
            benchmark=name,
            pattern=f"{ranks}: {pattern}",
            formula=formula,
            statistic="mean of all iterations" + (", mean over pairs" if n > 1 else ""),
            ranks=self.ranks,
            nodes=self.layout.n_nodes,
            columns=columns,
            rows=rows,
            left_out=[rank for rank in range(self.ranks) if rank not in busy],
            settings={
                "pairing": options.pairing,
                "pairs": self.pairs[:64],
                "n_pairs": n,
                "window": self.window,
                "iterations": dict(zip(map(str, self.sizes), self.counts)),
                "ranks_per_node": self.layout.ranks_per_node(),
                "memory": self.memory,
            },
            # For those who look for a slow pair; the seconds are by pair and size.
            extra={"pair_ranks": self.pairs, "pair_seconds": self.seconds} if n > 1 else {},
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
    """Run a loop for every message size on all pairs at the same time. Collective."""
    sizes = message_sizes(*options.sizes)
    repetitions = Repetitions(family, options.iterations, options.warm_up)
    layout = find_layout(comm, options.ranks_per_node)
    pairs = choose_pairs(layout, options.pairing, options.pairs)
    rounds = [(size, *repetitions.of(size)) for size in sizes]
    seconds = time_pairs(comm, pairs, rounds, memory, loop, window, synchronous)
    counts = [iterations for _, iterations, _ in rounds]
    return _PairRun(comm.size, layout, options, memory, loop, window, pairs, sizes, counts, seconds)
