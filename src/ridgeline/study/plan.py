"""From what is asked for to the points of a study: every combination of axes, checked before anything starts."""

from __future__ import annotations

import itertools
import math
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from ridgeline.config.overrides import parse_value
from ridgeline.runtime.errors import ConfigError, RidgelineError
from ridgeline.runtime.rank_limits import check_ranks
from ridgeline.runtime.threads import cores_available, oversubscription
from ridgeline.runtime.units import in_words, number
from ridgeline.study.asked import Asked
from ridgeline.study.bench_subject import BenchSubject
from ridgeline.study.case_subject import CaseSubject
from ridgeline.study.options import StudyOptions
from ridgeline.study.subject import Changes, Need, Subject

GRID = "process_grid"
LINK = "&"  # between keys of an axis that change together
MOST_POINTS = 10_000


@dataclass(frozen=True)
class Point:
    """What is run, by as many jobs as the study repeats.

    name: of its folder; axes: values by name, as tables show them; command: the arguments of `ridgeline` without
    ranks and what is written; paths: settings of what it writes, and names in the job's folder.
    """

    name: str
    ranks: int
    threads: int
    axes: dict[str, Any]
    command: tuple[str, ...]
    paths: dict[str, str]
    need: Need

    @property
    def cores(self) -> int:
        """Cores that it uses if every thread has one."""
        return self.ranks * self.threads


@dataclass(frozen=True)
class Plan:
    """All points of a study, in the order of tables. here: whether they run on this machine."""

    subject: Subject
    scaling: str
    points: tuple[Point, ...]
    repeat: int
    seed: int
    here: bool

    def jobs(self) -> list[tuple[Point, int]]:
        """Return every point and number of a repeat, in the random order that the seed gives.

        A machine that becomes slower while a study runs then slows all curves alike, not the last one alone.
        """
        jobs = [(point, number) for number in range(1, self.repeat + 1) for point in self.points]
        random.Random(self.seed).shuffle(jobs)
        return jobs


def make_subject(asked: Asked) -> Subject:
    """Return what a study is of. Raises ConfigError for a case or benchmark that cannot be studied."""
    options = asked.options
    if asked.case is not None:
        return CaseSubject(asked.case, options.outputs)
    assert options.bench is not None
    if options.outputs:
        raise ConfigError("--outputs is for runs; a benchmark writes none, so leave it out")
    return BenchSubject(options.bench)


def make_plan(asked: Asked, here: bool = True, all_keys: bool = False) -> Plan:
    """Return the points of a study. here: whether they run on this machine, and its memory counts.

    all_keys: whether names show every key of those that change together; else the first of them.

    Raises ConfigError or DecompositionError, which name the point, if one of them cannot run.
    """
    options = asked.options
    subject = make_subject(asked)
    fixed = {key: values[0] for key, values in _parse(subject, "--set", options.settings)}
    axes = [_linked(subject, text) for text in options.vary]
    keys = [key for axis in axes for key in axis[0]]
    ranks = sorted(set(options.ranks))
    threads_of_points: list[int | None] = [*sorted(set(options.threads))] or [None]
    if here:
        check_ranks(ranks[-1])
    combinations = math.prod(map(len, axes)) * len(threads_of_points) * len(ranks)
    if combinations > MOST_POINTS:
        raise ConfigError(
            f"the axes have {combinations} combinations; a study or sweep has at most {MOST_POINTS}: use fewer values"
        )
    points = []
    for chosen in itertools.product(*axes):
        changes = {key: value for values in chosen for key, value in values.items()}
        shown = {
            _short(key, keys): value
            for values in chosen
            for key, value in [*values.items()][: None if all_keys else 1]
        }
        for threads, n_ranks in itertools.product(threads_of_points, ranks):
            label = shown | ({"threads": threads} if len(threads_of_points) > 1 else {})
            try:
                points += _points(
                    subject, options, fixed | changes, label, (threads, ranks[0], n_ranks), here
                )
            except RidgelineError as error:
                raise type(error)(f"point {_name(n_ranks, label)}: {error}") from None
    (double, times), *_ = Counter(point.name for point in points).most_common(1) or [("", 0)]
    if times > 1:
        raise ConfigError(f"two points of the study are called {double}; give an axis other values")
    return Plan(subject, options.scaling, tuple(points), options.repeat, options.seed, here)


def _points(
    subject: Subject,
    options: StudyOptions,
    changes: Changes,
    shown: dict[str, Any],
    count: tuple[int | None, int, int],
    here: bool,
) -> list[Point]:
    """Return the points of one combination, one for each process grid. count: threads, fewest ranks, ranks."""
    threads, first, ranks = count
    if threads is not None:
        changes = changes | subject.threads(threads)
    law = subject.law.weak if options.weak else subject.law.strong
    sizes = law(subject.settings(changes), first, ranks)
    changes = changes | {key: subject.parse(key, [value])[1][0] for key, value in sizes.items()}
    grids = subject.process_grids(changes, ranks) if options.process_grids == "all" else [{}]
    return [_point(subject, changes | grid, bool(grid), ranks, shown, here) for grid in grids]


def _point(
    subject: Subject, changes: Changes, grids: bool, ranks: int, shown: dict[str, Any], here: bool
) -> Point:
    need = subject.need(changes, ranks, here)
    if need.problem is not None:
        raise ConfigError(f"{need.problem}; run.check_memory = false tries all the same")
    axes = shown | ({GRID: need.process_grid.replace(" ", "")} if grids else {})
    return Point(
        name=_name(ranks, axes),
        ranks=ranks,
        threads=subject.threads_of(changes),
        axes=axes,
        command=(*subject.command, *subject.arguments(changes)),
        paths=subject.paths(changes),
        need=need,
    )


def _parse(subject: Subject, flag: str, texts: Sequence[str]) -> Iterator[tuple[str, list[Any]]]:
    """Yield the key and the values of each "key=value" or "key=value,value,...". Raises ConfigError."""
    for text in texts:
        key, sign, rest = (part.strip() for part in text.partition("="))
        if not sign or not key or not rest:
            example = "model.order=7,15" if flag == "--vary" else "run.steps=100"
            raise ConfigError(f"{flag} {text}: need a key and what it gets, such as {example}")
        yield subject.parse(key, parse_values(rest) if flag == "--vary" else [_parse_one(text, rest)])


def _parse_one(text: str, rest: str) -> Any:
    try:
        return parse_value(rest)
    except ValueError:
        raise ConfigError(f"--set {text}: got {rest}; need a TOML value, quoted for the shell") from None


def _linked(subject: Subject, text: str) -> list[Changes]:
    """Return the values of an axis: of one key, or of several that change together, "a=1,2 & b=3,4".

    Raises ConfigError for keys with different numbers of values.
    """
    parts = list(_parse(subject, "--vary", text.split(LINK)))
    if len({len(values) for _, values in parts}) > 1:
        counts = ", ".join(f"{key} has {len(values)}" for key, values in parts)
        raise ConfigError(f"--vary {text}: keys that change together need as many values each, but {counts}")
    found: list[Changes] = []
    for values in zip(*(values for _, values in parts)):
        change = dict(zip((key for key, _ in parts), values))
        found += [change] if change not in found else []
    return found


def parse_values(text: str) -> list[Any]:
    """Return the values of an axis: "1,2" and "[4, 4],[8, 8]" as TOML, bare words as text. Raises ConfigError."""
    try:
        found = parse_value(f"[{text}]")
        return list(found)
    except ValueError:
        pass
    try:
        return [parse_value(part.strip()) for part in text.split(",")]
    except ValueError:
        raise ConfigError(
            f"--vary: {text} is no list of values; write them as 1,2 or [4, 4],[8, 8]"
        ) from None


def _short(key: str, keys: Sequence[str]) -> str:
    """Return the last part of a key, or all of it where another one ends alike."""
    last = key.rpartition(".")[2]
    return last if sum(other.rpartition(".")[2] == last for other in keys) == 1 else key


def _name(ranks: int, axes: dict[str, Any]) -> str:
    """Return the name of a point's folder: n4_order-7."""
    parts = [f"{key}-{in_words(value)}" for key, value in axes.items()]
    return re.sub(r"[^\w.+-]+", "-", "_".join([f"n{ranks}", *parts]))


def show_plan(plan: Plan) -> Group:
    """Return the plan for people: its points with size, process grid and memory, and what to know before."""
    table = Table(box=None, pad_edge=False)
    axes = [axis for axis in plan.points[0].axes if axis != GRID]
    for head in ("point", "ranks x threads", *axes, "size", "process grid", "memory a rank"):
        table.add_column(head, justify="left" if head == "point" else "right", no_wrap=True)
    for point in plan.points:
        memory = "not estimated" if point.need.memory is None else number(point.need.memory, "B")
        values = (in_words(point.axes[axis]) for axis in axes)
        cells = (point.need.size, point.need.process_grid, memory)
        table.add_row(point.name, f"{point.ranks} x {point.threads}", *values, *cells)
    jobs = len(plan.points) * plan.repeat
    notes = [
        f"{plan.subject.name}, {plan.scaling} scaling: {len(plan.points)} points, {plan.repeat} of each, {jobs} jobs "
        f"in random order (seed {plan.seed})"
    ]
    crowded = [point for point in plan.points if plan.here and point.cores > cores_available()]
    if crowded:
        most = max(crowded, key=lambda point: point.cores)
        names = ", ".join(point.name for point in crowded)
        why = oversubscription(most.ranks, most.threads, cores_available())
        notes.append(f"{why}. Hollow in figures: {names}")
    return Group(table, *map(Text, notes))
