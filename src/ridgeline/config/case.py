"""A case: all settings of one run, checked and frozen, with their plain values for files and comparisons."""

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

        Tables inside a section and repeated sections lengthen the key: "model.fft.effort", "scalar.0.schmidt".
        """
        return dict(_flat("", self.model_dump(mode="json")))

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
