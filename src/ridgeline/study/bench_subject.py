"""A benchmark as what a study is of: `ridgeline bench NAME` with other options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ridgeline.bench.registry import available, find_benchmark
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.options import Option
from ridgeline.study.subject import Changes, Need, Subject

TRUTHS = {"true": True, "false": False, True: True, False: False}


class BenchSubject(Subject):
    """A benchmark that declares how it scales. Raises ConfigError for one that does not, or is not there."""

    def __init__(self, name: str) -> None:
        declared = find_benchmark(name)
        if isinstance(declared.scaling, str):
            declared = find_benchmark(declared.scaling)
        scaling = declared.scaling
        if scaling is None or isinstance(scaling, str):
            able = [one.name for one in available().values() if one.scaling is not None]
            raise ConfigError(
                f"the benchmark {name} declares no size law, so it cannot be studied; need one of {', '.join(able)}"
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
        names = ", ".join(option.flags[0].removeprefix("--") for option in self._options.values())
        raise ConfigError(f"the benchmark {self.name} has no option {key}; need one of {names}")

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
            raise ConfigError(f"the benchmark {self.name} has no --threads; leave it out")
        return {"threads": number}

    def threads_of(self, changes: Changes) -> int:
        """Return the option of threads; 1 where there is none."""
        return int(self.settings(changes).get("threads", 1))

    def process_grids(self, changes: Changes, ranks: int) -> list[Changes]:
        """Return one empty change: a job measures all process grids unless it is told one."""
        if "process_grid" not in self._options:
            raise ConfigError(f"--process-grids all: the benchmark {self.name} has no --process-grid")
        return [{}]

    def need(self, changes: Changes, ranks: int, here: bool) -> Need:
        """Return the options that are its size; a benchmark itself looks whether it fits into memory."""
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
        raise ConfigError(f"{option.flags[0]} = {value}: need {_kind(option)}") from None
    return made if option.repeated or len(kinds) > 1 else made[0]


def _kind(option: Option) -> str:
    names = [option.allowed if option.choices else kind.__name__ for kind in option.items]
    return f"a list of {names[0]}" if option.repeated else " and ".join(names)


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
