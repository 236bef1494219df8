"""Rows of figures with their targets: for people (rich), for RESULTS.md (Markdown) and for machines (JSON)."""

import datetime
import json
import operator
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table

from ridgeline.runtime.console import plain_console

_COMPARE = {">=": operator.ge, "<=": operator.le}


@dataclass(frozen=True)
class Row:
    """One figure. `figure` None: it could not be measured, and `note` says why.

    name: what is compared with what; figure: the ratio (or value in `unit`) of best times; median: the
    median over rounds, where there is one; target: e.g. '>= 0.75', or '' for a figure without a target.
    """

    name: str
    figure: float | None
    target: str = ""
    median: float | None = None
    note: str = ""
    unit: str = ""

    @property
    def verdict(self) -> str:
        """Return 'met', 'missed', or '' where there is nothing to judge."""
        if self.figure is None or not self.target:
            return ""
        sign, limit = self.target.split()[:2]
        return "met" if _COMPARE[sign](self.figure, float(limit)) else "missed"

    def cells(self) -> tuple[str, str, str, str, str, str]:
        """Return name, figure, median, target, verdict and note as text."""

        def number(value: float | None) -> str:
            return "" if value is None else f"{value:.3g}{' ' + self.unit if self.unit else ''}"

        figure = number(self.figure) or "not run"
        return self.name, figure, number(self.median), self.target, self.verdict, self.note

    def line(self) -> str:
        """Return the row as one line of text, for progress."""
        return "  ".join(cell for cell in self.cells() if cell)


COLUMNS = ("benchmark", "best", "median", "target", "verdict", "note")


def show(title: str, rows: Sequence[Row], machine: dict[str, str]) -> None:
    """Print the machine and the table."""
    console = plain_console()
    console.print("  ".join(f"{key} {value}" for key, value in machine.items()))
    table = Table(title=title, title_justify="left")
    for column in COLUMNS:
        table.add_column(column, justify="right" if column in ("best", "median") else "left")
    colours = {"met": "green", "missed": "red", "": "dim"}
    for row in rows:
        table.add_row(*row.cells(), style=colours[row.verdict] if row.verdict == "missed" else "")
    console.print(table)


def markdown(rows: Sequence[Row], machine: dict[str, str], command: str) -> str:
    """Return the rows as they go into RESULTS.md: machine, command and date once, then one line per figure."""
    lines = [
        f"- date: {datetime.date.today().isoformat()}",
        f"- command: `{command}`",
        "- machine: " + ", ".join(f"{key} {value}" for key, value in machine.items()),
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "|" + " --- |" * len(COLUMNS),
    ]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row.cells()) + " |" for row in rows]
    return "\n".join(lines)


def columns_markdown(rows: Sequence[dict[str, str]]) -> str:
    """Return a Markdown table of rows that are cells by column; columns in the order in which they first appear."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    lines = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    lines += ["| " + " | ".join(row.get(column, "") for column in columns) + " |" for row in rows]
    return "\n".join(lines)


def write_json(
    path: Path, rows: Sequence[Row], machine: dict[str, str], command: str, **more: object
) -> None:
    """Write machine, command, date, rows and `more` to `path`."""
    content = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": command,
        "machine": machine,
        "rows": [asdict(row) | {"verdict": row.verdict} for row in rows],
        **more,
    }
    path.write_text(json.dumps(content, indent=1) + "\n")


def publish(
    title: str, rows: Sequence[Row], machine: dict[str, str], command: str, file: Path | None
) -> None:
    """Print rows as a table and in Markdown, and write them to a file if one is named."""
    show(title, rows, machine)
    print()
    print(markdown(rows, machine, command))
    if file:
        write_json(file, rows, machine, command)
