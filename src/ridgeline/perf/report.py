"""The run report: counted work over measured time, as a fraction of limits measured in the same run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

from ridgeline.models.contract import StepTimes, Work
from ridgeline.perf.regions import region_table, solve_table

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


def format_bytes(value: float) -> str:
    """Return a number of bytes in decimal units (1 GB = 1e9 B)."""
    for unit in ("B", "kB", "MB", "GB", "TB", "PB"):
        if abs(value) < 1000 or unit == "PB":
            return f"{value:.4g} {unit}"
        value /= 1000
    raise AssertionError("unreachable")


def _seconds(value: float) -> str:
    return (
        f"{value:.4g} s"
        if value >= 1
        else f"{1e3 * value:.4g} ms"
        if value >= 1e-3
        else f"{1e6 * value:.4g} us"
    )


def format_figure(value: float, unit: str) -> str:
    """Return a figure of the report in its unit, bytes and seconds scaled."""
    if unit == "s":
        return _seconds(value)
    if unit == "B" or unit.startswith("B/"):
        return format_bytes(value) + unit[1:]
    return f"{value:.4g} {unit}".rstrip()


def print_report(report: Mapping[str, Any], console: Console) -> None:
    """Print the report of `driver.run_case` for people. Same content as the JSON, shortened."""
    run = report["run"]
    seconds = report["seconds"]
    console.print()
    console.print(
        f"[bold]{report['model']}[/] {'x'.join(map(str, run['shape']))} {run['precision']}, "
        f"{run['ranks']} ranks x {run['threads']} threads on {run['device']}: "
        f"{report['steps']} steps, ended at step {run['last_step']} ({run['ended']})"
    )
    times = Table(title="seconds", title_justify="left", box=None, pad_edge=False)
    for name in ("phase", "min", "mean", "max over ranks"):
        times.add_column(name, justify="left" if name == "phase" else "right")
    for name, phase in report["phases"].items():
        times.add_row(name, *(f"{phase[key]:.3f}" for key in ("min", "mean", "max")))
    console.print(times)
    console.print(
        f"setup {seconds['setup']:.2f} s, compile {seconds['compile']:.2f} s, "
        f"first step {_seconds(seconds['first_step'])}, steady steps {seconds['steady']:.2f} s, "
        f"whole run {seconds['total']:.2f} s"
    )
    if report["seconds_per_step"] is None:
        console.print("no step was computed, so there is no speed to report")
        return
    console.print(_step_table(report["step"]))
    if report.get("regions"):
        console.print(region_table(report))
    if report.get("solves"):
        console.print(solve_table(report["solves"]))
    console.print(_speed_table(report))
    _print_files(report, console)


def _print_files(report: Mapping[str, Any], console: Console) -> None:
    """Print what the checkpoints cost, and where the files are."""
    saved = report.get("checkpoint", {})
    if saved.get("written"):
        console.print(
            f"checkpoints: {saved['written']} written, {format_bytes(saved['bytes_raw'])} of fields at "
            f"{format_bytes(saved['raw_bytes_per_second'])}/s, compressed {saved['compression_ratio']:.3g} times to "
            f"{format_bytes(saved['bytes_written'])} on disk at {format_bytes(saved['written_bytes_per_second'])}/s",
            highlight=False,
        )
    for name, path in report["files"].items():
        console.print(f"{name}: {path}", highlight=False)


def _step_table(steps: Mapping[str, Mapping[str, float]]) -> Table:
    """Return what one step spends on each phase, mean and best: the rows of the GESTS paper's tables."""
    table = Table(title="one step, slowest rank", title_justify="left", box=None, pad_edge=False)
    table.add_column("")
    if len(steps["mean"]) > MOST_COLUMNS:  # too wide for a terminal: turned round
        for kind in steps:
            table.add_column(kind, justify="right")
        for name in steps["mean"]:
            table.add_row(name, *(_seconds(row[name]) for row in steps.values()))
        return table
    for name in steps["mean"]:
        table.add_column(name, justify="right")
    for kind, row in steps.items():
        table.add_row(kind, *(_seconds(value) for value in row.values()))
    return table


def _speed_table(report: Mapping[str, Any]) -> Table:
    work = report["work"]
    figures = Table(title="speed", title_justify="left", box=None, pad_edge=False, show_header=False)
    figures.add_column()
    figures.add_column(justify="right")
    figures.add_row("per step", _seconds(report["seconds_per_step"]))
    figures.add_row("grid points", f"{report['points_per_second'] / 1e6:.4g} M/s")
    figures.add_row("arithmetic", f"{report['flops_per_second'] / 1e9:.4g} GFLOP/s")
    figures.add_row(
        "least memory traffic",
        f"{format_bytes(work['bytes_memory'])} per step, {format_bytes(report['least_bytes_per_second'])}/s",
    )
    figures.add_row(
        "exchange", f"{format_bytes(work['bytes_exchanged'])} in {work['messages']:.4g} messages per step"
    )
    for name, figure in report["figures"].items():
        figures.add_row(name.replace("_", " "), format_figure(figure["value"], figure["unit"]))
    figures.add_row("peak memory per rank", format_bytes(report["peak_memory_per_rank"]))
    figures.add_row("of it before set-up", format_bytes(report["memory_before_setup_per_rank"]))
    best = report["limits"].get("best")
    if best:
        figures.add_row(f"limit ({report['limits']['best_name']})", f"{format_bytes(best)}/s")
        figures.add_row("[bold]fraction of the limit[/]", f"[bold]{report['fraction_of_stream']:.3f}[/]")
    if report.get("overall_efficiency") is not None:
        figures.add_row("[bold]overall efficiency[/]", f"[bold]{report['overall_efficiency']:.3f}[/]")
    return figures
