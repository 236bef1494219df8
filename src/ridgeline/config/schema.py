"""The tables of a case and the settings in them: [section], [section.table] inside one, [[section]] repeated.

A setting has a dotted *key*. That of a repeated section carries the number of its table, `scalar.0.schmidt`;
the schema itself says `scalar.N.schmidt`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

ANY = "N"  # stands for the number of a repeated table in the keys of a schema


@dataclass(frozen=True)
class Section:
    """One table of a case: its key in the schema, its class, and whether it may be repeated."""

    key: str
    table: type[BaseModel]
    repeated: bool

    @property
    def name(self) -> str:
        """The name as in TOML headers."""
        return self.key.removesuffix(f".{ANY}")

    @property
    def header(self) -> str:
        """The header as TOML has it: tables inside a repeated one carry no number."""
        name = self.name.replace(f".{ANY}.", ".")
        return f"[[{name}]]" if self.repeated else f"[{name}]"


def table_of(annotation: Any) -> tuple[type[BaseModel], bool] | None:
    """Return (class, whether repeated) of a field that is a table or a tuple of tables; None of a setting."""
    if get_origin(annotation) is tuple:
        item = get_args(annotation)[0]
        return (item, True) if isinstance(item, type) and issubclass(item, BaseModel) else None
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, False
    return None


def _inside(table: type[BaseModel], prefix: str) -> Iterator[Section]:
    """Yield the tables among a table's fields, each before those inside it."""
    for name, field in table.model_fields.items():
        found = table_of(field.annotation)
        if found is None:
            continue
        inner, repeated = found
        key = f"{prefix}{name}.{ANY}" if repeated else f"{prefix}{name}"
        yield Section(key, inner, repeated)
        yield from _inside(inner, f"{key}.")


def sections_of(case_class: type[BaseModel]) -> list[Section]:
    """Return a case's tables in the order in which they are shown: [output] and [checkpoint] are the last."""
    found = list(_inside(case_class, ""))
    return sorted(found, key=lambda section: section.key.split(".")[0] in ("output", "checkpoint"))


def settings_of(table: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields of a table that are no tables."""
    return {name: field for name, field in table.model_fields.items() if table_of(field.annotation) is None}


def fields_of(case_class: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return all settings of a case by their keys in the schema."""
    return {
        f"{section.key}.{name}": field
        for section in sections_of(case_class)
        for name, field in settings_of(section.table).items()
    }


def is_index(part: str) -> bool:
    """Say whether a part of a key is the number of a repeated table."""
    return part.isascii() and part.isdigit() and len(part) < 10


def in_schema(key: str) -> str:
    """Return the schema's key of a setting's key: numbers of tables become N."""
    return ".".join(ANY if is_index(part) else part for part in key.split("."))
