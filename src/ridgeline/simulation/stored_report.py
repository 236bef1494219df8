"""A report that was stored as JSON, printed again in the words of the command that wrote it."""

from __future__ import annotations

from rich.errors import ConsoleError

from ridgeline.bench.result import Result, make_table
from ridgeline.io.stored_reports import damage_errors, is_run, read_report
from ridgeline.runtime.console import plain_console
from ridgeline.simulation.print_report import print_report


def show_report(path: str, verbose: bool = False) -> None:
    """Print a stored report of a run, or of a benchmark that returns a `bench.result.Result`, on stdout.

    verbose: all tables of a run. Raises OutputError for what cannot be read, is damaged or is no such report.
    """
    content = read_report(path)
    console = plain_console(soft_wrap=True)
    with damage_errors(path, ConsoleError):
        if is_run(content):
            print_report(content, console, verbose)
        else:
            table = make_table(Result.from_dict(content))
            console.print(table, soft_wrap=False)
