"""`ridgeline report`: what a run printed at its end, from its file."""

from __future__ import annotations

from typing import Annotated

import typer

from ridgeline.runtime.errors import ConfigError


def report(
    file: Annotated[
        str,
        typer.Argument(metavar="REPORT", help="NAME.bp.run.json beside a data set, or what --json wrote."),
    ],
    other: Annotated[
        str | None,
        typer.Argument(metavar="[OTHER]", help="The report of a second run, to compare the first with."),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="All times, counted work and speeds.")] = False,
) -> None:
    """Print the stored report of a run or of a benchmark, in the words of the command that wrote it.

    With two reports of runs: the settings that differ, times beside each other, and the states they ended with.
    """
    if other is not None:
        from ridgeline.simulation.compare_reports import compare_reports

        if verbose:
            raise ConfigError("--verbose has no effect on two reports; leave it out")
        compare_reports(file, other)
        return
    from ridgeline.simulation.stored_report import show_report

    show_report(file, verbose)
