"""`ridgeline report A.json B.json`: what differs between two runs, and how much faster the second is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ridgeline.io.report_file import damage_errors, is_run_report, read_report, run_title
from ridgeline.runtime.console import plain_console
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.units import number

# Where a report says on what a run ran, beside its settings.
MACHINE = ("host", "cpu", "git_commit")
NONE = "-"  # what one of the reports does not have


def compare_reports(first: str, second: str) -> None:
    """Print two reports of runs beside each other on stdout: what differs, times, and the states they ended with.

    Raises ConfigError for a report of a benchmark, OutputError for what cannot be read, is damaged or no report.
    """
    reports = [read_report(path) for path in (first, second)]
    for path, report in zip((first, second), reports):
        if not is_run_report(report):
            raise ConfigError(f"{path} is the report of a benchmark, and only reports of runs are compared")
    console = plain_console(soft_wrap=True)
    with damage_errors(f"{first} or {second}"):
        parts = [
            *_heads((first, second), reports),
            _different(*reports),
            _speeds(*reports),
            _states(*reports),
        ]
    for part in parts:
        _show(console, part)


def _show(console: Console, part: Table | Text) -> None:
    console.print(part)
    console.print()


def _heads(paths: tuple[str, str], reports: list[dict[str, Any]]) -> Iterator[Text]:
    for name, path, report in zip("AB", paths, reports):
        yield Text(f"{name}: {path}\n   {run_title(report)}, {report['steps']} steps")


def _different(a: Mapping[str, Any], b: Mapping[str, Any]) -> Table | Text:
    """Return a table of the settings, machines and versions that differ."""
    sides = [
        {
            **report["settings"],
            **{key: report["provenance"].get(key) for key in MACHINE},
            **report["versions"],
        }
        for report in (a, b)
    ]
    words = {key: [_words(side.get(key)) for side in sides] for key in dict.fromkeys([*sides[0], *sides[1]])}
    different = {key: both for key, both in words.items() if both[0] != both[1]}
    if not different:
        return Text("Both runs have the same settings, machine and versions.")
    table = _table("what differs", "A", "B")
    for key, both in different.items():
        table.add_row(Text(key), *map(Text, both))
    return table


def _words(value: Any) -> str:
    return NONE if value is None or value == "" else str(value)


def _speeds(a: Mapping[str, Any], b: Mapping[str, Any]) -> Table:
    """Return a table of times and memory; those of a step are of the slowest rank, and means."""
    table = _table("speed", "A", "B", "B / A")
    rows = {"time of a step": ("s", [report["seconds_per_step"] for report in (a, b)])}
    phases = [report["step"].get("mean", {}) for report in (a, b)]
    for name in dict.fromkeys([*phases[0], *phases[1]]):
        if name != "total":
            rows[f"  {name}"] = ("s", [phase.get(name) for phase in phases])
    rows["whole run"] = ("s", [report["seconds"]["total"] for report in (a, b)])
    for name, key, unit in (
        ("least memory traffic", "least_bytes_per_second", "B/s"),
        ("share of the memory's bandwidth", "fraction_of_stream", ""),
        ("peak memory per rank", "peak_memory_per_rank", "B"),
    ):
        rows[name] = (unit, [report.get(key) for report in (a, b)])
    for name, (unit, values) in rows.items():
        table.add_row(
            Text(name), *(Text(NONE if v is None else number(v, unit)) for v in values), _ratio(*values)
        )
    return table


def _states(a: Mapping[str, Any], b: Mapping[str, Any]) -> Table:
    """Return a table of the last states, which may be of different steps, and their relative difference."""
    table = _table("last state", "A", "B", "(B - A) / |A|")
    table.add_row("step", *(str(report["run"]["last_step"]) for report in (a, b)), "")
    names = [str(report["run"].get("time_name", "time")) for report in (a, b)]
    table.add_row(
        " / ".join(dict.fromkeys(names)), *(f"{report['run']['time']:.6g}" for report in (a, b)), ""
    )
    for name in dict.fromkeys([*a["summary"], *b["summary"]]):
        found = [report["summary"].get(name) for report in (a, b)]
        values = [None if each is None else float(each["value"]) for each in found]
        apart = ""
        if values[0] is not None and values[1] is not None and values[0] != 0:
            apart = f"{(values[1] - values[0]) / abs(values[0]):.3g}"
        texts = (NONE if each is None else f"{each['value']:.8g} {each['unit']}".rstrip() for each in found)
        table.add_row(Text(name), *map(Text, texts), apart)
    return table


def _ratio(a: float | None, b: float | None) -> str:
    return f"{b / a:.3f}" if a and b is not None else ""


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("")
    for name in columns:
        table.add_column(name, justify="right")
    return table
