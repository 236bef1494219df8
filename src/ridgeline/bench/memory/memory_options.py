"""Benchmarks of the memory and the arithmetic of the nodes: stream and peak."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from ridgeline.bench.benchmark import Benchmark, BenchmarkOptions
from ridgeline.runtime.declared_options import OptionSpec

Number = Literal["float64", "float32"]


Threads = Annotated[int, OptionSpec("Threads of each rank.", minimum=1)]
ComputeDevice = Annotated[
    Literal["cpu", "cuda"], OptionSpec("Measure the cores (cpu) or the GPU (cuda) of every rank.")
]


@dataclass(frozen=True)
class StreamOptions(BenchmarkOptions):
    """Options of stream."""

    threads: Threads = 1
    dtype: Annotated[Number, OptionSpec("Type of the numbers in the arrays.")] = "float64"
    n_bytes: Annotated[
        int | None,
        OptionSpec(
            "Size of the three arrays of a rank together.",
            unit="B",
            otherwise="4 times the caches of a node for each",
            flags=("--bytes",),
        ),
    ] = None
    repeats: Annotated[
        int | None, OptionSpec("Number of timed rounds.", otherwise="as many as take about a second")
    ] = None
    device: ComputeDevice = "cpu"


@dataclass(frozen=True)
class PeakOptions(BenchmarkOptions):
    """Options of peak."""

    threads: Threads = 1
    dtype: Annotated[Literal["both", "float64", "float32"], OptionSpec("Type of the numbers.")] = "both"
    seconds: Annotated[float, OptionSpec("Duration of a repeat.", unit="s", above=0)] = 0.1
    repeats: Annotated[
        int, OptionSpec("Number of repeats, which all ranks run at the same time.", minimum=1)
    ] = 5
    device: ComputeDevice = "cpu"


BENCHMARKS = (
    Benchmark(
        name="stream",
        short="Measure the memory bandwidth (STREAM).",
        summary="Measure the memory bandwidth of copy, scale, add and triad, each with ordinary and with streaming "
        "stores, and of dot.",
        pattern="all ranks and threads run the same kernel at the same time, each on separate arrays: copy c = a, "
        "scale b = s c, add c = a + b, triad a = b + s c, dot (reads only).",
        formula="bandwidth = words x bytes of a number x elements of all ranks / seconds of the slowest rank, the "
        "best of the repeats, with 2 words for copy, scale and dot and 3 for add and triad. On a GPU, the copy "
        "bandwidth with 2 words is measured.",
        details="Streaming stores avoid reading the cache lines that are overwritten.",
        options=StreamOptions,
        function="limit_tables.measure_rates",
    ),
    Benchmark(
        name="peak",
        short="Measure the rate of multiply-adds.",
        summary="Measure the rate of fused multiply-adds in float64 and float32 without any memory access.",
        pattern="all threads of all ranks run independent chains of multiply-adds in registers at the same time: "
        "vector registers on CPUs, those of each thread on GPUs.",
        formula="rate = 2 x chains x lanes x steps x threads / seconds. The minimum, mean and maximum over ranks are "
        'of the best repeat of each rank; "all" is the sum over ranks in the best repeat.',
        details="The results are compared bit for bit with those of a closed formula.",
        options=PeakOptions,
        function="limit_tables.measure_peak",
    ),
)
