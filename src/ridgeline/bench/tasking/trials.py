"""The repeated trials of one operation, the row of the table that they give, and the C functions for comparison."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from ctypes import c_int, c_int64, c_void_p
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ridgeline.bench.c_library import Library, load_c
from ridgeline.bench.outliers import remove_outliers
from ridgeline.runtime.errors import ConfigError, RidgelineError, VerificationError

COUNT = 100
WARM_UP = 10

# Codes that the functions of bench/c/tasking.c return.
NO_OPENMP = -2
_WRONG_DATA = -1
# Types of the result and of the arguments.
_FUNCTIONS = {
    "create_threads": (c_int, c_int, c_int, c_void_p, c_void_p),
    "switch_threads": (c_int, c_int, c_int, c_void_p),
    "spawn_tasks": (c_int, c_int, c_int, c_int, c_void_p, c_void_p, c_void_p),
    "notify_thread": (c_int, c_int, c_void_p),
    "use_queue": (c_int, c_int, c_int, c_void_p, c_void_p, c_void_p),
    "fill_threads": (c_int, c_void_p, c_int64, c_int, c_int, c_void_p),
    "fill_openmp": (c_int, c_void_p, c_int64, c_int, c_int, c_void_p, c_void_p),
}


@dataclass(frozen=True)
class Trials:
    """How often a trial is repeated: `warm_up` times without being counted, then `count` times.

    Raises ConfigError if a number is out of range.
    """

    count: int = COUNT
    warm_up: int = WARM_UP

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ConfigError(f"trials = {self.count} is not a number of trials. It must be 1 or more.")
        if self.warm_up < 0:
            raise ConfigError(f"warm-up = {self.warm_up} is not a number of trials. It must be 0 or more.")

    @property
    def total(self) -> int:
        """The number of trials, warm-up included."""
        return self.warm_up + self.count

    def run(self, trial: Callable[[], float]) -> list[float]:
        """Return the seconds that `trial` returned, without those of the warm-up."""
        for _ in range(self.warm_up):
            trial()
        return [trial() for _ in range(self.count)]

    def kept(self, seconds: Iterable[float]) -> list[float]:
        """Return the values of the counted trials, given those of all `total` trials."""
        return [float(value) for value in seconds][self.warm_up :]


@dataclass(frozen=True)
class Series:
    """The seconds of an operation in every trial, or the reason why there are none.

    Attributes
    ----------
    item
        What is compared, such as "creation".
    primitive
        The primitive of a language or library, such as "asyncio task".
    operation
        The operation, such as "put".
    workers, work
        The number of workers and the task, such as "fib 30", where the operation has them.
    baseline
        Whether the other series of the same item, operation, workers and work are compared with this one.
    """

    item: str
    primitive: str
    operation: str
    seconds: tuple[float, ...] = ()
    workers: int | None = None
    work: str | None = None
    baseline: bool = False
    reason: str | None = None

    @property
    def name(self) -> str:
        """The name in a plot."""
        workers = f"{self.workers} workers" if self.workers is not None else None
        return ", ".join(part for part in (self.primitive, self.operation, self.work, workers) if part)

    @property
    def case(self) -> tuple[Any, ...]:
        """What a series and its baseline have in common."""
        return self.item, self.operation, self.workers, self.work

    def with_seconds(self, seconds: Iterable[float]) -> Series:
        """Return this series with measured seconds."""
        return replace(self, seconds=tuple(float(value) for value in seconds))


def tabulate(series: list[Series]) -> list[dict[str, Any]]:
    """Return a row for each series: statistics of the trials that Tukey's rule keeps, and the ratio to the baseline.

    The deviation is that of the sample (n - 1), and None for one value; "outliers" counts the trials that are
    removed.
    """
    rows: list[dict[str, Any]] = []
    means: dict[tuple[Any, ...], float] = {}
    for entry in series:
        row: dict[str, Any] = {
            "item": entry.item,
            "primitive": entry.primitive,
            "operation": entry.operation,
            "work": entry.work,
            "workers": entry.workers,
            "note": entry.reason,
        }
        if entry.seconds:
            kept = remove_outliers(entry.seconds)
            row |= {
                "seconds": float(kept.mean()),
                "deviation": float(kept.std(ddof=1)) if kept.size > 1 else None,
                "median": float(np.median(kept)),
                "least": float(kept.min()),
                "outliers": len(entry.seconds) - kept.size,
                "trials": len(entry.seconds),
            }
            if entry.baseline:
                means[entry.case] = row["seconds"]
        rows.append(row)
    for entry, row in zip(series, rows):
        baseline = means.get(entry.case)
        if baseline and entry.seconds:
            row["over_c"] = row["seconds"] / baseline
    return rows


def load_tasking() -> tuple[Library | None, str]:
    """Return bench/c/tasking.c, compiled, and how it was compiled; or None and the reason."""
    return load_c(None, "tasking", _FUNCTIONS)


def need_library(c: Library | None, reason: str) -> str | None:
    """Return the reason for the row of a C baseline if there is no compiler, None if there is one."""
    return None if c is not None else reason


def call(c: Library, name: str, *arguments: Any) -> int:
    """Call a function of the C library and return 0 or NO_OPENMP.

    Raises VerificationError if it read other data than it wrote, and RidgelineError if the system refused a thread.
    """
    code: int = c[name](*arguments)
    if code == _WRONG_DATA:
        raise VerificationError(
            f"{name} in C read different data from what it wrote. Memory or processor is faulty."
        )
    if code > 0:
        raise RidgelineError(f"{name} in C failed: {os.strerror(code)}. Allow more threads (ulimit -u).")
    return code
