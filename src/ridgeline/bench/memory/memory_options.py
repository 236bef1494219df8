"""Benchmarks of the memory and the arithmetic of the nodes: stream and peak."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from ridgeline.bench.benchmark import Benchmark, BenchmarkOptions
from ridgeline.runtime.declared_options import OptionSpec

Number = Literal["float64", "float32"]


Threads = Annotated[int, OptionSpec("Threads of a rank.", minimum=1)]
ComputeDevice = Annotated[
    Literal["cpu", "cuda"], OptionSpec("What is measured: the cores or the GPU of every rank.")
]


@dataclass(frozen=True)
class StreamOptions(BenchmarkOptions):
    """Options of stream."""

    threads: Threads = 1
    dtype: Annotated[Number, OptionSpec("Of the arrays.")] = "float64"
    n_bytes: Annotated[
        int | None,
        OptionSpec(
            "Of a rank's three arrays together.",
            unit="B",
            otherwise="each 4 times a node's caches",
            flags=("--bytes",),
        ),
    ] = None
    repeats: Annotated[int | None, OptionSpec("Timed rounds.", otherwise="about a second")] = None
    device: ComputeDevice = "cpu"


@dataclass(frozen=True)
class PeakOptions(BenchmarkOptions):
    """Options of peak."""

    threads: Threads = 1
    dtype: Annotated[Literal["both", "float64", "float32"], OptionSpec("Of the numbers.")] = "both"
    seconds: Annotated[float, OptionSpec("Of a repeat.", unit="s", above=0)] = 0.1
    repeats: Annotated[int, OptionSpec("Repeats, all ranks at the same time.", minimum=1)] = 5
    device: ComputeDevice = "cpu"


BENCHMARKS = (
    Benchmark(
        name="stream",
        short="Measure the memory bandwidth (STREAM).",
        summary="Measure memory bandwidth: copy, scale, add and triad with ordinary and with streaming stores, and "
        "dot.",
        pattern="all ranks and threads run a kernel on arrays of their own at the same time: copy c = a, scale b = s "
        "c, add c = a + b, triad a = b + s c, dot (reads only).",
        formula="words x bytes of a number x elements of all ranks / seconds of the slowest rank, 2 words for copy, "
        "scale and dot, 3 for add and triad; best of the repeats. On a GPU: its copy bandwidth, 2 words.",
        details="Streaming stores spare the read of the lines that are overwritten.",
        options=StreamOptions,
        function="limit_tables.measure_rates",
    ),
    Benchmark(
        name="peak",
        short="Measure the rate of multiply-adds.",
        summary="Measure the rate of fused multiply-adds in float64 and float32, memory left aside.",
        pattern="every thread of every rank runs independent chains of multiply-adds in vector registers (a GPU's "
        "threads in theirs), all at the same time.",
        formula="2 x chains x lanes x steps x threads / seconds; best repeat of a rank, min, mean and max over "
        "ranks; all: the sum over ranks in the best repeat.",
        details="Results are compared with their closed form, bit for bit.",
        options=PeakOptions,
        function="limit_tables.measure_peak",
    ),
)
