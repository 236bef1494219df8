"""`ridgeline bench latency`, `bandwidth`, `bibandwidth`, `multi-latency`, `multi-bandwidth`: pairs of ranks."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from ridgeline.cli.bench_options import (
    Debug,
    Device,
    Iterations,
    Json,
    Plot,
    RanksPerNode,
    Sizes,
    WarmUp,
    only_given,
    start_benchmark,
)
from ridgeline.cli.options import Ranks

Pairing = Annotated[
    Literal["halves", "node-halves", "neighbours"],
    typer.Option(
        "--pairing",
        help="Who is paired: first half of ranks with the second, of nodes with the second, or 0-1, 2-3.",
    ),
]
Pairs = Annotated[
    int | None, typer.Option("--pairs", help="Pairs at the same time (default: 1; multi-: all).")
]
Method = Annotated[
    Literal["osu", "alcf"], typer.Option("--method", help="OSU's, or ALCF's 16 synchronous sends in flight.")
]
Window = Annotated[int | None, typer.Option("--window", help="Messages in flight (default: 64; ALCF: 16).")]
AllPairs = Annotated[
    bool, typer.Option("--all-pairs", help="Every pair at one size, as a matrix; --plot draws a heat map.")
]
Between = Annotated[
    Literal["ranks", "nodes"], typer.Option("--between", help="All pairs of these (a node's first rank).")
]
Size = Annotated[
    int | None, typer.Option("--size", help="Of messages of all pairs, in B (default: 8, bandwidth 1 MiB).")
]
Seconds = Annotated[float, typer.Option("--seconds", min=0.0, help="That a pair of all pairs may take.")]
Serial = Annotated[bool, typer.Option("--serial", help="Of all pairs one at a time.")]


def _start(
    function: str,
    ranks: int | None,
    device: str,
    json: str | None,
    plot: str | None,
    debug: bool,
    **options: Any,
) -> None:
    """Start a benchmark with the options that were given; others keep the defaults of the benchmark."""
    start_benchmark(ranks, function, only_given(options), json, plot, debug, device)


def latency(
    ranks: Ranks = None,
    sizes: Sizes = None,
    iterations: Iterations = None,
    warm_up: WarmUp = None,
    pairing: Pairing = "halves",
    pairs: Pairs = None,
    method: Method = "osu",
    window: Window = None,
    all_pairs: AllPairs = False,
    between: Between = "ranks",
    size: Size = None,
    seconds: Seconds = 2.0,
    serial: Serial = False,
    ranks_per_node: RanksPerNode = None,
    device: Device = "cpu",
    json: Json = None,
    plot: Plot = None,
    debug: Debug = False,
) -> None:
    """Time a message one way between two ranks, 0 B to 4 MiB.

    A ping-pong with MPI_Send and MPI_Recv, latency = t / (2 iterations) (osu_latency). --method alcf: 16 synchronous
    sends (MPI_Ssend_init) in flight, latency = t / (iterations x 16), best with --pairs for several ranks on a NIC.
    --all-pairs: every two ranks or nodes, N - 1 rounds of disjoint pairs (N if odd).
    """
    common = (ranks, device, json, plot, debug)
    if all_pairs:
        _matrix("latency", *common, between, size, iterations, window, seconds, serial, ranks_per_node)
        return
    _start(
        "pairs.point_to_point.measure_latency",
        *common,
        sizes=sizes,
        iterations=iterations,
        warm_up=warm_up,
        pairing=pairing,
        pairs=pairs,
        method=method,
        window=window,
        ranks_per_node=ranks_per_node,
    )


def bandwidth(
    ranks: Ranks = None,
    sizes: Sizes = None,
    iterations: Iterations = None,
    warm_up: WarmUp = None,
    pairing: Pairing = "halves",
    pairs: Pairs = None,
    method: Method = "osu",
    window: Window = None,
    all_pairs: AllPairs = False,
    between: Between = "ranks",
    size: Size = None,
    seconds: Seconds = 2.0,
    serial: Serial = False,
    ranks_per_node: RanksPerNode = None,
    device: Device = "cpu",
    json: Json = None,
    plot: Plot = None,
    debug: Debug = False,
) -> None:
    """Measure the bandwidth of two ranks in one direction, 0 B to 4 MiB.

    Windows of 64 messages, each window answered by 4 bytes (osu_bw): bandwidth = bytes x window x iterations / t.
    --method alcf: windows of 16 synchronous sends (MPI_Ssend_init), no answer. --all-pairs: every two ranks or nodes,
    both directions, N - 1 rounds of disjoint pairs (N if odd).
    """
    common = (ranks, device, json, plot, debug)
    if all_pairs:
        _matrix("bandwidth", *common, between, size, iterations, window, seconds, serial, ranks_per_node)
        return
    _start(
        "pairs.point_to_point.measure_bandwidth",
        *common,
        sizes=sizes,
        iterations=iterations,
        warm_up=warm_up,
        pairing=pairing,
        pairs=pairs,
        method=method,
        window=window,
        ranks_per_node=ranks_per_node,
    )


def _matrix(
    quantity: str,
    ranks: int | None,
    device: str,
    json: str | None,
    plot: str | None,
    debug: bool,
    between: str,
    size: int | None,
    iterations: int | None,
    window: int | None,
    seconds: float,
    serial: bool,
    ranks_per_node: int | None,
) -> None:
    """Start the benchmark of all pairs."""
    _start(
        "pairs.pair_matrix.measure_all_pairs",
        ranks,
        device,
        json,
        plot,
        debug,
        quantity=quantity,
        of=between,
        size=size,
        iterations=iterations,
        window=window,
        seconds_per_pair=seconds,
        serial=serial,
        ranks_per_node=ranks_per_node,
    )


def bibandwidth(
    ranks: Ranks = None,
    sizes: Sizes = None,
    iterations: Iterations = None,
    warm_up: WarmUp = None,
    pairing: Pairing = "halves",
    pairs: Pairs = None,
    window: Window = None,
    ranks_per_node: RanksPerNode = None,
    device: Device = "cpu",
    json: Json = None,
    plot: Plot = None,
    debug: Debug = False,
) -> None:
    """Measure the bandwidth of two ranks that both send at the same time, 0 B to 4 MiB.

    64 messages each way in flight at once (osu_bibw): bandwidth = 2 x bytes x window x iterations / t.
    """
    _start(
        "pairs.point_to_point.measure_bibandwidth",
        *(ranks, device, json, plot, debug),
        sizes=sizes,
        iterations=iterations,
        warm_up=warm_up,
        pairing=pairing,
        pairs=pairs,
        window=window,
        ranks_per_node=ranks_per_node,
    )


def multi_latency(
    ranks: Ranks = None,
    sizes: Sizes = None,
    iterations: Iterations = None,
    warm_up: WarmUp = None,
    pairing: Pairing = "halves",
    pairs: Pairs = None,
    ranks_per_node: RanksPerNode = None,
    device: Device = "cpu",
    json: Json = None,
    plot: Plot = None,
    debug: Debug = False,
) -> None:
    """Time a message one way between pairs of ranks that all are at it together, 0 B to 4 MiB.

    Ping-pongs with MPI_Send and MPI_Recv (osu_multi_lat): latency = t / (2 iterations), the mean over pairs, with
    the smallest and the largest.
    """
    _start(
        "pairs.point_to_point.measure_multi_latency",
        *(ranks, device, json, plot, debug),
        sizes=sizes,
        iterations=iterations,
        warm_up=warm_up,
        pairing=pairing,
        pairs=pairs,
        ranks_per_node=ranks_per_node,
    )


def multi_bandwidth(
    ranks: Ranks = None,
    sizes: Sizes = None,
    iterations: Iterations = None,
    warm_up: WarmUp = None,
    pairing: Pairing = "halves",
    pairs: Pairs = None,
    method: Method = "osu",
    window: Window = None,
    ranks_per_node: RanksPerNode = None,
    device: Device = "cpu",
    json: Json = None,
    plot: Plot = None,
    debug: Debug = False,
) -> None:
    """Measure aggregate bandwidth and message rate of pairs of ranks, 0 B to 4 MiB.

    Windows of 64 messages, each window answered by 4 bytes (osu_mbw_mr): bandwidth = bytes x window x iterations x
    pairs / t, with t the mean over senders; message rate = bandwidth / bytes. --method alcf: windows of 16
    synchronous sends (MPI_Ssend_init), no answer.
    """
    _start(
        "pairs.point_to_point.measure_multi_bandwidth",
        *(ranks, device, json, plot, debug),
        sizes=sizes,
        iterations=iterations,
        warm_up=warm_up,
        pairing=pairing,
        pairs=pairs,
        method=method,
        window=window,
        ranks_per_node=ranks_per_node,
    )


def register(group: typer.Typer) -> None:
    """Add the commands to `ridgeline bench`."""
    for function in (latency, bandwidth, bibandwidth, multi_latency, multi_bandwidth):
        group.command(function.__name__.replace("_", "-"))(function)
