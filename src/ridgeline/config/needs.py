"""Settings that have no effect because another setting switches them off.

A field of the schema states what it needs to have an effect: `setting(..., needs={"kind": ("box", "patches")})`. A
key without a dot is in the same table. Other keys are complete, with N for the number of any repeated table; a key
that ends in N is the table itself. All conditions of a mapping must hold, and one of several mappings. The values are
those that the other key may have; `ON` is any value that is not 0, false, "none" or empty.

A setting whose needs are not met does nothing, and `idle_settings` warns about it. It is not an error, because the
setting may be meant for another run of the same file. A request that is incomplete, such as a forcing without its
amplitude, is an error, which `Checked.problems` reports.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from ridgeline.config.check import Locate, Origin
from ridgeline.config.fields import choices, needs_of, toml
from ridgeline.config.intervals import UNITS
from ridgeline.config.schema import ANY, fields_of, in_schema

ENDINGS = tuple(f"_{unit}" for unit in UNITS)


class _Switch(NamedTuple):
    """The present state that switches a setting off, as a clause, and the state that it needs, after "with"."""

    present: str
    needed: str


def idle_settings(case: BaseModel, locate: Locate) -> Iterator[str]:
    """Yield a sentence for the given settings that another one switches off. locate: where they were written.

    Settings of one file that the same state switches off share a sentence, which has the line of the first.
    """
    fields = fields_of(type(case))
    idle: dict[tuple[str, str], list[tuple[Origin, str, str]]] = {}
    for table, path, name in _given(case, ""):
        field, value = type(table).model_fields[name], getattr(table, name)
        asks_nothing = value == field.default and (value == "auto" or not _is_on(value))
        switch = None if asks_nothing else _switched_off(case, fields, path, field, (path + name,))
        if switch is not None:
            origin = locate(path + name)
            file = re.sub(r":\d+$", "", origin.place)
            entry = (origin, f"{origin.name} = {toml(value)}", switch.needed)
            idle.setdefault((file, switch.present), []).append(entry)
    for (_, present), entries in idle.items():
        origin, first, needed = entries[0]
        *others, last = [text for _, text, _ in entries]
        if not others:
            yield f"{origin.place}: {first} has no effect, because {present}. It is used only with {needed}."
            continue
        same = all(each == needed for _, _, each in entries)
        used = f" They are used only with {needed}." if same else ""
        yield f"{origin.place}: {', '.join(others)} and {last} have no effect, because {present}.{used}"


def needs_words(fields: Mapping[str, FieldInfo], prefix: str, field: FieldInfo) -> str:
    """Say what a field needs, as it follows "with"; "" if nothing. prefix: of the keys of its table."""
    ways = needs_of(field)
    shown = _without_units([next(iter(needs)) for needs in ways])
    return ", or ".join(
        " and ".join(_words(fields, _whole(prefix, key), values) for key, values in needs.items())
        for needs in ways
        if next(iter(needs)) in shown
    )


def _without_units(keys: Iterable[str]) -> list[str]:
    """Return keys without those that are an interval of another one in time or seconds, which is said by that one."""
    known = list(keys)
    return [key for key in known if not (key.endswith(ENDINGS) and key.rpartition("_")[0] in known)]


def _words(fields: Mapping[str, FieldInfo], key: str, values: list[Any]) -> str:
    if values:
        return f"{key} = {choices(values)}"
    if in_schema(key) not in fields:
        return f"a [[{key.removesuffix(f'.{ANY}')}]]"
    default = fields[in_schema(key)].default
    if isinstance(default, bool):
        return f"{key} = true"
    return f"{key} other than 0" if isinstance(default, int | float) else f"{key} set"


def _given(table: BaseModel, path: str) -> Iterator[tuple[BaseModel, str, str]]:
    """Yield (table, its key with a dot behind, name) of every setting that was given."""
    for (
        name,
        value,
    ) in table:  # not by getattr, because a side of a mesh may have the name of a method of its table
        if isinstance(value, BaseModel):
            yield from _given(value, f"{path}{name}.")
        elif isinstance(value, tuple) and value and isinstance(value[0], BaseModel):
            for number, item in enumerate(value):
                yield from _given(item, f"{path}{name}.{number}.")
        elif name in table.model_fields_set:
            yield table, path, name


def _switched_off(
    case: BaseModel, fields: Mapping[str, FieldInfo], prefix: str, field: FieldInfo, seen: tuple[str, ...]
) -> _Switch | None:
    """Return what keeps a field from having an effect, None if nothing does.

    prefix: of the keys of its table. seen: keys that led here. A key that is switched off cannot switch others on.
    """
    all_unmet: dict[str, None] = {}
    deeper: _Switch | None = None
    for needs in needs_of(field):
        keys = {_whole(prefix, name): values for name, values in needs.items()}
        unmet: dict[str, None] = {}
        for key, values in keys.items():
            present = _values(case, key.split("."))
            if not any(_is_among(value, values) if values else _is_on(value) for value in present):
                unmet[key] = None
        if unmet:
            all_unmet |= unmet
            continue
        behind = [
            _switched_off(case, fields, f"{key.rpartition('.')[0]}.", fields[in_schema(key)], (*seen, key))
            for key in keys
            if key not in seen and in_schema(key) in fields
        ]
        if not any(behind):
            return None
        deeper = next(filter(None, behind))
    if deeper is not None or not all_unmet:
        return deeper
    return _Switch(
        " and ".join(_state(case, key) for key in _without_units(all_unmet)),
        needs_words(fields, prefix, field),
    )


def _state(case: BaseModel, key: str) -> str:
    """Say which value a case has at a key, in the first of repeated tables, as a clause."""
    value = next(_values(case, key.split(".")), ...)
    if value is ...:
        return f"there is no [[{key.partition(f'.{ANY}')[0]}]]"
    return f"{key} is not set" if value is None else f"{key} is {toml(value)}"


def _whole(prefix: str, key: str) -> str:
    return key if "." in key else prefix + key


def _values(value: Any, path: list[str]) -> Iterator[Any]:
    """Yield the values of a case at a key, of each repeated table where the key has N."""
    if not path:
        yield value
    elif path[0] == ANY:
        for item in value:
            yield from _values(item, path[1:])
    else:
        yield from _values(
            value[int(path[0])] if isinstance(value, tuple) else dict(value)[path[0]], path[1:]
        )


def _is_on(value: Any) -> bool:
    """Say whether a value differs from 0, false, "none" and empty; a list does if an item does."""
    return any(map(_is_on, value)) if isinstance(value, tuple) else value not in (None, 0, "", "0", "none")


def _is_among(value: Any, values: list[Any]) -> bool:
    return any(item in values for item in value) if isinstance(value, tuple) else value in values
