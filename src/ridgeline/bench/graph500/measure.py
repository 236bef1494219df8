"""`ridgeline bench graph500`: all kernels, every search validated, as a result and as the official lines."""

from __future__ import annotations

from dataclasses import asdict
from time import perf_counter
from typing import Any

from mpi4py import MPI

from ridgeline.bench.graph500.graph500_options import (
    EDGE_FACTOR,
    MOST_ROOTS,
    OFFICIAL,
    SEEDS,
    Graph500Options,
)
from ridgeline.bench.graph500.output import (
    INVALID,
    KernelSummary,
    SearchRecord,
    official_text,
    summarise_kernel,
)
from ridgeline.bench.graph500.run import Graph500Run, compile_graph500, predict_seconds
from ridgeline.bench.graph500.sizes import require_scale
from ridgeline.bench.result import Column, Plot, Result
from ridgeline.jit.numba_threads import check_threads, numba_threads
from ridgeline.parallel.layout import find_layout
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.progress import Phases, silent
from ridgeline.runtime.units import number

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

    Raises ConfigError for threads, or for a scale that does not fit in memory or has no root, on all
    ranks.
    """
    check_threads(options.threads, f"Graph500 on {options.threads} threads")
    require_scale(comm, options)
    progress = progress or silent()
    start = perf_counter()
    with numba_threads(options.threads):
        progress.begin("compiling")
        compile_graph500(comm)
        progress.begin("prediction")
        predicted = predict_seconds(comm, options)
        if predicted is not None:
            progress.begin(f"about {number(predicted, 's')} predicted, from a smaller graph")
        began = perf_counter()
        run = Graph500Run(comm, options, progress)
        searches = run.search_all()
    now = perf_counter()
    if not searches:
        raise ConfigError(
            f"scale {options.scale} with edge factor {options.edge_factor} has no vertex with a neighbour among its "
            "candidates; take a larger one"
        )
    took = {"predicted": predicted, "seconds": comm.allreduce(now - began, MPI.MAX), "all": now - start}
    return to_result(comm, options, run.facts, searches, took)


def to_result(
    comm: MPI.Comm,
    options: Graph500Options,
    facts: dict[str, int | float],
    searches: list[SearchRecord],
    took: dict[str, Any],
) -> Result:
    """Return a row for each search, and statistics of each kernel if all searches are valid. Collective over comm.

    facts: official names of what is known of the graph; took: seconds predicted and measured.
    """
    kernels = list(dict.fromkeys(one.kernel for one in searches))
    by_kernel = {name: [one for one in searches if one.kernel == name] for name in kernels}
    failures = [
        f"{one.kernel} from root {one.root}: {sentence}" for one in searches for sentence in one.failures
    ]
    summaries = {} if failures else {name: summarise_kernel(found) for name, found in by_kernel.items()}
    return Result(
        benchmark="graph500",
        pattern=f"scale {options.scale}, edge factor {options.edge_factor}: {len(by_kernel[kernels[0]])} searches of "
        f"each kernel, {options.threads} thread{'s' * (options.threads != 1)} a rank",
        formula="TEPS = input edges in the root's component / s",
        statistic="each search once, seconds of the slowest rank; the harmonic mean counts",
        ranks=comm.size,
        columns=COLUMNS,
        rows=_rows(searches),
        nodes=find_layout(comm).n_nodes,
        verified=not failures,
        settings=asdict(options),
        extra={
            "summaries": {name: asdict(one) for name, one in summaries.items()},
            "facts": facts,
            "took": took,
            "text": INVALID if failures else official_text(facts, summaries),
        },
        notes=_notes(options, facts, summaries, took),
        failures=failures,
        plot=Plot(
            "search", ("rate",), ("kernel",), x_label="search", y_label="MTEPS", y_scale=1e6, log_x=False
        ),
    )


def _rows(searches: list[SearchRecord]) -> list[dict[str, Any]]:
    count: dict[str, int] = {}
    rows = []
    for one in searches:
        count[one.kernel] = count.get(one.kernel, 0) + 1
        row = {name: value for name, value in asdict(one).items() if name != "failures"}
        rows.append(
            row
            | {
                "search": count[one.kernel],
                "rate": one.rate if one.edges else None,
                "valid": "no" if one.failures else "yes",
            }
        )
    return rows


def _notes(
    options: Graph500Options,
    facts: dict[str, int | float],
    summaries: dict[str, KernelSummary],
    took: dict[str, Any],
) -> list[str]:
    notes = [
        f"construction (kernel 1): {facts['construction_time']:.3g} s",
        *(
            f"{name}: harmonic mean {one.rate.harmonic_mean / 1e6:.4g} MTEPS, its deviation "
            f"{one.rate.harmonic_stddev / 1e6:.3g}"
            for name, one in summaries.items()
        ),
    ]
    if not summaries:
        notes.append("INVALID: the validation failed")
    if took["predicted"] is not None:
        notes.append(f"took {took['seconds']:.3g} s, predicted {took['predicted']:.3g} s")
    if (facts["NBFS"], options.edge_factor, options.seeds) != (MOST_ROOTS, EDGE_FACTOR, SEEDS):
        notes.append(f"not an official run: those have {OFFICIAL}")
    return notes


def official_lines(result: Result, options: Graph500Options) -> list[str]:
    """Return the lines that the reference code would print."""
    return ["", *result.extra["text"].splitlines()]
