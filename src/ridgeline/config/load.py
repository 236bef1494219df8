"""From a settings file and `--set` overrides to a checked case."""

import math
import re
import stat
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ridgeline.config import julia
from ridgeline.config.case import AnyCase
from ridgeline.config.check import Locate, Origin, check_case, nearest, refuse_form
from ridgeline.config.fields import toml
from ridgeline.config.needs import idle_settings
from ridgeline.config.overrides import OVERRIDE, apply_overrides
from ridgeline.config.schema import sections_of, settings_of
from ridgeline.config.toml_lines import key_lines, line_of
from ridgeline.runtime.errors import ConfigError

MOST_BYTES = 2**20  # of a settings file
NEED_LINES = "need lines key = value"
CaseClassOf = Callable[[str], type[AnyCase]]


@dataclass(frozen=True)
class LoadedCase:
    """A checked case and what came with it."""

    case: AnyCase
    source: Path
    warnings: tuple[str, ...] = ()  # for people, one sentence each
    resume: Path | None = None  # checkpoint that the file itself asks to resume from (GrayScott.jl's restart)


def read_text(path: Path) -> str:
    """Return a settings file's text; ConfigError if there is none to read, or more than settings can be."""
    try:
        if not path.is_dir() and not stat.S_ISREG(path.stat().st_mode):
            raise ConfigError(
                f"{path}: is no regular file; need a settings file (.toml, or GrayScott.jl's .json)."
            )
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise ConfigError(f"{path}: has more than {MOST_BYTES // 1024} KiB; need a settings file.")
        return content.decode("utf-8-sig")  # Windows editors begin a file with a byte order mark
    except FileNotFoundError:
        near = nearest(
            path.name, sorted(p.name for p in path.parent.glob("*") if p.suffix in (".toml", ".json"))
        )
        hint = f" Did you mean '{path.with_name(near)}'?" if near else ""
        raise ConfigError(
            f"{path}: no such file; need a settings file (.toml, or GrayScott.jl's .json).{hint}"
        ) from None
    except IsADirectoryError:
        found = sorted(path.glob("*.toml"))
        hint = f" Did you mean '{found[0]}'?" if found else ""
        raise ConfigError(
            f"{path}: is a directory; need a settings file (.toml, or GrayScott.jl's .json).{hint}"
        ) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: byte {error.start} is not UTF-8; need a text file.") from None
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read ({error.strerror}); need a readable settings file."
        ) from None
    except ValueError:
        raise ConfigError(f"{toml(str(path))}: is no path; need a settings file.") from None


def _needed(line: str) -> str:
    """Say what a line needs to be valid TOML: the number that arithmetic comes to, or quotes around a word."""
    from ridgeline.config.expressions import constant  # NumPy, which other settings load without

    key, _, value = (part.strip() for part in line.partition("#")[0].partition("="))
    if not re.fullmatch(r"[\w.-]+", key) or not value:
        return NEED_LINES
    if math.isfinite(number := constant(value)):
        return f"need a number, as TOML does not compute: {key} = {repr(number).removesuffix('.0')}"
    return (
        f'need quotes around text: {key} = "{value}"' if re.fullmatch(r"[^\W\d][\w-]*", value) else NEED_LINES
    )


def parse_toml(path: Path, text: str) -> dict[str, Any]:
    """Return the tables of a TOML text; ConfigError with its line if it is none."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        what, _, where = str(error).partition(" (at ")
        line = where.removeprefix("line ").split(",")[0]
        place = f"{path}:{line}" if line.isdigit() else f"{path}, at its end"
        need = _needed(text.splitlines()[int(line) - 1]) if line.isdigit() else NEED_LINES
        raise ConfigError(f"{place}: not valid TOML, {what[:1].lower()}{what[1:]}; {need}.") from None
    except (ValueError, RecursionError):  # an integer of more digits than Python reads, brackets in brackets
        raise ConfigError(
            f"{path}: not valid TOML, a number is too long or a list too deep; need lines key = value."
        ) from None


def _shared_part(document: dict[str, Any]) -> dict[str, Any]:
    """Return what can be checked while the model is unknown: models add sections, and keys to the shared ones."""
    part = {section.key: document[section.key] for section in sections_of(AnyCase) if section.key in document}
    for section in sections_of(AnyCase):
        table = part.get(section.key)
        if isinstance(table, dict) and section.key in ("grid", "output"):
            known = settings_of(section.table)
            part[section.key] = {key: value for key, value in table.items() if key in known}
    return part


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
        if key in origins:
            return origins[key]
        line = line_of(lines, key)
        return Origin(key, f"{path}:{line}" if line else str(path))

    case = check_document(document, case_class_of, locate)
    return LoadedCase(case, path, (*warnings, *warnings_of(case, locate)), resume)


def warnings_of(case: AnyCase, locate: Locate) -> Iterator[str]:
    """Yield a sentence for each value of a checked case that has no effect or is hardly meant."""
    yield from idle_settings(case, locate)
    for key, sentence in case.doubts():
        origin = locate(key)
        yield f"{origin.name} in {origin.place}: {sentence}"


def check_document(document: dict[str, Any], case_class_of: CaseClassOf, locate: Locate) -> AnyCase:
    """Return the checked settings of a document of sections, of the model that its run.model names.

    locate: from a key to where the user wrote it, for the sentences.

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
            unknown_model = f"run.model in {locate('run.model').place}: {error}"
    if case_class is AnyCase:
        document = _shared_part(document)
    try:
        case = check_case(case_class, document, locate)
    except ConfigError as error:
        raise ConfigError("\n".join(filter(None, [unknown_model, str(error)]))) from None
    if unknown_model:
        raise ConfigError(unknown_model)
    return case
