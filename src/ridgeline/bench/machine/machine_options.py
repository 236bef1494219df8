"""The benchmark that measures this machine and writes its machine file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ridgeline.bench.benchmark import Benchmark, BenchmarkOptions
from ridgeline.bench.memory.memory_options import Threads
from ridgeline.bench.shared_options import SIZES, RanksPerNode
from ridgeline.runtime.declared_options import OptionSpec


@dataclass(frozen=True)
class MachineFileOptions(BenchmarkOptions):
    """Options of machine-file."""

    name: Annotated[str | None, OptionSpec("Name of the machine.", otherwise="the host's name")] = None
    machine_file: Annotated[
        str | None,
        OptionSpec(
            "TOML file to write.", metavar="FILE", otherwise="MACHINE.toml in the user's cache directory"
        ),
    ] = None
    threads: Threads = 1
    repeats: Annotated[
        int, OptionSpec("Number of equal pieces of work whose spread in time is measured.", minimum=3)
    ] = 20
    sizes: Annotated[tuple[int, int], SIZES] = (8, 4 * 2**20)
    seconds: Annotated[
        float, OptionSpec("Longest time of one message size in the all-to-all.", unit="s", above=0)
    ] = 0.1
    ranks_per_node: RanksPerNode = None


BENCHMARKS = (
    Benchmark(
        name="machine-file",
        short="Measure the machine and write its file.",
        summary="Measure what predictions need to know about this machine, and write it to a machine file.",
        pattern="all cores measure peak rates, STREAM on 1, 2, 4 ... and all ranks of a node, and its caches. Two "
        "ranks of a node measure latency and bandwidth, and all ranks the all-to-all. With several nodes, latency, "
        "bandwidth and all-to-all are also measured between nodes.",
        formula="as in peak, stream, latency, bandwidth and alltoall; efficiency = all-to-all rate of a rank / rate "
        "of the link, or all-to-all rate of a node / its injection rate; spread = half of the interval between the "
        "10th and the 90th percentile of times / their median.",
        details="Ranks x threads must equal the number of cores of the nodes. The file contains nothing that was not "
        "measured.",
        options=MachineFileOptions,
        function="machine_figures.measure_machine",
        finish="machine_figures.write_file",
    ),
)
