"""What a study is to do: read from the command line or a study file, and written to a study file.

A study file has one table, [study]. Its keys are the names of `StudyOptions`, `case` for the settings file, and
`directory` for the folder in which runs start. Paths in it are relative to the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ridgeline.config.load import parse_toml, read_text
from ridgeline.config.toml_writer import write_toml
from ridgeline.io.output_files import GENERATOR
from ridgeline.runtime.declared_options import Option, options_of
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.files import expanded
from ridgeline.study.study_options import StudyOptions

FILE = "study.toml"  # of a study's folder
TABLE = "study"
PATHS = {"case": "the settings file of a run", "directory": "the folder in which runs start"}
_WHAT = PATHS | {"checkpoint": "a checkpoint"}


@dataclass(frozen=True)
class StudyRequest:
    """What a study or sweep is to do. case: the settings file, None for a benchmark; directory: where runs start.

    name: of the study, for its folder; folder: of the study, if it exists already; all_keys: whether tables and
    folders name every setting of those that change together, as in a sweep, or only the first.
    """

    options: StudyOptions
    case: Path | None
    directory: Path
    name: str
    folder: Path | None = None
    all_keys: bool = False

    @property
    def checkpoint(self) -> Path | None:
        """The checkpoint from which all jobs continue, or the folder of checkpoints whose newest they take."""
        return None if self.options.checkpoint is None else Path(self.options.checkpoint)


def read_request(subject: str | None, given: Mapping[str, Any]) -> StudyRequest:
    """Read what a study is to do. subject: a case, a study file, or the folder of a study; None for --bench alone.

    given: values of flags by the names of `StudyOptions`, which override those of a study file.
    Raises ConfigError for files and values that are not allowed.
    """
    # A flag that is not given is False, and does not override a study file.
    given = {name: value for name, value in given.items() if value is not False}
    if subject is None:
        if given.get("bench") is None:
            raise ConfigError(
                "the subject is missing. Name a case, a study file, or a benchmark with --bench."
            )
        options = StudyOptions(**given)
        return StudyRequest(options, None, Path.cwd(), f"{options.bench}_{options.scaling}")
    path = Path(subject)
    folder = path if path.is_dir() else None
    if folder is not None:
        path = folder / FILE
    document = parse_toml(path, read_text(path)) if path.suffix == ".toml" else {}
    if TABLE in document:
        return _from_study_file(path, folder, document, given)
    if folder is not None:
        raise ConfigError(
            f"{path}: the file has no table [study]. Name the folder of a study, or a study file."
        )
    options = StudyOptions(**given)
    if options.bench is not None:
        raise ConfigError(
            f"--bench {options.bench} cannot be used with a case ({path}). Leave one of them out."
        )
    name = document.get("run", {}).get("model") or path.stem
    return StudyRequest(options, path, Path.cwd(), f"{name}_{options.scaling}")


def _from_study_file(
    path: Path, folder: Path | None, document: Mapping[str, Any], given: Mapping[str, Any]
) -> StudyRequest:
    table = document[TABLE]
    others = [name for name in document if name != TABLE]
    if not isinstance(table, dict) or others:
        wrong = f"unknown table [{others[0]}]" if others else f"study is {table!r}, which is not a table"
        raise ConfigError(f"{path}: {wrong}. A study file has the table [study] and nothing else.")
    known = {_key(option): option for option in options_of(StudyOptions)}
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key in known:
            values[known[key].name] = _value(path, known[key], key, value)
        elif key not in PATHS:
            near = get_close_matches(key, [*known, *PATHS], n=1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            raise ConfigError(
                f"{path}: unknown key '{key}' in [study].{hint} Known keys: {', '.join([*PATHS, *known])}."
            )
    if ("weak" in given) != ("strong" in given):  # a flag takes the place of the file's
        values = {name: value for name, value in values.items() if name not in ("weak", "strong")}
    if "checkpoint" in values:
        values["checkpoint"] = str(_path(path, table, "checkpoint"))
    options = StudyOptions(**{**values, **given})
    case, directory = (_path(path, table, key) for key in PATHS)
    if directory is not None and not directory.is_dir():
        raise ConfigError(
            f"{path}: study.directory is {directory}, which is not a folder. Name the folder in which runs start, "
            "where the paths of the case are valid."
        )
    if (case is None) == (options.bench is None):
        raise ConfigError(f"{path}: [study] must have either the key case or the key bench.")
    name = folder.name if folder is not None else path.stem
    return StudyRequest(options, case, directory or Path.cwd(), name, folder)


def _key(option: Option) -> str:
    """Return the key of an option in a study file: its flag."""
    return option.flags[0].removeprefix("--").replace("-", "_")


def _value(path: Path, option: Option, key: str, value: Any) -> Any:
    """Return a value of a study file in the option's type."""
    kind = option.items[0] if not option.choices else str
    items = value if option.repeated else [value]
    if isinstance(items, list) and all(type(one) is kind for one in items):
        return tuple(items) if option.repeated else value
    one, several = {
        int: ("an integer", "integers"),
        str: ("a text", "texts"),
        bool: ("true or false", "true or false"),
    }[kind]
    need = f"a list of {several}" if option.repeated else one
    raise ConfigError(f"{path}: study.{key} is {value!r}, but it must be {need}.")


def _path(path: Path, table: Mapping[str, Any], key: str) -> Path | None:
    value = table.get(key)
    if value is not None and not isinstance(value, str):
        raise ConfigError(f"{path}: study.{key} is {value!r}, but it must be the path of {_WHAT[key]}.")
    try:
        return None if value is None else path.parent / expanded(value)
    except ValueError as error:
        raise ConfigError(f"{path}: study.{key} is {value!r}: {error}") from None


def to_toml(request: StudyRequest, case: str | None) -> str:
    """Return the study file that asks for the same. case: name of the settings file beside it, None if none."""
    return f"# {GENERATOR}\n{write_toml({TABLE: dict(_values(request, case))})}"


def _values(request: StudyRequest, case: str | None) -> Iterator[tuple[str, Any]]:
    if case is not None:
        yield "case", case
        yield "directory", str(request.directory.resolve())
    for option in options_of(StudyOptions):
        value = getattr(request.options, option.name)
        if value != option.default or option.name == "ranks":
            yield _key(option), os.path.abspath(value) if option.name == "checkpoint" else value
