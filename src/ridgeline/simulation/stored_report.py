"""A report that was stored as JSON, printed again in the words of the command that wrote it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from rich.errors import ConsoleError

from ridgeline.bench.result import Result, make_table
from ridgeline.runtime.errors import OutputError
from ridgeline.runtime.files import output_errors
from ridgeline.simulation.print_report import print_report, report_console

WHICH = "name the NAME.bp.run.json beside a data set, or a file that --json of run or bench wrote"


def show_report(path: str, verbose: bool = False) -> None:
    """Print a stored report of a run, or of a benchmark that returns a `bench.result.Result`, on stdout.

    verbose: all tables of a run. Raises OutputError for what cannot be read, is damaged or is no such report.
    """
    content = _read(path)
    console = report_console(sys.stdout)
    try:
        if "phases" in content:
            print_report(content, console, verbose)
        else:
            table = make_table(Result.from_dict(content))
            console.print(table, highlight=False, markup=False, soft_wrap=False)
    except (KeyError, TypeError, ValueError, AttributeError, ConsoleError) as error:
        missing = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        raise OutputError(
            f"the report {path} is damaged, or of another version: {missing}; {WHICH}"
        ) from None


def _read(path: str) -> dict[str, Any]:
    """Return what a file of JSON holds. Raises OutputError if it is no report that can be printed."""
    try:
        with output_errors(f"read the report {path}", WHICH):
            content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise OutputError(f"the report {path} is not JSON, or cut off ({error}); {WHICH}") from None
    kinds = ({"model", "run", "phases"}, {"benchmark", "columns", "rows"})
    if not isinstance(content, dict) or not any(kind <= content.keys() for kind in kinds):
        raise OutputError(f"{path} is JSON, but no report that has a table; {WHICH}")
    return content
