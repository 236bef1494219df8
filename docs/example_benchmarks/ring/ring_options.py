"""The benchmark of a ring: one message travels around all ranks."""

from dataclasses import dataclass
from typing import Annotated

from ridgeline.api import Benchmark, BenchmarkOptions, OptionSpec


@dataclass(frozen=True)
class RingOptions(BenchmarkOptions):
    """Options of ring."""

    sizes: Annotated[tuple[int, ...], OptionSpec("Size of a message.", unit="B", minimum=1)] = (8, 4096)
    laps: Annotated[int, OptionSpec("Number of timed laps of each size.", minimum=1)] = 100


BENCHMARKS = (
    Benchmark(
        name="ring",
        short="Time a message around all ranks.",
        summary="Time a message on its way around all ranks.",
        pattern="every rank receives the message from the rank before it and sends it to the next one.",
        formula="time of a hop = t / (laps x ranks).",
        options=RingOptions,
        function="measure.measure_ring",
    ),
)
