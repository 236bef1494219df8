"""A case as what a study is of: `ridgeline run` with other settings."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ridgeline.config.case import AnyCase
from ridgeline.config.load import load_case
from ridgeline.config.schema import fields_of
from ridgeline.models import case_class, estimate
from ridgeline.models.memory import Room, memory_needed, shortage
from ridgeline.parallel.partition import factorizations
from ridgeline.runtime.errors import ConfigError, DecompositionError
from ridgeline.study.subject import Changes, Need, Subject

GRID = "grid.process_grid"


class CaseSubject(Subject):
    """A case. path: of its settings file; outputs: whether its runs write what the case says.

    Raises ConfigError for settings that are wrong already.
    """

    def __init__(self, path: Path, outputs: bool = False) -> None:
        self.path = path
        self.command = ("run", str(path))
        self._loaded: dict[tuple[str, ...], AnyCase] = {}
        base = load_case(path, case_class).case
        self.name, self.law = base.run.model, type(base).SIZE_LAW
        keys = fields_of(type(base))
        writing = {
            key.removesuffix(".path") for key in keys if key.endswith(".path")
        }  # sections that say where
        written = [key for key in keys if key.partition(".")[0] in writing and key.endswith("every")]
        self._silent: Changes = {} if outputs else dict.fromkeys(written, 0)

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
        """Return the settings of all process grids by which the model can be cut."""
        if GRID not in self.settings(changes):
            raise ConfigError(f"--process-grids all: the model {self.name} has no {GRID}; leave it out")
        dims = len(estimate(self._case(changes), ranks).process_grid)
        found = []
        for triple in factorizations(ranks):
            rest, grid = triple[: 3 - dims], {GRID: list(triple[3 - dims :])}
            try:
                if all(parts == 1 for parts in rest):
                    estimate(self._case(changes | grid), ranks)
                    found.append(grid)
            except (
                ConfigError,
                DecompositionError,
            ):  # a grid that does not fit; at least that of "auto" does
                continue
        return found

    def need(self, changes: Changes, ranks: int, here: bool) -> Need:
        """Return grid, process grid and memory of the model's estimate."""
        case = self._case(changes)
        plan = estimate(case, ranks)
        problem = None
        if here and case.run.check_memory:
            problem = shortage(case, plan, ranks, Room.here(ranks))
        process_grid = " x ".join(map(str, plan.process_grid))
        return Need(case.grid.words(axes=""), process_grid, memory_needed(plan), problem)

    def arguments(self, changes: Changes) -> tuple[str, ...]:
        """Return --set for every change, those that keep the run silent among them."""
        return tuple(part for text in overrides(self._silent | changes) for part in ("--set", text))

    def paths(self, changes: Changes) -> dict[str, str]:
        """Return every path that the run may write to, and a name in the job's folder, each another one."""
        case = self._case(changes)
        written = {"output.path": case.output.path} | case.written()
        names = {key: os.path.basename(path.rstrip("/")) or "data" for key, path in written.items()}
        unique = len(set(names.values())) == len(names)
        return {key: name if unique else f"{key}_{name}" for key, name in names.items()}


def overrides(changes: Changes) -> list[str]:
    """Return changes as --set takes them: "section.key=value", values as TOML."""
    return [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in changes.items()]
