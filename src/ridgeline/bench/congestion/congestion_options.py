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
        float, OptionSpec("Share of the nodes that send background traffic; the paper's run had 0.4.")
    ] = 0.8
    seconds: Annotated[float, OptionSpec("Time of a test; there are six.", unit="s", above=0)] = 10.0
    kinds: Annotated[
        tuple[str, ...],
        OptionSpec(
            "Background traffic: all-to-all, incast, put-incast, get-incast or broadcast.",
            flags=("--background", "--congestor"),
        ),
    ] = DEFAULT_KINDS
    ranks_per_node: RanksPerNode = None
    rings: Annotated[
        int | None,
        OptionSpec("At most so many random rings a test.", minimum=1, otherwise="until its time is over"),
    ] = None
    iterations: Annotated[
        int | None,
        OptionSpec(
            "Repetitions of a ring, fewer if time is over.",
            minimum=1,
            otherwise="GPCNeT's 200; 8 for bandwidth",
        ),
    ] = None
    seed: Annotated[int, OptionSpec("Of the shuffled nodes and the random rings.", minimum=0)] = 0
    device: Device = "cpu"


BENCHMARKS = (
    Benchmark(
        name="congestion",
        short="Measure how traffic slows messages (GPCNeT).",
        summary="Measure latency, bandwidth and Allreduce alone and beside background traffic that congests "
        "(GPCNeT).",
        pattern="nodes are shuffled and divided: 1 - FRACTION of them take the tests, the others send background "
        "traffic, evenly in sets of all-to-all pairs, sends to one rank (incast), puts to one rank, gets from one "
        "rank; or one rank's sends to all (broadcast); 4096 B a message.",
        formula="latency = time / 2 of 8 B to and from both neighbours; bandwidth = 2 x 8 x 131072 B / time; "
        "congestion impact factor: congested / isolated, for bandwidths isolated / congested.",
        details="""With fewer than 3 nodes every rank counts as a node; 3 are needed at least.

Tests, among ranks of equal number on every tester node: random rings with 8 B to and from both neighbours
(latency); random rings with 8 messages of 131072 B to and from both neighbours and a barrier (bandwidth); allreduce
of 8 B. Each prints the mean over rings and ranks, and the 99th percentile of all repetitions.""",
        options=CongestionOptions,
        function="congestion_benchmark.measure_congestion",
    ),
)
