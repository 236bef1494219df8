"""What can be set: rows for people and JSON Schema for editors, from the same schema that checks."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

from pydantic import BaseModel

from ridgeline.config.fields import extra_of, rule_of, takes_formula, toml, type_of
from ridgeline.config.needs import needs_words
from ridgeline.config.schema import fields_of, in_schema, sections_of, settings_of
from ridgeline.runtime.errors import ConfigError

FUNCTION_TOO = ' A Python function, "FILE.py:FUNCTION", may stand for a formula.'


class Row(NamedTuple):
    """One setting, in words."""

    section: str  # header as in TOML
    key: str  # complete, as for --set; N stands for the number of a repeated section, from 0
    type: str
    unit: str  # "" for pure numbers and words
    default: str  # as in TOML; "required" if there is none, "not set" for off
    range: str
    description: str


def explain_rows(case_class: type[BaseModel]) -> list[Row]:
    """Return one row for every setting of a model's case, section by section."""
    rows = []
    fields = fields_of(case_class)
    for section in sections_of(case_class):
        for name, field in settings_of(section.table).items():
            default = "not set" if field.default is None else toml(field.default, most=80)
            needed = needs_words(fields, f"{section.key}.", field)
            formula = takes_formula(field.annotation, field.metadata)
            rows.append(
                Row(
                    section.header,
                    f"{section.key}.{name}",
                    type_of(field.annotation),
                    extra_of(field, "unit"),
                    "required" if field.is_required() else default,
                    rule_of(field),
                    f"{field.description or ''}{FUNCTION_TOO if formula else ''}"
                    f"{f' Used only with {needed}.' if needed else ''}",
                )
            )
    return rows


def matching_rows(rows: Sequence[Row], key: str | None, search: str | None, model: str) -> list[Row]:
    """Return the rows of a key and those that contain a word; None stands for any.

    Parameters
    ----------
    key : a whole key (`model.F`), a section (`model`, also as `[model]`) or the last part of a key (`F`)
    search : a word, in any case, of a key or of its description

    Raises ConfigError, which names the nearest keys, if no row has the key.
    """
    if key is not None:
        chosen = [row for row in rows if row.key == in_schema(key)]
        chosen = chosen or [row for row in rows if row.key.startswith(f"{in_schema(key).strip('[].')}.")]
        chosen = chosen or [row for row in rows if row.key.split(".")[-1] == key]
        if not chosen:
            names = {row.key.split(".")[-1]: row.key for row in rows} | {row.key: row.key for row in rows}
            near = list(dict.fromkeys(names[name] for name in get_close_matches(key, names, n=3)))
            hint = f" Did you mean {' or '.join(near)}?" if near else ""
            raise ConfigError(
                f"{model} has no setting '{key[:60]}'.{hint} `ridgeline explain {model}` lists all settings."
            )
        rows = chosen
    word = (search or "").lower()
    return [row for row in rows if word in row.key.lower() or word in row.description.lower()]


def json_schema(case_class: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a model's settings file, for editors and other programs."""
    schema = case_class.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
