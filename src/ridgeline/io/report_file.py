"""Reports of runs and benchmarks, read from their JSON files, and errors for other or damaged files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ridgeline.runtime.errors import OutputError
from ridgeline.runtime.files import DAMAGED, output_errors, read_regular
from ridgeline.runtime.units import counted

ADVICE = "Give the NAME.bp.run.json beside a data set, or a file that --json of run or bench wrote."
# Keys of the report of a run, and of a benchmark.
KINDS = ({"model", "run", "phases"}, {"benchmark", "columns", "rows"})


def read_report(path: str) -> dict[str, Any]:
    """Return the report in a file. Raises OutputError if it is not the report of a run or a benchmark."""
    try:
        with output_errors(f"read the report {path}", ADVICE):
            content = json.loads(read_regular(path).decode())
    except (ValueError, RecursionError) as error:
        raise OutputError(f"the report {path} is not JSON, or is cut off ({error}). {ADVICE}") from None
    if not isinstance(content, dict) or not any(kind <= content.keys() for kind in KINDS):
        raise OutputError(f"{path} is JSON, but not a report with a table. {ADVICE}")
    return content


def is_run_report(report: dict[str, Any]) -> bool:
    """Whether a report is that of a run, and not of a benchmark."""
    return report.keys() >= KINDS[0]


@contextmanager
def damage_errors(path: str, *more: type[Exception]) -> Iterator[None]:
    """Raise OutputError for errors in the block that damaged reports cause. more: further types of such errors."""
    errors: tuple[type[Exception], ...] = (*DAMAGED, *more)
    try:
        yield
    except errors as error:
        missing = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        raise OutputError(
            f"the report {path} is damaged, or of another version: {missing}. {ADVICE}"
        ) from None


def run_title(report: Mapping[str, Any]) -> str:
    """Return the model, grid, ranks and device of a run, for the titles of tables and pictures."""
    run = report["run"]
    grid = run.get("grid") or " x ".join(map(str, run["shape"]))
    return (
        f"{report['model']} {grid}, {run['precision']}, {counted(run['ranks'], 'rank')} x "
        f"{counted(run['threads'], 'thread')} on {run['device']}"
    )
