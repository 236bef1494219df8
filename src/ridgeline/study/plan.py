"""The planner of studies and sweeps: every combination of the axes is a point, checked before anything starts.

A study has axes of settings, threads, ranks and process grids. A sweep has axes of settings alone.
"""

from __future__ import annotations

import itertools
import math
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from ridgeline.config.load import parse_value
from ridgeline.runtime.errors import ConfigError, RidgelineError
from ridgeline.runtime.launcher import check_ranks
from ridgeline.runtime.machine import cores_available, oversubscription
from ridgeline.runtime.units import counted, in_words, number
from ridgeline.study.request import StudyRequest
from ridgeline.study.subjects import BenchSubject, CaseSubject, Changes, Need, Subject

GRID = "process_grid"
RANKS = "ranks"  # the key of an axis that names numbers of ranks beside settings
LINK = "&"  # between keys of an axis that change together
MOST_POINTS = 10_000


@dataclass(frozen=True)
class Point:
    """One combination of the axes, run by as many jobs as the study repeats.

    name: of its folder; axes: values by name, as tables show them; command: the arguments of `ridgeline` without
    ranks and without what is written; paths: settings of what it writes, and names in the job's folder.
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
    """All points of a study or sweep, in the order of tables. here: whether they run on this machine."""

    subject: Subject
    scaling: str
    points: tuple[Point, ...]
    repeat: int
    seed: int
    here: bool

    @cached_property
    def order(self) -> dict[str, int]:
        """The place of each point in tables, by its name."""
        return {point.name: place for place, point in enumerate(self.points)}

    def jobs(self) -> list[tuple[Point, int]]:
        """Return every point and number of a repeat, in the random order that the seed gives.

        A machine that becomes slower while a study runs then slows all curves alike, not only the last one.
        """
        jobs = [(point, number) for number in range(1, self.repeat + 1) for point in self.points]
        random.Random(self.seed).shuffle(jobs)
        return jobs


@dataclass(frozen=True)
class _Choice:
    """One value of an axis: what tables and folders call it, and the settings that it changes."""

    label: dict[str, Any]
    changes: Changes


def make_plan(request: StudyRequest, here: bool = True) -> Plan:
    """Return the points of a study or sweep, checked. here: whether they run on this machine, and its memory counts.

    The axes are those of settings, in the order given, then threads, ranks and process grids, which change fastest.

    Raises ConfigError or DecompositionError, which name the point, if one of them cannot run.
    """
    options = request.options
    subject = _make_subject(request)
    fixed = {key: values[0] for key, values in _parse(subject, "--set", options.settings)}
    axes = _setting_axes(subject, request)
    threads = sorted(set(options.threads))
    if threads:
        axes.append(
            [_Choice({"threads": n} if len(threads) > 1 else {}, subject.threads(n)) for n in threads]
        )
    rank_numbers = sorted(set(options.ranks))
    linked = {choice.changes[RANKS] for axis in axes for choice in axis if RANKS in choice.changes}
    if linked and (len(rank_numbers) > 1 or request.all_keys):
        raise ConfigError(
            "an axis of ranks belongs to a study without --ranks. Name all numbers in --vary, or use --ranks."
        )
    if here:
        check_ranks(max(linked or rank_numbers))
    combinations = math.prod(map(len, axes)) * len(rank_numbers)
    if combinations > MOST_POINTS:
        raise ConfigError(
            f"the axes have {combinations} combinations, but a study or sweep has at most {MOST_POINTS}. Use fewer "
            "values."
        )
    points: list[Point] = []
    for choices, ranks in itertools.product(itertools.product(*axes), rank_numbers):
        label = {key: value for choice in choices for key, value in choice.label.items()}
        changes = fixed | {key: value for choice in choices for key, value in choice.changes.items()}
        ranks = changes.pop(RANKS, ranks)
        try:
            law = subject.law.weak if options.weak else subject.law.strong
            # Where an axis names the ranks, it names the sizes too.
            sizes = {} if linked else law(subject.settings(changes), rank_numbers[0], ranks)
            changes |= {key: subject.parse(key, [value])[1][0] for key, value in sizes.items()}
            every = options.process_grids == "all"
            grids: list[Changes] = subject.process_grids(changes, ranks) if every else [{}]
            points += [_point(subject, changes | grid, bool(grid), ranks, label, here) for grid in grids]
        except RidgelineError as error:
            raise type(error)(f"point {_name(ranks, label)}: {error}") from None
    (double, times), *_ = Counter(point.name for point in points).most_common(1) or [("", 0)]
    if times > 1:
        raise ConfigError(f"two points of the study have the name {double}. Give an axis other values.")
    return Plan(subject, options.scaling, tuple(points), options.repeat, options.seed, here)


def _make_subject(request: StudyRequest) -> Subject:
    """Return the subject of a study. Raises ConfigError for a case or benchmark that cannot be studied."""
    options = request.options
    if request.case is not None:
        return CaseSubject(request.case, options.outputs, request.checkpoint)
    assert options.bench is not None
    if options.outputs:
        raise ConfigError("--outputs cannot be used with --bench, because a benchmark writes no outputs.")
    if options.checkpoint is not None:
        raise ConfigError("--checkpoint cannot be used with --bench, because a benchmark has no checkpoints.")
    return BenchSubject(options.bench)


def _setting_axes(subject: Subject, request: StudyRequest) -> list[list[_Choice]]:
    """Return the axes of settings: each of one key, or of several that change together, "a=1,2 & b=3,4".

    Raises ConfigError for keys with different numbers of values.
    """
    axes: list[list[Changes]] = []
    for text in request.options.vary:
        parts = list(_parse(subject, "--vary", text.split(LINK)))
        if len({len(values) for _, values in parts}) > 1:
            counts = ", ".join(f"{key} has {len(values)}" for key, values in parts)
            raise ConfigError(
                f"--vary {text}: keys that change together must have equally many values, but {counts}."
            )
        keys = [key for key, _ in parts]
        values = [dict(zip(keys, chosen)) for chosen in zip(*(values for _, values in parts))]
        axes.append([value for place, value in enumerate(values) if value not in values[:place]])
    last_parts = Counter(key.rpartition(".")[2] for axis in axes for key in axis[0])
    # The first key names a point, unless its values repeat.
    shown = [
        None if request.all_keys or len({str(next(iter(one.values()))) for one in axis}) < len(axis) else 1
        for axis in axes
    ]

    def label(changes: Changes, shown: int | None) -> dict[str, Any]:
        """Call settings by the last part of their keys where it is unique."""
        short = {key: key.rpartition(".")[2] for key in changes}
        return {
            short[key] if last_parts[short[key]] == 1 else key: value
            for key, value in [*changes.items()][:shown]
        }

    return [[_Choice(label(changes, keys), changes) for changes in axis] for axis, keys in zip(axes, shown)]


def _point(
    subject: Subject, changes: Changes, grids: bool, ranks: int, label: dict[str, Any], here: bool
) -> Point:
    need = subject.need(changes, ranks, here)
    if need.problem is not None:
        raise ConfigError(
            f"{need.problem.rstrip('.')}. Set run.check_memory = false to start the run anyway."
        )
    axes = label | ({GRID: need.process_grid.replace(" ", "")} if grids else {})
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
            raise ConfigError(f"{flag} {text}: this is not a key with a value. Write it as {example}.")
        try:
            values = parse_values(rest) if flag == "--vary" else [parse_value(rest)]
        except ValueError:
            raise ConfigError(
                f"--set {text}: {rest} is not a TOML value. Quote it for the shell, as in 'key=\"text\"'."
            ) from None
        if key == RANKS and flag == "--vary":
            if not all(isinstance(value, int) and value >= 1 for value in values):
                raise ConfigError(f"--vary {text}: numbers of ranks must be whole numbers from 1 on.")
            yield key, values
        else:
            yield subject.parse(key, values)


def parse_values(text: str) -> list[Any]:
    """Return the values of an axis: "1,2" and "[4, 4],[8, 8]" as TOML, bare words as text. Raises ConfigError."""
    try:
        return list(parse_value(f"[{text}]"))
    except ValueError:
        pass
    try:
        return [parse_value(part.strip()) for part in text.split(",")]
    except ValueError:
        raise ConfigError(
            f"--vary: {text} is not a list of values. Write the values as 1,2 or [4, 4],[8, 8]."
        ) from None


def _name(ranks: int, axes: dict[str, Any]) -> str:
    """Return the name of a point's folder: n4_order-7."""
    parts = [f"{key}-{in_words(value)}" for key, value in axes.items()]
    return re.sub(r"[^\w.+-]+", "-", "_".join([f"n{ranks}", *parts]))


def show_plan(plan: Plan) -> Group:
    """Return the plan for people: its points with size, process grid and memory, and what to know before."""
    table = Table(box=None, pad_edge=False)
    axes = [axis for axis in plan.points[0].axes if axis != GRID]
    for head in ("point", "ranks x threads", *axes, "size", "process grid", "memory per rank"):
        table.add_column(head, justify="left" if head == "point" else "right", no_wrap=True)
    for point in plan.points:
        memory = "not estimated" if point.need.memory is None else number(point.need.memory, "B")
        values = (in_words(point.axes[axis]) for axis in axes)
        cells = (point.need.size, point.need.process_grid, memory)
        table.add_row(point.name, f"{point.ranks} x {point.threads}", *values, *cells)
    jobs = len(plan.points) * plan.repeat
    notes = [
        f"{plan.subject.name}, {plan.scaling} scaling: {counted(len(plan.points), 'point')}, "
        f"{counted(plan.repeat, 'job')} of each, {counted(jobs, 'job')} in random order (seed {plan.seed})"
    ]
    crowded = [point for point in plan.points if plan.here and point.cores > cores_available()]
    if crowded:
        most = max(crowded, key=lambda point: point.cores)
        names = ", ".join(point.name for point in crowded)
        why = oversubscription(most.ranks, most.threads, cores_available()) or ""
        notes.append(f"{why.rstrip('.')}. These points are drawn hollow: {names}")
    return Group(table, *map(Text, notes))
