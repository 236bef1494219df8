"""Benchmarks of HPCG 3.1: the official rating, and the time of an iteration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from ridgeline.bench.benchmark import Benchmark, BenchmarkOptions
from ridgeline.bench.hpcg.scaling import BoxPerRank
from ridgeline.bench.scaling import Scaling
from ridgeline.runtime.options import OptionSpec

IMPLEMENTATIONS: tuple[Literal["reference", "optimised", "c"], ...] = ("reference", "optimised", "c")
DEFAULT_POINTS = 104
DEFAULT_SECONDS = 60.0

Size = Annotated[
    int | None,
    OptionSpec(
        "Points of each rank's box: 16 or more, a multiple of 8.",
        otherwise=f"the largest of the others; {DEFAULT_POINTS} without any",
    ),
]
Division = Annotated[int, OptionSpec("Ranks in this direction; 0: the best process grid.", minimum=0)]


@dataclass(frozen=True)
class BoxOptions(BenchmarkOptions):
    """The box of each rank, and how ranks share the global box."""

    nx: Size = None
    ny: Size = None
    nz: Size = None
    npx: Division = 0
    npy: Division = 0
    npz: Division = 0


@dataclass(frozen=True)
class HpcgOptions(BoxOptions):
    """Options of hpcg."""

    seconds: Annotated[
        float | None,
        OptionSpec(
            "What the timed sets take; 0: one set, quickly.",
            unit="s",
            minimum=0,
            flags=("--rt",),
            otherwise=f"{DEFAULT_SECONDS:g}",
        ),
    ] = None
    threads: Annotated[int, OptionSpec("Threads of each rank.", minimum=1)] = 1
    dat: Annotated[str | None, OptionSpec("Sizes and seconds from a file as hpcg.dat.", metavar="FILE")] = (
        None
    )
    stream: Annotated[bool, OptionSpec("Measure STREAM in the same run.")] = True
    output: Annotated[str, OptionSpec("Where the report goes.", metavar="DIR")] = "."


@dataclass(frozen=True)
class HpcgIterationOptions(BoxOptions):
    """Options of hpcg-iteration."""

    implementations: Annotated[
        tuple[Literal["reference", "optimised", "c"], ...],
        OptionSpec("Implementations.", flags=("--implementation", "--path")),
    ] = IMPLEMENTATIONS
    iterations: Annotated[int, OptionSpec("Iterations of a solve.", minimum=1)] = 50
    repeats: Annotated[int, OptionSpec("Timed solves of each implementation.", minimum=1)] = 3


BENCHMARKS = (
    Benchmark(
        name="hpcg",
        summary="Rate the machine by conjugate gradients on a sparse system: HPCG 3.1, all its phases and tests.",
        pattern="all ranks solve one system of 27 numbers a row by conjugate gradients with a V-cycle of 4 levels: "
        "halos with up to 26 neighbours and Allreduces of one number.",
        formula="rating = operations of the reference's iterations / (time of sets + sets x (set-up + optimisation) "
        "/ 10).",
        details="Sizes are those of each rank, 104 by default; without any, hpcg.dat of the current folder is read. "
        "The report HPCG-Benchmark_3.1_DATE.txt has the keys of the official one. The exit code is 0 only if the "
        "result is VALID. An official run takes 1800 s and a quarter of the main memory.",
        options=HpcgOptions,
        function="measure.measure_hpcg",
        finish="settings.write_report",
        scaling="hpcg-iteration",
    ),
    Benchmark(
        name="hpcg-iteration",
        summary="Time an iteration of HPCG's conjugate gradients in three implementations: ours and plain C.",
        pattern="the reference implementation (plain CSR in natural order), the optimised one and plain C laid out "
        "as the official code take turns on all ranks.",
        formula="t = seconds of a solve / its iterations, those of the slowest rank, the best of the solves.",
        details="The implementations' residuals must agree to rounding (exit code 9). Plain C needs the MPI's "
        "compiler, and is left out without it. A study of the benchmark hpcg scales it over ranks and boxes, as "
        "Fig. 10 of Rizvi and Hale (docs/hpcg.md).",
        options=HpcgIterationOptions,
        function="iteration.measure_iteration",
        scaling=Scaling(BoxPerRank(DEFAULT_POINTS), "scaling.figures"),
    ),
)
