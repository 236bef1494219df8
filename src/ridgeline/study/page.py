"""The files that a study makes of its reports: study.csv, study.json, study.md and figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ridgeline.bench.result import Column, Result, to_csv
from ridgeline.io.previous import GENERATOR, discard, to_json, write_text
from ridgeline.study.collect import Collected
from ridgeline.study.figures import FOLDER
from ridgeline.study.rows import Row

STEM = "study"
CAPTIONS = {
    "time": "Time of a step: best of the jobs, a line to the slowest; ideal scaling dotted.",
    "speed": "Grid points advanced in a second.",
    "efficiency": "Parallel efficiency, to the fewest cores.",
    "limit": "Share of the limit that the same job measured, of memory traffic or of arithmetic.",
    "phases": "What a step spends its time on.",
    "simulated": "Model time in a second of wall time.",
    "output": "Bytes of data sets and series written in a second.",
    "checkpoint": "Bytes of checkpoints written in a second.",
}


def write_files(folder: Path, result: Result, page: str, stem: str = STEM) -> list[Path]:
    """Write CSV, JSON and page; return their paths. Earlier ones of ours are replaced. Raises OutputError."""
    content = result.to_dict() | {"plot": None}
    texts = {"csv": to_csv(result), "json": to_json(content), "md": f"<!-- {GENERATOR} -->\n{page}"}
    paths = []
    for suffix, text in texts.items():
        path = folder / f"{stem}.{suffix}"
        discard(path, "-o")
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
        "## What was asked",
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
    """Yield a table of the phases of a step; nothing where no report tells any."""
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
