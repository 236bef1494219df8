"""The files that a study makes of its rows: figures (time, speed, efficiency, phases), page, CSV and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ridgeline.analysis.plot import save_figure
from ridgeline.analysis.study_plots import (
    AxisValue,
    CurvePoint,
    FigureLabels,
    StackedBar,
    StudyCurve,
    draw_bars,
    draw_curves,
)
from ridgeline.bench.result import Column, Result, to_csv
from ridgeline.io.output_files import GENERATOR, delete_output, to_json, write_text
from ridgeline.runtime.files import check_folder
from ridgeline.study.collect import MARKS, Collected
from ridgeline.study.rows import Row, best_of, curve_labels, curves

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("png", "svg")
FOLDER = "figures"
# Efficiencies by key of rows, and the names of their curves.
EFFICIENCIES = {
    "efficiency": "",
    "ws1": "N^3 log N",
    "parallel_efficiency": "overall",
}
Rows = Sequence[Row]

STEM = "study"
CAPTIONS = {
    "time": "Time of a step: the fastest job, with a line to the slowest. Dotted: ideal scaling.",
    "speed": "Grid points advanced per second.",
    "efficiency": "Parallel efficiency relative to the fewest cores.",
    "limit": "Share of the limit of memory traffic or arithmetic that the same job measured.",
    "phases": "Time of each phase of a step.",
    "simulated": "Model time per second of wall time.",
    "output": "Bytes of data sets and time series written per second.",
    "checkpoint": "Bytes of checkpoints written per second.",
}


def save_figures(rows: Rows, folder: Path, title: str, groups: Mapping[str, int] | None = None) -> list[str]:
    """Draw all figures for which rows have values into folder/figures; return the names without their suffix.

    groups: by the label `study`, which line style its curves have. Raises OutputError if it cannot be written.
    """
    names = []
    made = list(make_figures(rows, title, groups or {}))
    if made:
        check_folder(folder / FOLDER, "figures", "-o")
    for name, figure in made:
        for suffix in FORMATS:
            path = folder / FOLDER / f"{name}.{suffix}"
            delete_output(path, "-o")
            save_figure(figure, path, "-o", crop=True)
        names.append(name)
    return names


def make_figures(rows: Rows, title: str, groups: Mapping[str, int]) -> Iterator[tuple[str, Figure]]:
    """Yield the name of each figure for which rows have values, and the figure."""
    if not rows:
        return
    over = FigureAxis.of(rows)

    def drawn(key: str, y_label: str, log: bool, scale: float = 1.0, ideal: bool = False) -> Figure:
        lines = [
            line for curve in over.curves if (line := over.line(curve, key, scale, ideal, groups)).points
        ]
        return draw_curves(lines, FigureLabels(over.label, y_label, title, log))

    yield "time", drawn("seconds", "ms per step", True, 1e-3, ideal=True)
    yield "speed", drawn("points_per_second", "million points per second", True, 1e6, ideal=True)
    if over.ranks:
        yield "efficiency", _efficiencies(over, title, groups)
    if _any(rows, "fraction"):
        yield "limit", drawn("fraction", "share of the limit", False)
    if not over.ranks and _any(rows, "simulated"):
        yield "simulated", drawn("simulated", "model time per second", False)
    for key in dict.fromkeys(key for row in rows for key in row if key.startswith("iterations ")):
        if not over.ranks:
            solve = key.split(" ", 1)[1]
            yield (
                f"iterations_{solve.replace(' ', '_')}",
                drawn(key, f"iterations per solve: {solve}", False),
            )
    for name, what in (("output", "output"), ("checkpoint", "checkpoints")):
        if _any(rows, f"{name}_rate"):
            yield name, drawn(f"{name}_rate", f"{what}, MB/s", False, 1e6)
    stacks = phases(over)
    if any(bar.parts for bars in stacks.values() for bar in bars):
        yield "phases", draw_bars(stacks, FigureLabels(over.label, "ms per step", title))


class FigureAxis:
    """The x axis of a study's figures: cores, or the values of the first axis if all rows have as many cores.

    label: of the axis; ranks: whether it is cores; curves: lists of rows, one for each curve.
    """

    def __init__(self, label: str, axis: str | None, lists: list[list[Row]]) -> None:
        self.label, self.axis, self.curves = label, axis, lists

    @classmethod
    def of(cls, rows: Rows) -> FigureAxis:
        """Return the axis of rows."""
        varied = [key for key in rows[0]["labels"] if len({row["labels"].get(key) for row in rows}) > 1]
        axes = [key for key in varied if key != "study"]
        if len({row["cores"] for row in rows}) > 1 or not axes:
            several = any(row["threads"] > 1 for row in rows)
            return cls(
                "cores (ranks x threads)" if several else "ranks", None, [best_of(c) for c in curves(rows)]
            )
        axis = axes[0]
        found: dict[str, list[Row]] = {}
        for row in rows:
            found.setdefault(str({k: v for k, v in row["labels"].items() if k != axis}), []).append(row)
        return cls(axis.replace("_", " "), axis, list(found.values()))

    @property
    def ranks(self) -> bool:
        """Whether the x axis is cores."""
        return self.axis is None

    def x(self, row: Row) -> AxisValue:
        """Return the place of a row."""
        if self.axis is None:
            return int(row["cores"])
        return str(row["labels"][self.axis])

    def name(self, curve: Rows) -> str:
        """Return the name of a curve: the labels by which it differs, with the names of axes for numbers."""
        labels = curve_labels(curve[0]) if self.ranks else dict(curve[0]["labels"])
        if self.axis is not None:
            del labels[self.axis]
        return ", ".join(f"{key} {value}" if value[:1].isdigit() else value for key, value in labels.items())

    def line(self, curve: Rows, key: str, scale: float, ideal: bool, groups: Mapping[str, int]) -> StudyCurve:
        """Return the curve of one key of rows, with perfect scaling and predictions where they are known."""
        known = [row for row in curve if row.get(key) is not None]
        points, ideals, predicted = list[CurvePoint](), list[CurvePoint](), list[CurvePoint]()
        for row in known:
            x = self.x(row)
            until = row["slowest"] / scale if key == "seconds" and row["jobs"] > 1 else None
            points.append(CurvePoint(x, row[key] / scale, row[MARKS], until))
            if ideal and self.ranks and len(known) > 1:
                # Ideal scaling: a core advances as many points per second as on the fewest cores.
                rate = known[0]["points_per_second"] / known[0]["cores"] * row["cores"]
                ideals.append(
                    CurvePoint(x, float(row["points"] / rate if key == "seconds" else rate) / scale)
                )
            if key == "seconds" and row.get("predicted") is not None:
                known_within = row.get("predicted_least") is not None
                within = (
                    (row["predicted_least"] / scale, row["predicted_most"] / scale) if known_within else None
                )
                predicted.append(CurvePoint(x, row["predicted"] / scale, within=within))
        group = groups.get(str(curve[0]["labels"].get("study")), 0)
        return StudyCurve(self.name(curve), tuple(points), tuple(ideals), tuple(predicted), group)


def _efficiencies(over: FigureAxis, title: str, groups: Mapping[str, int]) -> Figure:
    lines = []
    for kind, (key, called) in enumerate(EFFICIENCIES.items()):
        for curve in over.curves:
            line = over.line(curve, key, 1.0, False, groups)
            name = ", ".join(filter(None, [line.name, called]))
            lines += [StudyCurve(name, line.points, group=line.group + kind)] if line.points else []
    return draw_curves(lines, FigureLabels(over.label, "parallel efficiency", title))


def phases(over: FigureAxis) -> dict[str, list[StackedBar]]:
    """Return the stacked phases of a step, in ms, of every curve."""
    found: dict[str, list[StackedBar]] = {}
    for curve in over.curves:
        bars = [
            StackedBar(
                str(over.x(row)),
                {key[6:]: 1e3 * value for key, value in row.items() if key.startswith("phase ") and value},
                row[MARKS],
            )
            for row in curve
        ]
        found[over.name(curve)] = bars
    return found


def _any(rows: Rows, key: str) -> bool:
    return any(row.get(key) is not None for row in rows)


def write_files(folder: Path, result: Result, page: str, stem: str = STEM) -> list[Path]:
    """Write CSV, JSON and page; return their paths. Earlier ones are replaced. Raises OutputError."""
    content = result.to_dict() | {"plot": None}
    texts = {"csv": to_csv(result), "json": to_json(content), "md": f"<!-- {GENERATOR} -->\n{page}"}
    paths = []
    for suffix, text in texts.items():
        path = folder / f"{stem}.{suffix}"
        delete_output(path, "-o")
        write_text(path, text, "-o")
        paths.append(path)
    return paths


def make_page(study: Collected, asked: str, figures: Sequence[str]) -> str:
    """Return the page of a study in Markdown. asked: its study file; figures: names of what was drawn."""
    parts = [
        f"# {study.result.pattern}",
        "",
        *(f"- {machine}" for machine in study.machines),
        *(f"- {note}" for note in study.result.notes),
        "",
        *figure_lines(figures),
        "## Points",
        "",
        *table(study.result),
        "",
        *(f"- {text}" for text in (study.result.statistic, *study.result.formula.splitlines())),
        "",
        *phase_lines(study.rows),
        "## Study file",
        "",
        "```toml",
        asked.strip(),
        "```",
        "",
    ]
    return "\n".join(parts)


def figure_lines(names: Sequence[str]) -> Iterator[str]:
    """Yield the figures with their captions."""
    for name in names:
        caption = CAPTIONS.get(name, name.replace("_", " ").capitalize() + ".")
        yield f"![{caption}]({FOLDER}/{name}.png)"
        yield ""
        yield f"{caption} [SVG]({FOLDER}/{name}.svg)"
        yield ""


def table(result: Result) -> Iterator[str]:
    """Yield the lines of a table with all rows of a result."""
    columns: Sequence[Column] = result.columns
    yield "| " + " | ".join(column.head for column in columns) + " |"
    yield "|" + "---|" * len(columns)
    for row in result.rows:
        yield "| " + " | ".join(column.cell(row) for column in columns) + " |"


def phase_lines(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a table of the phases of a step, or nothing if no report has any."""
    names = list(dict.fromkeys(key for row in rows for key in row if key.startswith("phase ")))
    if not names:
        return
    labels = list(rows[0]["labels"])
    columns = [Column(key, key.replace("_", " ")) for key in labels]
    columns += [Column("ranks", "ranks"), Column("seconds", "step", 1e-3, ".4g")]
    columns += [Column(name, name[6:], 1e-3, ".4g") for name in names]
    flat = [{**row["labels"], **row} for row in rows]
    shown = Result("", "", "", "", 0, columns, flat)
    yield "## Phases of a step, ms"
    yield ""
    yield from table(shown)
    yield ""
