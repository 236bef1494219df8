"""Settings of the functions that a run calls while it steps: [[callback]]. `simulation.callbacks` calls them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from ridgeline.config.fields import Integer, Number, PathText, Problem, setting
from ridgeline.config.intervals import Scheduled, time_interval, wall_interval
from ridgeline.runtime.user_code import load_function, names_function

FUNCTION_RULE = '"FILE.py:FUNCTION", a Python file and the name of a function in it'
COLUMNS_RULE = "a list of names without commas, quotes and spaces, each once, and not step or time"


class CallbackSection(Scheduled):
    """A Python function of one's own that the run calls on all ranks while it steps."""

    function: PathText = setting(
        ...,
        'Function to call, as "FILE.py:FUNCTION", with the state of the run as its argument: step, time, read-only '
        "views of the fields on this rank, their coordinates, the settings and the communicator.",
        rule=FUNCTION_RULE,
    )
    variables: tuple[str, ...] = setting(
        (),
        "Fields that the function gets, of those that output.variables may list. If the list is empty, it gets "
        "output.variables.",
        rule="a list of fields that output.variables may list",
        max_length=200,
    )
    columns: tuple[str, ...] = setting(
        (),
        "Columns of the time series that the function fills: it returns a dict with a number for each of them, and "
        "is called for every row as well.",
        rule=COLUMNS_RULE,
        max_length=200,
        needs=tuple({f"output.series_every{unit}": ()} for unit in ("", "_time", "_wall")),
    )
    every: Integer = setting(
        0,
        "Number of steps between calls, at steps that are multiples of it, step 0 among them; 0 for none.",
        unit="steps",
        ge=0,
    )
    every_time: Number | None = time_interval("calls")
    every_wall: Number | None = wall_interval("calls")

    def problems(self) -> Iterator[Problem]:
        """Yield the rules that these values break."""
        if not names_function(self.function):
            yield Problem("function", FUNCTION_RULE)
        names = set(self.columns)
        wrong = [name for name in self.columns if not name or set(name) & set(",\"'\n\r\t ")]
        if wrong or names & {"step", "time"} or len(names) < len(self.columns):
            yield Problem("columns", COLUMNS_RULE)
        if not self.interval() and not self.columns:
            yield Problem("every", "an integer >= 1, unless every_time, every_wall or columns are given")


def load_callbacks(sections: Sequence[CallbackSection]) -> list[Callable[[Any], Any]]:
    """Run the files of callbacks and return their functions; callbacks of one file share its variables.

    Raises ConfigError where a file or a function is missing, fails, or cannot be called with one argument.
    """
    loaded: dict[Path, ModuleType] = {}
    return [
        load_function(f"callback.{number}.function", section.function, 1, loaded)
        for number, section in enumerate(sections)
    ]
