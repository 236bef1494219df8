"""`--set section.key=value`: settings from the command line, over those of the file."""

import re
import tomllib
from collections.abc import Sequence
from typing import Any

from ridgeline.runtime.errors import ConfigError

OVERRIDE = "--set"


def parse_value(text: str) -> Any:
    """Return the TOML value that `text` spells, or the text itself if it is a bare word or path.

    Raises ValueError for text that begins as a TOML list, table or string and does not end as one.
    """
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        if text[:1] in "[{\"'":
            raise ValueError(text) from None
        return text
    return parsed["value"] if set(parsed) == {"value"} else text


def apply_overrides(document: dict[str, Any], overrides: Sequence[str]) -> set[str]:
    """Set "section.key=value" in a document of sections, the last of equal keys winning; return the keys set.

    Raises ConfigError with one sentence for each override that is not of that form.
    """
    sentences, keys = [], set()
    for override in overrides:
        match = re.fullmatch(r"\s*([\w-]+)\.([\w-]+)\s*=\s*(.*?)\s*", override, re.DOTALL)
        if match is None:
            sentences.append(f"{OVERRIDE} {override}: need section.key=value, such as run.steps=100.")
            continue
        section, key, text = match.groups()
        try:
            value = parse_value(text)
        except ValueError:
            sentences.append(f"{OVERRIDE} {override}: got {text}; need a TOML value, quoted for the shell.")
            continue
        table = document.setdefault(section, {})
        if isinstance(table, dict):
            table[key] = value
            keys.add(f"{section}.{key}")
    if sentences:
        raise ConfigError("\n".join(sentences))
    return keys
