"""Benchmarks of pairs of ranks: latency, bandwidth and message rate, as OSU's and ALCF's micro-benchmarks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

from ridgeline.bench.benchmark import Benchmark, BenchmarkOptions
from ridgeline.bench.message_scaling import message_figures, message_scaling
from ridgeline.bench.shared_options import (
    MAX_SIZE,
    SIZES,
    WINDOW,
    Iterations,
    MessageOptions,
    PagesOption,
    RanksPerNode,
    WarmUp,
)
from ridgeline.runtime.declared_options import OptionSpec
from ridgeline.runtime.errors import ConfigError

__all__ = ["BENCHMARKS", "message_figures"]  # the figures of studies are found here

Pairing = Literal["halves", "node-halves", "neighbours"]
Method = Literal["osu", "alcf"]
Between = Literal["ranks", "nodes"]
ThreadTest = Literal["latency", "rate"]

_WINDOW = "Number of messages in flight."
_ALL = ("all_pairs", True)
# Options that a measurement of all pairs has no use for, and what to do instead.
_NOT_ALL = {
    "sizes": "All pairs are measured at one size, which --size sets.",
    "warm_up": "All pairs are warmed up by growing batches of messages. Leave the option out.",
    "pairing": "All pairs are measured. Leave the option out.",
    "pairs": "All pairs are measured. Leave the option out, or measure one pair at a time with --serial.",
    "method": "All pairs are measured as OSU does. Leave the option out.",
    "sweep": "All pairs of the whole job are measured. Leave the option out.",
    "percentiles": "A matrix has one figure for each pair. Leave the option out.",
    "pages": "All pairs are measured in the pages that NumPy asks for. Leave the option out.",
    "datatype": "All pairs are measured with bytes. Leave the option out.",
}
_PAIRS = OptionSpec(
    "Numbers of pairs that communicate at the same time, separated by commas and measured in turn.",
    minimum=1,
    commas=True,
    otherwise="1, or all with --sweep",
)
_METHOD = "Measure as OSU does, or as Argonne (ALCF) does, with 16 synchronous sends in flight."


@dataclass(frozen=True)
class PairOptions(MessageOptions):
    """Options of all benchmarks of pairs. ONE_PAIR: whether one pair is measured where no number is given."""

    ONE_PAIR: ClassVar[bool] = True

    sizes: Annotated[tuple[int, int], SIZES] = (0, MAX_SIZE)
    pairing: Annotated[
        Pairing,
        OptionSpec(
            "Pair the two halves of the ranks, the two halves of the nodes, or neighbours (0-1, 2-3, ...)."
        ),
    ] = "halves"
    pairs: Annotated[tuple[int, ...], _PAIRS] = ()


@dataclass(frozen=True)
class OneWayOptions(PairOptions):
    """Options of latency and bandwidth: one pair after the other, or all pairs as a matrix."""

    method: Annotated[Method, OptionSpec(_METHOD)] = "osu"
    window: Annotated[
        int | None, OptionSpec(_WINDOW, otherwise="64, or 16 with --method alcf", minimum=1)
    ] = None
    all_pairs: Annotated[
        bool, OptionSpec("Measure every pair at one size, as a matrix; --plot draws a heat map.")
    ] = False
    between: Annotated[
        Between,
        OptionSpec("With --all-pairs: pair all ranks, or all nodes by their first ranks.", only=_ALL),
    ] = "ranks"
    size: Annotated[
        int | None,
        OptionSpec(
            "With --all-pairs: size of a message.",
            unit="B",
            otherwise="8 B, or 1 MiB for bandwidth",
            minimum=0,
            only=_ALL,
        ),
    ] = None
    seconds: Annotated[
        float, OptionSpec("With --all-pairs: longest time of a pair.", unit="s", minimum=0.0, only=_ALL)
    ] = 2.0
    serial: Annotated[bool, OptionSpec("With --all-pairs: measure one pair at a time.", only=_ALL)] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.all_pairs:
            return
        for option, instead in _NOT_ALL.items():
            if getattr(self, option) != getattr(OneWayOptions, option):
                raise ConfigError(f"--{option.replace('_', '-')} cannot be used with --all-pairs. {instead}")


@dataclass(frozen=True)
class WindowOptions(PairOptions):
    """Options of bibandwidth."""

    window: Annotated[int | None, OptionSpec(_WINDOW, otherwise="64", minimum=1)] = None


@dataclass(frozen=True)
class ManyPairsOptions(PairOptions):
    """Options of multi-latency."""

    ONE_PAIR: ClassVar[bool] = False

    pairs: Annotated[tuple[int, ...], replace(_PAIRS, otherwise="all")] = ()


@dataclass(frozen=True)
class ManyPairsRateOptions(ManyPairsOptions):
    """Options of multi-bandwidth."""

    method: Annotated[Method, OptionSpec(_METHOD)] = "osu"
    window: Annotated[
        int | None, OptionSpec(_WINDOW, otherwise="64, or 16 with --method alcf", minimum=1)
    ] = None


@dataclass(frozen=True)
class ThreadOptions(BenchmarkOptions):
    """Options of multi-thread."""

    threads: Annotated[
        int,
        OptionSpec("Most threads of a rank; 1, 2, 4, ... are measured too.", minimum=1, maximum=4096),
    ] = 2
    tests: Annotated[tuple[ThreadTest, ...], OptionSpec("The test to run.", flags=("--test",))] = (
        "latency",
        "rate",
    )
    sizes: Annotated[tuple[int, int], SIZES] = (0, MAX_SIZE)
    iterations: Iterations = None
    warm_up: WarmUp = None
    window: Annotated[int, OptionSpec(_WINDOW, minimum=1)] = WINDOW
    pairing: Annotated[
        Pairing, OptionSpec("How the two ranks are chosen: the first pair of `bench latency --pairing`.")
    ] = "halves"
    ranks_per_node: RanksPerNode = None
    pages: PagesOption = "default"


_ALL_PAIRS = "in N - 1 rounds of disjoint pairs, or N rounds if N is odd"

BENCHMARKS = (
    Benchmark(
        name="latency",
        short="Time a message between two ranks.",
        summary="Measure the one-way time of a message between two ranks, for 0 B to 4 MiB.",
        pattern="a ping-pong with MPI_Send and MPI_Recv (osu_latency).",
        formula="latency = t / (2 iterations).",
        details="--method alcf keeps 16 synchronous sends (MPI_Ssend_init) in flight, with latency = t / (iterations "
        "x 16), and is best used with --pairs where several ranks share a network interface. --all-pairs measures "
        f"every two ranks or nodes {_ALL_PAIRS}.",
        options=OneWayOptions,
        function="point_to_point.measure_latency",
        scaling=message_scaling("pairs"),
    ),
    Benchmark(
        name="bandwidth",
        short="Measure the bandwidth in one direction.",
        summary="Measure the bandwidth between two ranks in one direction, for 0 B to 4 MiB.",
        pattern="one rank sends windows of 64 messages, and the other answers each window with 4 bytes (osu_bw).",
        formula="bandwidth = bytes x window x iterations / t.",
        details="--method alcf sends windows of 16 synchronous sends (MPI_Ssend_init) without an answer. --all-pairs "
        f"measures every two ranks or nodes in both directions, {_ALL_PAIRS}.",
        options=OneWayOptions,
        function="point_to_point.measure_bandwidth",
        scaling=message_scaling("pairs"),
    ),
    Benchmark(
        name="bibandwidth",
        short="Measure the bandwidth in both directions.",
        summary="Measure the bandwidth between two ranks that both send at the same time, for 0 B to 4 MiB.",
        pattern="64 messages are in flight in each direction at the same time (osu_bibw).",
        formula="bandwidth = 2 x bytes x window x iterations / t.",
        options=WindowOptions,
        function="point_to_point.measure_bibandwidth",
        scaling=message_scaling("pairs"),
    ),
    Benchmark(
        name="multi-latency",
        short="Time messages of many pairs at once.",
        summary="Measure the one-way time of a message while many pairs of ranks communicate, for 0 B to 4 MiB.",
        pattern="all pairs run ping-pongs with MPI_Send and MPI_Recv at the same time (osu_multi_lat).",
        formula="latency = t / (2 iterations). The mean, minimum and maximum over pairs are printed.",
        options=ManyPairsOptions,
        function="point_to_point.measure_multi_latency",
        scaling=message_scaling("pairs"),
    ),
    Benchmark(
        name="multi-bandwidth",
        short="Measure the bandwidth of many pairs at once.",
        summary="Measure the aggregate bandwidth and message rate of many pairs of ranks, for 0 B to 4 MiB.",
        pattern="one rank of every pair sends windows of 64 messages, and the other answers each window with 4 bytes "
        "(osu_mbw_mr).",
        formula="bandwidth = bytes x window x iterations x pairs / t, with t the mean over senders; message rate = "
        "bandwidth / bytes.",
        details="--method alcf sends windows of 16 synchronous sends (MPI_Ssend_init) without an answer.",
        options=ManyPairsRateOptions,
        function="point_to_point.measure_multi_bandwidth",
        scaling=message_scaling("pairs"),
    ),
    Benchmark(
        name="multi-thread",
        short="Time messages of many threads at once.",
        summary="Measure the latency and the message rate of several threads of a rank that send at once, for "
        "0 B to 4 MiB.",
        pattern="thread i of one rank exchanges messages with thread i of another: ping-pongs with MPI_Send and "
        "MPI_Recv, or windows of 64 messages, each with a reply of 4 bytes.",
        formula="latency = t / (2 iterations) of a thread; message rate = sum of window x iterations / t.",
        details="MPI starts with MPI_THREAD_MULTIPLE, and the rows with one thread show what that level costs beside "
        "`bench latency`. The threads are POSIX threads of a C library, which is compiled when the benchmark starts.",
        options=ThreadOptions,
        function="thread_messages.measure_multi_thread",
        thread_level="multiple",
    ),
)
