"""Writing a document of sections as a settings file in TOML, which the standard library only reads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def write_toml(document: Mapping[str, Any]) -> str:
    """Return a document of sections, as a settings file is read into, as the text of such a file.

    document: numbers, texts, truth values, and lists and mappings of them. A mapping becomes a table, and a list of
    mappings an array of tables.
    """
    return "\n".join(_table(document, ())).strip() + "\n"


def _table(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    """Yield the lines of a table: first its values, then the tables in it with their heads."""
    inner = {key: value for key, value in table.items() if not _is_plain(value)}
    for key, value in table.items():
        if key not in inner:
            yield f"{_key(key)} = {toml_value(value)}"
    for key, value in inner.items():
        place = (*path, key)
        name = ".".join(map(_key, place))
        for each in value if isinstance(value, Sequence) else [value]:
            # A table that only holds tables, or nothing, needs no head.
            if isinstance(value, Sequence) or any(map(_is_plain, each.values())):
                yield from ("", f"[[{name}]]" if isinstance(value, Sequence) else f"[{name}]")
            yield from _table(each, place)


def _is_plain(value: Any) -> bool:
    return not isinstance(value, Mapping) and not _is_tables(value)


def _is_tables(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(one, Mapping) for one in value)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else json.dumps(key, ensure_ascii=False)


def toml_value(value: Any) -> str:
    """Return a value as TOML writes it in one line."""
    match value:
        case str():
            # The escapes of JSON are those of TOML, which also forbids the bare control character DEL.
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case bool():
            return str(value).lower()
        case list() | tuple():
            return f"[{', '.join(map(toml_value, value))}]"
        case Mapping():
            return "{" + ", ".join(f"{_key(key)} = {toml_value(item)}" for key, item in value.items()) + "}"
        case _:
            return str(value)
