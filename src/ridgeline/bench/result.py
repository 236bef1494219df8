"""The result of a benchmark: its figures with their pattern, formula and units, for the screen, JSON and CSV."""

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
    """A column of the table. A value of None in a row is an empty cell.

    Attributes
    ----------
    key
        Its name in rows and in JSON, where values are in SI units (s, B, B/s, 1/s, FLOP/s).
    head
        Its head on the screen, with the unit.
    scale
        What a value is divided by for the screen.
    form
        The format specification of a number.
    scale_key
        The key of a row's own scale, where each row has its own unit.
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
    """How a benchmark is drawn: the y columns over the x column, with one curve for each set of values of `by`.

    The kind "lines" draws curves; "heat" draws extra["matrix"] as a map with rows and columns named by
    extra["names"]; "boxes" draws extra["samples"], lists of numbers by name, as violins; "bars" draws the y columns
    stacked, with one bar for each row, named by x.
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
    """The figures of one benchmark and what they mean.

    Attributes
    ----------
    pattern
        Which ranks do what with which, in one or two sentences.
    formula
        How the figures follow from the measured times.
    statistic
        Whether figures are the best, the mean or the median, and of what.
    ranks
        The ranks of the job.
    rows
        One dict for each line of the table, values in SI units.
    left_out
        Ranks that did not participate, such as the last one of an odd number in a benchmark of pairs.
    verified
        Whether the data that arrived were compared with the data that were sent. A difference raises
        VerificationError.
    settings
        Sizes, repetitions and options.
    extra
        Figures that do not fit a table: matrices, samples.
    notes
        What a reader must know.
    failures
        Sentences that say why the job ends with an error once everything is written. A good result has none.
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
        """Return everything for JSON, the columns as heads by key; `from_dict` is the inverse."""
        content = asdict(self)
        content["columns"] = {column.key: column.head for column in self.columns}
        content["formats"] = {
            column.key: [column.scale, column.form, column.scale_key] for column in self.columns
        }
        content["units"] = "SI: s, B, B/s, 1/s, FLOP/s"
        return content

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Result:
        """Return the result that `to_dict` wrote, without its plot. Raises KeyError or TypeError otherwise."""
        columns = [Column(key, head, *content["formats"][key]) for key, head in content["columns"].items()]
        given = {f.name: content[f.name] for f in fields(cls) if f.name in content}
        return cls(**{**given, "columns": columns, "plot": None})


def to_csv(result: Result) -> str:
    """Return the rows as comma-separated values in SI units: a line of keys, then a line for each row; None is empty.

    The first column names the benchmark. By it io/output_files.py recognises the file as ours.
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
    """Return the figures as a table, with the pattern above and formula, statistic and notes below."""
    ranks = f"{result.ranks} rank{'s' * (result.ranks != 1)}"
    if result.nodes > 1:
        ranks += f" on {result.nodes} nodes"
    notes = list(result.notes)
    if result.left_out:
        more = len(result.left_out) - 8
        names = ", ".join(map(str, result.left_out[:8])) + (f" and {more} more" if more > 0 else "")
        notes.insert(0, f"Not measured: rank{'s' * (len(result.left_out) > 1)} {names}.")
    table = Table(box=None, pad_edge=False)
    for column in result.columns:
        table.add_column(column.head, justify="right", no_wrap=True)
    for row in result.rows:
        table.add_row(*(column.cell(row) for column in result.columns))
    # The table's own title and caption would be wrapped at its width, which may be that of two columns.
    title = f"{result.benchmark}, {ranks}: {result.pattern}"
    caption = "\n".join([f"{result.formula}; {result.statistic}", *notes])
    return Group(Text(title), table, Text(caption))
