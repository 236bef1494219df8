"""A run of Graph500 (`ridgeline bench graph500`): edges, kernel 1, roots, and all searches, timed and validated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from time import perf_counter
from typing import Any, TypeVar

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.bench.graph500 import (
    construct,
    construct_kernels,
    generator,
    path_kernels,
    search_kernels,
    validation,
)
from ridgeline.bench.graph500.generator import choose_roots
from ridgeline.bench.graph500.graph import choose_columns
from ridgeline.bench.graph500.graph500_memory import require_scale
from ridgeline.bench.graph500.graph500_options import (
    EDGE_FACTOR,
    GRAPH500,
    MOST_ROOTS,
    OFFICIAL,
    SEEDS,
    Graph500Options,
)
from ridgeline.bench.graph500.input_edges import InputEdges
from ridgeline.bench.graph500.official_output import (
    INVALID,
    KernelSummary,
    SearchRecord,
    official_text,
    summarise_kernel,
)
from ridgeline.bench.graph500.search import SearchWorkspace, breadth_first
from ridgeline.bench.graph500.shortest_paths import PathGraph, PathSearch, shortest_paths
from ridgeline.bench.result import Column, Plot, Result
from ridgeline.jit.kernel import check_threads, compile_kernels, numba_threads
from ridgeline.parallel.communicator import compile_on_nodes
from ridgeline.parallel.layout import find_layout
from ridgeline.runtime.console import Phases, silent
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.units import number

T = TypeVar("T")
Parents = NDArray[np.int64]
TRIAL_SCALE = 16  # of the graph from which the time is predicted
_TRIAL_ROOTS = 2


COLUMNS = (
    Column("kernel", "kernel"),
    Column("search", "search"),
    Column("root", "root"),
    Column("edges", "edges"),
    Column("seconds", "ms", 1e-3, ".3f"),
    Column("rate", "MTEPS", 1e6),
    Column("validate", "validation s", form=".3f"),
    Column("valid", "valid"),
)


def measure_graph500(comm: MPI.Comm, options: Graph500Options, progress: Phases | None = None) -> Result:
    """Run Graph500 and return its searches; extra holds the official lines. Collective over comm.

    Raises ConfigError on all ranks for too many threads, and for a scale that does not fit in memory or has no root.
    """
    check_threads(options.threads, f"--threads {options.threads}")
    require_scale(comm, options)
    progress = progress or silent()
    start = perf_counter()
    with numba_threads(options.threads):
        progress.begin("compiling")
        compile_graph500(comm)
        progress.begin("prediction")
        predicted = predict_seconds(comm, options)
        if predicted is not None:
            progress.begin(f"about {number(predicted, 's')}, predicted from a smaller graph")
        began = perf_counter()
        run = Graph500Run(comm, options, progress)
        searches = run.search_all()
    now = perf_counter()
    if not searches:
        raise ConfigError(
            f"scale {options.scale} with edge factor {options.edge_factor} gives no vertex with a neighbour among "
            "the candidates for roots. Use a larger --scale or --edge-factor."
        )
    times = {"predicted": predicted, "seconds": comm.allreduce(now - began, MPI.MAX), "all": now - start}
    return to_result(comm, options, run.facts, searches, times)


class Graph500Run:
    """The edges, graph and roots of a run. Construction and all methods are collective over comm.

    facts: what is known before the searches, under the official names.
    """

    def __init__(self, comm: MPI.Comm, options: Graph500Options, progress: Phases) -> None:
        self.comm, self.progress = comm, progress
        progress.begin("generation of edges")
        edges, generation = timed(
            comm,
            lambda: generator.generate(comm, options.scale, options.edge_factor, options.sssp, options.seeds),
        )
        progress.begin("preparation of the validation")
        self.inputs = InputEdges(comm, edges)
        self.roots = choose_roots(
            comm, self.inputs.blocks, self.inputs.joined(), options.roots, options.seeds
        )
        progress.begin("construction")
        columns = choose_columns(comm.size)
        self.graph, seconds = timed(comm, lambda: construct.construct(comm, edges, columns))
        self.paths: PathGraph | None = None
        if options.sssp:
            self.paths, more = timed(comm, lambda: PathGraph(self.graph))
            seconds += more
        self.facts: dict[str, int | float] = {
            "SCALE": options.scale,
            "edgefactor": options.edge_factor,
            "NBFS": len(self.roots),
            "graph_generation": generation,
            "num_mpi_processes": comm.size,
            "construction_time": seconds,
        }

    def search_all(self) -> list[SearchRecord]:
        """Return all breadth-first searches, then all shortest paths, in the order of the roots."""
        workspace = SearchWorkspace(self.graph)

        def breadth(root: int) -> tuple[Parents, ...]:
            return (breadth_first(self.graph, root, workspace),)

        records = self._search("bfs", breadth, validation.validate_bfs)
        if self.paths is not None:
            search = PathSearch(self.paths)
            records += self._search(
                "sssp", lambda root: shortest_paths(search, root), validation.validate_sssp
            )
        return records

    def _search(
        self,
        kernel: str,
        search: Callable[[int], tuple[NDArray[np.generic], ...]],
        validate: Callable[..., validation.Validity],
    ) -> list[SearchRecord]:
        """Search from every root and validate each result. One search before them warms up and is not counted."""
        self.progress.begin(kernel)
        for root in self.roots[:1]:
            search(root)
        records = []
        for i, root in enumerate(self.roots):
            self.progress.update(i, len(self.roots))
            result, seconds = timed(self.comm, partial(search, root))
            verdict, validate_seconds = timed(self.comm, partial(validate, self.inputs, root, *result))
            records.append(
                SearchRecord(kernel, root, seconds, verdict.edges, validate_seconds, verdict.failures)
            )
        return records


def timed(comm: MPI.Comm, action: Callable[[], T]) -> tuple[T, float]:
    """Return what an action returns, and the slowest rank's seconds from a barrier on. Collective."""
    comm.Barrier()
    start = perf_counter()
    result = action()
    return result, comm.allreduce(perf_counter() - start, MPI.MAX)


def predict_seconds(comm: MPI.Comm, options: Graph500Options) -> float | None:
    """Predict the seconds of a run from a smaller graph on the same ranks; return None for a small run. Collective.

    The time of generation, construction and searches is proportional to the edges, as long as caches do not matter.
    """
    if options.scale <= TRIAL_SCALE:
        return None
    trial = replace(options, scale=TRIAL_SCALE, roots=min(_TRIAL_ROOTS, options.roots))
    run, once = timed(comm, lambda: Graph500Run(comm, trial, silent()))
    searches, each = timed(comm, run.search_all)
    # The search that is not counted is one more of each kernel, without its validation.
    kernels = 1 + options.sssp
    warm = sum(search.seconds for search in searches) / len(searches) * kernels
    per_root = (each - warm) / trial.roots
    return (once + per_root * options.roots) * 2.0 ** (options.scale - TRIAL_SCALE)


def compile_graph500(comm: MPI.Comm) -> None:
    """Compile the kernels, or load them from the cache. Collective."""
    parts = generator, construct_kernels, search_kernels, path_kernels, validation
    kernels = [declared for part in parts for declared in part.kernels()]
    compile_on_nodes(comm, lambda: compile_kernels(kernels))


def to_result(
    comm: MPI.Comm,
    options: Graph500Options,
    facts: dict[str, int | float],
    searches: list[SearchRecord],
    times: dict[str, Any],
) -> Result:
    """Return a row for each search, and statistics of each kernel if all searches are valid. Collective over comm.

    facts: what is known of the graph, under the official names; times: seconds predicted and measured.
    """
    by_kernel: dict[str, list[SearchRecord]] = {}
    for search in searches:
        by_kernel.setdefault(search.kernel, []).append(search)
    failures = [
        f"{search.kernel} from root {search.root}: {sentence}"
        for search in searches
        for sentence in search.failures
    ]
    first = by_kernel[searches[0].kernel]
    summaries = {} if failures else {name: summarise_kernel(those) for name, those in by_kernel.items()}
    rows = []
    for kernel_searches in by_kernel.values():
        for number_of_search, search in enumerate(kernel_searches, 1):
            row = {name: value for name, value in asdict(search).items() if name != "failures"}
            row["search"] = number_of_search
            row["rate"] = search.rate if search.edges else None
            row["valid"] = "no" if search.failures else "yes"
            rows.append(row)
    return Result(
        benchmark=GRAPH500.name,
        pattern=f"scale {options.scale}, edge factor {options.edge_factor}: {len(first)} searches of "
        f"each kernel, {options.threads} thread{'s' * (options.threads != 1)} per rank",
        formula=GRAPH500.formula.partition(". ")[0],
        statistic="each search runs once",
        ranks=comm.size,
        columns=COLUMNS,
        rows=rows,
        nodes=find_layout(comm).n_nodes,
        verified=not failures,
        settings=asdict(options),
        extra={
            "summaries": {name: asdict(summary) for name, summary in summaries.items()},
            "facts": facts,
            "took": times,
            "text": INVALID if failures else official_text(facts, summaries),
        },
        notes=_notes(options, facts, summaries, times),
        failures=failures,
        plot=Plot(
            "search", ("rate",), ("kernel",), x_label="search", y_label="MTEPS", y_scale=1e6, log_x=False
        ),
    )


def _notes(
    options: Graph500Options,
    facts: dict[str, int | float],
    summaries: dict[str, KernelSummary],
    times: dict[str, Any],
) -> list[str]:
    notes = [
        f"Construction (kernel 1): {facts['construction_time']:.3g} s",
        *(
            f"{name}: harmonic mean {summary.rate.harmonic_mean / 1e6:.4g} MTEPS, with a standard deviation of "
            f"{summary.rate.harmonic_stddev / 1e6:.3g}"
            for name, summary in summaries.items()
        ),
    ]
    if not summaries:
        notes.append("INVALID: the validation failed.")
    if times["predicted"] is not None:
        notes.append(f"Time: {times['seconds']:.3g} s, predicted {times['predicted']:.3g} s")
    if (facts["NBFS"], options.edge_factor, options.seeds) != (MOST_ROOTS, EDGE_FACTOR, SEEDS):
        notes.append(f"This is not an official run, which has {OFFICIAL}.")
    return notes


def official_lines(result: Result, options: Graph500Options) -> list[str]:
    """Return the lines that the reference code would print."""
    return ["", *result.extra["text"].splitlines()]
