"""Options that several families of benchmarks share, with OSU's message sizes and repetitions as defaults.

The defaults are those of the OSU micro-benchmarks 7.4.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from ridgeline.bench.benchmark import BenchmarkOptions
from ridgeline.runtime.declared_options import OptionSpec
from ridgeline.runtime.errors import ConfigError

LARGE_MESSAGE = 8192  # bytes; longer messages are repeated less often
WINDOW = 64  # messages in flight in tests of bandwidth
MAX_SIZE = 4 * 2**20  # bytes, point to point and one-sided
MAX_COLLECTIVE_SIZE = 2**20

# (iterations, warm-up) up to LARGE_MESSAGE, and above it.
_OSU = {
    "latency": ((10_000, 100), (1_000, 10)),
    "bandwidth": ((100, 10), (20, 2)),
    "collective": ((1_000, 100), (100, 10)),
}
Family = Literal["latency", "bandwidth", "collective"]


@dataclass(frozen=True)
class Repetitions:
    """How often messages are repeated. `iterations` and `warm_up` are None for OSU's numbers of the family.

    Raises ConfigError if a number is out of range.
    """

    family: Family
    iterations: int | None = None
    warm_up: int | None = None

    def __post_init__(self) -> None:
        if self.iterations is not None and self.iterations < 1:
            raise ConfigError(
                f"iterations = {self.iterations} is not a number of repetitions. It must be 1 or more."
            )
        if self.warm_up is not None and self.warm_up < 0:
            raise ConfigError(
                f"warm-up = {self.warm_up} is not a number of repetitions. It must be 0 or more."
            )

    def of(self, size: int) -> tuple[int, int]:
        """Return (iterations, warm-up) of messages of `size` bytes."""
        iterations, warm_up = _OSU[self.family][size > LARGE_MESSAGE]
        return (
            iterations if self.iterations is None else self.iterations,
            warm_up if self.warm_up is None else self.warm_up,
        )


def message_sizes(smallest: int, largest: int, multiple: int = 1) -> list[int]:
    """Return the sizes from smallest to largest in bytes: both bounds, and the powers of two between them.

    All are multiples of `multiple`. Raises ConfigError if the bounds are not, or are wrong.
    """
    if smallest < 0 or largest < smallest:
        raise ConfigError(
            f"sizes from {smallest} to {largest} B: the first size must be 0 or more, and the last must not be "
            "smaller than the first."
        )
    for bound in (smallest, largest):
        if bound % multiple:
            raise ConfigError(
                f"--sizes {bound}: the sizes must be multiples of {multiple} B, because of the numbers or the "
                "datatype that a message consists of."
            )
    powers = {2**k for k in range(largest.bit_length()) if smallest <= 2**k <= largest}
    return sorted(size for size in powers | {smallest, largest} if size % multiple == 0)


SIZES = OptionSpec(
    "First and last message size; the powers of two between them are measured too.",
    unit="B",
    minimum=0,
    metavar="FIRST LAST",
)

Iterations = Annotated[
    int | None, OptionSpec("Number of timed repetitions of each size.", minimum=1, otherwise="OSU's number")
]
WarmUp = Annotated[
    int | None,
    OptionSpec("Number of repetitions before the timed ones.", minimum=0, otherwise="OSU's number"),
]
RanksPerNode = Annotated[
    int | None,
    OptionSpec(
        "Count this many consecutive ranks as a node.", minimum=1, otherwise="ranks that share memory"
    ),
]
Placement = Literal["packed", "spread"]
PagesOption = Annotated[
    Literal["default", "huge", "small"],
    OptionSpec(
        "Pages of the message buffers: those that NumPy asks for (default), huge ones of 2 MiB, or small ones."
    ),
]
DatatypeOption = Annotated[
    Literal["bytes", "contiguous", "vector", "indexed"],
    OptionSpec(
        "MPI datatype of messages: bytes, or blocks of 8 bytes without gaps (contiguous), with equal (vector) or "
        "unequal gaps (indexed)."
    ),
]
Percentiles = Annotated[
    bool, OptionSpec("Time every iteration separately, and show the fastest, percentiles and the slowest.")
]
Hmem = Annotated[
    Literal["default", "on", "off"],
    OptionSpec(
        "With --device cuda: set MPIR_CVAR_CH4_OFI_ENABLE_HMEM, with which MPICH passes GPU memory to libfabric.",
        only=("device", "cuda"),
    ),
]
Device = Annotated[
    Literal["cpu", "cuda"], OptionSpec("Send messages from host memory (cpu) or from GPU memory (cuda).")
]

OutputFormat = Annotated[
    Literal["table", "osu"],
    OptionSpec(
        "Print the results as a table, or in the format of the OSU micro-benchmarks, for scripts that read it."
    ),
]

MachineOption = Annotated[
    str | None,
    OptionSpec(
        "Machine file (.toml) to compare with, or here for the one of this machine.",
        metavar="FILE",
        otherwise="none",
    ),
]

ComputeDevice = Annotated[
    Literal["cpu", "cuda"], OptionSpec("Compute on the cores of each rank (cpu) or on one GPU each (cuda).")
]


_SWEEP = ("sweep", True)


@dataclass(frozen=True)
class MessageOptions(BenchmarkOptions):
    """Options of benchmarks of pairs and of collective operations: what is sent, by which ranks, how often."""

    sizes: Annotated[tuple[int, int] | None, replace(SIZES, otherwise="as OSU")] = None
    iterations: Iterations = None
    warm_up: WarmUp = None
    sweep: Annotated[
        bool,
        OptionSpec(
            "Measure on 1, 2, 4, ... and all nodes, with 1, 2, 4, ... and all ranks of each, in one job."
        ),
    ] = False
    nodes: Annotated[
        tuple[int, ...],
        OptionSpec(
            "With --sweep: numbers of nodes, separated by commas.",
            minimum=1,
            commas=True,
            otherwise="1, 2, 4, ... and all",
            only=_SWEEP,
        ),
    ] = ()
    per_node: Annotated[
        tuple[int, ...],
        OptionSpec(
            "With --sweep: numbers of ranks on each node, separated by commas.",
            minimum=1,
            commas=True,
            otherwise="1, 2, 4, ... and all",
            only=_SWEEP,
        ),
    ] = ()
    placement: Annotated[
        Placement,
        OptionSpec(
            "With --sweep: choose the first nodes and ranks (packed), or evenly distributed ones (spread)."
        ),
    ] = "packed"
    ranks_per_node: RanksPerNode = None
    device: Device = "cpu"
    hmem: Hmem = "default"
    pages: PagesOption = "default"
    datatype: DatatypeOption = "bytes"
    percentiles: Percentiles = False
    format: OutputFormat = "table"
