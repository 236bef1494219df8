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
    from rich.console import Console
    from rich.table import Table

    from ridgeline.config.explain import explain_rows, json_schema
    from ridgeline.models import available, case_class

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
    table = Table(box=None, pad_edge=False, title=f"settings of {model}", title_justify="left")
    for column in ("key", "type", "unit", "default", "range", "meaning"):
        table.add_column(column, overflow="fold", no_wrap=column == "key")
    for row in explain_rows(case):
        table.add_row(row.key, row.type, row.unit, row.default, row.range, row.description)
    Console(markup=False, highlight=False).print(table)
