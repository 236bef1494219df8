"""Reports of runs and benchmarks, read from their JSON: what is no report, or is damaged, gets one sentence."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ridgeline.runtime.errors import OutputError
from ridgeline.runtime.files import DAMAGED, output_errors, read_regular
from ridgeline.runtime.units import counted

WHICH = "name the NAME.bp.run.json beside a data set, or a file that --json of run or bench wrote"
KINDS = ({"model", "run", "phases"}, {"benchmark", "columns", "rows"})  # keys of a run's, of a benchmark's


def read_report(path: str) -> dict[str, Any]:
    """Return the report in a file. Raises OutputError if it holds neither that of a run nor of a benchmark."""
    try:
        with output_errors(f"read the report {path}", WHICH):
            content = json.loads(read_regular(path).decode())
    except (ValueError, RecursionError) as error:
        raise OutputError(f"the report {path} is not JSON, or cut off ({error}); {WHICH}") from None
    if not isinstance(content, dict) or not any(kind <= content.keys() for kind in KINDS):
        raise OutputError(f"{path} is JSON, but no report that has a table; {WHICH}")
    return content


def is_run(report: dict[str, Any]) -> bool:
    """Say whether a report is that of a run, and not of a benchmark."""
    return report.keys() >= KINDS[0]


@contextmanager
def damage_errors(path: str, *more: type[Exception]) -> Iterator[None]:
    """Raise what the use of a damaged report raises in the block as OutputError. more: further such errors."""
    errors: tuple[type[Exception], ...] = (*DAMAGED, *more)
    try:
        yield
    except errors as error:
        missing = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        raise OutputError(
            f"the report {path} is damaged, or of another version: {missing}; {WHICH}"
        ) from None


def run_title(report: Mapping[str, Any]) -> str:
    """Return what ran and on how much, for the heads of tables and pictures of a run's report."""
    run = report["run"]
    grid = run.get("grid") or " x ".join(map(str, run["shape"]))
    return (
        f"{report['model']} {grid}, {run['precision']}, {counted(run['ranks'], 'rank')} x "
        f"{counted(run['threads'], 'thread')} on {run['device']}"
    )
