"""Benchmarks of collective operations, as the OSU micro-benchmarks measure them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from ridgeline.bench.benchmark import Benchmark, BenchmarkOptions
from ridgeline.bench.shared_options import SIZES, Device, Iterations, RanksPerNode, WarmUp
from ridgeline.runtime.declared_options import OptionSpec

Operation = Literal["alltoall", "allreduce", "bcast", "allgather", "barrier"]
Placement = Literal["packed", "spread"]

_LATENCY = (
    "latency = seconds of one call, timed by itself with a barrier between calls, mean over iterations; min, mean "
    "and max over ranks."
)


@dataclass(frozen=True)
class CollectiveOptions(BenchmarkOptions):
    """Options of all collective operations."""

    operation: Annotated[Operation, OptionSpec("What is called.")] = "alltoall"
    sizes: Annotated[tuple[int, int] | None, replace(SIZES, otherwise="1, for allreduce 4, to 1 MiB")] = None
    iterations: Iterations = None
    warm_up: WarmUp = None
    seconds: Annotated[
        float | None,
        OptionSpec(
            "For a size at most: fewer iterations on a slow network.", unit="s", above=0, otherwise="no limit"
        ),
    ] = None
    in_place: Annotated[bool, OptionSpec("Send from the buffer that receives (MPI_IN_PLACE).")] = False
    sweep: Annotated[bool, OptionSpec("Among 2, 4, 8, ... and all ranks, as sub-communicators.")] = False
    among: Annotated[tuple[int, ...], OptionSpec("Among so many ranks only.", otherwise="all")] = ()
    placement: Annotated[
        Placement, OptionSpec("Which ranks a part of all is: node after node, or one of each in turn.")
    ] = "packed"
    ranks_per_node: RanksPerNode = None
    device: Device = "cpu"


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
    )


BENCHMARKS = (
    _declare(
        "alltoall",
        "Time all-to-all exchanges (MPI_Alltoall).",
        "Measure MPI_Alltoall: latency, and the aggregate bandwidth of all ranks.",
        "every rank sends a message of its own to every other rank; a size is of one message.",
        f"{_LATENCY} Bandwidth of all = ranks x (ranks - 1) x size / seconds of the slowest rank; of the network: "
        "only messages between nodes. The pre-flight test of Aurora (Fig. 4).",
    ),
    _declare(
        "allreduce",
        "Time sums over all ranks (MPI_Allreduce).",
        "Measure MPI_Allreduce: the latency of sums of float32 over all ranks.",
        "vectors of float32 are summed over all ranks (MPI_FLOAT, MPI_SUM), every rank gets the sums.",
        f"{_LATENCY} Terms are whole numbers: the sums are compared exactly.",
    ),
    _declare(
        "bcast",
        "Time a broadcast to all ranks (MPI_Bcast).",
        "Measure MPI_Bcast: the latency of a message from rank 0 to all.",
        "rank 0 sends one message to every other rank.",
        in_place=False,
    ),
    _declare(
        "allgather",
        "Time a gather to all ranks (MPI_Allgather).",
        "Measure MPI_Allgather: the latency of a message from every rank to all.",
        "every rank sends the same message to every other rank; a size is of one rank's message.",
    ),
    _declare(
        "barrier",
        "Time a barrier of all ranks (MPI_Barrier).",
        "Measure MPI_Barrier: the latency of waiting for all ranks.",
        "every rank waits for all others.",
        _LATENCY.replace("a barrier", "another barrier"),
        in_place=False,
        sizes=None,
        device="cpu",
    ),
)
