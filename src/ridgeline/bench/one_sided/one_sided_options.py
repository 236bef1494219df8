"""The benchmark of one-sided communication: two ranks, or all ranks at irregular places."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from ridgeline.bench.benchmark import Benchmark, BenchmarkOptions
from ridgeline.bench.message_scaling import FixedMessages, message_figures, message_scaling
from ridgeline.bench.shared_options import (
    SIZES,
    WINDOW,
    Device,
    Hmem,
    OutputFormat,
    PagesOption,
    Percentiles,
)
from ridgeline.runtime.declared_options import OptionSpec
from ridgeline.runtime.errors import ConfigError

__all__ = ["BENCHMARKS", "message_figures"]  # the figures of studies are found here

Operation = Literal["get", "put", "accumulate"]
AccessTest = Literal["latency", "bandwidth", "bibandwidth"]
Completion = Literal["flush", "flush_local", "lock", "unlock", "fence", "pscw"]
Distribution = Literal["log-uniform", "uniform"]

_PAIR: dict[str, Any] = {"only": ("pattern", "pair")}
_FMM: dict[str, Any] = {"only": ("pattern", "fmm")}
# Completions that a pattern does not have.
_FOREIGN = {"pair": ("unlock",), "fmm": ("lock", "pscw")}


@dataclass(frozen=True)
class OneSidedOptions(BenchmarkOptions):
    """Options of one-sided. Without `operations` the pattern has its own."""

    pattern: Annotated[
        Literal["pair", "fmm"],
        OptionSpec("Measure two ranks (pair), or accesses of all ranks at irregular places (fmm)."),
    ] = "pair"
    operations: Annotated[
        tuple[Operation, ...],
        OptionSpec("Operation to measure.", otherwise="get and put; with fmm, get", flags=("--op",)),
    ] = ()
    sync: Annotated[
        Completion,
        OptionSpec("How operations are completed; lock and pscw require pair, unlock requires fmm."),
    ] = "flush"
    tests: Annotated[
        tuple[AccessTest, ...], OptionSpec("With pair: the test to run.", flags=("--test",), **_PAIR)
    ] = ("latency", "bandwidth")
    sizes: Annotated[tuple[int, int] | None, replace(SIZES, otherwise="1 B to 4 MiB", **_PAIR)] = None
    window: Annotated[
        int, OptionSpec("With pair: number of operations before a completion.", minimum=1, **_PAIR)
    ] = WINDOW
    pair: Annotated[
        tuple[int, int], OptionSpec("With pair: the two ranks.", metavar="ORIGIN TARGET", **_PAIR)
    ] = (0, 1)
    iterations: Annotated[
        int | None,
        OptionSpec(
            "With pair: number of timed repetitions of each size.",
            minimum=1,
            otherwise="OSU's number",
            **_PAIR,
        ),
    ] = None
    warm_up: Annotated[
        int | None,
        OptionSpec(
            "With pair: number of repetitions before the timed ones.",
            minimum=0,
            otherwise="OSU's number",
            **_PAIR,
        ),
    ] = None
    every: Annotated[
        int, OptionSpec("With fmm: number of operations before a completion.", minimum=1, **_FMM)
    ] = 2000
    messages: Annotated[
        int, OptionSpec("With fmm: number of pieces that each rank accesses.", minimum=1, **_FMM)
    ] = 20_000
    total_messages: Annotated[
        int | None,
        OptionSpec(
            "With fmm: number of pieces that all ranks access together, instead of --messages.",
            minimum=1,
            otherwise="--messages of each rank",
            **_FMM,
        ),
    ] = None
    pieces: Annotated[
        tuple[int, int],
        OptionSpec("With fmm: least and largest size of a piece.", unit="B", metavar="LEAST MOST", **_FMM),
    ] = (8, 4096)
    distribution: Annotated[Distribution, OptionSpec("With fmm: distribution of the sizes.", **_FMM)] = (
        "log-uniform"
    )
    communicators: Annotated[
        tuple[int, ...],
        OptionSpec("With fmm: number of parts of the ranks, each with a separate window.", minimum=1, **_FMM),
    ] = (1,)
    repeats: Annotated[int, OptionSpec("With fmm: number of timed repeats.", minimum=1, **_FMM)] = 3
    seed: Annotated[int, OptionSpec("With fmm: seed for choosing sizes and places.", minimum=0, **_FMM)] = 0
    device: Device = "cpu"
    hmem: Hmem = "default"
    pages: PagesOption = "default"
    percentiles: Percentiles = False
    format: OutputFormat = "table"

    def __post_init__(self) -> None:
        """Check all values, and that the pattern has the completion."""
        super().__post_init__()
        if self.sync in _FOREIGN[self.pattern]:
            raise ConfigError(f"--sync {self.sync} cannot be used with --pattern {self.pattern}.")
        if self.pattern == "fmm" and self.percentiles:
            raise ConfigError("--percentiles cannot be used with --pattern fmm, which times whole repeats.")


BENCHMARKS = (
    Benchmark(
        name="one-sided",
        short="Measure one-sided messages (put and get).",
        summary="Measure one-sided communication, in which one rank reads or writes the memory of another that does "
        "not participate.",
        pattern="one of two ranks accesses the window of the other, or every rank accesses very many small pieces at "
        "irregular places in the windows of all other ranks.",
        formula="latency = t / n for one operation and its completion, or t / (2 n) with fence and pscw, where both "
        "sides access in turn; bandwidth = size x window x n / t; messages/s = messages of all ranks / t, with t "
        "until the slowest rank has finished.",
        details="""--pattern pair measures as OSU's get and put do. Latency repeats one operation and its completion n
times. Bandwidth repeats a window of operations at different places and one completion n times. In bibandwidth
(osu_put_bibw) both ranks do so at the same time.

--pattern fmm measures what the fast multipole method did on Aurora: every rank accesses very many small pieces at
irregular places in the windows of all other ranks, with a completion after every --every operations. All data are
compared with what was sent.""",
        options=OneSidedOptions,
        function="pair_access.measure_one_sided",
        scaling=message_scaling("one_sided", FixedMessages("sizes", total="total_messages")),
    ),
)
