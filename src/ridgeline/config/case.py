"""A case: all settings of one run, checked, frozen, and able to say what it is in plain values."""

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from typing import Any, ClassVar, Self

from pydantic import Field

from ridgeline.config.fields import Checked, Problem, toml
from ridgeline.config.sections import AnyGridSection, CheckpointSection, OutputSection, RunSection
from ridgeline.config.size_law import GlobalGrid, SizeLaw

REPORT = "the run report"  # beside the keys of settings that name paths
Plain = str | int | float | bool | list[Any]


class AnyCase(Checked):
    """Settings of one run. A model's case derives from this and adds its own sections."""

    # Keys ("section.key") and whole tables ("section", "section.table") that decide the numbers a run computes...
    PHYSICS: ClassVar[tuple[str, ...]] = (
        "run.model",
        "run.precision",
        "run.seed",
        "grid.shape",
    )
    # ...except these, which only decide how fast.
    NOT_PHYSICS: ClassVar[tuple[str, ...]] = ()
    # Settings that came later, with the values that mean what was before. An identity lacks those that have these
    # values, so that checkpoints of before go on. "scalar.*.key" is the key of every such section.
    LATER: ClassVar[Mapping[str, Plain]] = {}
    # Keys and tables that decide the initial state alone, "scalar.*.key" as above: they cannot change in a run.
    START: ClassVar[tuple[str, ...]] = ("initial",)
    # How the grid follows from the number of ranks in a scaling study.
    SIZE_LAW: ClassVar[SizeLaw] = GlobalGrid("grid.shape")

    run: RunSection
    grid: AnyGridSection
    output: OutputSection = Field(default_factory=OutputSection)
    checkpoint: CheckpointSection = Field(default_factory=CheckpointSection)

    def written(self) -> dict[str, str]:
        """Return the paths that a run of this case may write to, by their keys; checkpoints are among them."""
        return self.output.written() | {"checkpoint.path": self.checkpoint.path}

    def report_path(self) -> str:
        """Return the path of the run report: beside the data set."""
        return f"{self.output.path.rstrip('/')}.run.json"

    def all_problems(self) -> Iterator[Problem]:
        """Yield the rules between sections that these values break, of the model and of all models."""
        yield from self.problems()
        yield from overlaps(self.written() | {REPORT: self.report_path()})

    def remarks(self) -> Iterator[str]:
        """Yield what people should know of these values: `ridgeline check` and the header of a run say it."""
        yield from ()

    def doubts(self) -> Iterator[tuple[str, str]]:
        """Yield (key, sentence) for values that a run can use and that are hardly meant: warnings."""
        yield from ()

    def check_files(self) -> None:
        """Raise what is wrong with the files that a run starts from, if it begins anew. One process looks."""
        return

    def settled(self, identity: Mapping[str, Plain] | None = None) -> Self:
        """Return the case with those settings chosen that are left to the run: what it writes says them.

        identity: of the checkpoint that it continues from; None if it starts anew.
        """
        return self

    def flatten(self) -> dict[str, Plain]:
        """Return every setting as "section.key" -> number, text, truth value or list; "none" where unset.

        Tables inside a section and repeated sections lengthen the key: "model.fft.effort", "scalar.0.schmidt".
        """
        return dict(_flat("", self.model_dump(mode="json")))

    @classmethod
    def is_of_start(cls, key: str) -> bool:
        """Say whether a setting decides the initial state alone."""
        return _within(_of_every(key), cls.START)

    def identity(self) -> dict[str, Plain]:
        """Return the settings that decide the numbers: equal for two runs that may continue each other.

        Steps, paths, ranks, threads and devices are not among them.
        """
        return {
            key: value
            for key, value in self.flatten().items()
            if _within(key, self.PHYSICS) and not _within(key, self.NOT_PHYSICS)
            if (general := _of_every(key)) not in self.LATER or value != self.LATER[general]
        }


def overlaps(paths: Mapping[str, str]) -> Iterator[Problem]:
    """Yield a problem for each path that is another one or lies in it. paths: by their keys; links are followed.

    Of two paths the inner one is at fault, unless the outer one is the folder that the run starts in or holds it.
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
            yield Problem(outer, f"a path that does not hold {shown[inner]}")
        elif inner == REPORT:
            yield Problem("output.path", f"a path whose report, {paths[inner]}, is outside {shown[outer]}")
        elif a == b:
            yield Problem(inner, f"another path than {outer}")
        else:
            yield Problem(inner, f"a path outside {shown[outer]}")


def _flat(key: str, value: Any) -> Iterator[tuple[str, Plain]]:
    """Yield (key, value) of all settings in a value that `model_dump` made."""
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
