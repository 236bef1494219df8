"""Commands that run or predict many runs: `study` (run, collect, compare), `sweep` and `predict`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ridgeline.cli.command_line_options import (
    CasePath,
    NoPython,
    Oversubscribe,
    Ranks,
    Settings,
    load,
    with_options,
)
from ridgeline.cli.completion import complete_predictable
from ridgeline.runtime.declared_options import options_of
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.signals import hold_stop_signals
from ridgeline.study.study_options import StudyOptions, SubmitOptions, SweepOptions

study = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Output = Annotated[
    str | None,
    typer.Option("-o", "--output", metavar="DIR", help="Folder of the study. [default: by its name]"),
]
Machine = Annotated[
    str,
    typer.Option(
        "--machine",
        metavar="NAME|FILE",
        help='A machine that Ridgeline knows, a machine file (.toml), or "here", which `bench machine-file` writes.',
    ),
]


@study.callback()
def group() -> None:
    """Run a case or a benchmark over ranks, sizes and settings, and compare."""


@study.command("run", short_help="Run the missing jobs of a study.")
@with_options([*options_of(StudyOptions), *options_of(SubmitOptions)], dict)
def run_study_command(
    subject: Annotated[
        str | None,
        typer.Argument(
            metavar="CASE|STUDY|DIR",
            help="Settings file of a run, a study file (TOML), or the folder of a study to continue.",
        ),
    ] = None,
    output: Output = None,
    no_python: NoPython = False,
    oversubscribe: Oversubscribe = False,
    *,
    options: dict[str, Any],
) -> None:
    """Plan a study, run the missing jobs in random order, and write its tables and figures.

    Every point is a separate job, in DIR/points. A study that was interrupted continues when it is run again.

    Exit code 1: some jobs failed. Their names are printed, and their errors are kept.
    """
    from ridgeline.study.command import run_study

    code, _ = run_study(subject, options, output, typer.echo)
    if code:
        raise typer.Exit(code)


@study.command(short_help="Collect the results of a study.")
def collect(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="Folder of a study.")],
    machine: Annotated[
        str | None,
        typer.Option(
            "--machine",
            metavar="NAME|FILE",
            help="Machine to predict all points for; by default this one, if it has a machine file.",
        ),
    ] = None,
) -> None:
    """Read the reports of a study, name the missing ones, and write tables and figures into its folder.

    Exit code 1: a job failed, or its report is damaged.
    """
    from ridgeline.study.command import collect_study

    code = collect_study(folder, typer.echo, machine)
    if code:
        raise typer.Exit(code)


@study.command(short_help="Compare two studies.")
def compare(
    first: Annotated[str, typer.Argument(metavar="A", help="Folder of a study.")],
    second: Annotated[
        str,
        typer.Argument(metavar="B", help="Folder of another study, such as of another machine or commit."),
    ],
    output: Output = None,
) -> None:
    """Put two studies into one figure and one table, point by point."""
    from ridgeline.study.command import compare_studies

    compare_studies(first, second, output, typer.echo)


@with_options(options_of(SweepOptions), SweepOptions)
def sweep(
    case: CasePath,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="DIR", help="Folder of the sweep. [default: by its name]"),
    ] = None,
    no_python: NoPython = False,
    oversubscribe: Oversubscribe = False,
    *,
    options: SweepOptions,
) -> None:
    """Run a case over values of its settings, and write a table of the final numbers and a contact sheet.

    The cases share processes, so that kernels are loaded once. The files of each case are in a folder of DIR/points.
    A sweep that was interrupted continues when it is run again.

    Exit code 1: some cases failed. Their names are printed.
    """
    from ridgeline.study.sweep import run_sweep

    code, _ = run_sweep(case, options, output, typer.echo)
    if code:
        raise typer.Exit(code)


def run_list_command(path: str, ranks: Ranks = None) -> None:
    """Run the cases of a list that a sweep has written."""
    hold_stop_signals()
    from ridgeline.parallel.job import start_ranks
    from ridgeline.simulation.run_on_ranks import run_list

    code = start_ranks(ranks)
    if code is not None:
        raise typer.Exit(code)
    run_list(path)


def predict(
    case: Annotated[
        str,
        typer.Argument(
            metavar="CASE|hpcg",
            help="Settings file; or hpcg, with --set nx=104 for the box of a rank.",
            autocompletion=complete_predictable,
        ),
    ],
    machine: Machine = "here",
    nodes: Annotated[int, typer.Option("--nodes", metavar="N", help="Number of nodes of the job.")] = 1,
    ranks_per_node: Annotated[
        int | None,
        typer.Option(
            "--ranks-per-node",
            metavar="N",
            help="Ranks of each node; by default one for each GPU, or as the machine file says.",
        ),
    ] = None,
    sweep: Annotated[
        str | None,
        typer.Option(
            "--sweep", metavar="N,N,...", help="Predict for several numbers of nodes, in one table."
        ),
    ] = None,
    iterations: Annotated[
        list[str] | None,
        typer.Option(
            "--iterations",
            metavar="SOLVE=N",
            help="Iterations of one of the linear solves of a step, as pressure=20. May be repeated.",
        ),
    ] = None,
    settings: Settings = None,
    json: Annotated[
        str | None,
        typer.Option(
            "--json", metavar="FILE", help="Write the prediction to this file as JSON; - is standard output."
        ),
    ] = None,
    plot: Annotated[
        str | None,
        typer.Option("--plot", metavar="FILE", help="Draw the prediction into this PNG, SVG or PDF file."),
    ] = None,
    no_python: NoPython = False,
) -> None:
    """Predict the time of a step and of its parts, memory, output and node hours on a machine. Nothing is run."""
    from ridgeline.study.prediction_tables import answer, of_benchmark, of_case

    loaded = None
    if case == "hpcg":
        if iterations:
            raise ConfigError(
                "--iterations cannot be used with hpcg. It is for cases whose model solves linear systems."
            )
        question = of_benchmark(case, settings or [])
    else:
        loaded = load(case, settings).case
        question = of_case(loaded, iterations or [])
    answer(question, machine, nodes, ranks_per_node, sweep, json, plot, loaded)
