"""What a benchmark hands back: its figures with their pattern, formula and units, for the screen and for JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from rich.console import Group
from rich.table import Table
from rich.text import Text


@dataclass(frozen=True)
class Column:
    """A column of figures. key: its name in rows and JSON, where values are in SI units (s, B, B/s, 1/s, FLOP/s).

    head: on the screen, with the unit; scale: what a value is divided by for the screen; form: how a number is
    written (format specification); scale_key: where each row has a unit of its own, the key of its scale. None in a
    row is an empty cell.
    """

    key: str
    head: str
    scale: float = 1.0
    form: str = ".2f"
    scale_key: str | None = None

    def cell(self, row: dict[str, Any]) -> str:
        """Return the cell of one row as text."""
        value = row.get(self.key)
        if value is None:
            return ""
        scale = self.scale if self.scale_key is None else row[self.scale_key]
        if isinstance(value, float) or (isinstance(value, int) and scale != 1.0):
            return format(value / scale, self.form)
        return str(value)


SIZE = Column("size", "B")
MICROSECONDS = Column("seconds", "us", 1e-6)


@dataclass(frozen=True)
class Plot:
    """How a benchmark is drawn: y columns over the x column, one curve for each set of values of `by`.

    kind "lines": curves; "heat": extra["matrix"] as a map, rows and columns named by extra["names"]; "boxes":
    extra["samples"], lists of numbers by name, as violins; "bars": y columns stacked, one bar a row named by x.
    """

    x: str = ""
    y: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    kind: Literal["lines", "heat", "boxes", "bars"] = "lines"
    x_label: str = ""
    y_label: str = ""
    y_scale: float = 1.0
    log_x: bool = True
    log_y: bool = True


@dataclass
class Result:
    """The figures of one benchmark.

    pattern: who does what with whom, one or two sentences; formula: how figures follow from measured times;
    statistic: whether figures are the best, the mean or the median, and of what; ranks: of the job; left_out: ranks
    that took no part, as with an odd number and pairs; verified: whether arrived data were compared with what was
    sent (a difference raises VerificationError); failures: sentences that say why the job ends with an error after
    all is written, none for a good result; settings: sizes, repetitions and options; rows: one dict a line of the
    table, values in SI units; extra: what is no table (matrices, samples); notes: what a reader must know.
    """

    benchmark: str
    pattern: str
    formula: str
    statistic: str
    ranks: int
    columns: Sequence[Column]
    rows: list[dict[str, Any]]
    nodes: int = 1
    left_out: list[int] = field(default_factory=list)
    verified: bool = True
    settings: dict[str, Any] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    plot: Plot | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return everything for JSON, the columns as the heads of their keys; `from_dict` takes it back."""
        content = asdict(self)
        content["columns"] = {column.key: column.head for column in self.columns}
        content["formats"] = {
            column.key: [column.scale, column.form, column.scale_key] for column in self.columns
        }
        content["units"] = "SI: s, B, B/s, 1/s, FLOP/s"
        return content

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Result:
        """Return the figures that `to_dict` gave, after JSON too, without their plot. Raises KeyError, TypeError."""
        columns = [Column(key, head, *content["formats"][key]) for key, head in content["columns"].items()]
        given = {f.name: content[f.name] for f in fields(cls) if f.name in content}
        return cls(**{**given, "columns": columns, "plot": None})


def to_csv(result: Result) -> str:
    """Return the rows as comma-separated values in SI units: a line of keys, then a line a row; None is empty.

    The first column names the benchmark, by which the file is known as ours (io/output_files.py).
    """
    keys = dict.fromkeys(
        ["benchmark"]
        + [column.key for column in result.columns]
        + [key for row in result.rows for key in row]
    )
    text = io.StringIO()
    writer = csv.DictWriter(text, list(keys), lineterminator="\n")
    writer.writeheader()
    writer.writerows({"benchmark": result.benchmark} | row for row in result.rows)
    return text.getvalue()


def make_table(result: Result) -> Group:
    """Return the figures as a table: pattern above, formula, statistic and notes below."""
    ranks = f"{result.ranks} rank{'s' * (result.ranks != 1)}"
    if result.nodes > 1:
        ranks += f" on {result.nodes} nodes"
    notes = list(result.notes)
    if result.left_out:
        names = ", ".join(map(str, result.left_out[:8])) + ", ..." * (len(result.left_out) > 8)
        notes.insert(0, f"takes no part: rank {names}")
    table = Table(box=None, pad_edge=False)
    for column in result.columns:
        table.add_column(column.head, justify="right", no_wrap=True)
    for row in result.rows:
        table.add_row(*(column.cell(row) for column in result.columns))
    # Not the table's own title and caption: those are wrapped at its width, which may be that of two columns.
    title = f"{result.benchmark}, {ranks}: {result.pattern}"
    caption = "\n".join([f"{result.formula}; {result.statistic}", *notes])
    return Group(Text(title), table, Text(caption))
