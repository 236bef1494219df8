"""The benchmarks hpl and hpl-mxp: their options, and how dense systems scale in a study.

Neither Numba, NumPy nor MPI is imported here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from ridgeline.bench.benchmark import Benchmark, BenchmarkOptions, Scaling, ScalingFigures
from ridgeline.bench.hpl.record import Storage, operations
from ridgeline.bench.shared_options import ComputeDevice, MachineOption
from ridgeline.config.size_law import Settings, SizeLaw
from ridgeline.runtime.declared_options import OptionSpec
from ridgeline.runtime.errors import ConfigError

AUTO = "auto"


@dataclass(frozen=True)
class SystemOptions(BenchmarkOptions):
    """The system, the process grid, and what must hold before it begins."""

    n: Annotated[
        str,
        OptionSpec(
            "Number of unknowns; auto takes as many as fit into --memory-share.",
            flags=("--order", "--n"),
            metavar="N",
        ),
    ] = "8000"
    nb: Annotated[
        str, OptionSpec("Columns of a block; auto chooses a number that suits N.", metavar="NB")
    ] = AUTO
    p: Annotated[
        int, OptionSpec("Rows of the process grid; 0 takes the grid nearest to a square, P <= Q.", minimum=0)
    ] = 0
    q: Annotated[
        int, OptionSpec("Columns of the process grid; 0 takes the number of ranks / P.", minimum=0)
    ] = 0
    threads: Annotated[int, OptionSpec("Threads of each rank.", minimum=1)] = 1
    memory_share: Annotated[
        float, OptionSpec("Fraction of the free memory that --order auto uses.", minimum=0.01, maximum=1)
    ] = 0.8
    time_limit: Annotated[
        float,
        OptionSpec("Do not start a run that would take longer; 0 means no limit.", unit="s", minimum=0),
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
        raise ConfigError(
            f"{flag} {text[:40] or repr(text)}: it must be {AUTO}, or a whole number of 1 or more."
        )
    return value


@dataclass(frozen=True)
class HplOptions(SystemOptions):
    """Options of hpl."""

    numbering: Annotated[
        Literal["row", "column"], OptionSpec("Number the ranks of the process grid along rows or columns.")
    ] = "row"
    broadcast: Annotated[
        Literal["fastest", "1ring", "1ringM", "2ring", "2ringM", "long", "longM"],
        OptionSpec(
            "Algorithm that broadcasts panels along process rows; fastest times all in a trial and takes the best."
        ),
    ] = "fastest"
    nbmin: Annotated[
        int, OptionSpec("Number of columns at which the recursion in a panel ends.", minimum=1)
    ] = 8
    ndiv: Annotated[
        int, OptionSpec("Number of parts into which the recursion divides a panel.", minimum=2)
    ] = 2
    threshold: Annotated[
        float, OptionSpec("Largest scaled residual that passes the official test.", above=0)
    ] = 16.0
    seed: Annotated[int, OptionSpec("Seed of the random matrix; HPL's is 100.", minimum=0)] = 100
    device: ComputeDevice = "cpu"
    dgemm: Annotated[bool, OptionSpec("Measure DGEMM in the same run.")] = True
    machine: MachineOption = None
    dat: Annotated[
        str | None,
        OptionSpec(
            "Run all tests of a file in HPL.dat's format, instead of --order, --nb, --p and --q.",
            metavar="FILE",
        ),
    ] = None

    def __post_init__(self) -> None:
        """Check the range of every value, and that a file is not contradicted."""
        super().__post_init__()
        given = {"--order": self.n != "8000", "--nb": self.nb != AUTO, "--p": self.p != 0, "--q": self.q != 0}
        if self.dat is not None and any(given.values()):
            flag = next(name for name, there in given.items() if there)
            raise ConfigError(
                f"{flag} cannot be used with --dat, whose file sets sizes and grids. Leave one of them out."
            )


@dataclass(frozen=True)
class HplMxpOptions(SystemOptions):
    """Options of hpl-mxp."""

    storage: Annotated[
        Storage,
        OptionSpec(
            "Format to which the factors are rounded; CPUs emulate the shorter formats, which saves no time."
        ),
    ] = "float32"
    testing: Annotated[
        bool,
        OptionSpec("Use a strictly diagonally dominant matrix, which the rules allow only for tests."),
    ] = False
    device: ComputeDevice = "cpu"


@dataclass(frozen=True)
class SystemOrder(SizeLaw):
    """The order N of a dense system on all ranks: weak scaling keeps the memory of a rank, N^2 / ranks."""

    @property
    def keys(self) -> tuple[str, ...]:
        return ("n",)

    def weak(self, settings: Settings, first: int, ranks: int) -> dict[str, Any]:
        """Return the order of a matrix with ranks / first times the elements, rounded down."""
        n = _order(settings)
        return {} if ranks == first else {"n": str(math.isqrt(n * n * ranks // first))}

    def strong(self, settings: Settings, first: int, ranks: int) -> dict[str, Any]:
        """Change nothing: the order is that of all ranks."""
        _order(settings)
        return {}


def _order(settings: Settings) -> int:
    text = str(settings["n"])
    if not text.isdigit() or int(text) < 1:
        raise ConfigError(
            f"n = {text}: in a study n must be a whole number, the order on the fewest ranks, as in n = 20000."
        )
    return int(text)


def scaling_figures(content: Mapping[str, Any]) -> list[ScalingFigures]:
    """Return the figures of each solve. Points are operations, because the work is not proportional to N^2."""
    return [
        ScalingFigures(
            seconds=solve["seconds"],
            points=operations(solve["n"]),
            labels={key: solve[key] for key in ("storage",) if key in solve},
            phases=solve.get("phases", {}),
            flops=solve["flops_per_second"],
            fraction=solve.get("fraction_of_products"),
        )
        for solve in content["extra"]["solves"]
    ]


HPL = Benchmark(
    name="hpl",
    short="Solve a dense system by LU (HPL 2.3).",
    summary="Solve a dense random system by LU with partial pivoting, according to the rules of HPL 2.3.",
    pattern="the matrix is distributed in blocks over a P x Q grid of ranks. Each panel is factored by a column of "
    "ranks and broadcast along rows, and matrix rows are swapped within columns of ranks.",
    formula="rate = (2/3 N^3 + 3/2 N^2) / (time of factorisation and substitution).",
    details="The exit code is 0 only if the official test passes, which requires a scaled residual below the "
    "threshold. --machine adds the share of the peak in a machine "
    "file. The table shows the performance over the progress of the factorisation, and the lines of HPL 2.3 "
    "follow it. With --device cuda the matrix is in the memory of GPUs, which multiply with cuBLAS, while hosts "
    "factor the panels with --threads threads.",
    options=HplOptions,
    function="hpl_run.measure_hpl",
    finish="hpl_output.write_lines",
    scaling=Scaling(SystemOrder(), "hpl_options.scaling_figures"),
)
HPL_MXP = Benchmark(
    name="hpl-mxp",
    short="Solve a system in low precision (HPL-MxP).",
    summary="Solve a dense system by LU in low precision and refine the solution to 64-bit accuracy (HPL-MxP).",
    pattern="the matrix is distributed in blocks over a P x Q grid of ranks. Panels are factored without pivoting "
    "and broadcast along rows and columns. GMRES in float64, preconditioned by the factors, refines the solution.",
    formula="rate = (2/3 N^3 + 3/2 N^2) / (time of factorisation + first solve + refinement).",
    details="The rules are those that have applied since June 2025. The exit code is 0 only if the scaled backward "
    "error is at most 16 after at most 50 iterations. With --device cuda the matrix is in the memory of GPUs, which "
    "multiply with cuBLAS, while hosts factor the diagonal blocks.",
    options=HplMxpOptions,
    function="hpl_run.measure_hpl_mxp",
    scaling=Scaling(SystemOrder(), "hpl_options.scaling_figures"),
)
BENCHMARKS = (HPL, HPL_MXP)
