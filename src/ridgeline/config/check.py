"""Checking a table of settings against its schema, and the sentences that say what is wrong.

Every fault is found in one go. A sentence names the key, the place it was written at, the value, what is
allowed, and the nearest valid key.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from ridgeline.config.fields import CROSS_FIELD, rule_of, toml
from ridgeline.runtime.errors import ConfigError

Table = Mapping[str, Any]
Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True)
class Origin:
    """How the user wrote a setting: the key's name there, and the place, such as "settings.toml:4"."""

    name: str
    place: str


# From "section.key" (or "section", or "" for the whole file) to where the user wrote it.
Locate = Callable[[str], Origin]


def sections_of(case_class: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """Return a case's sections by name, in the order in which they are shown."""
    sections = {name: field.annotation for name, field in case_class.model_fields.items()}
    last = [name for name in ("output", "checkpoint") if name in sections]
    ordered = [name for name in sections if name not in last] + last
    return {name: sections[name] for name in ordered if sections[name] is not None}  # type: ignore[misc]


def fields_of(case_class: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return a case's fields by "section.key"."""
    return {
        f"{section}.{key}": field
        for section, table in sections_of(case_class).items()
        for key, field in table.model_fields.items()
    }


def nearest(word: str, known: list[str]) -> str | None:
    """Return the known word that is most like `word`, whatever its case, or None."""
    lower = {candidate.lower(): candidate for candidate in reversed(known)}
    found = get_close_matches(word.lower(), lower, n=1)
    return lower[found[0]] if found else None


def nearest_key(section: str, key: str, keys: list[str]) -> str | None:
    """Return the valid "section.key" most like the one given, in its own section first, or None."""
    inside = [name.split(".")[1] for name in keys if name.startswith(f"{section}.")]
    if near := nearest(key, inside):
        return f"{section}.{near}"
    names = [name.split(".")[1] for name in keys]
    near = key if key in names else nearest(key, names)
    return keys[names.index(near)] if near else None


def unknown_key(
    origin: Origin, section: str, key: str, value: Any, keys: list[str]
) -> tuple[str, str | None]:
    """Return the sentence on a key that does not exist, and the "section.key" it suggests."""
    near = nearest_key(section, key, keys)
    taken = [name.split(".")[1] for name in keys if name.startswith(f"{section}.")]
    text = f"{origin.name} in {origin.place}: got {toml(value)}; need a known key of [{section}]: {', '.join(taken)}."
    if near is None:
        return text, None
    other, name = near.split(".")
    if name == key:
        return f"{text} '{key}' belongs to [{other}].", near
    return f"{text} Did you mean '{name if other == section else near}'?", near


def broken_fields(
    error: ValidationError, fields: Mapping[str, FieldInfo], depth: int, table: Table, locate: Locate
) -> Iterator[tuple[str, str]]:
    """Yield (key, sentence) for every field that pydantic refused, once each."""
    seen = set()
    for fault in error.errors():
        base = [str(part) for part in fault["loc"][:depth]]
        if fault["type"] == CROSS_FIELD:
            rules = [(".".join([*base, p.key]), p.rule) for p in fault["ctx"]["problems"]]
        else:
            rules = [(".".join(base), rule_of(fields[".".join(base)]))]
        for key, rule in rules:
            if key in seen:
                continue
            seen.add(key)
            origin = locate(key)
            yield key, f"{origin.name} in {origin.place}: {got(table, key, fields[key])}; need {rule}."


def got(table: Table, key: str, field: FieldInfo) -> str:
    """Say which value a key has, and whether it was given at all."""
    value: Any = table
    for part in key.split("."):
        if part not in value:
            return "not given" if field.is_required() else f"got {toml(field.default)} by default"
        value = value[part]
    return f"got {toml(value)}"


def check_sections(
    case_class: type[BaseModel], document: Table, locate: Locate
) -> tuple[dict[str, Any], list[str], set[str]]:
    """Sort out what the schema does not know.

    Returns the known part of the document with every section in it, the sentences on the rest, and the
    valid keys that these suggest.
    """
    sections = sections_of(case_class)
    keys = list(fields_of(case_class))
    known: dict[str, Any] = {name: {} for name in sections}
    sentences: list[str] = []
    suggested: set[str] = set()
    for section, table in document.items():
        origin = locate(section)
        if section in sections and isinstance(table, Mapping):
            for key, value in table.items():
                if f"{section}.{key}" in keys:
                    known[section][key] = value
                    continue
                sentence, near = unknown_key(locate(f"{section}.{key}"), section, key, value, keys)
                sentences.append(sentence)
                suggested |= {near} if near else set()
        elif section in sections:
            sentences.append(
                f"{origin.name} in {origin.place}: got {toml(table)}; need a table, [{section}]."
            )
        elif isinstance(table, Mapping):
            near = nearest(section, list(sections))
            hint = f" Did you mean [{near}]?" if near else ""
            names = ", ".join(f"[{name}]" for name in sections)
            sentences.append(f"[{section}] in {origin.place}: no such section; need one of {names}.{hint}")
            suggested |= {key for key in keys if near and key.startswith(f"{near}.")}
        else:
            near = nearest_key("", section, keys)
            hint = f" Did you mean '{near}'?" if near else ""
            sentences.append(
                f"{origin.name} in {origin.place}: got {toml(table)}; need a section before it.{hint}"
            )
            suggested |= {near} if near else set()
    return known, sentences, suggested


def check_case(case_class: type[Model], document: Table, locate: Locate) -> Model:
    """Return the case that a document of sections describes.

    Raises ConfigError with one sentence for each fault of the document.
    """
    known, sentences, suggested = check_sections(case_class, document, locate)
    try:
        case = case_class.model_validate(known)
    except ValidationError as error:
        for key, sentence in broken_fields(error, fields_of(case_class), 2, known, locate):
            section, name = key.split(".")
            misspelt = name not in known[section] and key in suggested  # so it is not missing as well
            sentences += [] if misspelt else [sentence]
    if sentences:
        raise ConfigError("\n".join(sentences))
    return case
