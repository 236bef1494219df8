"""The run report: counted work over measured time, as a fraction of limits measured in the same run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from ridgeline.io.stored_reports import run_title
from ridgeline.models.contract import StepTimes, Work
from ridgeline.runtime.units import number
from ridgeline.simulation.print_limits import energy_line, limit_rows, limit_text, meter_lines
from ridgeline.simulation.region_table import region_table, solve_table
from ridgeline.simulation.time_tables import spread_line, spread_tables, writing_line

NO_SPEED = "no step was computed, so there is no speed to report"
MOST_COLUMNS = 8  # phases of a step, its total among them, that are columns of a table


@dataclass(frozen=True)
class PhaseTimes:
    """Seconds of one phase over ranks."""

    min: float
    mean: float
    max: float


@dataclass
class Timing:
    """Where the seconds of a run went. Steps are those of this run, not those before a resume.

    steady: steps after the first call, which also warms caches and touches pages; without output,
    checkpoints and NaN checks, the slowest rank's. mean_step, best_step: of the steady steps, by phase, of the
    slowest rank; None where there was none.
    """

    setup: float
    compile: float
    first_step: float
    steady: float
    total: float
    steps: int
    steady_steps: int
    phases: dict[str, PhaseTimes] = field(default_factory=dict)
    mean_step: StepTimes | None = None
    best_step: StepTimes | None = None

    @property
    def seconds_per_step(self) -> float:
        """Seconds of one steady step; of the first call if there was no other; 0 if no step was done."""
        if self.steady_steps > 0:
            return self.steady / self.steady_steps
        return self.first_step / self.steps if self.steps else 0.0


def performance(work: Work, timing: Timing, limits: Mapping[str, Any]) -> dict[str, Any]:
    """Return the derived figures of a run; None where a figure has no denominator."""
    seconds = timing.seconds_per_step
    best = float(limits.get("best", 0.0))
    rate = work.bytes_memory / seconds if seconds else None
    return {
        "steps": timing.steps,
        "seconds_per_step": seconds if timing.steps else None,
        "points_per_second": work.points / seconds if seconds else None,
        "flops_per_second": work.flops / seconds if seconds else None,
        "least_bytes_per_second": rate,
        "fraction_of_stream": rate / best if rate is not None and best else None,
    }


def print_report(report: Mapping[str, Any], console: Console, verbose: bool = False) -> None:
    """Print the report of a run for people: the state reached, the files, and at most five lines of speed.

    verbose: all tables of times, work and speed in place of these lines. Everything is formatted before anything is
    printed: a damaged report raises KeyError, TypeError, ValueError or AttributeError and prints nothing.
    """
    run = report["run"]
    head = Text.assemble(
        (report["model"], "bold"),
        run_title(report).removeprefix(report["model"]) + ": "
        f"{report['steps']} steps, ended at step {run['last_step']} ({run['ended']})",
    )
    parts: list[RenderableType] = ["", head, ""]
    if report.get("summary"):
        parts += [*_state_lines(report), ""]
    parts += [*_file_lines(report), ""]
    parts += _measurements(report) if verbose else _speed_lines(report)
    for part in parts:
        console.print(part)


def _state_lines(report: Mapping[str, Any]) -> list[Text]:
    """Return the figures of the last state, with their units."""
    run, summary = report["run"], report["summary"]
    rows = [(name, f"{figure['value']:.6g}", figure["unit"]) for name, figure in summary.items()]
    time = f"{run.get('time_name', 'time')} {run['time']:.6g}"
    return [Text(f"state at step {run['last_step']}, {time}"), *_aligned(rows, "<><")]


def _file_lines(report: Mapping[str, Any]) -> list[Text]:
    """Return what was written, its size, and the commands that show it; the report itself last."""
    rows = []
    for row in report.get("written", ()):
        size = "" if row["bytes"] is None else number(row["bytes"], "B")
        steps = "" if row["steps"] is None else f"{row['steps']} step{'s' * (row['steps'] != 1)}"
        rows.append((row["kind"], row["path"], steps, size, row["show"] or ""))
    if "trace" in report["files"]:
        rows.append(
            (
                "trace",
                report["files"]["trace"],
                "",
                "",
                "open https://ui.perfetto.dev and choose 'Open trace file'",
            )
        )
    path = report["files"]["report"]
    rows.append(("report", path, "", "", f"ridgeline report {shlex.quote(path)} --verbose"))
    return [Text("files"), *_aligned(rows, "<<<><")]


def _aligned(rows: Sequence[Sequence[str]], sides: str) -> list[Text]:
    """Return rows of columns, whole however narrow the terminal is. sides: "<" or ">" for each column."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return [
        Text("  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths)).rstrip())
        for row in rows
    ]


def _speed_lines(report: Mapping[str, Any]) -> list[RenderableType]:
    """Return how long it took, how fast it was, and how near the limit."""
    seconds, steps = report["seconds"], report["steps"]
    if report["seconds_per_step"] is None:
        return [NO_SPEED]
    further = (spread_line(report), writing_line(report))
    lines = [
        f"speed: {steps} steps in {number(seconds['first_step'] + seconds['steady'], 's')}, "
        f"{number(report['seconds_per_step'], 's')} each; whole run {number(seconds['total'], 's')}",
        f"{report['points_per_second'] / 1e6:.4g} M {_points(report)}/s, "
        f"{number(report['least_bytes_per_second'], 'B/s')} of least memory traffic",
        *(line for line in further if line is not None),
    ]
    near = []
    limits = report["limits"]
    if limits.get("best"):
        limit = f"{number(limits['best'], 'B/s')} ({limits['best_name']})"
        near.append(f"{report['fraction_of_stream']:.3f} of the limit, {limit}")
    if report.get("limit", "memory") != "memory":
        near = [limit_text(report)]
    if report.get("overall_efficiency") is not None:
        near.append(f"overall efficiency {report['overall_efficiency']:.3f}")
    near.append("most of a step goes to {}, {:.0%}".format(*_largest_part(report)))
    metered = report.get("energy", {}).get("joules") is not None
    return [*map(Text, (*lines, "; ".join(near), *([energy_line(report["energy"])] if metered else [])))]


def _points(report: Mapping[str, Any]) -> str:
    """Return what the model advances: grid points, atoms or particles."""
    return str(report["run"].get("points_name", "grid points"))


def _largest_part(report: Mapping[str, Any]) -> tuple[str, float]:
    """Return the region, or else the phase, that takes most of a step, and its share."""
    if report.get("regions"):
        seconds = {name: region["seconds"] for name, region in report["regions"].items()}
    else:
        seconds = {name: value for name, value in report["step"]["mean"].items() if name != "total"}
    name = max(seconds, key=lambda part: seconds[part])
    total = sum(seconds.values())
    return name, seconds[name] / total if total else 0.0


def _measurements(report: Mapping[str, Any]) -> list[RenderableType]:
    """Return all tables of times, work and speed."""
    seconds = report["seconds"]
    times = Table(title="seconds", title_justify="left", box=None, pad_edge=False)
    for name in ("phase", "min", "mean", "max over ranks"):
        times.add_column(name, justify="left" if name == "phase" else "right")
    for name, phase in report["phases"].items():
        times.add_row(name, *(f"{phase[key]:.3f}" for key in ("min", "mean", "max")))
    parts: list[RenderableType] = [
        times,
        f"setup {seconds['setup']:.2f} s, compile {seconds['compile']:.2f} s, "
        f"first step {number(seconds['first_step'], 's')}, steady steps {seconds['steady']:.2f} s, "
        f"whole run {seconds['total']:.2f} s",
    ]
    if report["seconds_per_step"] is None:
        return [*parts, NO_SPEED]
    parts += [_step_table(report["step"]), *spread_tables(report)]
    if report.get("regions"):
        parts.append(region_table(report))
    if report.get("solves"):
        parts.append(solve_table(report["solves"]))
    parts.append(_speed_table(report))
    parts += map(Text, meter_lines(report))
    saved = report.get("checkpoint", {})
    if saved.get("written"):
        parts.append(
            f"checkpoints: {saved['written']} written, {number(saved['bytes_raw'], 'B')} of fields at "
            f"{number(saved['raw_bytes_per_second'], 'B/s')}, compressed {saved['compression_ratio']:.3g} times to "
            f"{number(saved['bytes_written'], 'B')} on disk at {number(saved['written_bytes_per_second'], 'B/s')}"
        )
    return parts


def _step_table(steps: Mapping[str, Mapping[str, float]]) -> Table:
    """Return what one step spends on each phase, mean and best: the rows of the GESTS paper's tables."""
    table = Table(title="one step, slowest rank", title_justify="left", box=None, pad_edge=False)
    table.add_column("")
    if len(steps["mean"]) > MOST_COLUMNS:  # too wide for a terminal: turned round
        for kind in steps:
            table.add_column(kind, justify="right")
        for name in steps["mean"]:
            table.add_row(name, *(number(row[name], "s") for row in steps.values()))
        return table
    for name in steps["mean"]:
        table.add_column(name, justify="right")
    for kind, row in steps.items():
        table.add_row(kind, *(number(value, "s") for value in row.values()))
    return table


def _speed_table(report: Mapping[str, Any]) -> Table:
    work = report["work"]
    figures = Table(title="speed", title_justify="left", box=None, pad_edge=False, show_header=False)
    figures.add_column()
    figures.add_column(justify="right")
    figures.add_row("per step", number(report["seconds_per_step"], "s"))
    figures.add_row(_points(report), f"{report['points_per_second'] / 1e6:.4g} M/s")
    figures.add_row("arithmetic", f"{report['flops_per_second'] / 1e9:.4g} GFLOP/s")
    figures.add_row(
        "least memory traffic",
        f"{number(work['bytes_memory'], 'B')} per step, {number(report['least_bytes_per_second'], 'B/s')}",
    )
    figures.add_row(
        "exchange", f"{number(work['bytes_exchanged'], 'B')} in {work['messages']:.4g} messages per step"
    )
    for name, figure in report["figures"].items():
        figures.add_row(name.replace("_", " "), number(figure["value"], figure["unit"]))
    figures.add_row("peak memory per rank", number(report["peak_memory_per_rank"], "B"))
    figures.add_row("of it before set-up", number(report["memory_before_setup_per_rank"], "B"))
    best = report["limits"].get("best")
    if best:
        figures.add_row(f"limit ({report['limits']['best_name']})", number(best, "B/s"))
        figures.add_row(
            "fraction of the memory's bandwidth", f"{report['fraction_of_stream']:.3f}", style="bold"
        )
    for name, text in limit_rows(report):
        figures.add_row(name, text)
    if report.get("overall_efficiency") is not None:
        figures.add_row("overall efficiency", f"{report['overall_efficiency']:.3f}", style="bold")
    return figures
