"""What a study is of, a case or a benchmark: settings that are checked, the arguments of a command, a size law."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ridgeline.config.size_law import SizeLaw

Changes = dict[str, Any]  # settings of a case by key, options of a benchmark by name


@dataclass(frozen=True)
class Need:
    """What a point takes. size: in words; memory: bytes of a rank, None if nobody knows; problem: why it cannot run
    here, None if it can.
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
        """Return the full name of a setting, and values in its type. Raises ConfigError for what is none."""

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
        """Return what a point takes. here: on this machine. Raises DecompositionError if it cannot be cut so."""

    @abstractmethod
    def arguments(self, changes: Changes) -> tuple[str, ...]:
        """Return the arguments that make these changes, without the command."""

    def paths(self, changes: Changes) -> dict[str, str]:
        """Return what a job writes beside its report: settings of paths, and names in the job's folder."""
        return {}
