"""`ridgeline report`: what a run printed at its end, from its file."""

from __future__ import annotations

from typing import Annotated

import typer


def report(
    file: Annotated[
        str,
        typer.Argument(metavar="REPORT", help="NAME.bp.run.json beside a data set, or what --json wrote."),
    ],
    verbose: Annotated[bool, typer.Option("--verbose", help="All times, counted work and speeds.")] = False,
) -> None:
    """Print the stored report of a run or of a benchmark, in the words of the command that wrote it."""
    from ridgeline.simulation.stored_report import show_report

    show_report(file, verbose)
