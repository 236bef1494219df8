"""From a settings file and `--set` overrides to a checked case.

An override `--set section.key=value` replaces a setting of the file. Its key may go into a table of a section
(`model.fft.effort`) or into a repeated section by number (`scalar.0.schmidt`). Without a value, `model.dt=`, it takes
a key out of the file.
"""

import math
import re
import stat
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ridgeline.config import julia
from ridgeline.config.case import AnyCase
from ridgeline.config.check import OVERRIDE, Locate, Origin, all_faults, check_case, nearest, refuse_form
from ridgeline.config.fields import toml
from ridgeline.config.needs import idle_settings
from ridgeline.config.schema import is_index, sections_of, settings_of
from ridgeline.config.toml_lines import key_lines, line_of
from ridgeline.runtime.errors import ConfigError

MOST_BYTES = 2**20  # of a settings file
ANY_LINE = "Write each setting as key = value"
A_SETTINGS_FILE = "Give a settings file (.toml, or GrayScott.jl's .json)."
NOTHING = object()  # the value of an override that takes a key out
CaseClassOf = Callable[[str], type[AnyCase]]


@dataclass(frozen=True)
class LoadedCase:
    """A checked case and what came with it."""

    case: AnyCase
    source: Path
    warnings: tuple[str, ...] = ()  # for people, one sentence each
    resume: Path | None = None  # checkpoint that the file itself asks to resume from (GrayScott.jl's restart)


def read_text(path: Path) -> str:
    """Return the text of a settings file. Raises ConfigError if it cannot be read, or is too large for settings."""
    try:
        if not path.is_dir() and not stat.S_ISREG(path.stat().st_mode):
            raise ConfigError(f"{path}: not a regular file. {A_SETTINGS_FILE}")
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise ConfigError(
                f"{path}: the file is larger than {MOST_BYTES // 1024} KiB, so it is not a settings file."
            )
        return content.decode("utf-8-sig")  # editors on Windows begin a file with a byte order mark
    except FileNotFoundError:
        near = nearest(
            path.name, sorted(p.name for p in path.parent.glob("*") if p.suffix in (".toml", ".json"))
        )
        hint = f" Did you mean '{path.with_name(near)}'?" if near else ""
        raise ConfigError(f"{path}: there is no such file.{hint} {A_SETTINGS_FILE}") from None
    except IsADirectoryError:
        found = sorted(path.glob("*.toml"))
        hint = f" Did you mean '{found[0]}'?" if found else ""
        raise ConfigError(f"{path}: this is a directory.{hint} {A_SETTINGS_FILE}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path}: byte {error.start} is not UTF-8. A settings file is text in UTF-8."
        ) from None
    except OSError as error:
        raise ConfigError(f"{path}: the file cannot be read ({error.strerror}).") from None
    except ValueError:
        raise ConfigError(f"{toml(str(path))}: not a valid path. {A_SETTINGS_FILE}") from None


def _correction(line: str) -> str:
    """Say how to correct a line: by the value of its arithmetic, by quotes around a word, or by a whole line."""
    from ridgeline.config.expressions import constant  # imports NumPy, without which settings can be loaded

    key, _, value = (part.strip() for part in line.partition("#")[0].partition("="))
    if not re.fullmatch(r"[\w.-]+", key) or not value:
        return ANY_LINE
    if math.isfinite(number := constant(value)):
        return f"TOML does not compute, so write {key} = {repr(number).removesuffix('.0')}"
    return f'Text has quotes: {key} = "{value}"' if re.fullmatch(r"[^\W\d][\w-]*", value) else ANY_LINE


def parse_toml(path: Path, text: str) -> dict[str, Any]:
    """Return the tables of a TOML text. Raises ConfigError with the line if it is not valid TOML."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        what, _, where = str(error).partition(" (at ")
        line = where.removeprefix("line ").split(",")[0]
        place = f"{path}:{line}" if line.isdigit() else f"{path}, at its end"
        advice = _correction(text.splitlines()[int(line) - 1]) if line.isdigit() else ANY_LINE
        raise ConfigError(f"{place}: not valid TOML: {what[:1].lower()}{what[1:]}. {advice}.") from None
    except (ValueError, RecursionError):  # an integer of more digits than Python reads, brackets in brackets
        raise ConfigError(
            f"{path}: not valid TOML: a number is too long, or lists are nested too deep. {ANY_LINE}."
        ) from None


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
    """Return the value of a container at one part of a key; create a table or a list if there is none.

    before: the key so far. following: the next part, whose form says what to create. Raises ValueError with the
    reason if the part does not fit the container.
    """
    if isinstance(container, dict):
        return container.setdefault(part, [] if is_index(following) else {})
    count = len(container)
    if not is_index(part) or int(part) > count:
        there = f"there {'is' if count == 1 else 'are'} {count} [[{before}]], counted from 0"
        raise ValueError(f"{there}. Give a number from 0 to {count}, where {count} adds one")
    if int(part) == count:
        container.append({})
    return container[int(part)]


def _put(document: dict[str, Any], parts: list[str], value: Any) -> bool:
    """Set a key of a document, or take it out; return False if its section is not a table.

    Raises ValueError with the reason if the key cannot be set otherwise.
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
                f"this is not the key of a setting. Give one of a table [[{so_far}]], such as {so_far}.0.key=value"
            )
        if depth == 0:
            return False
        raise ValueError(f"{so_far} is {toml(container)}, not a table. Give the key of a setting")
    if value is NOTHING:
        if parts[-1] not in container:
            raise ValueError(f"{'.'.join(parts)} is not set, so it cannot be removed. Give a value after =")
        del container[parts[-1]]
    else:
        container[parts[-1]] = value
    return True


def apply_overrides(document: dict[str, Any], overrides: Sequence[str]) -> set[str]:
    """Set "section.key=value" in a document of sections and return the keys set. The last of equal keys wins.

    "section.key=" takes the key out, so that its default applies.

    Raises ConfigError with one line for each override that is not of that form.
    """
    sentences, keys = [], set()
    for override in overrides:
        match = re.fullmatch(r"\s*([\w-]+(?:\.[\w-]+)+)\s*=\s*(.*?)\s*", override, re.DOTALL)
        if match is None:
            sentences.append(f"{OVERRIDE} {override}: write section.key=value, such as run.steps=100.")
            continue
        key, text = match.groups()
        try:
            value = parse_value(text) if text else NOTHING
        except ValueError:
            sentences.append(
                f"{OVERRIDE} {override}: {text} is not a value of TOML. Quote the whole setting for the shell."
            )
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
    """Set keys ("section.key") of a document of sections.

    Raises ConfigError with a sentence for each key that cannot be set.
    """
    sentences = []
    for key, value in values.items():
        try:
            if re.fullmatch(r"[\w-]+(?:\.[\w-]+)+", str(key)) is None or not _put(
                document, key.split("."), value
            ):
                raise ValueError("this is not the key of a setting, such as run.steps")
        except ValueError as error:
            sentences.append(f"{key}: {error}.")
    if sentences:
        raise all_faults(sentences)


def load_case(path: str | Path, case_class_of: CaseClassOf, overrides: Sequence[str] = ()) -> LoadedCase:
    """Read, override and check the settings of one run.

    Parameters
    ----------
    path: a TOML file, or a JSON file of GrayScott.jl (by its suffix .json). Paths in it stay as written:
        relative to the directory in which the run is started.
    case_class_of: from a model's name to the class of its settings; ConfigError if there is none.
    overrides: "section.key=value" with TOML values; a bare word is text.

    Raises ConfigError, whose message has one line for each fault of the file and the overrides.
    """
    path = Path(path)
    text = read_text(path)
    warnings: tuple[str, ...] = ()
    resume = None
    lines: dict[str, int] = {}
    origins: dict[str, Origin] = {}
    if path.suffix == ".json":
        translation = julia.translate(path, text)
        document, origins = translation.document, translation.origins
        warnings, resume = translation.warnings, translation.resume
    else:
        document = parse_toml(path, text)
        lines = key_lines(text)
    refuse_form(path, document)
    overridden = apply_overrides(document, overrides)
    refuse_form(path, document)

    def locate(key: str) -> Origin:
        only_overridden = key not in lines and any(name.startswith(f"{key}.") for name in overridden)
        if key in overridden or only_overridden:
            return Origin(key, OVERRIDE)
        return origins.get(key) or _origin_in(lines, str(path), key)

    case = check_document(document, case_class_of, locate)
    return LoadedCase(case, path, (*warnings, *warnings_of(case, locate)), resume)


def case_of_text(text: str, place: str, case_class_of: CaseClassOf) -> AnyCase:
    """Return the checked case that a text in TOML describes. place: what the messages call the text.

    Raises ConfigError, whose message has one line for each fault, with its line in the text.
    """
    document, lines = parse_toml(Path(place), text), key_lines(text)
    refuse_form(Path(place), document)
    return check_document(document, case_class_of, lambda key: _origin_in(lines, place, key))


def _origin_in(lines: dict[str, int], place: str, key: str) -> Origin:
    """Return the origin of a key in a text with these lines of keys."""
    line = line_of(lines, key)
    return Origin(key, f"{place}:{line}" if line else place)


def warnings_of(case: AnyCase, locate: Locate) -> Iterator[str]:
    """Yield a sentence for each value of a checked case that has no effect or is hardly intended."""
    yield from idle_settings(case, locate)
    for key, sentence in case.doubts():
        origin = locate(key)
        yield f"{origin.place}: {origin.name}: {sentence}"


def check_document(document: dict[str, Any], case_class_of: CaseClassOf, locate: Locate) -> AnyCase:
    """Return the checked case of a document of sections, for the model that its run.model names.

    locate: from a key to the place where the user wrote it, for the sentences.

    Raises ConfigError, whose message has one line for each fault.
    """
    run = document.get("run")
    name = run.get("model") if isinstance(run, dict) else None
    case_class: type[AnyCase] = AnyCase
    unknown_model = ""
    if isinstance(name, str):
        try:
            case_class = case_class_of(name)
        except ConfigError as error:
            unknown_model = f"{locate('run.model').place}: {error}"
    if case_class is AnyCase:
        # Check only what does not depend on the model: models add sections, and keys to the shared ones.
        shared = sections_of(AnyCase)
        part = {section.key: document[section.key] for section in shared if section.key in document}
        for section in shared:
            table = part.get(section.key)
            if isinstance(table, dict) and section.key in ("grid", "output"):
                known = settings_of(section.table)
                part[section.key] = {key: value for key, value in table.items() if key in known}
        document = part
    try:
        case = check_case(case_class, document, locate)
    except ConfigError as error:
        raise ConfigError("\n".join(filter(None, [unknown_model, str(error)]))) from None
    if unknown_model:
        raise ConfigError(unknown_model)
    return case
