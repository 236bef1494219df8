"""Options of the benchmarks that solve a dense system. Imports neither Numba, NumPy nor MPI."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ridgeline.bench.benchmark import BenchmarkOptions
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.options import OptionSpec

AUTO = "auto"


@dataclass(frozen=True)
class SystemOptions(BenchmarkOptions):
    """The system, the process grid, and what must hold before it begins."""

    n: Annotated[
        str,
        OptionSpec(
            "Unknowns; auto: as many as the share of memory holds.", flags=("--order", "--n"), metavar="N"
        ),
    ] = "8000"
    nb: Annotated[str, OptionSpec("Columns of a block; auto: chosen for N.", metavar="NB")] = AUTO
    p: Annotated[int, OptionSpec("Rows of the process grid; 0: nearest to a square, P <= Q.", minimum=0)] = 0
    q: Annotated[int, OptionSpec("Columns of the process grid; 0: ranks / rows.", minimum=0)] = 0
    threads: Annotated[int, OptionSpec("Threads of each rank.", minimum=1)] = 1
    memory_share: Annotated[
        float, OptionSpec("Share of the free memory that --order auto takes.", minimum=0.01, maximum=1)
    ] = 0.8
    time_limit: Annotated[
        float, OptionSpec("Refuse a system that takes longer; 0: none.", unit="s", minimum=0)
    ] = 0.0

    def __post_init__(self) -> None:
        """Check the range of every value."""
        super().__post_init__()
        parse_number(self.n, "--order")
        parse_number(self.nb, "--nb")


def parse_number(text: str, flag: str) -> int | None:
    """Return the whole number of an option; None for "auto". Raises ConfigError for anything else."""
    if text == AUTO:
        return None
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise ConfigError(f"{flag} = {text[:40]}: {AUTO}, or a whole number of 1 or more is needed")
    return value
