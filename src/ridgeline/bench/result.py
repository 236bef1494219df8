"""The result of a benchmark: its figures with their pattern, formula and units, for the screen, JSON and CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from rich.console import Group
from rich.table import Table
from rich.text import Text

# Units of heads that are multiples of SI units: "all GB/s", "ms/step", "M points/s", "MDOF it/s", "share %".
_SI = {"us": "s", "ms": "s", "ns": "s", "%": "fraction"}
_MULTIPLE = re.compile(r"\b[num]s\b|%$|\b(?:[kMGT]|[KMG]i)(?=B\b|FLOP|Flop|TEPS\b|DOF\b)|\bM (?=points)")


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

    @property
    def si_head(self) -> str:
        """The head of the values in rows, JSON and CSV: with the SI unit where the screen's is a multiple."""
        return self.head if self.scale == 1.0 else _MULTIPLE.sub(lambda unit: _SI.get(unit[0], ""), self.head)

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
    """Describe how a benchmark is drawn.

    The y columns are drawn over the x column, with one curve for each set of values of `by`.

    Attributes
    ----------
    x : str
        Key of the column along the horizontal axis.
    y : tuple of str
        Keys of the columns that are drawn.
    by : tuple of str
        Keys of rows whose values tell the curves apart.
    kind : str
        "lines" draws curves; "heat" draws extra["matrix"] as a map with rows and columns named by extra["names"];
        "boxes" draws extra["samples"], lists of numbers by name, as violins; "bars" draws the y columns stacked, with
        one bar for each row, named by x.
    x_label, y_label : str
        Labels of the axes.
    y_scale : float
        What the values are divided by.
    log_x, log_y : bool
        Whether the axes are logarithmic.

    Examples
    --------
    >>> from ridgeline.bench.result import Plot
    >>> Plot("size", ("seconds",), x_label="B", y_label="us a hop", y_scale=1e-6).kind
    'lines'
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
    """Hold the figures of one benchmark and what they mean.

    A benchmark returns it on every rank, with complete rows on rank 0.

    Attributes
    ----------
    benchmark : str
        The name of the benchmark.
    pattern : str
        Which ranks do what with which, in one or two sentences.
    formula : str
        How the figures follow from the measured times.
    statistic : str
        Whether figures are the best, the mean or the median, and of what.
    ranks : int
        The ranks of the job.
    columns : sequence of Column
        The columns of the table.
    rows : list of dict
        One dict for each line of the table, values in SI units.
    nodes : int
        The nodes of the job.
    left_out : list of int
        Ranks that did not participate, such as the last one of an odd number in a benchmark of pairs.
    verified : bool
        Whether the data that arrived were compared with the data that were sent. A difference raises
        VerificationError.
    settings : dict
        Sizes, repetitions and options.
    extra : dict
        Figures that do not fit a table: matrices, samples.
    notes : list of str
        What a reader must know.
    failures : list of str
        Sentences that say why the job ends with an error once everything is written. A good result has none.
    plot : Plot, optional
        How it is drawn.

    Examples
    --------
    >>> from ridgeline.bench.result import MICROSECONDS, SIZE, Result
    >>> result = Result(
    ...     benchmark="ring",
    ...     pattern="one message around all ranks",
    ...     formula="us = t / (laps x ranks)",
    ...     statistic="mean of 100 laps",
    ...     ranks=2,
    ...     columns=(SIZE, MICROSECONDS),
    ...     rows=[{"size": 8, "seconds": 1.5e-6}],
    ... )
    >>> [column.cell(result.rows[0]) for column in result.columns]
    ['8', '1.50']
    >>> Result.from_dict(result.to_dict()).rows == result.rows
    True
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
        """Return everything for JSON, with the columns as heads in SI units by key; `from_dict` is the inverse.

        `formats` holds, by key, how the screen shows a value: scale, format, key of the row's own scale, and head.
        """
        content = asdict(self)
        content["columns"] = {column.key: column.si_head for column in self.columns}
        content["formats"] = {
            column.key: [column.scale, column.form, column.scale_key, column.head] for column in self.columns
        }
        content["units"] = "SI: s, B, B/s, 1/s, FLOP/s"
        return content

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Result:
        """Return the result that `to_dict` wrote, without its plot. Raises KeyError or TypeError otherwise."""
        columns = []
        for key, si_head in content["columns"].items():
            # Earlier versions wrote the screen's head among the columns.
            form, shown = content["formats"][key][:3], content["formats"][key][3:]
            columns.append(Column(key, *(shown or [si_head]), *form))
        given = {f.name: content[f.name] for f in fields(cls) if f.name in content}
        return cls(**{**given, "columns": columns, "plot": None})


def to_csv(result: Result, **every: Any) -> str:
    """Return the rows as comma-separated values in SI units: a line of keys, then a line for each row; None is empty.

    every: further columns, which have one value in every row.
    The first column names the benchmark. By it io/output_files.py recognises the file as ours.
    """
    keys = dict.fromkeys(
        ["benchmark"]
        + [column.key for column in result.columns]
        + [key for row in result.rows for key in row]
        + list(every)
    )
    text = io.StringIO()
    writer = csv.DictWriter(text, list(keys), lineterminator="\n")
    writer.writeheader()
    writer.writerows({"benchmark": result.benchmark} | every | row for row in result.rows)
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
