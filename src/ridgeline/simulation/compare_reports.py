"""`ridgeline report A.json B.json`: how two runs differ, and how much faster the second one is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from ridgeline.io.report_file import damage_errors, is_run_report, read_report, run_title
from ridgeline.runtime.console import plain_console
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.units import number

# The entries of a report's provenance that say where a run ran.
MACHINE = ("host", "cpu", "git_commit")
NONE = "-"  # stands for what one of the reports does not have


def compare_reports(first: str, second: str) -> None:
    """Print two reports of runs beside each other on stdout: what differs, the times, and the final states.

    Raises ConfigError for the report of a benchmark, and OutputError for a file that cannot be read, is damaged or is
    not a report.
    """
    reports = [read_report(path) for path in (first, second)]
    for path, report in zip((first, second), reports):
        if not is_run_report(report):
            raise ConfigError(
                f"{path} is the report of a benchmark, but only reports of runs can be compared."
            )
    console = plain_console(soft_wrap=True)
    with damage_errors(f"{first} or {second}"):
        parts = [
            *(
                Text(f"{name}: {path}\n   {run_title(report)}, {report['steps']} steps")
                for name, path, report in zip("AB", (first, second), reports)
            ),
            _differences(*reports),
            _speeds(*reports),
            _states(*reports),
        ]
    for part in parts:
        console.print(part)
        console.print()


def _differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> Table | Text:
    """Return a table of the settings, machines and versions that differ."""
    sides = [
        {
            **report["settings"],
            **{key: report["provenance"].get(key) for key in MACHINE},
            **report["versions"],
        }
        for report in (a, b)
    ]
    table = _table("what differs", "A", "B")
    for key in dict.fromkeys([*sides[0], *sides[1]]):
        a_text, b_text = (NONE if side.get(key) in (None, "") else str(side[key]) for side in sides)
        if a_text != b_text:
            table.add_row(Text(key), Text(a_text), Text(b_text))
    if not table.row_count:
        return Text("Both runs have the same settings, machine and versions.")
    return table


def _speeds(a: Mapping[str, Any], b: Mapping[str, Any]) -> Table:
    """Return a table of times and memory. Those of a step are means of the slowest rank."""
    table = _table("speed", "A", "B", "B / A")
    rows = {"time per step": ("s", [report["seconds_per_step"] for report in (a, b)])}
    phases = [report["step"].get("mean", {}) for report in (a, b)]
    for name in dict.fromkeys([*phases[0], *phases[1]]):
        if name != "total":
            rows[f"  {name}"] = ("s", [phase.get(name) for phase in phases])
    rows["whole run"] = ("s", [report["seconds"]["total"] for report in (a, b)])
    for name, key, unit in (
        ("least memory traffic", "least_bytes_per_second", "B/s"),
        ("share of the memory bandwidth", "fraction_of_stream", ""),
        ("peak memory per rank", "peak_memory_per_rank", "B"),
    ):
        rows[name] = (unit, [report.get(key) for report in (a, b)])
    for name, (unit, values) in rows.items():
        a_value, b_value = values
        ratio = f"{b_value / a_value:.3f}" if a_value and b_value is not None else ""
        texts = [Text(NONE if value is None else number(value, unit)) for value in values]
        table.add_row(Text(name), *texts, ratio)
    return table


def _states(a: Mapping[str, Any], b: Mapping[str, Any]) -> Table:
    """Return a table of the last states, which may be of different steps, and their relative difference."""
    table = _table("last state", "A", "B", "(B - A) / |A|")
    table.add_row("step", str(a["run"]["last_step"]), str(b["run"]["last_step"]), "")
    names = [str(report["run"].get("time_name", "time")) for report in (a, b)]
    table.add_row(" / ".join(dict.fromkeys(names)), f"{a['run']['time']:.6g}", f"{b['run']['time']:.6g}", "")
    for name in dict.fromkeys([*a["summary"], *b["summary"]]):
        figures = [report["summary"].get(name) for report in (a, b)]
        a_value, b_value = (None if figure is None else float(figure["value"]) for figure in figures)
        difference = ""
        if a_value is not None and b_value is not None and a_value != 0:
            difference = f"{(b_value - a_value) / abs(a_value):.3g}"
        texts = (
            NONE if figure is None else f"{figure['value']:.8g} {figure['unit']}".rstrip()
            for figure in figures
        )
        table.add_row(Text(name), *map(Text, texts), difference)
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("")
    for name in columns:
        table.add_column(name, justify="right")
    return table
