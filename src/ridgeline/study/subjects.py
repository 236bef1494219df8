"""The subject of a study or sweep: a case or a benchmark, with settings that are checked, and a size law."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ridgeline.bench.benchmark import available, find_benchmark
from ridgeline.config.case import AnyCase
from ridgeline.config.check import did_you_mean
from ridgeline.config.intervals import UNITS
from ridgeline.config.load import load_case
from ridgeline.config.size_law import SizeLaw
from ridgeline.io.checkpoint_format import (
    Manifest,
    differences,
    find_checkpoints,
    normalized,
    read_manifest,
)
from ridgeline.models import case_class, estimate
from ridgeline.models.memory_check import MemoryCapacity, memory_needed, shortage
from ridgeline.parallel.partition import factorizations
from ridgeline.runtime.declared_options import Option
from ridgeline.runtime.errors import CheckpointError, ConfigError, DecompositionError

GRID_KEY = "grid.process_grid"
TRUTHS = {"true": True, "false": False, True: True, False: False}

Changes = dict[str, Any]  # settings of a case by key, options of a benchmark by name


@dataclass(frozen=True)
class Need:
    """What a point needs. size: in words; memory: bytes per rank, None if unknown; problem: why it cannot run here,
    None if it can.
    """

    size: str
    process_grid: str = ""
    memory: float | None = None
    problem: str | None = None


class Subject(ABC):
    """A case or a benchmark. name: the model's or the benchmark's; law: of its size; command: of `ridgeline`."""

    name: str
    law: SizeLaw
    command: tuple[str, ...]

    @abstractmethod
    def parse(self, key: str, values: Sequence[Any]) -> tuple[str, list[Any]]:
        """Return the full name of a setting, and values in its type. Raises ConfigError for an unknown one."""

    @abstractmethod
    def settings(self, changes: Changes) -> Mapping[str, Any]:
        """Return all settings with these changes, checked. Raises ConfigError."""

    @abstractmethod
    def threads(self, number: int) -> Changes:
        """Return what gives a rank so many threads. Raises ConfigError where that cannot be chosen."""

    @abstractmethod
    def threads_of(self, changes: Changes) -> int:
        """Return the threads of a rank."""

    @abstractmethod
    def process_grids(self, changes: Changes, ranks: int) -> list[Changes]:
        """Return what chooses each process grid that fits. Raises ConfigError where none can be chosen."""

    @abstractmethod
    def need(self, changes: Changes, ranks: int, here: bool) -> Need:
        """Return what a point takes. here: on this machine. Raises DecompositionError if it cannot be divided so."""

    @abstractmethod
    def arguments(self, changes: Changes) -> tuple[str, ...]:
        """Return the arguments that make these changes, without the command."""

    def paths(self, changes: Changes) -> dict[str, str]:
        """Return what a job writes beside its report: settings of paths, and names in the job's folder."""
        return {}


class CaseSubject(Subject):
    """A case. path: of its settings file; outputs: whether its runs write what the case says.

    checkpoint: from which its runs continue, or the folder of checkpoints whose newest they take; None for the
    initial state. Their run.steps counts from there.

    Raises ConfigError for settings that are wrong already, CheckpointError for a checkpoint that cannot be read.
    """

    def __init__(self, path: Path, outputs: bool = False, checkpoint: Path | None = None) -> None:
        self.path = path
        self.command = ("run", str(path))
        self._start: Manifest | None = None
        if checkpoint is not None:
            found = find_checkpoints(checkpoint)
            if not found:
                raise CheckpointError(f"--checkpoint {checkpoint}: there is no checkpoint.")
            self._start = read_manifest(found[0])
            self.command = (*self.command, "--resume", str(found[0].resolve()))
        self._loaded: dict[tuple[str, ...], AnyCase] = {}
        base = load_case(path, case_class).case
        self.name, self.law = base.run.model, type(base).SIZE_LAW
        keys = base.flatten()
        # Sections that say where something is written.
        writing = {key.removesuffix(".path") for key in keys if key.endswith(".path")}
        written = [key for key in keys if key.partition(".")[0] in writing and key.endswith("every")]
        self._silent: Changes = {}
        if not outputs:
            others = (f"{key}_{unit}" for key in written for unit in UNITS)
            self._silent = dict.fromkeys(written, 0)
            self._silent |= {key: None for key in others if keys.get(key, "none") != "none"}
            self._silent |= {"checkpoint.at_end": False} if base.checkpoint.saves_end else {}

    def _case(self, changes: Changes) -> AnyCase:
        texts = tuple(overrides(self._silent | changes))
        if texts not in self._loaded:
            self._loaded[texts] = load_case(self.path, case_class, texts).case
        return self._loaded[texts]

    def parse(self, key: str, values: Sequence[Any]) -> tuple[str, list[Any]]:
        """Return key and values as they are: `settings` checks them."""
        return key, list(values)

    def settings(self, changes: Changes) -> Mapping[str, Any]:
        """Return all settings by key."""
        return self._case(changes).flatten()

    def threads(self, number: int) -> Changes:
        """Return the setting of threads."""
        return {"run.threads": number}

    def threads_of(self, changes: Changes) -> int:
        """Return run.threads."""
        return self._case(changes).run.threads

    def process_grids(self, changes: Changes, ranks: int) -> list[Changes]:
        """Return the setting of each process grid by which the model can be divided."""
        if GRID_KEY not in self.settings(changes):
            raise ConfigError(
                f"--process-grids all: the model {self.name} has no setting {GRID_KEY}. Leave the option out."
            )
        dims = len(estimate(self._case(changes), ranks).process_grid)
        found = []
        for triple in factorizations(ranks):
            rest, grid = triple[: 3 - dims], {GRID_KEY: list(triple[3 - dims :])}
            try:
                if all(parts == 1 for parts in rest):
                    estimate(self._case(changes | grid), ranks)
                    found.append(grid)
            # A grid that does not fit is left out; at least that of "auto" fits.
            except (ConfigError, DecompositionError):
                continue
        return found

    def need(self, changes: Changes, ranks: int, here: bool) -> Need:
        """Return grid, process grid and memory of the model's estimate. Raises ConfigError for another checkpoint."""
        case = self._case(changes)
        if self._start is not None:
            wanted = normalized(case.settled(self._start.identity).identity())
            if differ := differences(self._start.identity, wanted):
                raise ConfigError(
                    f"--checkpoint is of another case, because of {differ[0]}. A study continues from one checkpoint "
                    "only on other numbers of ranks and with other settings of speed."
                )
        plan = estimate(case, ranks)
        problem = None
        if here and case.run.check_memory:
            problem = shortage(case, plan, ranks, MemoryCapacity.here(ranks))
        process_grid = " x ".join(map(str, plan.process_grid))
        return Need(case.grid.words(axes=""), process_grid, memory_needed(plan), problem)

    def arguments(self, changes: Changes) -> tuple[str, ...]:
        """Return --set for every change, those that keep the run silent among them."""
        steps = self._case(changes).run.steps
        if self._start is not None and steps is not None:
            changes = changes | {"run.steps": self._start.step + steps}
        return tuple(part for text in overrides(self._silent | changes) for part in ("--set", text))

    def paths(self, changes: Changes) -> dict[str, str]:
        """Return every path that the run may write to, and a name in the job's folder, all different."""
        case = self._case(changes)
        written = {"output.path": case.output.path} | case.written()
        names = {key: os.path.basename(path.rstrip("/")) or "data" for key, path in written.items()}
        unique = len(set(names.values())) == len(names)
        return {key: name if unique else f"{key}_{name}" for key, name in names.items()}


def overrides(changes: Changes) -> list[str]:
    """Return changes as --set takes them: "section.key=value", values as TOML, and no value for None."""
    return [
        f"{key}={'' if value is None else json.dumps(value, ensure_ascii=False)}"
        for key, value in changes.items()
    ]


class BenchSubject(Subject):
    """A benchmark that declares how it scales. Raises ConfigError for one that does not, or is unknown."""

    def __init__(self, name: str) -> None:
        declared = find_benchmark(name)
        if isinstance(declared.scaling, str):
            declared = find_benchmark(declared.scaling)
        scaling = declared.scaling
        if scaling is None or isinstance(scaling, str):
            able = [one.name for one in available().values() if one.scaling is not None]
            raise ConfigError(
                f"the benchmark {name} declares no size law, so it cannot be studied. Benchmarks with a size law: "
                f"{', '.join(able)}."
            )
        self.benchmark = declared
        self.name, self.law = declared.name, scaling.law
        self.command = ("bench", declared.name)
        self._options = {one.name: one for one in declared.offered}

    def _option(self, key: str) -> Option:
        """Return the option of a name or a flag."""
        for option in self._options.values():
            if key in (option.name, *(flag.lstrip("-") for flag in option.flags)):
                return option
        names = [option.flags[0].removeprefix("--") for option in self._options.values()]
        raise ConfigError(
            f"the benchmark {self.name} has no option '{key}'{did_you_mean(key, names)} Known options: "
            f"{', '.join(names)}."
        )

    def parse(self, key: str, values: Sequence[Any]) -> tuple[str, list[Any]]:
        """Return the option's name, and values in its type."""
        option = self._option(key)
        return option.name, [_in_type(option, value) for value in values]

    def settings(self, changes: Changes) -> Mapping[str, Any]:
        """Return all options by name."""
        return vars(self.benchmark.make_options(**changes))

    def threads(self, number: int) -> Changes:
        """Return the option of threads."""
        if "threads" not in self._options:
            raise ConfigError(f"the benchmark {self.name} has no option --threads. Leave it out.")
        return {"threads": number}

    def threads_of(self, changes: Changes) -> int:
        """Return the option of threads; 1 where there is none."""
        return int(self.settings(changes).get("threads", 1))

    def process_grids(self, changes: Changes, ranks: int) -> list[Changes]:
        """Return one empty change: a job measures all process grids unless one is given."""
        if "process_grid" not in self._options:
            raise ConfigError(
                f"--process-grids all: the benchmark {self.name} has no option --process-grid. Leave it out."
            )
        return [{}]

    def need(self, changes: Changes, ranks: int, here: bool) -> Need:
        """Return the options that are its size; a benchmark itself checks whether it fits into memory."""
        settings = self.settings(changes)
        shown = [f"{key} {_words(settings[key])}" for key in self.law.keys if settings.get(key)]
        return Need(", ".join(shown) or "as declared")

    def arguments(self, changes: Changes) -> tuple[str, ...]:
        """Return the flags of all changes."""
        return tuple(part for name, value in changes.items() for part in _flags(self._options[name], value))


def _in_type(option: Option, value: Any) -> Any:
    """Return a value as the option has it: 16 as (16,) where it may be repeated. Raises ConfigError."""
    items = list(value) if isinstance(value, list | tuple) else [value]
    try:
        if option.type is bool:
            return TRUTHS[value]
        kinds = option.items if not option.repeated else option.items * len(items)
        made = tuple(one if option.choices else kind(one) for kind, one in zip(kinds, items, strict=True))
    except (KeyError, TypeError, ValueError):
        raise ConfigError(f"{option.flags[0]} is {value}, but it must be {_kind(option)}.") from None
    return made if option.repeated or len(kinds) > 1 else made[0]


def _kind(option: Option) -> str:
    """Return what an option's value must be, in words."""
    kinds = {int: "an integer", float: "a number", str: "a text", bool: "true or false"}
    names = [
        f"one of {option.allowed}" if option.choices else kinds.get(kind, kind.__name__)
        for kind in option.items
    ]
    return f"a list, each value {names[0]}" if option.repeated else " and ".join(names)


def _flags(option: Option, value: Any) -> list[str]:
    """Return what gives an option a value on the command line."""
    flag = option.flags[0]
    if option.type is bool:
        return (
            [flag if value else f"--no-{option.flags[-1].removeprefix('--')}"]
            if option.default or value
            else []
        )
    if option.spec.commas:
        return [flag, ",".join(map(str, value))]
    if option.repeated:
        return [part for one in value for part in (flag, str(one))]
    return [flag, *map(str, value if isinstance(value, tuple) else (value,))]


def _words(value: Any) -> str:
    return " x ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
