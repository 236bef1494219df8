"""Settings of the outputs that installed packages add: [[recorder]]. `simulation.outputs` opens them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any

from pydantic import Field

from ridgeline.config.check import did_you_mean
from ridgeline.config.fields import Integer, Number, PathText, Problem, setting
from ridgeline.config.intervals import Scheduled, time_interval, wall_interval
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.plugins import RECORDERS, entries, load_entry


class RecorderSection(Scheduled):
    """An output that an installed package writes while the run steps."""

    name: Annotated[str, Field(max_length=200)] = setting(
        ...,
        "Recorder, by the name that its package gives it in the entry points ridgeline.recorders. `ridgeline doctor` "
        "lists the packages.",
        rule="the name of a recorder of an installed package",
    )
    path: PathText = setting(..., "File or data set that it writes.", rule="a path", min_length=1)
    every: Integer = setting(
        0,
        "Number of steps between outputs, at steps that are multiples of it; 0 for none.",
        unit="steps",
        ge=0,
    )
    every_time: Number | None = time_interval("outputs")
    every_wall: Number | None = wall_interval("outputs")

    def problems(self) -> Iterator[Problem]:
        """Yield the rules that these values break."""
        if not self.interval():
            yield Problem("every", "an integer >= 1, unless every_time or every_wall is given")


def load_recorders(sections: Sequence[RecorderSection]) -> list[Callable[..., Any]]:
    """Import the recorders that settings name, and return the functions that make them.

    Raises ConfigError for a name that no installed package has, and for a package that fails on import.
    """
    known = entries(RECORDERS) if sections else {}
    functions = []
    for number, section in enumerate(sections):
        if section.name not in known:
            names = ", ".join(sorted(known)) or "none"
            raise ConfigError(
                f'recorder.{number}.name is "{section.name}", which no installed package has'
                f"{did_you_mean(section.name, list(known))} Recorders of installed packages: {names}."
            )
        functions.append(load_entry(known[section.name], f"the recorder {section.name}"))
    return functions
