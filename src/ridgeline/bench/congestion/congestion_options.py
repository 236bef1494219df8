"""The benchmark of congestion: what a busy network costs the jobs that share it (GPCNeT)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ridgeline.bench.benchmark import Benchmark, BenchmarkOptions
from ridgeline.bench.shared_options import Device, RanksPerNode
from ridgeline.runtime.declared_options import OptionSpec

DEFAULT_KINDS = ("all-to-all", "incast", "put-incast", "get-incast")  # of background traffic, GPCNeT's four
LEAST_NODES = 3


@dataclass(frozen=True)
class CongestionOptions(BenchmarkOptions):
    """Options of congestion."""

    fraction: Annotated[
        float,
        OptionSpec("Fraction of the nodes that send background traffic; the run in GPCNeT's paper had 0.4."),
    ] = 0.8
    seconds: Annotated[
        float, OptionSpec("Time of each of the six tests, or ten with --natural-ring.", unit="s", above=0)
    ] = 10.0
    kinds: Annotated[
        tuple[str, ...],
        OptionSpec(
            "Kind of background traffic: all-to-all, incast, put-incast, get-incast or broadcast.",
            flags=("--background", "--congestor"),
        ),
    ] = DEFAULT_KINDS
    ranks_per_node: RanksPerNode = None
    rings: Annotated[
        int | None,
        OptionSpec(
            "Largest number of random rings in a test.", minimum=1, otherwise="until its time is over"
        ),
    ] = None
    natural_ring: Annotated[
        bool, OptionSpec("Also test rings in the order of the ranks, beside the random ones.")
    ] = False
    iterations: Annotated[
        int | None,
        OptionSpec(
            "Number of repetitions of a ring, or fewer if the time of the test is over.",
            minimum=1,
            otherwise="GPCNeT's 200, or 8 for bandwidth",
        ),
    ] = None
    seed: Annotated[int, OptionSpec("Seed for shuffling the nodes and for the random rings.", minimum=0)] = 0
    device: Device = "cpu"


BENCHMARKS = (
    Benchmark(
        name="congestion",
        short="Measure how traffic slows messages (GPCNeT).",
        summary="Measure latency, bandwidth and allreduce on an idle network, and again beside background traffic "
        "that congests it (GPCNeT).",
        pattern="the nodes are shuffled and divided. A fraction of 1 - FRACTION of them runs the tests. The others "
        "send background traffic in messages of 4096 B and are divided evenly among its kinds: all-to-all in pairs, "
        "sends to one rank (incast), puts to one rank, gets from one rank, and sends from one rank to all "
        "(broadcast).",
        formula="latency = time / 2 of 8 B to and from both neighbours; bandwidth = 2 x 8 x 131072 B / time; "
        "congestion impact factor = congested / isolated, or isolated / congested for bandwidths.",
        details="""With fewer than 3 nodes every rank counts as a node. At least 3 nodes are required.

The tests run among the ranks with the same local number on every tester node. Latency is measured in random rings
with 8 B to and from both neighbours, bandwidth in random rings with 8 messages of 131072 B to and from both
neighbours and a barrier, and the third test is an allreduce of 8 B. Each test prints the mean over rings and ranks,
and the 99th percentile of all repetitions.""",
        options=CongestionOptions,
        function="congestion_benchmark.measure_congestion",
    ),
)
