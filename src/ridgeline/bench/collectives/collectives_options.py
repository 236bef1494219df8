"""Benchmarks of collective operations, as the OSU micro-benchmarks measure them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from ridgeline.bench.benchmark import Benchmark
from ridgeline.bench.message_scaling import message_figures, message_scaling
from ridgeline.bench.shared_options import SIZES, MessageOptions
from ridgeline.runtime.declared_options import OptionSpec

__all__ = ["BENCHMARKS", "message_figures"]  # the figures of studies are found here

Operation = Literal[
    "alltoall",
    "allreduce",
    "reduce",
    "bcast",
    "allgather",
    "gather",
    "scatter",
    "neighbour-alltoall",
    "neighbour-allgather",
    "barrier",
]

_LATENCY = (
    "latency = seconds of one call, the mean over iterations, of which the minimum, mean and maximum over ranks are "
    "printed. Each call is timed separately, with a barrier between calls."
)


@dataclass(frozen=True)
class CollectiveOptions(MessageOptions):
    """Options of all collective operations."""

    sizes: Annotated[tuple[int, int] | None, replace(SIZES, otherwise="1 B (sums: 4 B) to 1 MiB")] = None
    operation: Annotated[Operation, OptionSpec("The operation to measure.")] = "alltoall"
    seconds: Annotated[
        float | None,
        OptionSpec(
            "Longest time of one size; a slow network gets fewer iterations.",
            unit="s",
            above=0,
            otherwise="no limit",
        ),
    ] = None
    in_place: Annotated[bool, OptionSpec("Send from the receive buffer (MPI_IN_PLACE).")] = False
    among: Annotated[
        tuple[int, ...],
        OptionSpec(
            "Measure among this many ranks only; packed fills node after node, spread takes from each in turn.",
            otherwise="all",
        ),
    ] = ()
    overlap: Annotated[
        bool,
        OptionSpec(
            "Measure the non-blocking operation (MPI_Iallreduce and so on) and how much of it computation hides."
        ),
    ] = False


def _declare(
    operation: Operation, short: str, summary: str, pattern: str, formula: str = _LATENCY, **fixed: object
) -> Benchmark:
    return Benchmark(
        name=operation,
        short=short,
        summary=summary,
        pattern=pattern,
        formula=formula,
        options=CollectiveOptions,
        function="collective_benchmark.measure_collective",
        fixed={"operation": operation, **fixed},
        scaling=message_scaling("collectives"),
    )


BENCHMARKS = (
    _declare(
        "alltoall",
        "Time all-to-all exchanges (MPI_Alltoall).",
        "Measure the latency of MPI_Alltoall and the aggregate bandwidth of all ranks.",
        "every rank sends a different message to every other rank. A size is that of one message.",
        f"{_LATENCY} Bandwidth of all ranks = ranks x (ranks - 1) x size / seconds of the slowest rank. The "
        "bandwidth of the network counts only messages between nodes. This is the pre-flight test of Aurora (Fig. "
        "4).",
    ),
    _declare(
        "allreduce",
        "Time sums over all ranks (MPI_Allreduce).",
        "Measure the latency of MPI_Allreduce for sums of float32 over all ranks.",
        "vectors of float32 are summed over all ranks (MPI_FLOAT, MPI_SUM), and every rank receives the sums.",
        f"{_LATENCY} The terms are whole numbers, so that the sums can be compared exactly.",
        datatype="bytes",
    ),
    _declare(
        "reduce",
        "Time sums over all ranks (MPI_Reduce).",
        "Measure the latency of MPI_Reduce for sums of float32 over all ranks.",
        "vectors of float32 are summed over all ranks (MPI_FLOAT, MPI_SUM), and rank 0 receives the sums.",
        f"{_LATENCY} The terms are whole numbers, so that the sums can be compared exactly.",
        datatype="bytes",
        in_place=False,
    ),
    _declare(
        "bcast",
        "Time a broadcast to all ranks (MPI_Bcast).",
        "Measure the latency of MPI_Bcast for a message from rank 0 to all ranks.",
        "rank 0 sends one message to every other rank.",
        in_place=False,
    ),
    _declare(
        "allgather",
        "Time a gather to all ranks (MPI_Allgather).",
        "Measure the latency of MPI_Allgather for a message from every rank to all ranks.",
        "every rank sends the same message to every other rank. A size is that of one rank's message.",
    ),
    _declare(
        "gather",
        "Time a gather to one rank (MPI_Gather).",
        "Measure the latency of MPI_Gather for a message from every rank to rank 0.",
        "every rank sends one message to rank 0. A size is that of one rank's message.",
        in_place=False,
    ),
    _declare(
        "scatter",
        "Time a scatter from one rank (MPI_Scatter).",
        "Measure the latency of MPI_Scatter for a message from rank 0 to each rank.",
        "rank 0 sends a different message to every rank. A size is that of one message.",
        in_place=False,
    ),
    _declare(
        "neighbour-alltoall",
        "Time exchanges with neighbours in a brick.",
        "Measure the latency of MPI_Neighbor_alltoall between neighbours in a brick of ranks, as in a halo.",
        "the ranks form a periodic brick (MPI_Dims_create), and every rank sends a different message to each of its "
        "up to six neighbours. A size is that of one message.",
        in_place=False,
    ),
    _declare(
        "neighbour-allgather",
        "Time a gather from neighbours in a brick.",
        "Measure the latency of MPI_Neighbor_allgather between neighbours in a brick of ranks.",
        "the ranks form a periodic brick (MPI_Dims_create), and every rank sends one message to all of its up to six "
        "neighbours. A size is that of one message.",
        in_place=False,
    ),
    _declare(
        "barrier",
        "Time a barrier of all ranks (MPI_Barrier).",
        "Measure the latency of MPI_Barrier, in which every rank waits for all others.",
        "every rank waits for all others.",
        _LATENCY.replace("a barrier", "another barrier"),
        in_place=False,
        sizes=None,
        device="cpu",
        hmem="default",
        pages="default",
        datatype="bytes",
    ),
)
