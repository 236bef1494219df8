"""Benchmarks of pairs of ranks: latency, bandwidth and message rate, as OSU's and ALCF's micro-benchmarks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from ridgeline.bench.benchmark import Benchmark
from ridgeline.bench.shared_options import MessageOptions
from ridgeline.runtime.declared_options import OptionSpec

Pairing = Literal["halves", "node-halves", "neighbours"]
Method = Literal["osu", "alcf"]
Between = Literal["ranks", "nodes"]

_WINDOW = "Messages in flight."
_ALL = ("all_pairs", True)
_METHOD = "OSU's, or ALCF's 16 synchronous sends in flight."


@dataclass(frozen=True)
class PairOptions(MessageOptions):
    """Options of all benchmarks of pairs."""

    pairing: Annotated[
        Pairing,
        OptionSpec(
            "Who is paired: first half of ranks with the second, of nodes with the second, or 0-1, 2-3."
        ),
    ] = "halves"
    pairs: Annotated[int | None, OptionSpec("Pairs at the same time.")] = 1


@dataclass(frozen=True)
class OneWayOptions(PairOptions):
    """Options of latency and bandwidth: one pair after the other, or all pairs as a matrix."""

    method: Annotated[Method, OptionSpec(_METHOD)] = "osu"
    window: Annotated[int | None, OptionSpec(_WINDOW, otherwise="64; ALCF: 16", minimum=1)] = None
    all_pairs: Annotated[
        bool, OptionSpec("Every pair at one size, as a matrix; --plot draws a heat map.")
    ] = False
    between: Annotated[Between, OptionSpec("All pairs of these (a node's first rank).", only=_ALL)] = "ranks"
    size: Annotated[
        int | None,
        OptionSpec(
            "Of messages of all pairs.", unit="B", otherwise="8, bandwidth 1 MiB", minimum=0, only=_ALL
        ),
    ] = None
    seconds: Annotated[
        float, OptionSpec("That a pair of all pairs may take.", unit="s", minimum=0.0, only=_ALL)
    ] = 2.0
    serial: Annotated[bool, OptionSpec("Of all pairs one at a time.", only=_ALL)] = False


@dataclass(frozen=True)
class WindowOptions(PairOptions):
    """Options of bibandwidth."""

    window: Annotated[int | None, OptionSpec(_WINDOW, otherwise="64", minimum=1)] = None


@dataclass(frozen=True)
class ManyPairsOptions(PairOptions):
    """Options of multi-latency."""

    pairs: Annotated[int | None, OptionSpec("Pairs at the same time.", otherwise="all")] = None


@dataclass(frozen=True)
class ManyPairsRateOptions(ManyPairsOptions):
    """Options of multi-bandwidth."""

    method: Annotated[Method, OptionSpec(_METHOD)] = "osu"
    window: Annotated[int | None, OptionSpec(_WINDOW, otherwise="64; ALCF: 16", minimum=1)] = None


_ALL_PAIRS = "N - 1 rounds of disjoint pairs (N if odd)"

BENCHMARKS = (
    Benchmark(
        name="latency",
        short="Time a message between two ranks.",
        summary="Time a message one way between two ranks, 0 B to 4 MiB.",
        pattern="a ping-pong with MPI_Send and MPI_Recv (osu_latency).",
        formula="latency = t / (2 iterations).",
        details="--method alcf: 16 synchronous sends (MPI_Ssend_init) in flight, latency = t / (iterations x 16), "
        f"best with --pairs for several ranks on a NIC. --all-pairs: every two ranks or nodes, {_ALL_PAIRS}.",
        options=OneWayOptions,
        function="point_to_point.measure_latency",
    ),
    Benchmark(
        name="bandwidth",
        short="Measure the bandwidth in one direction.",
        summary="Measure the bandwidth of two ranks in one direction, 0 B to 4 MiB.",
        pattern="windows of 64 messages, each window answered by 4 bytes (osu_bw).",
        formula="bandwidth = bytes x window x iterations / t.",
        details="--method alcf: windows of 16 synchronous sends (MPI_Ssend_init), no answer. --all-pairs: every two "
        f"ranks or nodes, both directions, {_ALL_PAIRS}.",
        options=OneWayOptions,
        function="point_to_point.measure_bandwidth",
    ),
    Benchmark(
        name="bibandwidth",
        short="Measure the bandwidth in both directions.",
        summary="Measure the bandwidth of two ranks that both send at the same time, 0 B to 4 MiB.",
        pattern="64 messages each way in flight at once (osu_bibw).",
        formula="bandwidth = 2 x bytes x window x iterations / t.",
        options=WindowOptions,
        function="point_to_point.measure_bibandwidth",
    ),
    Benchmark(
        name="multi-latency",
        short="Time messages of many pairs at once.",
        summary="Time a message one way between pairs of ranks that all are at it together, 0 B to 4 MiB.",
        pattern="ping-pongs of all pairs with MPI_Send and MPI_Recv (osu_multi_lat).",
        formula="latency = t / (2 iterations), the mean over pairs, with the smallest and the largest.",
        options=ManyPairsOptions,
        function="point_to_point.measure_multi_latency",
    ),
    Benchmark(
        name="multi-bandwidth",
        short="Measure the bandwidth of many pairs at once.",
        summary="Measure aggregate bandwidth and message rate of pairs of ranks, 0 B to 4 MiB.",
        pattern="windows of 64 messages of every pair, each window answered by 4 bytes (osu_mbw_mr).",
        formula="bandwidth = bytes x window x iterations x pairs / t, with t the mean over senders; message rate = "
        "bandwidth / bytes.",
        details="--method alcf: windows of 16 synchronous sends (MPI_Ssend_init), no answer.",
        options=ManyPairsRateOptions,
        function="point_to_point.measure_multi_bandwidth",
    ),
)
