"""Predictions against the papers' tables, row by row, and against runs on this machine.

    python benchmarks/predict.py             # the papers' rows: seconds; which were fitted, error of each, intervals
    python benchmarks/predict.py --fit       # the constants of Frontier's machine file, fitted anew
    python benchmarks/predict.py --here      # predicted and measured here, a quarter of an hour on quiet cores

The rows of the fit, and those that it must not see, are named in predict_rows.py; docs/prediction.md tells the rest.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from rich.table import Table

from harness.machine import describe
from harness.table import Row, markdown, show
from predict_fit import CONSTANTS, SPREAD, fit
from predict_rows import (
    AGAIN,
    FIT_COPIES,
    FIT_EXCHANGES,
    FIT_STEPS,
    MUST_BE_JUDGED,
    ExchangeRow,
    StepRow,
    exchanges,
    kernels,
    steps,
)
from ridgeline.config.machine_file import MachineFile
from ridgeline.limits.prediction import Prediction
from ridgeline.runtime.console import plain_console
from ridgeline.study.prediction import find_machine

MEDIAN, WORST, HELD = 0.10, 0.25, 0.80  # the goals
ABOUT = 0.10  # what "about 80 %" is taken for


@dataclass(frozen=True)
class Judged:
    """A row with its prediction. fitted: whether the fit has seen it."""

    kind: str
    where: str
    table: int
    row: int
    predicted: float
    measured: float
    fitted: bool
    low: float = np.nan  # of the 80 % interval, if the row has one
    high: float = np.nan

    @property
    def held(self) -> bool | None:
        """Whether the measurement lies in the interval; None without one."""
        return None if np.isnan(self.low) else self.low <= self.measured <= self.high

    @property
    def error(self) -> float:
        """Relative error of the prediction."""
        return self.predicted / self.measured - 1


def judged(machine: MachineFile) -> Iterator[Judged]:
    """Yield every measurement once, steps first."""
    for row in steps():
        if (row.table, row.row) not in AGAIN:
            fitted = (row.table, row.row) in FIT_STEPS
            yield _of_row("step", row, row.predicted(machine), row.total, fitted)
    for each in exchanges():
        fitted = each.kind == "column" and (each.table, each.row) in FIT_EXCHANGES
        yield _of_row(f"{each.kind} exchange", each, each.predicted(machine), each.seconds, fitted)
    for each in exchanges():
        if each.copy is not None:
            fitted = (each.table, each.row) in FIT_COPIES
            where = f"Table {each.table}, row {each.row}"
            seconds = each.copied(machine)
            yield Judged("host copies", where, each.table, each.row, seconds, each.copy, fitted)
    first, *others = [kernel for kernel in kernels() if kernel.kernel.startswith("GrayScott.jl")]
    for kernel in others:  # by the rate of the first, which Frontier's file has
        seconds = kernel.moved / (first.moved / first.seconds)
        where = f"Table 3, row {kernel.row}: {kernel.kernel}"
        yield Judged("Gray-Scott", where, 0, kernel.row, seconds, kernel.seconds, False)


def _of_row(
    kind: str, row: StepRow | ExchangeRow, found: Prediction, measured: float, fitted: bool
) -> Judged:
    low, high = found.interval or (np.nan, np.nan)
    grid = " x ".join(map(str, row.step.grid))
    size = f"{row.step.shape[0]}^3, {row.nodes} nodes, {grid}, Q = {row.step.batch}"
    where = f"Table {row.table}, row {row.row}: {size}"
    return Judged(kind, where, row.table, row.row, found.least_seconds, measured, fitted, low, high)


def summary(rows: Sequence[Judged]) -> Iterator[Row]:
    """Yield the goals and what was reached, of the rows that the fit has not seen."""
    rest = [row for row in rows if not row.fitted]
    median = float(np.median([abs(row.error) for row in rest]))
    yield Row(f"all: median error of {len(rest)} rows", median, f"<= {MEDIAN}")
    inside = [row.held for row in rest if row.held is not None]
    yield Row(f"all: share of {len(inside)} rows in the 80 % interval", float(np.mean(inside)))
    yield Row("all: its distance from 80 %", abs(float(np.mean(inside)) - HELD), f"<= {ABOUT}")
    for kind in dict.fromkeys(row.kind for row in rest):
        chosen = [row for row in rest if row.kind == kind]
        errors = [abs(row.error) for row in chosen]
        worst = max(chosen, key=lambda row: abs(row.error))
        yield Row(f"{kind}: median error of {len(chosen)} rows", float(np.median(errors)), f"<= {MEDIAN}")
        yield Row(f"{kind}: worst error", max(errors), f"<= {WORST}", note=worst.where)
        beyond = sum(error > WORST for error in errors)
        if beyond:
            yield Row(f"{kind}: rows beyond {WORST:.0%}", float(beyond), note=f"of {len(chosen)}")
        held = [row.held for row in chosen if row.held is not None]
        if held:
            share = float(np.mean(held))
            yield Row(f"{kind}: share of rows in the 80 % interval", share)
            yield Row(f"{kind}: its distance from 80 %", abs(share - HELD), f"<= {ABOUT}")
    for table, wanted in MUST_BE_JUDGED.items():
        errors = [abs(row.error) for row in rest if row.table == table and wanted(row.row)]
        name = f"Table {table}{' rows 9-16' if table == 5 else ''}: median and worst error"
        yield Row(name, float(np.median(errors)), f"<= {MEDIAN}", note=f"worst {max(errors):.3g}")


def show_rows(rows: Sequence[Judged]) -> None:
    """Print every row with its error; those of the fit are marked."""
    table = Table(box=None, pad_edge=False)
    for head in ("kind", "row", "predicted s", "measured s", "error", "in interval", ""):
        table.add_column(head, justify="right" if head.endswith(("s", "error")) else "left")
    for row in rows:
        inside = "" if row.held is None else "yes" if row.held else "no"
        mark = "fitted" if row.fitted else ""
        table.add_row(
            row.kind,
            row.where,
            f"{row.predicted:.4g}",
            f"{row.measured:.4g}",
            f"{row.error:+.1%}",
            inside,
            mark,
        )
    plain_console().print(table)


def markdown_rows(rows: Sequence[Judged]) -> str:
    """Return the steps and column exchanges that the fit has not seen, for benchmarks/papers/README.md."""
    lines = [
        "| what | row | predicted s | measured s | error | 80 % interval |",
        "|---|---|---:|---:|---:|---|",
    ]
    for row in rows:
        if row.kind in ("step", "column exchange") and not row.fitted:
            mark = "" if row.held else " **no**"
            lines.append(
                f"| {row.kind} | {row.where} | {row.predicted:.3g} | {row.measured:.3g} | {row.error:+.1%} "
                f"| {row.low:.3g} to {row.high:.3g}{mark} |"
            )
    return "\n".join(lines)


def draw(rows: Sequence[Judged], path: str) -> None:
    """Draw measured over predicted time of every row with an interval."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 4.5), layout="constrained")
    axes = figure.subplots()
    every = [row for row in rows if row.held is not None]
    shown = [row for kind in dict.fromkeys(row.kind for row in every) for row in every if row.kind == kind]
    for fitted, colour, label in ((True, "0.6", "in the fit"), (False, "tab:blue", "judged")):
        places = [place for place, row in enumerate(shown) if row.fitted == fitted]
        chosen = [shown[place] for place in places]
        ratios = [row.measured / row.predicted for row in chosen]
        axes.plot(places, ratios, "o", color=colour, markersize=3, label=f"measured, {label}")
        bars = [[(row.predicted - row.low) / row.predicted for row in chosen]]
        bars.append([(row.high - row.predicted) / row.predicted for row in chosen])
        axes.errorbar(places, np.ones(len(places)), bars, fmt="none", color=colour, alpha=0.35)
    kinds = [row.kind for row in shown]
    for kind in dict.fromkeys(kinds):
        first, count = kinds.index(kind), kinds.count(kind)
        axes.text(first + count / 2 - 0.5, 0.78, kind, ha="center")
        axes.axvline(first + count - 0.5, color="0.8", linewidth=0.5)
    axes.set_ylim(0.75, 1.7)
    axes.axhline(1, color="black", linewidth=0.5)
    axes.set_ylabel("measured / predicted; bars hold 80 %")
    axes.set_xlabel("rows of GESTS Tables 2, 3, 5, 6, 7 and 10 to 14")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fit", action="store_true", help="fit the constants again and print them")
    parser.add_argument("--here", action="store_true", help="predict and measure on this machine")
    parser.add_argument(
        "--quick", action="store_true", help="with --here: only test that it runs, once and with small sizes"
    )
    parser.add_argument("--rows", action="store_true", help="print the rows of benchmarks/papers/README.md")
    parser.add_argument("--plot", metavar="FILE", help="draw measured times over predicted times")
    arguments = parser.parse_args()
    machine = find_machine("frontier")
    if arguments.fit:
        for key, value in fit(machine).items():
            print(f"{key} = {value:.6g}")
        print(f"{len(CONSTANTS)} constants; {SPREAD} is what they leave, for the interval")
        return
    if arguments.here:
        from predict_here import compare

        found = list(compare(arguments.quick))
        show("Predicted and measured here", found, describe())
        print(markdown(found, describe(), "python benchmarks/predict.py --here"))
        return
    rows = list(judged(machine))
    if arguments.rows:
        print(markdown_rows(rows))
        return
    if arguments.plot:
        draw(rows, arguments.plot)
    show_rows(rows)
    found = list(summary(rows))
    title = f"Predictions against the papers' rows, {len(CONSTANTS)} fitted constants"
    show(title, found, {})
    print(markdown(found, {}, "python benchmarks/predict.py"))


if __name__ == "__main__":
    main()
