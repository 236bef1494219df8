"""`ridgeline study`: scaling studies of cases and benchmarks."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ridgeline.cli.options import NoPython, Oversubscribe, with_options
from ridgeline.runtime.declared_options import options_of
from ridgeline.study.study_options import StudyOptions, SubmitOptions

study = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)

Output = Annotated[
    str | None,
    typer.Option("-o", "--output", metavar="DIR", help="Folder of the study. [default: by its name]"),
]


@study.callback()
def group() -> None:
    """Run a case or a benchmark over ranks, sizes and settings, and compare."""


def _as_given(**given: Any) -> dict[str, Any]:
    return given


@study.command()
@with_options([*options_of(StudyOptions), *options_of(SubmitOptions)], _as_given)
def run(
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
