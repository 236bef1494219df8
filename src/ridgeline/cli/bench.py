"""`ridgeline bench`: a command for every declared benchmark, made from its declaration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from ridgeline.bench.benchmark import Benchmark, BenchmarkOptions
from ridgeline.bench.registry import available
from ridgeline.cli.options import Debug, Oversubscribe, Ranks, with_options

Json = Annotated[
    str | None, typer.Option("--json", metavar="FILE", help="Write the figures here too; - for stdout alone.")
]
Csv = Annotated[
    str | None,
    typer.Option("--csv", metavar="FILE", help="Write the rows as comma-separated values, SI units."),
]
Plot = Annotated[
    str | None, typer.Option("--plot", metavar="FILE", help="Draw the figures: a PNG, SVG or PDF file.")
]
# What every benchmark has, after its own options; the job's names, which no option of a benchmark may have.
OUTPUTS = ("json", "csv", "plot", "debug", "oversubscribe")

bench = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)


@bench.callback()
def group() -> None:
    """Measure this machine: its parts alone, and on the patterns of the models."""


def make_command(benchmark: Benchmark) -> Callable[..., None]:
    """Return the function whose signature Typer reads, and which runs the benchmark."""

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
    bench.command(declared.name)(make_command(declared))
