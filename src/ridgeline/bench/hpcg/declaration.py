"""Benchmarks of HPCG 3.1: the official rating, and how an iteration scales over ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from ridgeline.bench.benchmark import Benchmark, BenchmarkOptions
from ridgeline.runtime.options import OptionSpec

IMPLEMENTATIONS = ("reference", "optimised")
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
class HpcgOptions(BenchmarkOptions):
    """Options of hpcg."""

    nx: Size = None
    ny: Size = None
    nz: Size = None
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
    npx: Division = 0
    npy: Division = 0
    npz: Division = 0
    threads: Annotated[int, OptionSpec("Threads of each rank.", minimum=1)] = 1
    dat: Annotated[str | None, OptionSpec("Sizes and seconds from a file as hpcg.dat.", metavar="FILE")] = (
        None
    )
    stream: Annotated[bool, OptionSpec("Measure STREAM in the same run.")] = True
    output: Annotated[str, OptionSpec("Where the report goes.", metavar="DIR")] = "."


@dataclass(frozen=True)
class HpcgScalingOptions(BenchmarkOptions):
    """Options of hpcg-scaling."""

    local: Annotated[tuple[int, ...], OptionSpec("Edge of a rank's cube of points.")] = (16, 32, 64)
    sweep: Annotated[
        tuple[int, ...],
        OptionSpec(
            "Numbers of ranks.",
            unit="ranks",
            metavar="R,R,...",
            otherwise="powers of two, and all",
            commas=True,
        ),
    ] = ()
    mode: Annotated[Literal["weak", "strong"], OptionSpec("Keep the box of a rank, or the global box.")] = (
        "weak"
    )
    implementations: Annotated[
        tuple[str, ...],
        OptionSpec(f"{' or '.join(IMPLEMENTATIONS)}.", flags=("--implementation", "--path")),
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
    ),
    Benchmark(
        name="hpcg-scaling",
        summary="Time an iteration of HPCG on 1, 2, 4, ... ranks of one job, with local boxes of 16^3, 32^3 and "
        "64^3.",
        pattern="the reference implementation (plain CSR in natural order) and the optimised one take turns, on the "
        "first ranks of the job while the others sleep.",
        formula="t = seconds of a solve / its iterations, those of the slowest rank, the best of the solves; "
        "efficiency = t(fewest) / t, in strong scaling t(fewest) ranks(fewest) / (t ranks).",
        details="""Weak scaling keeps the box of a rank; strong scaling keeps the global box, which is that of the
most ranks, and divides it. The implementations' residuals must agree to rounding (exit code 9). As Fig. 10 of Rizvi
and Hale.

\b
Here:
ridgeline bench hpcg-scaling -n 16 --sweep 1,2,4,8,16 --csv hpcg.csv --plot hpcg.svg

\b
On a cluster, a core a rank, under Slurm or PBS (docs/hpcg.md has the scripts):
srun -N 8 --ntasks-per-node 16 ridgeline bench hpcg-scaling --csv hpcg.csv
mpiexec -n 128 --ppn 16 ridgeline bench hpcg-scaling --csv hpcg.csv""",
        options=HpcgScalingOptions,
        function="study.measure_scaling",
    ),
)
