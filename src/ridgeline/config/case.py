"""A case: all settings of one run, checked and frozen, with their plain values for files and comparisons."""

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import BaseModel, Field, model_validator

from ridgeline.config.callbacks import CallbackSection
from ridgeline.config.check import did_you_mean
from ridgeline.config.fields import Checked, Problem, toml
from ridgeline.config.intervals import ROUNDING, Interval, Scheduled, multiples
from ridgeline.config.part_selection import SelectionError, UniformGrid
from ridgeline.config.parts import BYTES, PartExtent, PartSection, PartSize, fields_needed
from ridgeline.config.recorders import RecorderSection
from ridgeline.config.sections import AnyGridSection, CheckpointSection, OutputSection, RunSection
from ridgeline.config.size_law import GlobalGrid, SizeLaw
from ridgeline.config.store_format import StoreFormat, store_format
from ridgeline.runtime.user_code import digest_of, names_function

REPORT = "the run report"  # beside the keys of settings that name paths
Plain = str | int | float | bool | list[Any]


class AnyCase(Checked):
    """Derive the settings of a model's runs from this class, and add the model's own sections.

    It is a pydantic model: frozen, with unknown keys forbidden.

    Attributes
    ----------
    run : RunSection
        What runs, how long, in which precision and on what.
    grid : AnyGridSection
        The grid and its decomposition.
    output : OutputSection
        The data set and the time series.
    checkpoint : CheckpointSection
        Where and when checkpoints are written.
    callback : tuple of CallbackSection
        Functions that the run calls.
    recorder : tuple of RecorderSection
        Outputs that installed packages write.

    Examples
    --------
    >>> import ridgeline
    >>> from ridgeline.config.case import AnyCase
    >>> settings = ridgeline.Case("gray_scott", 10, grid={"shape": (8, 8, 8)}).settings
    >>> isinstance(settings, AnyCase)
    True
    >>> settings.flatten()["grid.shape"], settings.written()["output.path"]
    ([8, 8, 8], 'gray_scott.bp')
    """

    # Keys ("section.key") and whole tables ("section", "section.table") that decide the numbers that a run
    # computes...
    PHYSICS: ClassVar[tuple[str, ...]] = (
        "run.model",
        "run.precision",
        "run.seed",
        "grid.shape",
    )
    # ...except these, which only decide how fast it is.
    NOT_PHYSICS: ClassVar[tuple[str, ...]] = ()
    # Settings that were added later, with the values that mean the earlier behaviour. An identity omits settings with
    # these values, so that a run can continue from checkpoints of earlier versions. "scalar.*.key" is the key of
    # every such section.
    LATER: ClassVar[Mapping[str, Plain]] = {}
    # Keys and tables that only decide the initial state, "scalar.*.key" as above: a run cannot change them.
    START: ClassVar[tuple[str, ...]] = ("initial",)
    # Keys whose functions are not compiled, because they do not stand for formulas.
    NOT_FORMULAS: ClassVar[tuple[str, ...]] = ("callback.*.function",)
    # How the grid follows from the number of ranks in a scaling study.
    SIZE_LAW: ClassVar[SizeLaw] = GlobalGrid("grid.shape")

    run: RunSection
    grid: AnyGridSection
    output: OutputSection = Field(default_factory=OutputSection)
    checkpoint: CheckpointSection = Field(default_factory=CheckpointSection)
    callback: tuple[CallbackSection, ...] = Field(default=())
    recorder: tuple[RecorderSection, ...] = Field(default=())

    @model_validator(mode="after")
    def _suffix_of_the_store(self) -> Self:
        """Give data sets whose paths are not set the suffix of their store."""
        if store_format(self.output.format, "") == "zarr":
            for _, table, key in self._data_set_fields():
                if key not in table.model_fields_set:
                    table.__dict__[key] = str(Path(getattr(table, key)).with_suffix(".zarr"))
        return self

    def _data_set_fields(self) -> Iterator[tuple[str, BaseModel, str]]:
        """Yield section, table and key of the paths of data sets."""
        for section, table in self:
            if isinstance(table, BaseModel):
                for key, field in type(table).model_fields.items():
                    if isinstance(field.default, str) and field.default.endswith(".bp"):
                        yield section, table, key

    def data_sets(self) -> dict[str, tuple[str, StoreFormat]]:
        """Return the path and the store of each data set that a run of this case may write, by their keys."""
        keys = {f"{section}.{key}" for section, _, key in self._data_set_fields()}
        return {
            key: (path, store_format(self.output.format, path))
            for key, path in self.written().items()
            if key in keys or key.startswith("output.part.")
        }

    def written(self) -> dict[str, str]:
        """Return the paths that a run of this case may write to, by their keys; checkpoints are among them."""
        more = {f"recorder.{i}.path": recorder.path for i, recorder in enumerate(self.recorder)}
        return self.output.written() | {"checkpoint.path": self.checkpoint.path} | more

    def report_path(self) -> str:
        """Return the path of the run report: beside the data set."""
        return f"{self.output.path.rstrip('/')}.run.json"

    def begin_time(self) -> float:
        """Return the model time of step 0."""
        return 0.0

    def step_length(self) -> float:
        """Return the length of a time step: the fixed one, or the one that is assumed; NaN if nothing is known."""
        return math.nan

    def time_after(self, steps: float) -> float:
        """Return the model time after so many steps of `step_length`."""
        return self.begin_time() + steps * self.step_length()

    def steps_until(self, time: float) -> float:
        """Return how many steps of `step_length` lead from step 0 to a model time, as a real number."""
        return (time - self.begin_time()) / self.step_length()

    def planned_end(self) -> float:
        """Return the model time at which the run ends, NaN if nothing is known about it."""
        steps, end = self.run.steps, self.run.end_time
        by_steps = math.inf if steps is None else self.time_after(steps)
        if math.isnan(by_steps):
            return math.nan if end is None else end
        return by_steps if end is None else min(by_steps, end)

    def planned_steps(self) -> int:
        """Return how many steps the run takes at most, of the length that is assumed; 0 if nothing is known."""
        most, end = self.run.steps, self.run.end_time
        if end is None or math.isnan(needed := self.steps_until(end)):
            return most or 0
        count = math.ceil(needed * (1 - ROUNDING))
        if self.output.align:
            # A time that is met exactly adds one step at most, and none if the steps lead there anyway.
            for interval in self.intervals_of_output():
                if interval.time:
                    apart = self.steps_until(self.begin_time() + interval.time)
                    count += 0 if abs(apart - round(apart)) < ROUNDING * apart else self._times_met(interval)
        return count if most is None else min(count, most)

    def writes(self, interval: Interval) -> int:
        """Return how often something recurs in the planned run, step 0 not counted.

        Seconds of the clock are left out, because nothing is known about them.
        """
        by_steps = self.planned_steps() // interval.steps if interval.steps else 0
        return by_steps + self._times_met(interval)

    def outputs(self) -> int:
        """Return how many outputs the planned run writes to the data set."""
        interval = self.output.interval()
        return self.writes(interval) + self.output.initial if interval else 0

    def _times_met(self, interval: Interval) -> int:
        end = self.planned_end()
        if not interval.time or math.isnan(end):
            return 0
        return multiples(end, interval.time) - multiples(self.begin_time(), interval.time)

    def intervals_of_output(self) -> list[Interval]:
        """Return the intervals of everything that the run writes, except for checkpoints."""
        return [interval for name, table in self if name != "checkpoint" for interval in _intervals(table)]

    def time_remarks(self) -> Iterator[str]:
        """Yield what `ridgeline check` assumes about steps, model times and seconds of the clock."""
        steps, dt = self.planned_steps(), self.step_length()
        intervals = [*self.intervals_of_output(), self.checkpoint.interval()]
        if self.run.end_time is not None or any(each.time for each in intervals):
            if math.isnan(dt):
                yield "time: the length of a step is not known beforehand; outputs at model times are not all counted"
            else:
                until = f" until time {self.planned_end():.6g}"
                assumed = self.assumption()
                yield f"time: {'about' if assumed else 'at most'} {steps} steps of {dt:.4g}{assumed}{until}"
        if any(each.wall for each in intervals):
            yield "time: outputs and checkpoints at intervals of the clock are not counted"

    def assumption(self) -> str:
        """Return the words that follow an assumed `step_length`, "" if steps have that length."""
        return ""

    def all_problems(self) -> Iterator[Problem]:
        """Yield the rules between sections that these values break, of the model and of all models."""
        if self.run.steps is None and self.run.end_time is None:
            yield Problem("run.steps", "an integer >= 1, or run.end_time instead")
        elif self.run.end_time is not None and self.run.end_time <= self.begin_time():
            yield Problem("run.end_time", f"a time after that of step 0, which is {self.begin_time():g}")
        _ = self.sources
        problems = list(self.problems())
        yield from problems or self._part_problems()
        yield from self._callback_problems()
        yield from self._recorder_problems()
        yield from overlaps(self.written() | {REPORT: self.report_path()})

    def output_names(self) -> tuple[str, ...]:
        """Return the names of all fields that output.variables may list; by default those that it lists."""
        return tuple(self.output.variables)

    def part_names(self, part: PartSection) -> tuple[str, ...]:
        """Return the names of all fields that a part may have; by default those of `output_names`."""
        return self.output_names()

    def part_defaults(self, part: PartSection) -> tuple[str, ...]:
        """Return the variables of a part that lists none; by default those of the output."""
        return tuple(self.output.variables)

    def fields_of_parts(self) -> list[tuple[str, ...]]:
        """Return the fields that each part needs, among `part_names`."""
        return [
            tuple(fields_needed(part.quantities(self.part_defaults(part)), self.part_names(part)))
            for part in self.output.parts()
            if part.interval()
        ]

    def fields_written(self) -> set[str]:
        """Return the fields of outputs and of parts."""
        return {*self.output.variables}.union(*self.fields_of_parts())

    def part_grid(self, part: PartSection) -> UniformGrid:
        """Return the points from which a part selects, as far as the settings determine them."""
        return UniformGrid(self.grid.points())

    def part_extent(self, part: PartSection) -> PartExtent:
        """Return how large a part is. Raises SelectionError."""
        points = part.select(self.part_grid(part))
        return PartExtent(points.shape, math.prod(points.count), bool(points.averaged))

    def part_sizes(self) -> list[PartSize]:
        """Return what each part takes in the planned run; seconds of the clock are not counted."""
        sizes = []
        for part in self.output.parts():
            extent, interval = self.part_extent(part), part.interval()
            itemsize = BYTES[part.dtype(str(self.run.precision))]
            each = itemsize * math.prod(extent.shape) * len(part.quantities(self.part_defaults(part)))
            outputs = self.writes(interval) + part.initial if interval else 0
            sizes.append(PartSize(part.name, extent.shape, outputs, each, extent.axes))
        return sizes

    def memory_of_parts(self, n_ranks: int) -> float:
        """Return the bytes that a rank takes while the largest part is written, with equal shares of its points."""
        most = 0.0
        for part in (part for part in self.output.parts() if part.interval()):
            extent = self.part_extent(part)
            here = extent.points / n_ranks
            variables = len(part.quantities(self.part_defaults(part)))
            kept = BYTES[part.dtype(str(self.run.precision))] * variables * here
            # A mean has one variable in float64 at a time, its mask, and integers of the size of the result.
            most = max(most, 9 * here + 48 * math.prod(extent.shape) if extent.averaged else kept)
        return most

    def _part_problems(self) -> Iterator[Problem]:
        names = [part.name for part in self.output.parts()]
        for i, part in enumerate(self.output.parts()):
            key = f"output.part.{i}"
            if part.name in names[:i]:
                yield Problem(f"{key}.name", "a name that no other part has")
            yield from part.faults(key, self.part_names(part))
            try:
                self.part_extent(part)
            except SelectionError as error:
                yield Problem(f"{key}.{error.key}", error.rule)

    def _recorder_problems(self) -> Iterator[Problem]:
        names = [recorder.name for recorder in self.recorder]
        for i, name in enumerate(names):
            if name in names[:i]:
                yield Problem(f"recorder.{i}.name", "a name that no other recorder of the run has")

    def _callback_problems(self) -> Iterator[Problem]:
        names = self.output_names()
        taken: set[str] = set()
        for i, callback in enumerate(self.callback):
            for name in callback.variables:
                if name not in names:
                    yield Problem(
                        f"callback.{i}.variables",
                        f"a list of fields. {toml(name)} is not a field{did_you_mean(name, names)} The fields are "
                        f"{', '.join(names)}",
                    )
            if again := taken & {*callback.columns}:
                yield Problem(
                    f"callback.{i}.columns",
                    f"a list without {toml(min(again))}, a column of another callback",
                )
            taken |= {*callback.columns}
            if callback.columns and not callback.interval() and not self.output.interval("series_every"):
                yield Problem(
                    f"callback.{i}.every",
                    "an integer >= 1, or output.series_every instead, whose rows the columns need",
                )

    def remarks(self) -> Iterator[str]:
        """Yield what people should know about these values; `ridgeline check` and the header of a run print it."""
        yield from ()

    def doubts(self) -> Iterator[tuple[str, str]]:
        """Yield (key, sentence), a warning for each value that a run can use but that is probably a mistake."""
        yield from ()

    def check_files(self) -> None:
        """Raise an error for files that a new run cannot start from. Called in one process."""
        return

    def settled(self, identity: Mapping[str, Plain] | None = None) -> Self:
        """Return the case with values for the settings that are left to the run, as its output states them.

        identity: that of the checkpoint from which it continues; None if it is a new run.
        """
        return self

    def flatten(self) -> dict[str, Plain]:
        """Return every setting by its key "section.key": number, text, truth value or list; "none" where unset.

        Tables inside a section and repeated sections lengthen the key: "model.fft.effort", "scalar.0.schmidt". Beside
        a setting that names functions in Python files, KEY.source is a digest of these files.
        """
        return dict(_flat("", self.model_dump(mode="json"))) | self.sources

    @cached_property
    def sources(self) -> dict[str, Plain]:
        """Digests of the Python files that settings name, by the keys KEY.source; they are read once."""
        digests: dict[str, list[str]] = {}
        for key, text in self._functions():
            digests.setdefault(f"{key}.source", []).append(digest_of(text.rpartition(":")[0]))
        return {key: " ".join(each) for key, each in digests.items()}

    def user_formulas(self) -> list[str]:
        """Return the functions "file.py:function" that stand for formulas, each once."""
        texts = (text for key, text in self._functions() if not _within(_of_every(key), self.NOT_FORMULAS))
        return list(dict.fromkeys(texts))

    def _functions(self) -> Iterator[tuple[str, str]]:
        """Yield the functions "file.py:function" that settings name, with their keys."""
        for key, value in _flat("", self.model_dump(mode="json")):
            for text in value if isinstance(value, list) else [value]:
                if isinstance(text, str) and names_function(text):
                    yield key, text.strip()

    @classmethod
    def is_of_start(cls, key: str) -> bool:
        """Say whether a setting only decides the initial state."""
        return _within(_of_every(key), cls.START)

    def identity(self) -> dict[str, Plain]:
        """Return the settings that decide the numbers; they are equal for two runs that may continue each other.

        Steps, paths, ranks, threads and devices are not among them.
        """
        return {
            key: value
            for key, value in self.flatten().items()
            if _within(key, self.PHYSICS) and not _within(key, self.NOT_PHYSICS)
            if (general := _of_every(key)) not in self.LATER or value != self.LATER[general]
        }


def overlaps(paths: Mapping[str, str]) -> Iterator[Problem]:
    """Yield a problem for each path that equals another one or lies in it. paths: by their keys; links are followed.

    The inner one of two paths is at fault, unless the outer one is the folder in which the run starts, or holds it.
    """
    real = {key: os.path.realpath(path) for key, path in paths.items()}
    here = os.path.realpath(".")
    for (first, a), (second, b) in combinations(real.items(), 2):
        common = os.path.commonpath([a, b])
        if common not in (a, b):
            continue
        outer, inner = (first, second) if common == a else (second, first)
        shown = {key: f"{key} = {toml(paths[key])}" for key in (outer, inner)}
        if os.path.commonpath([here, common]) == common:
            yield Problem(outer, f"a path that does not contain {shown[inner]}")
        elif inner == REPORT:
            yield Problem("output.path", f"a path whose report, {paths[inner]}, is outside {shown[outer]}")
        elif a == b:
            yield Problem(inner, f"a path that differs from {outer}")
        else:
            yield Problem(inner, f"a path outside {shown[outer]}")


def _intervals(table: Any) -> Iterator[Interval]:
    """Yield the intervals of a table and of the tables in it."""
    if isinstance(table, tuple):
        for item in table:
            yield from _intervals(item)
    elif isinstance(table, BaseModel):
        names = type(table).model_fields
        if isinstance(table, Scheduled):
            yield from (table.interval(name) for name in names if f"{name}_time" in names)
        for _, inner in table:
            yield from _intervals(inner)


def _flat(key: str, value: Any) -> Iterator[tuple[str, Plain]]:
    """Yield (key, value) of all settings in a result of `model_dump`."""
    if isinstance(value, dict):
        inside: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        inside = enumerate(value)
    else:
        yield key, "none" if value is None else value
        return
    for name, item in inside:
        yield from _flat(f"{key}.{name}" if key else str(name), item)


def _of_every(key: str) -> str:
    """Return the key with a star for the number of a repeated section."""
    return ".".join("*" if word.isdigit() else word for word in key.split("."))


def _within(key: str, names: tuple[str, ...]) -> bool:
    """Say whether a key is among the names, or in a table or section that is."""
    return any(key == name or key.startswith(f"{name}.") for name in names)
