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
from ridgeline.runtime.declared_options import options_of
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.signals import hold_stop_signals
from ridgeline.study.study_options import StudyOptions, SubmitOptions, SweepOptions

study = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)

Output = Annotated[
    str | None,
    typer.Option("-o", "--output", metavar="DIR", help="Folder of the study. [default: by its name]"),
]
Machine = Annotated[
    str,
    typer.Option(
        "--machine",
        metavar="NAME|FILE",
        help='A machine that Ridgeline knows, a machine file (.toml), or "here": what `bench machine-file` wrote.',
    ),
]


@study.callback()
def group() -> None:
    """Run a case or a benchmark over ranks, sizes and settings, and compare."""


@study.command("run")
@with_options([*options_of(StudyOptions), *options_of(SubmitOptions)], dict)
def run_study_command(
    subject: Annotated[
        str | None,
        typer.Argument(
            metavar="[CASE|STUDY|DIR]",
            help="Settings file of a run, a study file (TOML), or the folder of a study to go on with.",
        ),
    ] = None,
    output: Output = None,
    no_python: NoPython = False,
    oversubscribe: Oversubscribe = False,
    *,
    options: dict[str, Any],
) -> None:
    """Plan a study, run the jobs that are missing in random order, and write its tables and figures.

    Every point is a job of its own in DIR/points. A study that was interrupted goes on when it is run again. Exit
    code 1: some jobs failed; they are named, and their errors kept.
    """
    from ridgeline.study.command import run_study

    code = run_study(subject, options, output, typer.echo)
    if code:
        raise typer.Exit(code)


@study.command()
def collect(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="Folder of a study.")],
    machine: Annotated[
        str | None,
        typer.Option(
            "--machine",
            metavar="NAME|FILE",
            help="Predict all points for this machine; by default for this one, if it has a machine file.",
        ),
    ] = None,
) -> None:
    """Read the reports that are there, name those that are not, and write tables and figures into the folder.

    Exit code 1: a job failed or its report is damaged.
    """
    from ridgeline.study.command import collect_study

    code = collect_study(folder, typer.echo, machine)
    if code:
        raise typer.Exit(code)


@study.command()
def compare(
    first: Annotated[str, typer.Argument(metavar="A", help="Folder of a study.")],
    second: Annotated[
        str, typer.Argument(metavar="B", help="Folder of another: a machine or a commit more.")
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
    """Run a case over values of its settings, and write a table of final figures and a contact sheet.

    Cases share processes, so that kernels are loaded once. Each has its folder in DIR/points, with what it writes. A
    sweep that was interrupted goes on when it is run again. Exit code 1: some cases failed; they are named.
    """
    from ridgeline.study.sweep import run_sweep

    code = run_sweep(case, options, output, typer.echo)
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
            metavar="CASE|hpcg", help="Settings file; or hpcg, with --set nx=104 for the box of a rank."
        ),
    ],
    machine: Machine = "here",
    nodes: Annotated[int, typer.Option("--nodes", help="Nodes of the job.")] = 1,
    ranks_per_node: Annotated[
        int | None,
        typer.Option(
            "--ranks-per-node", help="Ranks of a node; without it, one a device or as the file says."
        ),
    ] = None,
    sweep: Annotated[
        str | None, typer.Option("--sweep", metavar="N,N,...", help="Several numbers of nodes, in one table.")
    ] = None,
    iterations: Annotated[
        list[str] | None,
        typer.Option(
            "--iterations",
            metavar="SOLVE=N",
            help="Iterations of each of the model's linear solves in a step, as pressure=20; may be repeated.",
        ),
    ] = None,
    settings: Settings = None,
    json: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write the prediction as JSON; - is stdout.")
    ] = None,
    plot: Annotated[
        str | None, typer.Option("--plot", metavar="FILE", help="Draw it; the ending says the format.")
    ] = None,
    no_python: NoPython = False,
) -> None:
    """Predict the time of a step, its parts, memory, output and node hours on a machine. Runs nothing."""
    from ridgeline.study.prediction_tables import answer, of_benchmark, of_case

    if case == "hpcg":
        if iterations:
            raise ConfigError("--iterations is for cases whose model solves linear systems, and this is hpcg")
        question = of_benchmark(case, settings or [])
    else:
        question = of_case(load(case, settings).case, iterations or [])
    answer(question, machine, nodes, ranks_per_node, sweep, json, plot)
