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

    name: Annotated[str | None, OptionSpec("Of the machine.", otherwise="the host's")] = None
    machine_file: Annotated[
        str | None,
        OptionSpec("TOML to write.", metavar="FILE", otherwise="MACHINE.toml in the user's cache directory"),
    ] = None
    threads: Threads = 1
    repeats: Annotated[int, OptionSpec("Equal pieces of work whose spread is told.", minimum=3)] = 20
    sizes: Annotated[tuple[int, int], SIZES] = (8, 4 * 2**20)
    seconds: Annotated[float, OptionSpec("For a size of all-to-all at most.", unit="s", above=0)] = 0.1
    ranks_per_node: RanksPerNode = None


BENCHMARKS = (
    Benchmark(
        name="machine-file",
        short="Measure the machine and write its file.",
        summary="Measure the figures of the machine at hand and write its machine file, for predictions.",
        pattern="all cores: peak rates, STREAM on 1, 2, 4 ... and all ranks of a node, its caches; two ranks of a "
        "node: latency and bandwidth; all ranks: all-to-all. On several nodes: all of them against each other, too.",
        formula="those of peak, stream, latency, bandwidth and alltoall; efficiency = rate of a rank's all-to-all "
        "over the link's, or of a node's over its injection rate; spread = half of the interval between the 10th and "
        "the 90th percentile of times, over their median.",
        details="Ranks x threads must be the cores of the nodes. What was not measured is not in the file.",
        options=MachineFileOptions,
        function="machine_figures.measure_machine",
        finish="machine_figures.write_file",
    ),
)
