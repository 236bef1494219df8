"""The benchmark graph500, searches on a Kronecker graph: its options, and how it scales in a study.

Neither Numba, NumPy nor MPI is imported here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any

from ridgeline.bench.benchmark import Benchmark, BenchmarkOptions, Scaling, ScalingFigures
from ridgeline.config.size_law import Settings, SizeLaw
from ridgeline.runtime.declared_options import OptionSpec
from ridgeline.runtime.errors import ConfigError

DEFAULT_SCALE = 20
# What an official run has. The seeds are the two numbers of the reference implementation's main program.
MOST_ROOTS = 64
EDGE_FACTOR = 16
SEEDS = (2, 3)
OFFICIAL = f"{MOST_ROOTS} roots, edge factor {EDGE_FACTOR} and the seeds {SEEDS[0]} and {SEEDS[1]}"
LARGEST_SCALE = 31  # ids of vertices have 32 bits


@dataclass(frozen=True)
class Graph500Options(BenchmarkOptions):
    """Options of graph500."""

    scale: Annotated[
        int, OptionSpec("Base-2 logarithm of the number of vertices.", minimum=1, maximum=LARGEST_SCALE)
    ] = DEFAULT_SCALE
    edge_factor: Annotated[int, OptionSpec("Number of edges per vertex.", minimum=1)] = EDGE_FACTOR
    roots: Annotated[int, OptionSpec("Searches with each kernel, each from a different root.", minimum=1)] = (
        MOST_ROOTS
    )
    threads: Annotated[int, OptionSpec("Threads of each rank.", minimum=1)] = 1
    sssp: Annotated[bool, OptionSpec("Also find shortest paths, after the breadth-first searches.")] = True
    seeds: Annotated[
        tuple[int, int], OptionSpec("Seeds of the edge generator.", minimum=0, metavar="A B")
    ] = SEEDS


@dataclass(frozen=True)
class VerticesPerRank(SizeLaw):
    """The vertices of all ranks, a power of two: weak scaling keeps those of a rank. option: names the exponent."""

    option: str

    @property
    def keys(self) -> tuple[str, ...]:
        return (self.option,)

    def weak(self, settings: Settings, first: int, ranks: int) -> dict[str, Any]:
        """Return the exponent plus log2(ranks / first). Raises ConfigError unless that is a whole number."""
        growth = Fraction(ranks, first)
        larger = max(growth.numerator, growth.denominator)
        if min(growth.numerator, growth.denominator) != 1 or larger & (larger - 1):
            raise ConfigError(
                f"weak scaling from {first} to {ranks} ranks multiplies the number of vertices by {growth}, but "
                f"Graph500 requires a power of two. Choose numbers of ranks that are {first} times a power of two."
            )
        steps = larger.bit_length() - 1
        if not steps:
            return {}
        return {self.option: settings[self.option] + (steps if growth > 1 else -steps)}

    def strong(self, settings: Settings, first: int, ranks: int) -> dict[str, Any]:
        """Change nothing: the vertices are those of all ranks."""
        return {}


def scaling_figures(content: Mapping[str, Any]) -> list[ScalingFigures]:
    """Return the mean search of each kernel, whose points are the input edges that it traverses."""
    return [
        ScalingFigures(
            seconds=summary["time"]["mean"], points=summary["edges"]["mean"], labels={"kernel": kernel}
        )
        for kernel, summary in content["extra"]["summaries"].items()
    ]


GRAPH500 = Benchmark(
    name="graph500",
    short="Search a large random graph (Graph500).",
    summary="Search a Kronecker graph breadth-first and for shortest paths, with all kernels and tests of Graph500.",
    pattern="the edges are distributed over a grid of ranks. Frontiers and reduced distances are sent to the ranks "
    "of a process row and column, and candidates to the owners of their vertices.",
    formula="TEPS = input edges in the component of the root / seconds of the slowest rank. The result is the "
    "harmonic mean over all searches.",
    details="The five rules of the specification are checked on every search, outside the timed part. The exit code "
    f"is 0 only if all of them hold. The official lines are printed below the table. An official run has {OFFICIAL}.",
    options=Graph500Options,
    function="graph500_run.measure_graph500",
    finish="graph500_run.official_lines",
    scaling=Scaling(VerticesPerRank("scale"), "graph500_options.scaling_figures"),
)
BENCHMARKS = (GRAPH500,)
