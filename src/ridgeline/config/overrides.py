"""`--set section.key=value`: settings from the command line, over those of the file.

Keys go into tables of sections (`model.fft.effort`) and into repeated sections by number (`scalar.0.schmidt`).
Without a value an override takes a key out of the file: `model.dt=`.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from ridgeline.config.check import all_faults
from ridgeline.config.fields import toml
from ridgeline.config.schema import is_index

OVERRIDE = "--set"
NOTHING = object()  # the value of a key that is taken out


def parse_value(text: str) -> Any:
    """Return the TOML value that `text` spells, or the text itself if it is a bare word or path.

    Raises ValueError for text that begins as a TOML list, table or string and does not end as one.
    """
    try:
        parsed = tomllib.loads(f"value = {text}")
    except RecursionError:
        raise ValueError(text) from None
    except ValueError:  # TOMLDecodeError is one, and an integer of too many digits
        if text[:1] in "[{\"'":
            raise ValueError(text) from None
        return text
    return parsed["value"] if set(parsed) == {"value"} else text


def _enter(container: dict[str, Any] | list[Any], part: str, before: str, following: str) -> Any:
    """Return what a document has at one part of a key, made if there is none. ValueError says why it cannot be.

    before: the key so far. following: the next part, whose form says what to make.
    """
    if isinstance(container, dict):
        return container.setdefault(part, [] if is_index(following) else {})
    count = len(container)
    if not is_index(part) or int(part) > count:
        there = f"[[{before}]] are counted from 0, and there {'is' if count == 1 else 'are'} {count}"
        raise ValueError(f"{there}; need a number from 0 to {count}, {count} for a new one")
    if int(part) == count:
        container.append({})
    return container[int(part)]


def _put(document: dict[str, Any], parts: list[str], value: Any) -> bool:
    """Set a key of a document, or take it out; False if its section is no table.

    Raises ValueError that says what else stands in the way.
    """
    container: Any = document
    for depth, part in enumerate(parts[:-1]):
        container = _enter(container, part, ".".join(parts[:depth]), parts[depth + 1])
        so_far = ".".join(parts[: depth + 1])
        if isinstance(container, dict):
            continue
        if isinstance(container, list) and all(isinstance(item, dict) for item in container):
            if depth + 2 < len(parts):
                continue
            raise ValueError(
                f"need the key of a setting in one of [[{so_far}]], such as {so_far}.0.key=value"
            )
        if depth == 0:
            return False
        raise ValueError(f"{so_far} is {toml(container)}; need the key of a setting")
    if value is NOTHING:
        if parts[-1] not in container:
            raise ValueError(f"nothing sets {'.'.join(parts)}; need a value, or a key that is set")
        del container[parts[-1]]
    else:
        container[parts[-1]] = value
    return True


def apply_overrides(document: dict[str, Any], overrides: Sequence[str]) -> set[str]:
    """Set "section.key=value" in a document of sections, the last of equal keys winning; return the keys set.

    "section.key=" takes the key out, so that its default holds.

    Raises ConfigError with one sentence for each override that is not of that form.
    """
    sentences, keys = [], set()
    for override in overrides:
        match = re.fullmatch(r"\s*([\w-]+(?:\.[\w-]+)+)\s*=\s*(.*?)\s*", override, re.DOTALL)
        if match is None:
            sentences.append(f"{OVERRIDE} {override}: need section.key=value, such as run.steps=100.")
            continue
        key, text = match.groups()
        try:
            value = parse_value(text) if text else NOTHING
        except ValueError:
            sentences.append(f"{OVERRIDE} {override}: got {text}; need a TOML value, quoted for the shell.")
            continue
        try:
            if _put(document, key.split("."), value):
                keys.add(key)
        except ValueError as error:
            sentences.append(f"{OVERRIDE} {override}: {error}.")
    if sentences:
        raise all_faults(sentences)
    return keys


def put_all(document: dict[str, Any], values: Mapping[str, Any]) -> None:
    """Set keys ("section.key") of a document of sections; ConfigError with a sentence for each that cannot be."""
    sentences = []
    for key, value in values.items():
        try:
            if re.fullmatch(r"[\w-]+(?:\.[\w-]+)+", str(key)) is None or not _put(
                document, key.split("."), value
            ):
                raise ValueError("need the key of a setting, such as run.steps")
        except ValueError as error:
            sentences.append(f"{key}: {error}.")
    if sentences:
        raise all_faults(sentences)
