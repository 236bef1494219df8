"""A case: all settings of one run, checked, frozen, and able to say what it is in plain values."""

from typing import Any, ClassVar

from pydantic import Field

from ridgeline.config.fields import Checked
from ridgeline.config.sections import CheckpointSection, GridSection, OutputSection, RunSection

Plain = str | int | float | bool | list[Any]


class Case(Checked):
    """Settings of one run. A model's case derives from this and adds its own sections."""

    # Keys ("section.key") and whole sections ("section") that decide the numbers a run computes...
    PHYSICS: ClassVar[tuple[str, ...]] = (
        "run.model",
        "run.precision",
        "run.seed",
        "grid.shape",
        "grid.boundary",
    )
    # ...except these, which only decide how fast.
    NOT_PHYSICS: ClassVar[tuple[str, ...]] = ()

    run: RunSection
    grid: GridSection
    output: OutputSection = Field(default_factory=OutputSection)
    checkpoint: CheckpointSection = Field(default_factory=CheckpointSection)

    def flatten(self) -> dict[str, Plain]:
        """Return every setting as "section.key" -> number, text, truth value or list; "none" where unset."""
        flat: dict[str, Plain] = {}
        for section, values in self.model_dump(mode="json").items():
            for key, value in values.items():
                flat[f"{section}.{key}"] = "none" if value is None else value
        return flat

    def identity(self) -> dict[str, Plain]:
        """Return the settings that decide the numbers: equal for two runs that may continue each other.

        Steps, paths, ranks, threads and devices are not among them.
        """
        return {
            key: value
            for key, value in self.flatten().items()
            if key not in self.NOT_PHYSICS and (key in self.PHYSICS or key.split(".")[0] in self.PHYSICS)
        }
