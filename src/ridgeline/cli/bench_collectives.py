"""`ridgeline bench alltoall`, `allreduce`, `bcast`, `allgather`, `barrier`: collective operations."""

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

InPlace = Annotated[
    bool, typer.Option("--in-place", help="Send from the buffer that receives (MPI_IN_PLACE).")
]
Sweep = Annotated[
    bool, typer.Option("--sweep", help="Among 2, 4, 8, ... and all ranks, as sub-communicators.")
]
Among = Annotated[
    list[int] | None, typer.Option("--among", help="Among so many ranks only; may be repeated.")
]
Placement = Annotated[
    Literal["packed", "spread"],
    typer.Option(
        "--placement", help="Which ranks a part of all is: node after node, or one of each in turn."
    ),
]
Seconds = Annotated[
    float | None, typer.Option("--seconds", help="For a size at most: fewer iterations on a slow network.")
]


def _start(
    operation: str,
    ranks: int | None,
    device: str | None,
    common: tuple[str | None, str | None, bool],
    **options: Any,
) -> None:
    """Start a benchmark with the options that were given; others keep the defaults of the benchmark."""
    given = only_given(options) | {"operation": operation}
    start_benchmark(ranks, "collectives.measure.measure_collective", given, *common, device)


def alltoall(
    ranks: Ranks = None,
    sizes: Sizes = None,
    iterations: Iterations = None,
    warm_up: WarmUp = None,
    seconds: Seconds = None,
    in_place: InPlace = False,
    sweep: Sweep = False,
    among: Among = None,
    placement: Placement = "packed",
    ranks_per_node: RanksPerNode = None,
    device: Device = "cpu",
    json: Json = None,
    plot: Plot = None,
    debug: Debug = False,
) -> None:
    """Measure MPI_Alltoall: latency, and the aggregate bandwidth of all ranks.

    Pattern: every rank sends a message of its own to every other rank; a size is of one message. Formula: latency =
    seconds of one call, timed by itself with a barrier between calls, mean over iterations; min, mean and max over
    ranks. Bandwidth of all = ranks x (ranks - 1) x size / seconds of the slowest rank; of the network: only messages
    between nodes. The pre-flight test of Aurora (Fig. 4).
    """
    _start(
        "alltoall",
        ranks,
        device,
        (json, plot, debug),
        sizes=sizes,
        iterations=iterations,
        warm_up=warm_up,
        seconds=seconds,
        in_place=in_place,
        sweep=sweep,
        subsets=among,
        placement=placement,
        ranks_per_node=ranks_per_node,
    )


def allreduce(
    ranks: Ranks = None,
    sizes: Sizes = None,
    iterations: Iterations = None,
    warm_up: WarmUp = None,
    seconds: Seconds = None,
    in_place: InPlace = False,
    sweep: Sweep = False,
    among: Among = None,
    placement: Placement = "packed",
    ranks_per_node: RanksPerNode = None,
    device: Device = "cpu",
    json: Json = None,
    plot: Plot = None,
    debug: Debug = False,
) -> None:
    """Measure MPI_Allreduce: the latency of sums of float32 over all ranks.

    Pattern: vectors of float32 are summed over all ranks (MPI_FLOAT, MPI_SUM), every rank gets the sums. Formula:
    latency = seconds of one call, timed by itself with a barrier between calls, mean over iterations; min, mean and
    max over ranks. Terms are whole numbers: the sums are compared exactly.
    """
    _start(
        "allreduce",
        ranks,
        device,
        (json, plot, debug),
        sizes=sizes,
        iterations=iterations,
        warm_up=warm_up,
        seconds=seconds,
        in_place=in_place,
        sweep=sweep,
        subsets=among,
        placement=placement,
        ranks_per_node=ranks_per_node,
    )


def bcast(
    ranks: Ranks = None,
    sizes: Sizes = None,
    iterations: Iterations = None,
    warm_up: WarmUp = None,
    seconds: Seconds = None,
    sweep: Sweep = False,
    among: Among = None,
    placement: Placement = "packed",
    ranks_per_node: RanksPerNode = None,
    device: Device = "cpu",
    json: Json = None,
    plot: Plot = None,
    debug: Debug = False,
) -> None:
    """Measure MPI_Bcast: the latency of a message from rank 0 to all.

    Pattern: rank 0 sends one message to every other rank. Formula: latency = seconds of one call, timed by itself
    with a barrier between calls, mean over iterations; min, mean and max over ranks.
    """
    _start(
        "bcast",
        ranks,
        device,
        (json, plot, debug),
        sizes=sizes,
        iterations=iterations,
        warm_up=warm_up,
        seconds=seconds,
        sweep=sweep,
        subsets=among,
        placement=placement,
        ranks_per_node=ranks_per_node,
    )


def allgather(
    ranks: Ranks = None,
    sizes: Sizes = None,
    iterations: Iterations = None,
    warm_up: WarmUp = None,
    seconds: Seconds = None,
    in_place: InPlace = False,
    sweep: Sweep = False,
    among: Among = None,
    placement: Placement = "packed",
    ranks_per_node: RanksPerNode = None,
    device: Device = "cpu",
    json: Json = None,
    plot: Plot = None,
    debug: Debug = False,
) -> None:
    """Measure MPI_Allgather: the latency of a message from every rank to all.

    Pattern: every rank sends the same message to every other rank; a size is of one rank's message. Formula: latency
    = seconds of one call, timed by itself with a barrier between calls, mean over iterations; min, mean and max over
    ranks.
    """
    _start(
        "allgather",
        ranks,
        device,
        (json, plot, debug),
        sizes=sizes,
        iterations=iterations,
        warm_up=warm_up,
        seconds=seconds,
        in_place=in_place,
        sweep=sweep,
        subsets=among,
        placement=placement,
        ranks_per_node=ranks_per_node,
    )


def barrier(
    ranks: Ranks = None,
    iterations: Iterations = None,
    warm_up: WarmUp = None,
    seconds: Seconds = None,
    sweep: Sweep = False,
    among: Among = None,
    placement: Placement = "packed",
    ranks_per_node: RanksPerNode = None,
    json: Json = None,
    plot: Plot = None,
    debug: Debug = False,
) -> None:
    """Measure MPI_Barrier: the latency of waiting for all ranks.

    Pattern: every rank waits for all others. Formula: latency = seconds of one call, timed by itself, with another
    barrier between calls; mean over iterations; min, mean and max over ranks.
    """
    _start(
        "barrier",
        ranks,
        None,
        (json, plot, debug),
        iterations=iterations,
        warm_up=warm_up,
        seconds=seconds,
        sweep=sweep,
        subsets=among,
        placement=placement,
        ranks_per_node=ranks_per_node,
    )


def register(group: typer.Typer) -> None:
    """Add the commands to `ridgeline bench`."""
    for command in (alltoall, allreduce, bcast, allgather, barrier):
        group.command()(command)
