"""Trials of one operation of a language, and the row of a table that they give."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ridgeline.bench.tukey import remove_outliers
from ridgeline.runtime.errors import ConfigError

COUNT = 100
WARM_UP = 10


@dataclass(frozen=True)
class Trials:
    """How often a trial is repeated: `warm_up` times thrown away, then `count` times.

    Raises ConfigError if a number is out of range.
    """

    count: int = COUNT
    warm_up: int = WARM_UP

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.count < 1:
            raise ConfigError(f"trials = {self.count} is not a number of trials; it must be >= 1")
        if self.warm_up < 0:
            raise ConfigError(f"warm-up = {self.warm_up} is not a number of trials; it must be >= 0")

    @property
    def total(self) -> int:
        """Number of trials with those of the warm-up."""
        return self.warm_up + self.count

    def run(self, trial: Callable[[], float]) -> list[float]:
        """Return the seconds that `trial` returned, those of the warm-up left out."""
        for _ in range(self.warm_up):
            trial()
        return [trial() for _ in range(self.count)]

    def kept(self, seconds: Iterable[float]) -> list[float]:
        """Return those of `total` values that come after the warm-up."""
        return [float(value) for value in seconds][self.warm_up :]


@dataclass(frozen=True)
class Series:
    """Seconds of an operation in every trial, or why there are none.

    item: what is compared, as "creation"; primitive: of what language or library; operation: as "put"; workers,
    work: as in "2 workers", "fib 30"; baseline: whether the others of its item, operation, workers and work are
    compared with this one.
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
        """Name for a picture."""
        workers = f"{self.workers} workers" if self.workers is not None else None
        return ", ".join(part for part in (self.primitive, self.operation, self.work, workers) if part)

    @property
    def case(self) -> tuple[Any, ...]:
        """What a series has in common with its baseline."""
        return self.item, self.operation, self.workers, self.work

    def with_seconds(self, seconds: Iterable[float]) -> Series:
        """Return this series with what was measured."""
        return replace(self, seconds=tuple(float(value) for value in seconds))


def tabulate(series: list[Series]) -> list[dict[str, Any]]:
    """Return one row a series: mean, deviation, median and least of what Tukey's rule leaves, and mean over baseline.

    deviation: of the sample (n - 1), None for one value; outliers: number of trials removed.
    """
    rows: list[dict[str, Any]] = []
    means: dict[tuple[Any, ...], float] = {}
    for one in series:
        row: dict[str, Any] = {
            "item": one.item,
            "primitive": one.primitive,
            "operation": one.operation,
            "work": one.work,
            "workers": one.workers,
            "note": one.reason,
        }
        if one.seconds:
            left = remove_outliers(one.seconds)
            row |= {
                "seconds": float(left.mean()),
                "deviation": float(left.std(ddof=1)) if left.size > 1 else None,
                "median": float(np.median(left)),
                "least": float(left.min()),
                "outliers": len(one.seconds) - left.size,
                "trials": len(one.seconds),
            }
            if one.baseline:
                means[one.case] = row["seconds"]
        rows.append(row)
    for one, row in zip(series, rows):
        baseline = means.get(one.case)
        if baseline and one.seconds:
            row["over_c"] = row["seconds"] / baseline
    return rows
