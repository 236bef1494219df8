"""The benchmark Graph500: breadth-first searches and shortest paths on a Kronecker graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ridgeline.bench.benchmark import Benchmark, BenchmarkOptions
from ridgeline.bench.graph500.scaling import VerticesPerRank
from ridgeline.bench.scaling import Scaling
from ridgeline.runtime.options import OptionSpec

DEFAULT_SCALE = 20
# Of an official run; the seeds are the two numbers of the reference implementation's main program.
MOST_ROOTS = 64
EDGE_FACTOR = 16
SEEDS = (2, 3)
OFFICIAL = f"{MOST_ROOTS} roots, edge factor {EDGE_FACTOR} and the seeds {SEEDS[0]} and {SEEDS[1]}"
LARGEST_SCALE = 31  # ids of vertices have 32 bits


@dataclass(frozen=True)
class Graph500Options(BenchmarkOptions):
    """Options of graph500."""

    scale: Annotated[
        int, OptionSpec("log2 of the vertices of all ranks.", minimum=1, maximum=LARGEST_SCALE)
    ] = DEFAULT_SCALE
    edge_factor: Annotated[int, OptionSpec("Edges over vertices.", minimum=1)] = EDGE_FACTOR
    roots: Annotated[int, OptionSpec("Searches of each kernel, each from a root of its own.", minimum=1)] = (
        MOST_ROOTS
    )
    threads: Annotated[int, OptionSpec("Threads of each rank.", minimum=1)] = 1
    sssp: Annotated[bool, OptionSpec("Search shortest paths too, after the breadth-first searches.")] = True
    seeds: Annotated[tuple[int, int], OptionSpec("Seeds of the generator.", minimum=0, metavar="A B")] = SEEDS


BENCHMARKS = (
    Benchmark(
        name="graph500",
        summary="Search a Kronecker graph breadth-first and for shortest paths: Graph500, all kernels and tests.",
        pattern="a grid of ranks holds the edges; frontiers, and distances that became lower, go to the ranks of a "
        "process row and column, candidates to the owners of their vertices.",
        formula="TEPS = input edges in the root's component / seconds of the slowest rank; the harmonic mean counts.",
        details="The five rules of the specification are checked on every search, untimed. The exit code is 0 only "
        f"if all of them hold. The official lines are printed below the table. An official run has {OFFICIAL} "
        "(docs/graph500.md).",
        options=Graph500Options,
        function="measure.measure_graph500",
        finish="measure.official_lines",
        scaling=Scaling(VerticesPerRank("scale"), "scaling.figures"),
    ),
)
