"""The settings of one run, built or read in Python with the same schema as a settings file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Self

import numpy as np

from ridgeline.config.check import Origin, refuse_form
from ridgeline.config.load import check_document, load_case, put_all
from ridgeline.models import case_class, estimate
from ridgeline.models.contract import Estimate
from ridgeline.runtime.errors import ConfigError


class Case:
    """The checked settings of one run. A case never changes: `replace` returns another one.

        case = ridgeline.Case("gray_scott", 1000, grid={"shape": (64, 64, 64)}, parameters={"F": 0.03})

    Tuples, NumPy numbers and paths are converted to what a settings file would hold.

    Parameters
    ----------
    model
        Name of the model.
    steps
        Most time steps of the run; it may also end at a time, `run={"end_time": 10.0}`.
    parameters
        The table [model] of a settings file.
    sections
        The other tables of a settings file by name (grid, output, initial ...), each a mapping, or a list of mappings
        where a file has [[...]].

    Attributes
    ----------
    settings
        The checked values, as in `case.settings.model.F`.

    Raises
    ------
    ConfigError
        With a sentence for each fault.
    """

    def __init__(
        self,
        model: str,
        steps: int | None = None,
        *,
        parameters: Mapping[str, Any] | None = None,
        **sections: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    ) -> None:
        if "model" in sections or not isinstance(model, str):
            raise ConfigError(
                "ridgeline.Case: got a table for model; need the name of a model, and the table [model] as parameters"
            )
        document = {name: _plain(table) for name, table in sections.items()}
        run = document.setdefault("run", {})
        if isinstance(run, dict):
            run["model"] = model
            if steps is not None:
                run["steps"] = _plain(steps)
        if parameters is not None:
            document["model"] = _plain(parameters)
        self.settings = _checked(document, "ridgeline.Case")

    @classmethod
    def read(cls, path: str | PathLike[str], changes: Mapping[str, Any] | None = None) -> Self:
        """Read a settings file and change some of its settings, given by key: {"model.F": 0.03}.

        Raises ConfigError, with the line of each fault.
        """
        case = cls.__new__(cls)
        case.settings = load_case(Path(fspath(path)), case_class).case
        return case.replace(changes) if changes else case

    def replace(self, changes: Mapping[str, Any], place: str = "the changes") -> Self:
        """Return this case with other values of some settings, given by key: {"model.F": 0.03, "run.steps": 10}.

        `place` says in an error message where a wrong value was written. Raises ConfigError, with a sentence for each
        fault.
        """
        document = self.settings.model_dump(mode="json", exclude_none=True, exclude_unset=True)
        put_all(document, {key: _plain(value) for key, value in changes.items()})
        case = type(self).__new__(type(self))
        case.settings = _checked(document, place)
        return case

    def estimate(self, ranks: int = 1) -> Estimate:
        """Estimate what a run on so many ranks would need: memory, output, checkpoints, work.

        Raises DecompositionError if the grid cannot be divided among so many ranks.
        """
        return estimate(self.settings, ranks)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Case) and self.settings == other.settings

    def __hash__(self) -> int:
        return hash(str(self.settings))

    def __repr__(self) -> str:
        run = self.settings.run
        grid = self.settings.grid.words()
        end = f"{run.steps} steps" if run.end_time is None else f"until time {run.end_time:g}"
        return f"<ridgeline.Case: {run.model}, grid {grid}, {run.precision}, {end}>"


def _checked(document: dict[str, Any], place: str) -> Any:
    refuse_form(Path(place), document)
    return check_document(document, case_class, lambda key: Origin(key, place))


def _plain(value: Any) -> Any:
    """Return a value as a settings file would hold it."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, PathLike):
        return fspath(value)
    return value
