"""Commands with which somebody begins: `init`, `examples` and `explain`. They run nothing."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ridgeline.cli.completion import complete_example, complete_key, complete_model
from ridgeline.runtime.errors import ConfigError, OutputError
from ridgeline.runtime.files import output_errors

if TYPE_CHECKING:
    from ridgeline.config.explain import Row

TEXTS = (".md", ".toml", ".py", ".sh")

RequiredModel = Annotated[
    str, typer.Argument(metavar="MODEL", help="Name of the model.", autocompletion=complete_model)
]


def init(model: RequiredModel) -> None:
    """Write MODEL.toml, a small case to begin with, into the current folder.

    The file can be run at once. Its first line names MODEL.schema.json, which is written beside it: editors that know
    TOML complete and check keys with it.
    """
    from ridgeline.config.explain import json_schema
    from ridgeline.config.store_format import preferred_format
    from ridgeline.models import case_class, starter

    text = starter(model)
    if preferred_format() == "zarr":
        text = text.replace(".bp", ".zarr")
    case, schema = Path(f"{model}.toml"), Path(f"{model}.schema.json")
    if case.exists() or case.is_symlink():
        raise OutputError(
            f"{case}: this file exists already and is kept. Move it away, or use another folder."
        )
    with output_errors(f"write {case}", "use a folder in which you may write"):
        schema.write_text(json.dumps(json_schema(case_class(model)), indent=2) + "\n", encoding="utf-8")
        with case.open("x", encoding="utf-8") as file:
            file.write(f"#:schema ./{schema}\n{text}")
    typer.echo(f"wrote {case} and {schema}")
    typer.echo(f"run it with: ridgeline run {case} -n 2")
    typer.echo(f"all settings: ridgeline explain {model}")


def examples(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME...", help="Examples to copy.", autocompletion=complete_example),
    ] = None,
) -> None:
    """List the examples, or copy some of them into the current folder.

    An example is a folder with a settings file, a README that says what to expect, and the scripts of its pictures.
    """
    from ridgeline.cli.completion import example_folders

    folders = example_folders()
    for name in names or []:
        if name not in folders:
            near = get_close_matches(name, folders, n=1)
            hint = f' Did you mean "{near[0]}"?' if near else ""
            raise ConfigError(
                f'no example is called "{name[:60]}".{hint} `ridgeline examples` lists the {len(folders)} examples.'
            )
        target = Path(name)
        if target.exists() or target.is_symlink():
            raise OutputError(
                f"{target}: this folder exists already and is kept. Move it away, or use another folder."
            )
    for name in names or []:
        _copy_example(folders[name], Path(name))
    if not names:
        width = max(map(len, folders))
        for example, folder in folders.items():
            typer.echo(f"{example:{width}}  {_title(folder)}")
        typer.echo("\nridgeline examples NAME copies one into the current folder")


def _copy_example(source: Path, target: Path) -> None:
    """Copy an example, and say how to run it."""
    with output_errors(f"write {target}", "use a folder in which you may write"):
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        for file in target.iterdir():
            if file.suffix in TEXTS:
                # In the copy, commands name it as it lies here.
                text = file.read_text(encoding="utf-8").replace(f"examples/{target}/", f"{target}/")
                file.write_text(text, encoding="utf-8")
    typer.echo(f"copied the example to {target}; {target / 'README.md'} says what to expect")
    if used := sorted(_siblings(target)):
        typer.echo(f"it uses further examples; copy them with: ridgeline examples {' '.join(used)}")
    if (target / "settings.toml").exists():
        typer.echo(f"run it with: ridgeline run {target / 'settings.toml'} -n 2")


def _siblings(folder: Path) -> set[str]:
    """Return the examples beside this one that its files name."""
    texts = [file.read_text(encoding="utf-8") for file in folder.iterdir() if file.suffix in (".toml", ".sh")]
    found = {match for text in texts for match in re.findall(r"(?:\$examples|\.\.)/(\w+)/", text)}
    return {sibling for sibling in found if not Path(sibling).exists()}


def _title(folder: Path) -> str:
    """Return the title of an example's README."""
    with (folder / "README.md").open(encoding="utf-8") as file:
        return file.readline().lstrip("# ").strip()


def explain(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL", help="Model; without it, all are listed.", autocompletion=complete_model
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Argument(
            metavar="KEY",
            help="Only this key or section, as F, model.F or model.",
            autocompletion=complete_key,
        ),
    ] = None,
    search: Annotated[
        str | None,
        typer.Option("--search", metavar="WORD", help="Show only keys whose name or meaning has this word."),
    ] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of the model.")] = False,
) -> None:
    """Explain the settings of a model.

    Each key is shown with its type, unit, default, range and meaning. --search without a model searches the settings
    of all models.
    """
    from ridgeline.config.explain import explain_rows, json_schema, matching_rows
    from ridgeline.models import available, case_class

    if schema and (model is None or key is not None or search is not None):
        raise ConfigError("--schema requires MODEL, and cannot be used with KEY or --search.")
    names = available()
    if model is None and search is None:
        typer.echo("models: " + ", ".join(names) + "; `ridgeline explain MODEL` lists the settings of one")
        return
    if schema:
        typer.echo(json.dumps(json_schema(case_class(str(model))), indent=2))
        return
    found: dict[Row, list[str]] = {}
    for name in names if model is None else [model]:
        try:
            settings = case_class(name)
        except ConfigError as problem:
            if model is not None:
                raise
            typer.echo(f"warning: {problem}", err=True)  # a package of somebody else that fails
            continue
        for row in matching_rows(explain_rows(settings), key, search, name):
            found.setdefault(row, []).append(name)
    if not found:
        where = "any model" if model is None else f"the settings of {model}"
        raise ConfigError(f"--search {search}: no key or meaning in {where} has this word.")
    _print_rows(found, len(names) if model is None else 0)


def _print_rows(found: Mapping[Row, Iterable[str]], n_models: int) -> None:
    """Print settings section by section, and the models that have a setting unless all `n_models` have it."""
    from rich.padding import Padding

    from ridgeline.runtime.console import plain_console

    console = plain_console(file_width=None)
    section = ""
    for row, models in found.items():
        if row.section != section:
            section = row.section
            console.print(f"\n{section}", style="bold")
        default = row.default if row.default == "required" else f"default {row.default}"
        facts = ", ".join(filter(None, [row.type, row.unit, default]))
        names = list(models)
        of_models = f"  [{', '.join(names)}]" if 0 < len(names) < n_models else ""
        console.print(f"{row.key}  ({facts}; {row.range}){of_models}", soft_wrap=True)
        console.print(Padding(row.description, (0, 0, 0, 4)))
