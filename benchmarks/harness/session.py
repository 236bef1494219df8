"""Measure rows again and again, and hand over each as soon as it is complete: also what a broken-off command has."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from harness.table import Row

Measure = Callable[[], Iterable[Row]]


@dataclass
class Figure:
    """One figure of a row and all its repeats. note: of the last one; of a figure without repeats, why."""

    row: str
    name: str
    goal: str = ""
    unit: str = ""
    note: str = ""
    repeats: list[float] = field(default_factory=list)

    def add(self, found: Row) -> None:
        """Add a repeat, or the reason why there is none."""
        if found.figure is not None:
            self.repeats.append(float(found.figure))
            self.goal, self.unit = found.target, found.unit
        if found.figure is not None or not self.repeats:
            self.note = found.note


def _measured(name: str, measure: Measure) -> Iterable[Row]:
    """Yield the rows of one call; a call that fails yields a row that says so, and the others go on."""
    try:
        yield from measure()
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        yield Row(name, None, note=f"failed: {lines[-1]}")


def measure_rows(
    rows: Mapping[str, Measure],
    repeats: int,
    finished: Callable[[list[Figure]], None],
    progress: Callable[[str, Row], None],
) -> None:
    """Measure all rows in turn, `repeats` times, every other time backwards.

    finished: gets the figures of a row after its last repeat. If the command is broken off, it gets those of every
    row that was measured at all. progress: gets the row's name and each figure as it comes. A row of which nothing
    could run is not tried again.
    """
    found: dict[str, dict[str, Figure]] = {name: {} for name in rows}
    waiting = list(rows)
    try:
        for turn in range(repeats):
            for name in list(waiting) if turn % 2 == 0 else list(reversed(waiting)):
                figures = found[name]
                for row in _measured(name, rows[name]):
                    figures.setdefault(row.name, Figure(name, row.name)).add(row)
                    progress(name, row)
                if turn == repeats - 1 or not any(figure.repeats for figure in figures.values()):
                    waiting.remove(name)
                    finished(list(figures.values()))
    finally:
        for name in waiting:
            if found[name]:
                finished(list(found[name].values()))
