"""Options that several families of benchmarks declare alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from ridgeline.bench.benchmark import BenchmarkOptions
from ridgeline.bench.repetitions import MAX_SIZE
from ridgeline.runtime.declared_options import OptionSpec

SIZES = OptionSpec("Message sizes, powers of two in between.", unit="B", minimum=0, metavar="FIRST LAST")

Iterations = Annotated[
    int | None, OptionSpec("Timed repetitions of a size.", minimum=1, otherwise="as OSU's")
]
WarmUp = Annotated[
    int | None, OptionSpec("Repetitions before the timed ones.", minimum=0, otherwise="as OSU's")
]
RanksPerNode = Annotated[
    int | None,
    OptionSpec("Count every so many ranks as a node.", minimum=1, otherwise="ranks that share memory"),
]
Device = Annotated[Literal["cpu", "cuda"], OptionSpec("Where messages lie: host memory or the GPU's.")]

ComputeDevice = Annotated[
    Literal["cpu", "cuda"], OptionSpec("Where ranks compute: on their cores, or on a GPU each.")
]


@dataclass(frozen=True)
class MessageOptions(BenchmarkOptions):
    """What benchmarks of messages between two ranks share."""

    sizes: Annotated[tuple[int, int], SIZES] = (0, MAX_SIZE)
    iterations: Iterations = None
    warm_up: WarmUp = None
    ranks_per_node: RanksPerNode = None
    device: Device = "cpu"
