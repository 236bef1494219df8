"""Write docs/settings.md from the schemas: `python tools/generate_settings_doc.py`. A test keeps it fresh."""

import inspect
from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path

from ridgeline.config.explain import Row, explain_rows
from ridgeline.config.fields import extra_of, rule_of, toml
from ridgeline.config.julia import MEANINGLESS, JuliaSettings
from ridgeline.config.machine_file import MachineFile
from ridgeline.config.schema import sections_of, settings_of
from ridgeline.models import available, case_class

PATH = Path(__file__).resolve().parents[1] / "docs" / "settings.md"

INTRODUCTION = """\
# Settings

<!-- Written by tools/generate_settings_doc.py from the schemas in src/ridgeline; edit those. -->

A case is a TOML file. `ridgeline check CASE.toml` validates it and shows what would run, `ridgeline explain MODEL`
prints this page's tables, and `ridgeline explain MODEL --schema` the JSON Schema, for editors that complete and
check TOML (in VS Code with Even Better TOML: a first line `#:schema gray_scott.schema.json`).

- The smallest case names `run.model`, `run.steps` or `run.end_time`, and the grid. Some models require a little more,
  such as a viscosity; everything else has a default.
- Unknown keys, wrong types and values out of range are errors. All of them are reported at once, each in a line
  with key, place, value, what is allowed, and the nearest valid key; the exit code is 2.
- A key that another one switches off, such as the temperature of a thermostat of kind "none", gives a warning in
  `ridgeline check` and at the start of a run, which names both. What a key needs is said at the end of its meaning.
- Numbers are numbers (`"1"` is not), and whole numbers have no point (`1.0` is not 1). They are at most 1e30 in
  size, and 0 or at least 1e-30; whole numbers are at most 2147483647.
- A path has at most 4000 bytes, 200 between slashes, and no NUL. A file has at most 1 MiB.
- Paths are relative to the directory in which the run is started, not to the settings file. `~`, `$NAME` and
  `${NAME}` in them are replaced as in a shell; a variable that is not set is an error.
- `--set section.key=value` overrides the file, as often as needed. Values are TOML, and a bare word is text:
  `--set run.steps=100 --set grid.shape=[64,64,128] --set output.path=out.bp`.
  Without a value it takes a key out of the file: `--set model.dt= --set model.courant=0.4`.
- A section in double brackets may be repeated. `--set` counts them from 0: `--set scalar.0.schmidt=0.7`.
"""

JULIA = """\
## JSON settings of GrayScott.jl

`ridgeline run settings-files.json` takes the settings of GrayScott.jl as they are (ADIOS2-Examples'
gray-scott shares them). Keys that are left out have GrayScott.jl's defaults, which differ from the above. As in
these codes, an unknown key is ignored, with a warning that names it. A wrong value of a key that another
one switches off (`checkpoint_freq` by `checkpoint`, `restart_input` by `restart`) is ignored in the same way.
`--set` takes the names above.
"""


def cell(text: str) -> str:
    """Return text that is safe in a Markdown table."""
    return text.replace("|", "\\|")


HEAD = ["| key | type | unit | default | allowed | meaning |", "|---|---|---|---|---|---|"]
SHARED_HEAD = [
    "| key | type | unit | default | allowed | models | meaning |",
    "|---|---|---|---|---|---|---|",
]

SHARED = """\
## Keys of several models

These keys belong to several models. A row holds for the models that it names. A key whose default, allowed values or
meaning differ between models has several rows, one below the other. The tables of the models below hold the other
keys.
"""


def cells_of(row: Row, section: str) -> tuple[str, ...]:
    """Return what the table of a section says of a key."""
    default = row.default if row.default in ("required", "not set") else f"`{row.default}`"
    return (
        f"`{row.key.removeprefix(f'{section}.')}`",
        row.type,
        row.unit,
        default,
        row.range,
        row.description,
    )


def models_by_key() -> dict[tuple[str, tuple[str, ...]], list[str]]:
    """Return the models that have each key with the same meaning, by the section's header and the cells."""
    found: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for name in available():
        case = case_class(name)
        keys = {section.header: section.key for section in sections_of(case)}
        for row in explain_rows(case):
            if row.key != "run.model":
                found.setdefault((row.section, cells_of(row, keys[row.section])), []).append(name)
    return found


def table_line(cells: Iterable[str]) -> str:
    """Return one line of a table."""
    return "| " + " | ".join(map(cell, cells)) + " |"


def shared_tables(models: Mapping[tuple[str, tuple[str, ...]], list[str]]) -> list[str]:
    """Return the lines on the keys that several models have."""
    lines = [SHARED]
    for header in dict.fromkeys(header for header, _ in models):
        rows = [(cells, names) for (of, cells), names in models.items() if of == header and len(names) > 1]
        if rows:
            lines += [f"### Shared keys of {header}", "", *SHARED_HEAD]
        first_rows = {key: place for place, ((key, *_), _) in reversed(list(enumerate(rows)))}
        rows.sort(key=lambda row: first_rows[row[0][0]])
        for cells, names in rows:
            which = "all" if len(names) == len(available()) else ", ".join(names)
            lines.append(table_line((*cells[:-1], which, cells[-1])))
        lines += [""] if rows else []
    return lines


def model_tables(name: str, models: Mapping[tuple[str, tuple[str, ...]], list[str]]) -> list[str]:
    """Return the lines on one model: a table for each section; sections side by side that are alike share one."""
    case = case_class(name)
    rows = explain_rows(case)
    lines = [f"## Model `{name}`", ""]
    for table, sections in groupby(sections_of(case), lambda section: section.table):
        alike = list(sections)
        first = alike[0]
        keys = [cells_of(row, first.key) for row in rows if row.section == first.header]
        own = [cells for cells in keys if len(models.get((first.header, cells), ())) < 2]
        if keys and not own:
            continue
        lines += [
            f"### {', '.join(section.header for section in alike)}",
            "",
            inspect.getdoc(table) or "",
            "",
        ]
        if len(own) < len(keys):
            lines += ["Further keys are those [of several models](#keys-of-several-models).", ""]
        if own:
            lines += [*HEAD, *map(table_line, own), ""]
    return lines


def julia_table() -> list[str]:
    """Return the lines on GrayScott.jl's settings."""
    lines = [JULIA, "| GrayScott.jl | here | default | allowed |", "|---|---|---|---|"]
    for key, field in JuliaSettings.model_fields.items():
        cells = (f"`{key}`", field.description or "", f"`{toml(field.default)}`", rule_of(field))
        lines.append("| " + " | ".join(map(cell, cells)) + " |")
    named = ", ".join(f"`{key}`" for key in MEANINGLESS)
    return [
        *lines,
        "",
        f"Known keys without a meaning here, ignored with a warning: {named}.",
        "",
        "Three things differ from GrayScott.jl. Its boundary is neither periodic nor fixed (the ghosts beyond the",
        "grid are never written); runs here are periodic, as ADIOS2-Examples' are. It seeds 13^3 cells, both ends",
        "included; here they are 12^3, again as in ADIOS2-Examples. And its `restart` and `checkpoint` keys have an",
        "effect here: they resume from and write Ridgeline's checkpoints.",
    ]


MACHINES = """\
## Machine files

What [`ridgeline predict`](prediction.md) reads. A figure is `{ value = 25, unit = "GB/s", source = "a paper" }`, with
a prefix before its unit; pure numbers have no unit. A figure that nobody stated or measured is left out.
"""


def machine_tables() -> list[str]:
    """Return the lines on the keys of machine files."""
    lines = [MACHINES, "| key | unit | needed | meaning |", "|---|---|---|---|"]
    for section in sections_of(MachineFile):
        for name, field in settings_of(section.table).items():
            needed = "yes" if field.is_required() else ""
            cells = (f"`{section.header}` `{name}`", extra_of(field, "unit"), needed, field.description or "")
            lines.append("| " + " | ".join(map(cell, cells)) + " |")
    return [*lines, ""]


def render() -> str:
    """Return the whole page."""
    models = models_by_key()
    lines = [INTRODUCTION, *shared_tables(models)]
    for name in available():
        lines += model_tables(name, models)
    lines += machine_tables()
    lines += julia_table()
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PATH.write_text(render(), encoding="utf-8")
    print(f"wrote {PATH}")
