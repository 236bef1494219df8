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
    from rich.errors import ConsoleError

    from ridgeline.bench.result import Result, make_table
    from ridgeline.io.report_file import damage_errors, is_run_report, read_report
    from ridgeline.runtime.console import plain_console
    from ridgeline.simulation.print_report import print_report

    content = read_report(file)
    console = plain_console(soft_wrap=True)
    with damage_errors(file, ConsoleError):
        if is_run_report(content):
            print_report(content, console, verbose)
        else:
            console.print(make_table(Result.from_dict(content)), soft_wrap=False)
