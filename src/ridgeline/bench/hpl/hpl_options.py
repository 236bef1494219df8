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
from ridgeline.bench.shared_options import ComputeDevice
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


@dataclass(frozen=True)
class HplOptions(SystemOptions):
    """Options of hpl."""

    numbering: Annotated[
        Literal["row", "column"], OptionSpec("How ranks are numbered in the process grid.")
    ] = "row"
    broadcast: Annotated[
        Literal["fastest", "1ring", "1ringM", "2ring", "2ringM", "long", "longM"],
        OptionSpec("How panels travel along rows of processes; fastest: as a trial says."),
    ] = "fastest"
    nbmin: Annotated[int, OptionSpec("Columns at which the recursion within a panel ends.", minimum=1)] = 8
    ndiv: Annotated[int, OptionSpec("Parts into which the recursion divides a panel.", minimum=2)] = 2
    threshold: Annotated[float, OptionSpec("Of the official test.", above=0)] = 16.0
    seed: Annotated[int, OptionSpec("Of the matrix; HPL's is 100.", minimum=0)] = 100
    device: ComputeDevice = "cpu"
    dgemm: Annotated[bool, OptionSpec("Measure DGEMM in the same run.")] = True
    dat: Annotated[
        str | None,
        OptionSpec("Take all tests of a file as HPL.dat, in place of N, NB, P and Q.", metavar="FILE"),
    ] = None

    def __post_init__(self) -> None:
        """Check the range of every value, and that a file is not contradicted."""
        super().__post_init__()
        given = {"--order": self.n != "8000", "--nb": self.nb != AUTO, "--p": self.p != 0, "--q": self.q != 0}
        if self.dat is not None and any(given.values()):
            flag = next(name for name, there in given.items() if there)
            raise ConfigError(
                f"{flag} goes not with --dat, which names sizes and grids; leave one of them out"
            )


@dataclass(frozen=True)
class HplMxpOptions(SystemOptions):
    """Options of hpl-mxp."""

    storage: Annotated[
        Storage,
        OptionSpec("To what the factors are rounded; on CPUs the shorter ones are emulated, not faster."),
    ] = "float32"
    testing: Annotated[
        bool, OptionSpec("Take a strictly diagonally dominant matrix, which the rules allow for tests alone.")
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
        raise ConfigError(f"a study needs the order of its fewest ranks, as n = 20000, not n = {text}")
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
    summary="Solve a dense random system by LU with partial pivoting, by the rules of HPL 2.3.",
    pattern="a P x Q grid of ranks has the matrix in blocks: panels are factored by columns of ranks, broadcast "
    "along rows, and rows change places within columns.",
    formula="rate = (2/3 N^3 + 3/2 N^2) / (time of factorisation and substitution).",
    details="The exit code is 0 only if the official test passes: the scaled residual is below the threshold. "
    "The table is the performance over progress, and the lines of HPL 2.3 follow it. With --device cuda the "
    "matrix lies on GPUs, which multiply by cuBLAS; hosts factor the panels, on --threads. More in docs/hpl.md.",
    options=HplOptions,
    function="hpl_run.measure_hpl",
    finish="hpl_output.write_lines",
    scaling=Scaling(SystemOrder(), "hpl_options.scaling_figures"),
)
HPL_MXP = Benchmark(
    name="hpl-mxp",
    short="Solve a system in low precision (HPL-MxP).",
    summary="Solve a dense system by LU in low precision and refine it to 64-bit accuracy: HPL-MxP.",
    pattern="a P x Q grid of ranks has the matrix in blocks: panels are broadcast along rows and columns, "
    "without pivoting; GMRES in float64, preconditioned by the factors, refines the solution.",
    formula="rate = (2/3 N^3 + 3/2 N^2) / (time of factorisation + first solve + refinement).",
    details="The rules are those since June 2025. The exit code is 0 only if the scaled backward error is at "
    "most 16 after at most 50 iterations. With --device cuda the matrix lies on GPUs, which multiply by cuBLAS; "
    "hosts factor the diagonal blocks. More in docs/hpl.md.",
    options=HplMxpOptions,
    function="hpl_run.measure_hpl_mxp",
    scaling=Scaling(SystemOrder(), "hpl_options.scaling_figures"),
)
BENCHMARKS = (HPL, HPL_MXP)
