"""Write docs/benchmarks.md from the declarations: `python tools/generate_benchmarks_doc.py`. A test compares."""

import textwrap
from itertools import groupby
from pathlib import Path

from ridgeline.bench.benchmark import Benchmark, available
from ridgeline.runtime.declared_options import Option

PATH = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"
WIDTH = 117

INTRODUCTION = """\
# Benchmarks

<!-- Written by tools/generate_benchmarks_doc.py from the declarations in src/ridgeline/bench; edit those. -->

`ridgeline bench NAME` runs a benchmark, and `ridgeline bench NAME --help` prints its part of this page. What the
results mean, and how they compare with those of other programs, is in
[Benchmarks of the machine](machine-benchmarks.md),
[Benchmarks of spectral elements](benchmarks-spectral-elements.md), [HPCG](hpcg.md), [HPL](hpl.md) and
[Graph500](graph500.md). To write another benchmark, see [Adding a benchmark](adding-a-benchmark.md).

Every benchmark also has these options:

| option | meaning |
|---|---|
| `-n`, `--ranks` | number of MPI ranks; starts `mpiexec` automatically |
| `--json FILE` | write the results as JSON; `-` prints only them, to standard output |
| `--csv FILE` | write the rows as comma-separated values, in SI units |
| `--plot FILE` | draw the results to a PNG, SVG or PDF file |
| `--debug` | show tracebacks of errors |

`ridgeline report FILE` prints the results of a file that `--json FILE` wrote. A wrong option ends the command with
exit code 2 before any rank is started. An output file that cannot be written ends it with exit code 6 before anything
is measured.
"""


def type_of(option: Option) -> str:
    """Return the type of an option in words."""
    names = ["text" if kind is str else getattr(kind, "__name__", "") for kind in option.items]
    if option.choices:
        names = ["choice"]
    text = {"bool": "flag"}.get(names[0], " ".join(names))
    if option.spec.commas:
        return f"{text}, ..."
    return f"{text}, may be repeated" if option.repeated else text


def cell(text: str) -> str:
    """Return text that is safe in a Markdown table."""
    return text.replace("|", "\\|")


def row(option: Option) -> str:
    """Return the line of an option."""
    flags = ", ".join(f"`{flag}`" for flag in option.flags)
    default = option.default_text
    if option.default not in (None, ()):
        default = f"`{default}`"
    cells = (flags, type_of(option), option.spec.unit, default, option.allowed, option.spec.help)
    return "| " + " | ".join(map(cell, cells)) + " |"


def paragraph(text: str) -> list[str]:
    """Return the lines of a paragraph of a help; one that begins with a backspace is not wrapped, but commands."""
    if not text.startswith("\b"):
        return [*textwrap.wrap(text, WIDTH, break_on_hyphens=False, break_long_words=False), ""]
    head, *commands = text.strip("\b\n").splitlines()
    return [head, "", "```", *commands, "```", ""]


def section(benchmark: Benchmark) -> list[str]:
    """Return the lines on one benchmark."""
    lines = [f"### `{benchmark.name}`", ""]
    for text in benchmark.text.split("\n\n"):
        name, mark, rest = text.partition(": ")
        bold = name in ("Pattern", "Formula")
        lines += paragraph(f"**{name}**{mark}{rest}" if bold else text)
    lines += ["| option | type | unit | default | allowed | meaning |", "|---|---|---|---|---|---|"]
    return [*lines, *map(row, benchmark.offered), ""]


def render() -> str:
    """Return the whole page."""
    lines = [INTRODUCTION]
    for family, benchmarks in groupby(available().values(), lambda benchmark: benchmark.family):
        title = family.upper() if family in ("hpcg", "hpl") else family.replace("_", " ").capitalize()
        lines += [f"## {title}", ""]
        for benchmark in benchmarks:
            lines += section(benchmark)
    return "\n".join(lines).rstrip("\n") + "\n"


if __name__ == "__main__":
    PATH.write_text(render(), encoding="utf-8")
    print(f"wrote {PATH}")
