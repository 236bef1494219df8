"""Checking a document of settings against its schema, and the messages that say what is wrong.

All faults are reported at once. A message names the place where a key was written, the key, its value, the nearest
valid key, and what is allowed.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from ridgeline.config.fields import CROSS_FIELD, general_rule, rule_of, toml
from ridgeline.config.schema import (
    ANY,
    Section,
    fields_of,
    in_schema,
    named_sections,
    sections_of,
    settings_in,
    settings_of,
)
from ridgeline.runtime.errors import ConfigError

Table = Mapping[str, Any]
MOST_DEPTH = 20  # of tables and lists in a settings file
MOST_FAULTS, MOST_LETTERS = 100, 2000  # faults that are shown, and letters of each
ALIKE = 0.6  # how similar a word must be to be suggested: difflib's ratio
ALIKE_ELSEWHERE = 0.8  # the same for a key of another table
OVERRIDE = "--set"  # the option that overrides settings, and the place of those that it sets
Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True)
class Origin:
    """How the user wrote a setting: its name, and the place, such as "settings.toml:4"."""

    name: str
    place: str


# From "section.key" (or "section", or "" for the whole file) to the place where the user wrote it.
Locate = Callable[[str], Origin]


def refuse_form(path: Path, document: Any) -> None:
    """Raise ConfigError for tables and lists that are nested too deep, and for halves of surrogate pairs in texts."""
    level, depth = [document], 0
    while level:
        if depth > MOST_DEPTH:
            raise ConfigError(
                f"{path}: tables or lists are nested more than {MOST_DEPTH} deep. Write each setting as key = value."
            )
        inner: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                inner += [*value, *value.values()]
            elif isinstance(value, list):
                inner += value
            elif isinstance(value, str) and value.encode(errors="ignore").decode() != value:
                raise ConfigError(
                    f"{path}: {toml(value)!a} holds half of a surrogate pair, which is not a character. Correct "
                    "the text."
                )
        level, depth = inner, depth + 1


def all_faults(sentences: list[str]) -> ConfigError:
    """Return the error with a line for each fault; many faults and long lines are cut."""
    first = sentences[:MOST_FAULTS]
    shown = [text if len(text) <= MOST_LETTERS else f"{text[: MOST_LETTERS - 3]}..." for text in first]
    more = len(sentences) - len(shown)
    return ConfigError("\n".join([*shown, f"There are {more} more errors."] if more else shown))


def nearest(word: str, known: Sequence[str], alike: float = ALIKE) -> str | None:
    """Return the known word that is most similar to `word`, ignoring case, or None."""
    word = word[:100]  # longer words resemble no known one
    lower = {candidate.lower(): candidate for candidate in reversed(known)}
    matches = get_close_matches(word.lower(), lower, n=1, cutoff=alike)
    return lower[matches[0]] if matches else None


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """Return what follows a sentence without its full stop: one, and the known word most similar to `word`."""
    near = nearest(word, known)
    return f". Did you mean '{near}'?" if near else "."


def nearest_key(section: str, key: str, keys: list[str]) -> str | None:
    """Return the valid key of the schema that is most similar to section.key, or None.

    Keys of the same section come first. A key of another section must be more similar, and be in that section only,
    because keys such as `path` are in most sections.
    """
    prefix = f"{section}."
    inside = [name.removeprefix(prefix) for name in keys if section and name.startswith(prefix)]
    if near := nearest(key, inside):
        return f"{section}.{near}"
    homes = Counter(name.rpartition(".")[2] for name in keys)
    near = key if key in homes else nearest(key, list(homes), ALIKE_ELSEWHERE)
    return next(name for name in keys if name.endswith(f".{near}")) if near and homes[near] == 1 else None


def broken_fields(
    error: ValidationError, fields: Mapping[str, FieldInfo], table: Table, locate: Locate
) -> Iterator[tuple[str, str]]:
    """Yield (key, message) once for every field that pydantic refused. fields: by key of the schema."""
    rules_by_key: dict[str, list[str]] = {}
    for fault in error.errors(include_url=False):
        path = [str(part) for part in fault["loc"]]
        if fault["type"] == CROSS_FIELD:
            rules = [(".".join([*path, p.key]), p.rule) for p in fault["ctx"]["problems"]]
        else:
            # The parts of the path after a setting's key name an item, or an alternative of its type.
            starts = (".".join(path[: n + 1]) for n in range(len(path)))
            key = next(start for start in starts if in_schema(start) in fields)
            rules = [(key, rule_of(fields[in_schema(key)])), (key, general_rule(fault))]
        for key, rule in rules:
            rules_by_key.setdefault(key, []).append(rule)
    for key, rules_of_key in rules_by_key.items():
        origin = locate(key)
        # The first rule, with the addition of another fault of the same value, as alternatives of its type have.
        rule = rules_of_key[0] + next((more for more in rules_of_key[1:] if more.startswith(",")), "")
        yield key, f"{origin.place}: {origin.name} {_state(table, key, fields[in_schema(key)])} {rule}."


def value_of(table: Table, key: str) -> tuple[bool, Any]:
    """Return (whether a key is in a document, its value or None)."""
    value: Any = table
    for part in key.split("."):
        if isinstance(value, Mapping) and part not in value:
            return False, None
        value = value[int(part)] if isinstance(value, list) else value[part]
    return True, value


def _state(table: Table, key: str, field: FieldInfo) -> str:
    """Say which value a key has and whether it was given at all, up to the rule for it."""
    given, value = value_of(table, key)
    if given:
        return f"is {toml(value)}, but it must be"
    if field.is_required():
        return "is missing. It must be"
    if field.default is None:
        return "is not set, but it must be"
    return f"is {toml(field.default)} by default, but it must be"


@dataclass
class _Sorter:
    """Separates the part of a document that the schema knows from the rest, and says what is wrong with the rest."""

    sections: dict[str, Section]  # by key of the schema
    keys: list[str]  # of all settings, of the schema
    locate: Locate
    sentences: list[str] = field(default_factory=list)
    suggested: set[str] = field(default_factory=set)  # keys of the schema

    def sort(self, table: Table, path: str) -> dict[str, Any]:
        """Return the known part of one table, with every table inside it. path: its key, "" for the document."""
        schema = in_schema(path)
        prefix = f"{path}." if path else ""
        known: dict[str, Any] = {}
        for key, value in table.items():
            name = f"{schema}.{key}" if schema else key
            section = self.sections.get(name) or self.sections.get(f"{name}.{ANY}")
            if section is not None:
                known[key] = self._enter(section, value, f"{prefix}{key}")
            elif path and key in settings_of(self.sections[schema].table):
                known[key] = value
            elif path:
                self._unknown_key(schema, prefix + key, key)
            else:
                self._unknown_section(key, value)
        for section in self.sections.values():
            parent, _, key = section.name.rpartition(".")
            if parent == schema and key not in known:
                known[key] = [] if section.repeated else self.sort({}, section.name)
        return known

    def _enter(self, section: Section, value: Any, path: str) -> Any:
        """Return the known part of a value that should be a table, or a list of them."""
        if section.repeated:
            if isinstance(value, list) and all(isinstance(item, Mapping) for item in value):
                return [self.sort(item, f"{path}.{number}") for number, item in enumerate(value)]
        elif isinstance(value, Mapping):
            return self.sort(value, path)
        origin = self.locate(path)
        what = "a list of tables, each headed" if section.repeated else "a table, headed"
        shown = f"the table [{section.name}]" if isinstance(value, Mapping) else toml(value)
        self.sentences.append(
            f"{origin.place}: {origin.name} is {shown}, but it must be {what} {section.header}."
        )
        return [] if section.repeated else self.sort({}, path)

    def _unknown_key(self, section: str, path: str, key: str) -> None:
        if (
            len(self.sentences) >= MOST_FAULTS
        ):  # only counted, because the search for a similar key takes time
            self.sentences.append("")
            return
        origin = self.locate(path)
        near = nearest_key(section, key, self.keys)
        prefix = f"{section}."
        taken = [name.removeprefix(prefix) for name in self.keys if name.startswith(prefix)]
        taken = [name for name in taken if f".{ANY}." not in name]  # not those of tables inside it
        # A line shows which of several tables is meant; without one, the whole key does.
        written = key if ":" in origin.place else origin.name
        hint = getattr(self.sections[section].table, "ELSEWHERE", {}).get(key, "")
        if near is not None and not hint:
            home, _, name = near.rpartition(".")
            if name == key and home != section:
                hint = f" '{key}' belongs to {self.sections[home].header}."
            else:
                hint = f" Did you mean '{near.removeprefix(prefix)}'?"
            self.suggested.add(near)
        self.sentences.append(
            f"{origin.place}: unknown key '{written}' in {self.sections[section].header}.{hint} "
            f"Known keys: {', '.join(taken)}."
        )

    def _unknown_section(self, key: str, value: Any) -> None:
        if len(self.sentences) >= MOST_FAULTS:
            self.sentences.append("")
            return
        origin = self.locate(key)
        if isinstance(value, Mapping) or (
            isinstance(value, list) and value and isinstance(value[0], Mapping)
        ):
            headers = {section.name: section.header for section in self.sections.values()}
            near = nearest(key, list(headers))
            hint = f" Did you mean {headers[near]}?" if near else ""
            header = f"[{key}]" if isinstance(value, Mapping) else f"[[{key}]]"
            names = ", ".join(headers.values())
            self.sentences.append(f"{origin.place}: unknown section {header}.{hint} Known sections: {names}.")
            self.suggested |= {name for name in self.keys if near and name.startswith(f"{near}.")}
        else:
            near = nearest_key("", key, self.keys)
            hint = f" Did you mean '{near}'?" if near else ""
            self.sentences.append(
                f"{origin.place}: '{origin.name}' is outside all sections.{hint} Write it below the header of its "
                "section, such as [run]."
            )
            self.suggested |= {near} if near else set()


def check_case(case_class: type[Model], document: Table, locate: Locate) -> Model:
    """Return the case that a document of sections describes.

    Raises ConfigError with one line for each fault of the document.
    """
    named = named_sections(case_class, document)
    fields = fields_of(case_class) | settings_in(named)
    sections = {section.key: section for section in [*sections_of(case_class), *named]}
    sorter = _Sorter(sections, list(fields), locate)
    known = sorter.sort(document, "")
    sentences = sorter.sentences
    try:
        case = case_class.model_validate(known)
    except ValidationError as error:
        for key, sentence in broken_fields(error, fields, known, locate):
            # A key that is absent because it was misspelt is not missing as well.
            misspelt = in_schema(key) in sorter.suggested and not value_of(known, key)[0]
            sentences += [] if misspelt else [sentence]
    if sentences:
        raise all_faults(sentences)
    return case
