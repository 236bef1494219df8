"""The commands of `ridgeline bench`, one for each declared benchmark.

Declaring them takes a third of the start of every command, so that only `bench` imports this module
(cli/machine_commands.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from ridgeline.bench.benchmark import Benchmark, BenchmarkOptions, available
from ridgeline.cli.command_line_options import Debug, Oversubscribe, PanelGroup, Ranks, with_options

Json = Annotated[
    str | None,
    typer.Option(
        "--json", metavar="FILE", help="Write the results as JSON to this file; - is standard output."
    ),
]
Csv = Annotated[
    str | None,
    typer.Option("--csv", metavar="FILE", help="Write the rows as comma-separated values, in SI units."),
]
Plot = Annotated[
    str | None,
    typer.Option("--plot", metavar="FILE", help="Draw the results into this PNG, SVG or PDF file."),
]
# Names of the options that every benchmark has, which no option of a benchmark may have.
OUTPUTS = ("json", "csv", "plot", "debug", "oversubscribe")

benchmarks = typer.Typer(cls=PanelGroup, rich_markup_mode=None)


def make_command(benchmark: Benchmark) -> Callable[..., None]:
    """Return the command of a benchmark: a function whose signature Typer reads, and which runs the benchmark."""

    @with_options(benchmark.offered, benchmark.make_options)
    def run(
        ranks: Ranks = None,
        oversubscribe: Oversubscribe = False,
        *,
        options: BenchmarkOptions,
        json: Json = None,
        csv: Csv = None,
        plot: Plot = None,
        debug: Debug = False,
    ) -> None:
        from ridgeline.bench.run import BenchmarkOutputs, run_benchmark
        from ridgeline.parallel.job import start_ranks

        code = start_ranks(ranks)
        if code is not None:
            raise typer.Exit(code)
        run_benchmark(benchmark, options, BenchmarkOutputs(json, csv, plot), debug)

    run.__doc__ = benchmark.text
    return run


for declared in available().values():
    benchmarks.command(declared.name, short_help=declared.short)(make_command(declared))
