"""The tables of a case and the settings in them: [section], [section.table] in a section, [[section]] repeated.

A setting has a dotted *key*. In a repeated section it holds the number of its table, `scalar.0.schmidt`; in the
schema it is `scalar.N.schmidt`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

SIDE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}")  # of tables whose names a document chooses
LAST = ("output", "checkpoint", "callback", "recorder")  # tables that are shown after those of models
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
    """Return (class, whether repeated) of a field that is a table or a tuple of tables; None for a setting."""
    if get_origin(annotation) is tuple:
        item = get_args(annotation)[0]
        return (item, True) if isinstance(item, type) and issubclass(item, BaseModel) else None
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, False
    return None


def _inside(table: type[BaseModel], prefix: str) -> Iterator[Section]:
    """Yield the tables among a table's fields, each before those inside it."""
    for name, field in table.model_fields.items():
        inside = table_of(field.annotation)
        if inside is None:
            continue
        inner, repeated = inside
        key = f"{prefix}{name}.{ANY}" if repeated else f"{prefix}{name}"
        yield Section(key, inner, repeated)
        yield from _inside(inner, f"{key}.")


def sections_of(case_class: type[BaseModel]) -> list[Section]:
    """Return a case's tables in the order in which they are shown: those of LAST come last."""
    sections = _inside(case_class, "")
    return sorted(sections, key=lambda section: section.key.split(".")[0] in LAST)


def named_sections(case_class: type[BaseModel], document: Mapping[str, Any]) -> list[Section]:
    """Return the tables of a document whose names the document chooses.

    They are inside tables with NAMED_WITH, the key of a setting, if the document sets that setting. A name in one
    such table is known in all of them, where its table has the class of the first table among the fields.
    """
    homes = {
        section.key: next(table for field in section.table.model_fields.values() if (table := _table(field)))
        for section in sections_of(case_class)
        if (key := getattr(section.table, "NAMED_WITH", None)) and _at(document, key.split("."))
    }
    names = {
        name
        for home in homes
        for table in _tables_at(document, home.split("."))
        for name, value in table.items()
        if isinstance(value, Mapping) and SIDE_NAME.fullmatch(name)
    }
    own = set(fields_of(case_class))
    return [
        Section(f"{home}.{name}", like, False)
        for name in sorted(names)
        for home, like in homes.items()
        if not any(key.startswith(f"{home}.{name}.") for key in own)
    ]


def _table(field: FieldInfo) -> type[BaseModel] | None:
    table = table_of(field.annotation)
    return table[0] if table else None


def _at(document: Any, path: Sequence[str]) -> Any:
    for part in path:
        document = document.get(part) if isinstance(document, Mapping) else None
    return document


def _tables_at(document: Any, path: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """Yield the tables at a key of the schema."""
    if not path:
        if isinstance(document, Mapping):
            yield document
    elif path[0] == ANY:
        for item in document if isinstance(document, list) else ():
            yield from _tables_at(item, path[1:])
    elif isinstance(document, Mapping):
        yield from _tables_at(document.get(path[0]), path[1:])


def settings_of(table: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields of a table that are settings and not tables."""
    return {name: field for name, field in table.model_fields.items() if table_of(field.annotation) is None}


def settings_in(sections: Sequence[Section]) -> dict[str, FieldInfo]:
    """Return the settings of some tables by their keys in the schema."""
    return {
        f"{section.key}.{name}": field
        for section in sections
        for name, field in settings_of(section.table).items()
    }


def fields_of(case_class: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return all settings of a case by their keys in the schema."""
    return settings_in(sections_of(case_class))


def is_index(part: str) -> bool:
    """Say whether a part of a key is the number of a repeated table."""
    return part.isascii() and part.isdigit() and len(part) < 10


def in_schema(key: str) -> str:
    """Return the schema's key of a setting's key: numbers of tables become N."""
    return ".".join(ANY if is_index(part) else part for part in key.split("."))
