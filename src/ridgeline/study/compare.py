"""Two studies in one figure and one table: two machines, or two commits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ridgeline.bench.result import Column, Result
from ridgeline.runtime.errors import ConfigError
from ridgeline.study.collect import Collected
from ridgeline.study.rows import Row

STUDY = "study"


def names_of(first: Collected, second: Collected) -> tuple[str, str]:
    """Return the names of two studies, told apart by A and B where they are equal."""
    if first.name != second.name:
        return first.name, second.name
    return f"A {first.name}", f"B {second.name}"


def joined(first: Collected, second: Collected) -> list[Row]:
    """Return the rows of both, with the label `study`. Raises ConfigError if nothing can be compared."""
    subjects = [study.result.settings["subject"] for study in (first, second)]
    if subjects[0] != subjects[1]:
        raise ConfigError(
            f"{first.name} is a study of {subjects[0]} and {second.name} one of {subjects[1]}; "
            "compare two of one kind"
        )
    return [
        {**row, "labels": {STUDY: name, **row["labels"]}}
        for name, study in zip(names_of(first, second), (first, second))
        for row in study.rows
    ]


def compare(first: Collected, second: Collected) -> Result:
    """Return a row for each point that both studies have. Raises ConfigError if there is none."""
    names = names_of(first, second)
    joined(first, second)
    others = {_key(row): row for row in second.rows}
    pairs = [(row, others[_key(row)]) for row in first.rows if _key(row) in others]
    if not pairs:
        raise ConfigError(
            f"{names[0]} and {names[1]} have no point in common (axes, ranks, threads and points); run one with the "
            "study file of the other"
        )
    labels = list(dict.fromkeys(key for row, _ in pairs for key in row["labels"]))
    columns = [Column(key, key.replace("_", " ")) for key in labels]
    columns += [
        Column("ranks", "ranks"),
        Column("size", "size"),
        Column("first", f"ms/step, {names[0]}", 1e-3, ".4g"),
        Column("second", f"ms/step, {names[1]}", 1e-3, ".4g"),
        Column("ratio", "first / second", form=".3f"),
        Column("first_efficiency", f"efficiency, {names[0]}", form=".3f"),
        Column("second_efficiency", f"efficiency, {names[1]}", form=".3f"),
    ]
    return Result(
        benchmark=f"studies {names[0]} and {names[1]}",
        pattern=f"{first.result.pattern}, point by point",
        formula="first / second: how many times as fast the second is",
        statistic="each point is the best of its jobs",
        ranks=max(row["ranks"] for row, _ in pairs),
        columns=columns,
        rows=[_row(*pair) for pair in pairs],
        settings={"machines": [list(first.machines), list(second.machines)]},
        notes=[*_machines(names, (first, second)), *_alone(names, (first, second), len(pairs))],
    )


def _key(row: Row) -> tuple[Any, ...]:
    return (*sorted(row["labels"].items()), row["ranks"], row["threads"], row["points"])


def _row(first: Row, second: Row) -> dict[str, Any]:
    return {
        **first["labels"],
        "ranks": first["ranks"],
        "size": first["size"],
        "first": first["seconds"],
        "second": second["seconds"],
        "ratio": first["seconds"] / second["seconds"],
        "first_efficiency": first["efficiency"],
        "second_efficiency": second["efficiency"],
    }


def _machines(names: Sequence[str], studies: Sequence[Collected]) -> list[str]:
    return [f"{name}: {machine}" for name, study in zip(names, studies) for machine in study.machines]


def _alone(names: Sequence[str], studies: Sequence[Collected], common: int) -> list[str]:
    return [
        f"{len(study.rows) - common} points of {name} have no partner"
        for name, study in zip(names, studies)
        if len(study.rows) > common
    ]
