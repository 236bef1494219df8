"""The benchmarks hpcg and hpcg-iteration: their options, and how HPCG's boxes scale in a study.

Neither Numba, NumPy nor MPI is imported here.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from ridgeline.bench.benchmark import Benchmark, BenchmarkOptions, Scaling, ScalingFigures
from ridgeline.bench.hpcg.geometry import LEAST_SIZE, MULTIPLE, Triple, make_geometry, process_grid
from ridgeline.config.size_law import Settings, SizeLaw
from ridgeline.parallel.partition import factorizations
from ridgeline.runtime.declared_options import OptionSpec
from ridgeline.runtime.errors import ConfigError

NAMES = {"c": "plain C"}  # names of implementations in tables and plots
SIZES, DIVISIONS = ("nx", "ny", "nz"), ("npx", "npy", "npz")
IMPLEMENTATIONS: tuple[Literal["reference", "optimised", "c"], ...] = ("reference", "optimised", "c")
DEFAULT_POINTS = 104
DEFAULT_SECONDS = 60.0

Size = Annotated[
    int | None,
    OptionSpec(
        "Points of each rank's box in this direction: 16 or more, and a multiple of 8.",
        otherwise=f"the largest of the others, or {DEFAULT_POINTS} if none is given",
    ),
]
Division = Annotated[int, OptionSpec("Ranks in this direction; 0 lets the benchmark choose.", minimum=0)]


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
            "Time of all timed sets together; 0 runs one set for a quick result.",
            unit="s",
            minimum=0,
            flags=("--rt",),
            otherwise=f"{DEFAULT_SECONDS:g}",
        ),
    ] = None
    threads: Annotated[int, OptionSpec("Threads of each rank.", minimum=1)] = 1
    dat: Annotated[
        str | None, OptionSpec("Read sizes and seconds from a file in hpcg.dat's format.", metavar="FILE")
    ] = None
    stream: Annotated[bool, OptionSpec("Measure STREAM in the same run.")] = True
    output: Annotated[str, OptionSpec("Folder in which to write the report.", metavar="DIR")] = "."


@dataclass(frozen=True)
class HpcgIterationOptions(BoxOptions):
    """Options of hpcg-iteration."""

    implementations: Annotated[
        tuple[Literal["reference", "optimised", "c"], ...],
        OptionSpec("Implementation to measure.", flags=("--implementation", "--path")),
    ] = IMPLEMENTATIONS
    iterations: Annotated[int, OptionSpec("Number of iterations of each solve.", minimum=1)] = 50
    repeats: Annotated[int, OptionSpec("Number of timed solves of each implementation.", minimum=1)] = 3


@dataclass(frozen=True)
class BoxPerRank(SizeLaw):
    """HPCG's boxes: weak scaling keeps the box of a rank, strong scaling divides the global box by HPCG's rules."""

    default: int

    @property
    def keys(self) -> tuple[str, ...]:
        return SIZES

    def box(self, settings: Settings) -> Triple:
        """Return the points [x, y, z] of a rank: sizes left out are the largest of the others."""
        given = [settings[name] for name in SIZES if settings.get(name) is not None]
        otherwise = max(given, default=self.default)
        nx, ny, nz = (otherwise if settings.get(name) is None else settings[name] for name in SIZES)
        return nx, ny, nz

    def weak(self, settings: Settings, first: int, ranks: int) -> dict[str, Any]:
        """Change nothing: the box is that of a rank. Raises ConfigError for a box that the rules do not allow."""
        make_geometry(1, 0, *self.box(settings))
        return {}

    def strong(self, settings: Settings, first: int, ranks: int) -> dict[str, Any]:
        """Return the box of each of `ranks`, and their process grid, for the global box of `first` ranks."""
        box = self.box(settings)
        divisions = [settings.get(name) or 0 for name in DIVISIONS]
        make_geometry(first, 0, *box, *divisions)
        if ranks == first:
            return {}
        parts = process_grid(first, *divisions)
        whole = box[0] * parts[0], box[1] * parts[1], box[2] * parts[2]
        return dict(zip((*SIZES, *DIVISIONS), itertools.chain(*divide_box(whole, ranks))))


def divide_box(whole: Triple, n_ranks: int) -> tuple[Triple, Triple]:
    """Return (box of a rank, process grid) with the least surface of a box, and among equals the most ranks in x.

    whole: points of the global box [x, y, z]. Raises ConfigError if no process grid gives boxes that the rules allow.
    """
    allowed: list[tuple[int, Triple, Triple]] = []
    for grid in sorted(factorizations(n_ranks), reverse=True):
        if any(points % parts for points, parts in zip(whole, grid)):
            continue
        x, y, z = (points // parts for points, parts in zip(whole, grid))
        try:
            make_geometry(n_ranks, 0, x, y, z, *grid)
        except ConfigError:
            continue
        allowed.append((x * y + y * z + z * x, (x, y, z), grid))
    if not allowed:
        raise ConfigError(
            f"a global box of {' x '.join(map(str, whole))} cannot be divided over {n_ranks} ranks by HPCG's rules "
            f"(edges of at least {LEAST_SIZE} and multiples of {MULTIPLE}, with ratios of at most 1:8). Leave "
            f"{n_ranks} out of --ranks, or use --weak."
        )
    _, box, grid = min(allowed, key=lambda candidate: candidate[0])
    return box, grid


def scaling_figures(content: Mapping[str, Any]) -> list[ScalingFigures]:
    """Return the figures that a study takes from a report of hpcg-iteration, one for each implementation."""
    return [
        ScalingFigures(
            seconds=row["seconds"],
            points=row["rows"],
            labels={"implementation": NAMES.get(row["implementation"], row["implementation"])},
            flops=row["flops"],
        )
        for row in content["rows"]
    ]


HPCG = Benchmark(
    name="hpcg",
    short="Rate the machine by sparse CG (HPCG 3.1).",
    summary="Rate the machine by conjugate gradients on a sparse system, with all phases and tests of HPCG 3.1.",
    pattern="all ranks solve one system with 27 numbers in a row by conjugate gradients, preconditioned by a V-cycle "
    "of 4 levels. They exchange halos with up to 26 neighbours and do allreduces of one number.",
    formula="rating = operations of the reference's iterations / (time of sets + sets x (set-up + optimisation) "
    "/ 10).",
    details="Sizes are those of each rank and default to 104. If none is given, hpcg.dat in the current folder is "
    "read. The report HPCG-Benchmark_3.1_DATE.txt has the keys of the official report. The exit code is 0 only if "
    "the result is VALID. An official run takes 1800 s and a quarter of the main memory.",
    options=HpcgOptions,
    function="hpcg_run.measure_hpcg",
    finish="hpcg_report.write_report",
    scaling="hpcg-iteration",
)
HPCG_ITERATION = Benchmark(
    name="hpcg-iteration",
    short="Compare an iteration of HPCG with plain C.",
    summary="Time an iteration of HPCG's conjugate gradients in three implementations: our two, and plain C.",
    pattern="the implementations take turns on all ranks: the reference (plain CSR in natural order), the optimised "
    "one, and plain C with the data layout of the official code.",
    formula="t = seconds of a solve / its iterations, on the slowest rank, in the best of the solves.",
    details="The residuals of the implementations must agree to rounding; otherwise the exit code is 9. Plain C "
    "requires the compiler of the MPI library and is left out without it. A study of the benchmark hpcg scales this "
    "one over ranks and boxes, as Fig. 10 of Rizvi and Hale does.",
    options=HpcgIterationOptions,
    function="hpcg_comparison.measure_iteration",
    scaling=Scaling(BoxPerRank(DEFAULT_POINTS), "hpcg_options.scaling_figures"),
)
BENCHMARKS = (HPCG, HPCG_ITERATION)
