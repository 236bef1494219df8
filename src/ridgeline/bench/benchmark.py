"""Benchmarks as jobs of their own: prepare this rank, measure, print on rank 0."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any

from rich.console import Console

from ridgeline.io.previous import check_file, to_json, write_text
from ridgeline.parallel.job import job
from ridgeline.runtime.machine import describe_machine
from ridgeline.runtime.node_load import Reading, others_share, read_load
from ridgeline.runtime.progress import Phases

if TYPE_CHECKING:
    from mpi4py import MPI
    from rich.console import RenderableType


def run_transposes(
    pattern: dict[str, Any],
    process_grids: Sequence[tuple[int, int]] | None,
    batches: Sequence[int],
    json_path: str | None = None,
    debug: bool = False,
) -> dict[str, Any]:
    """Measure the exchanges of a `bench.transpose.measure.Pattern` on all ranks; print on rank 0; return the figures.

    Collective over the world. Any failure ends the job (see `parallel.job.job`).
    """

    with job(debug=debug) as comm:
        from ridgeline.bench.transpose.measure import Pattern, make_table, measure_transposes, to_dict

        _check_outputs(comm, json_path)
        asked = Pattern(**pattern)
        with Phases("transpose", comm.rank == 0) as progress:
            figures = measure_transposes(comm, asked, process_grids, batches, progress)
        result = to_dict(asked, comm.size, figures)
        _report(comm, result, lambda: make_table(asked, comm.size, figures), json_path)
    return result


def run_nekbone(
    points: Sequence[int],
    elements: int,
    iterations: int,
    stream: bool = True,
    json_path: str | None = None,
    debug: bool = False,
) -> dict[str, Any]:
    """Run Nekbone for each number of points per direction, STREAM beside it; print on rank 0; return the figures.

    Collective over the world. elements: per rank. Any failure ends the job.
    """

    with job(debug=debug) as comm:
        from ridgeline.bench.elements.nekbone import make_table, measure_nekbone, to_dict
        from ridgeline.bench.memory.stream import measure_stream

        _check_outputs(comm, json_path)
        with Phases("nekbone", comm.rank == 0) as progress:
            figures = [measure_nekbone(comm, n, elements, iterations, progress) for n in points]
            limits = None
            if stream:
                progress.begin("bandwidth of memory")
                limits = measure_stream(comm, 1)
        result = to_dict(figures, limits)
        _report(comm, result, lambda: make_table(figures, limits), json_path)
    return result


def run_acceptance(
    points: int, elements: int, json_path: str | None = None, debug: bool = False
) -> dict[str, Any]:
    """Check the health of all ranks (bench.elements.acceptance); print on rank 0; return the figures.

    Collective over the world. Any failure ends the job.
    """

    with job(debug=debug) as comm:
        from ridgeline.bench.elements.acceptance import make_table, measure_acceptance

        _check_outputs(comm, json_path)
        with Phases("acceptance", comm.rank == 0) as progress:
            figures = measure_acceptance(comm, points, elements, progress)
        result = figures.to_dict()
        _report(comm, result, lambda: make_table(figures), json_path)
    return result


def run_benchmark(
    function: str,
    options: dict[str, Any],
    device: str | None = None,
    threads: int = 1,
    json_path: str | None = None,
    plot_path: str | None = None,
    debug: bool = False,
    csv_path: str | None = None,
) -> dict[str, Any]:
    """Run a benchmark that returns a `bench.result.Result`; print on rank 0; return its figures.

    Collective over the world. function: "module.measure_x" inside ridgeline.bench, called as measure_x(comm,
    **options), with memory= from `bench.payload.memory_for` if device is not None. plot_path: picture to draw
    (PNG, SVG, PDF); csv_path: file for the rows. Any failure ends the job.
    """

    module, _, name = function.rpartition(".")
    with job(threads, debug=debug) as comm:
        from ridgeline.bench.payload import memory_for
        from ridgeline.bench.result import make_table, to_csv
        from ridgeline.parallel.reduce import together

        _check_outputs(comm, json_path, csv_path, plot_path)
        if device is not None:
            options = options | {"memory": memory_for(comm, device)}
        before = read_load()
        measure = getattr(import_module(f"ridgeline.bench.{module}"), name)
        with Phases(_title(name, options), comm.rank == 0) as progress:
            # Benchmarks that take long say so themselves; the others have no such parameter.
            tells = {"progress": progress} if "progress" in signature(measure).parameters else {}
            figures = measure(comm, **options, **tells)
        result: dict[str, Any] = figures.to_dict() | {"machine": describe_machine().to_dict()}
        result["others_share"] = _busiest(comm, before)
        _report(comm, result, lambda: make_table(figures), json_path)
        with together(comm):
            if comm.rank == 0 and csv_path is not None:
                write_text(csv_path, to_csv(figures), "--csv")
        if plot_path is not None:
            from ridgeline.analysis.bench_plots import save_plot

            with together(comm):
                if comm.rank == 0:
                    save_plot(result, plot_path)
    return result


def _title(function: str, options: dict[str, Any]) -> str:
    """Return what a benchmark is called beside its progress."""
    return str(options.get("operation", function.removeprefix("measure_").replace("_", "-")))


def _busiest(comm: MPI.Comm, before: Reading | None) -> float:
    """Return the share of its processors that others used on the busiest node since `before`. Collective."""
    looks = comm.gather((before, read_load()))
    share = 0.0
    if looks is not None:
        first, last = zip(*looks)
        share = max((others_share(first, last, rank) for rank in _one_of_each_system(first)), default=0.0)
    shared: float = comm.bcast(share)
    return shared


def _one_of_each_system(looks: Sequence[Reading | None]) -> list[int]:
    """Return the first rank of every node that tells its load."""
    first = {look.system: rank for rank, look in reversed(list(enumerate(looks))) if look is not None}
    return list(first.values())


def _check_outputs(
    comm: MPI.Comm, json_path: str | None, csv_path: str | None = None, plot_path: str | None = None
) -> None:
    """Raise OutputError on all ranks, before anything is measured, if rank 0 cannot write its files. Collective."""
    from ridgeline.parallel.reduce import together

    with together(comm):
        if comm.rank == 0:
            check_file(json_path, "--json")
            check_file(csv_path, "--csv")
            check_file(plot_path, "--plot")


def _report(
    comm: MPI.Comm, result: dict[str, Any], table: Callable[[], RenderableType], json_path: str | None
) -> None:
    """Write the JSON and print the table on rank 0; an error there is raised on all ranks. Collective."""
    from ridgeline.parallel.reduce import together

    with together(comm):
        if comm.rank == 0:
            if json_path is not None:
                write_text(json_path, to_json(result), "--json")
            if json_path != "-":
                # A table cut at 80 columns would be of no use in a file.
                console = Console(width=None if sys.stdout.isatty() else 200)
                console.print(table(), highlight=False, markup=False)
