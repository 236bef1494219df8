"""`ridgeline explain`: every setting of a model."""

from __future__ import annotations

import json
from typing import Annotated

import typer


def explain(
    model: Annotated[
        str | None, typer.Argument(metavar="[MODEL]", help="Model; all models' names without it.")
    ] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema.")] = False,
) -> None:
    """Print every key of a model's settings with type, unit, default, range and meaning."""
    from rich.padding import Padding

    from ridgeline.config.explain import explain_rows, json_schema
    from ridgeline.models import available, case_class
    from ridgeline.runtime.console import plain_console

    names = available()
    if model is None and len(names) == 1:
        model = names[0]
    if model is None:
        typer.echo("models: " + ", ".join(names) + "; `ridgeline explain MODEL` lists the settings of one")
        return
    case = case_class(model)
    if schema:
        typer.echo(json.dumps(json_schema(case), indent=2))
        return
    console = plain_console(file_width=None)
    section = ""
    for row in explain_rows(case):
        if row.section != section:
            section = row.section
            console.print(f"\n{section}", style="bold")
        facts = ", ".join(
            filter(
                None,
                [row.type, row.unit, row.default if row.default == "required" else f"default {row.default}"],
            )
        )
        console.print(f"{row.key}  ({facts}; {row.range})", soft_wrap=True)
        console.print(Padding(row.description, (0, 0, 0, 4)))
