"""The benchmark of one-sided communication: two ranks, or all ranks at irregular places."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from ridgeline.bench.benchmark import Benchmark, BenchmarkOptions
from ridgeline.bench.shared_options import SIZES, WINDOW, Device
from ridgeline.runtime.declared_options import OptionSpec
from ridgeline.runtime.errors import ConfigError

Operation = Literal["get", "put", "accumulate"]
AccessTest = Literal["latency", "bandwidth"]
Completion = Literal["flush", "flush_local", "lock", "unlock", "fence", "pscw"]
Distribution = Literal["log-uniform", "uniform"]

_PAIR: dict[str, Any] = {"only": ("pattern", "pair")}
_FMM: dict[str, Any] = {"only": ("pattern", "fmm")}
# Completions that a pattern does not have.
_FOREIGN = {"pair": ("unlock",), "fmm": ("lock", "pscw")}


@dataclass(frozen=True)
class OneSidedOptions(BenchmarkOptions):
    """Options of one-sided. Without `operations` the pattern has its own."""

    pattern: Annotated[Literal["pair", "fmm"], OptionSpec("Two ranks, or all ranks at irregular places.")] = (
        "pair"
    )
    operations: Annotated[
        tuple[Operation, ...], OptionSpec("What is done.", otherwise="get and put; fmm: get", flags=("--op",))
    ] = ()
    sync: Annotated[
        Completion, OptionSpec("What completes operations; lock and pscw: pair, unlock: fmm.")
    ] = "flush"
    tests: Annotated[
        tuple[AccessTest, ...], OptionSpec("Pair: what is measured.", flags=("--test",), **_PAIR)
    ] = ("latency", "bandwidth")
    sizes: Annotated[tuple[int, int] | None, replace(SIZES, otherwise="1 B to 4 MiB", **_PAIR)] = None
    window: Annotated[int, OptionSpec("Pair: operations before a completion.", minimum=1, **_PAIR)] = WINDOW
    pair: Annotated[tuple[int, int], OptionSpec("Pair: who.", metavar="ORIGIN TARGET", **_PAIR)] = (0, 1)
    iterations: Annotated[
        int | None, OptionSpec("Pair: timed repetitions of a size.", minimum=1, otherwise="as OSU's", **_PAIR)
    ] = None
    warm_up: Annotated[
        int | None,
        OptionSpec("Pair: repetitions before the timed ones.", minimum=0, otherwise="as OSU's", **_PAIR),
    ] = None
    every: Annotated[int, OptionSpec("Fmm: operations before a completion.", minimum=1, **_FMM)] = 2000
    messages: Annotated[int, OptionSpec("Fmm: pieces that a rank accesses.", minimum=1, **_FMM)] = 20_000
    pieces: Annotated[
        tuple[int, int], OptionSpec("Fmm: their bytes.", unit="B", metavar="LEAST MOST", **_FMM)
    ] = (8, 4096)
    distribution: Annotated[Distribution, OptionSpec("Fmm: of their bytes.", **_FMM)] = "log-uniform"
    communicators: Annotated[tuple[int, ...], OptionSpec("Fmm: split the ranks, a window each.", **_FMM)] = (
        1,
    )
    repeats: Annotated[int, OptionSpec("Fmm: timed repeats.", minimum=1, **_FMM)] = 3
    seed: Annotated[int, OptionSpec("Fmm: of lengths and places.", minimum=0, **_FMM)] = 0
    device: Device = "cpu"

    def __post_init__(self) -> None:
        """Check all values, and that the pattern has the completion."""
        super().__post_init__()
        if self.sync in _FOREIGN[self.pattern]:
            raise ConfigError(f"--sync {self.sync} is not of --pattern {self.pattern}")


BENCHMARKS = (
    Benchmark(
        name="one-sided",
        short="Measure one-sided messages (put and get).",
        summary="Measure one-sided communication: one rank reads or writes the memory of another, which takes no "
        "part.",
        pattern="one of two ranks accesses the window of the other, or every rank very many small pieces at "
        "irregular places of all other ranks' windows.",
        formula="latency = t / n of one operation and its completion (fence and pscw: both sides in turn, t / (2 "
        "n)); bandwidth = size x window x n / t; messages/s = messages of all ranks / t, t until the slowest rank "
        "is done.",
        details="""--pattern pair, as OSU's get and put: latency, n times one operation and its completion; bandwidth,
n times a window of operations at different places and one completion.

--pattern fmm, as the fast multipole method on Aurora: every rank accesses very many small pieces at irregular places
of all other ranks' windows, with a completion every so many. All data are compared with what was sent.""",
        options=OneSidedOptions,
        function="pair_access.measure_one_sided",
    ),
)
