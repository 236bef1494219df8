"""The settings of one run, built or read in Python with the same schema as a settings file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from pydantic import BaseModel

from ridgeline.config.check import Origin, refuse_form
from ridgeline.config.load import case_of_text, check_document, load_case, put_all, warnings_of
from ridgeline.config.toml_writer import write_toml
from ridgeline.models import case_class, estimate
from ridgeline.models.contract import Estimate
from ridgeline.runtime.console import as_html
from ridgeline.runtime.errors import ConfigError

if TYPE_CHECKING:
    from ridgeline.simulation.check import CaseCheck


class Case:
    """Hold the checked settings of one run. A case never changes: `replace` returns another one.

    Tuples, NumPy numbers and paths are converted to what a settings file would hold.

    Parameters
    ----------
    model : str
        Name of the model, such as "gray_scott".
    steps : int, optional
        Most time steps of the run. None leaves them to the table `run`, which may have an `end_time` instead.
    parameters : mapping, optional
        The table [model] of a settings file.
    **sections : mapping or sequence of mappings
        The other tables of a settings file by name (grid, output, initial ...), each a mapping, or a list of mappings
        where a file has [[...]].

    Attributes
    ----------
    settings : AnyCase
        The checked values, as in `case.settings.model.F`.

    Raises
    ------
    ConfigError
        If settings are wrong. The message has a sentence for each fault.

    Notes
    -----
    Local: nothing is communicated. Every rank builds the same case.

    Examples
    --------
    >>> import ridgeline
    >>> grid, parameters = {"shape": (64, 64, 64)}, {"F": 0.03}
    >>> case = ridgeline.Case("gray_scott", 1000, grid=grid, parameters=parameters)
    >>> case.settings.model.F
    0.03
    >>> case.replace({"run.steps": 2000}).settings.run.steps
    2000
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
                "ridgeline.Case: model must be the name of a model. Pass the settings of the section [model] as "
                "parameters."
            )
        document = {name: plain_value(table) for name, table in sections.items()}
        run = document.setdefault("run", {})
        if isinstance(run, dict):
            run["model"] = model
            if steps is not None:
                run["steps"] = plain_value(steps)
        if parameters is not None:
            document["model"] = plain_value(parameters)
        self.settings = _checked(document, "ridgeline.Case")

    @classmethod
    def read(cls, path: str | PathLike[str], changes: Mapping[str, Any] | None = None) -> Self:
        """Read a settings file, and change some of its settings.

        Parameters
        ----------
        path : path
            The settings file, in TOML.
        changes : mapping, optional
            Other values by key, such as {"model.F": 0.03}.

        Returns
        -------
        Case
            The checked case.

        Raises
        ------
        ConfigError
            If settings are wrong. The message names the line of each fault.

        Examples
        --------
        >>> import ridgeline
        >>> with open("case.toml", "w") as file:
        ...     print('run = {model = "gray_scott", steps = 10}', file=file)
        ...     print("grid = {shape = [8, 8, 8]}", file=file)
        >>> ridgeline.Case.read("case.toml", {"run.steps": 20}).settings.run.steps
        20
        """
        case = cls._of(load_case(Path(fspath(path)), case_class).case)
        return case.replace(changes) if changes else case

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Build a case from a dictionary with the tables of a settings file.

        Parameters
        ----------
        document : mapping
            The tables by name, as in {"run": {"model": "gray_scott", "steps": 10}, "grid": {"shape": [8, 8, 8]}}.

        Returns
        -------
        Case
            The checked case.

        Raises
        ------
        ConfigError
            If settings are wrong. The message has a sentence for each fault.

        Examples
        --------
        >>> import ridgeline
        >>> run = {"model": "gray_scott", "steps": 10}
        >>> ridgeline.Case.from_dict({"run": run, "grid": {"shape": (8, 8, 8)}})
        <ridgeline.Case: gray_scott, grid 8 x 8 x 8 (z y x), float64, 10 steps>
        """
        if not isinstance(document, Mapping):
            raise ConfigError(
                f"ridgeline.Case.from_dict: {type(document).__name__} is not a dictionary of tables. Text is read by "
                "Case.from_toml, and a file by Case.read."
            )
        return cls._of(_checked(plain_value(document), "ridgeline.Case.from_dict"))

    @classmethod
    def from_toml(cls, text: str) -> Self:
        """Build a case from the text of a settings file.

        Parameters
        ----------
        text : str
            The settings in TOML.

        Returns
        -------
        Case
            The checked case.

        Raises
        ------
        ConfigError
            If settings are wrong. The message names the line of each fault.

        Examples
        --------
        >>> import ridgeline
        >>> case = ridgeline.Case.from_toml(
        ...     '''
        ...     run = {model = "gray_scott", steps = 10}
        ...     grid = {shape = [8, 8, 8]}
        ...     '''
        ... )
        >>> case == ridgeline.Case.from_toml(case.to_toml())
        True
        """
        return cls._of(case_of_text(text, "line", case_class))

    def to_toml(self) -> str:
        """Return the settings that were given, as the text of a settings file.

        Returns
        -------
        str
            Text that `ridgeline run` and `Case.read` accept in a file, and `from_toml` as it is.

        Examples
        --------
        >>> import ridgeline
        >>> print(ridgeline.Case("gray_scott", 10, grid={"shape": (8, 8, 8)}).to_toml(), end="")
        [grid]
        shape = [8, 8, 8]
        <BLANKLINE>
        [run]
        model = "gray_scott"
        steps = 10
        """
        document = self._given()
        # The check of a document adds an empty list for each kind of [[table]] that it lacks.
        for place, table in [
            (document, self.settings),
            *((document.get(key), part) for key, part in self.settings),
        ]:
            if isinstance(place, dict) and isinstance(table, BaseModel):
                for key, field in type(table).model_fields.items():
                    if place.get(key) == [] and not field.get_default(call_default_factory=True):
                        del place[key]
        return write_toml(document)

    def check(self, ranks: int = 1) -> CaseCheck:
        """Check what a run would need and take here: memory, output and time, and the paths that it would write.

        Parameters
        ----------
        ranks : int
            Number of ranks of the run.

        Returns
        -------
        CaseCheck
            A dictionary that is shown as `ridgeline check` prints it.

        Raises
        ------
        ConfigError, OutputError, DecompositionError
            If a run would be refused.

        Notes
        -----
        Local: nothing is communicated. The memory bandwidth is measured, which takes about a second.

        Examples
        --------
        >>> import ridgeline
        >>> case = ridgeline.Case("gray_scott", 10, grid={"shape": (64, 64, 64)})
        >>> case.check(ranks=2)["process_grid"]
        [2, 1, 1]
        """
        from ridgeline.simulation.check import predict, raise_if_refused

        warnings = tuple(warnings_of(self.settings, lambda key: Origin(key, "the case")))
        planned = predict(self.settings, warnings, ranks)
        raise_if_refused(self.settings, planned)
        return planned

    def replace(self, changes: Mapping[str, Any], place: str = "the changes") -> Self:
        """Return this case with other values of some settings.

        Parameters
        ----------
        changes : mapping
            Values by key, such as {"model.F": 0.03, "run.steps": 10}.
        place : str
            Where a wrong value was written, for the error message.

        Returns
        -------
        Case
            A new case.

        Raises
        ------
        ConfigError
            If settings are wrong. The message has a sentence for each fault.
        """
        document = self._given()
        put_all(document, {key: plain_value(value) for key, value in changes.items()})
        return self._of(_checked(document, place))

    def estimate(self, ranks: int = 1) -> Estimate:
        """Estimate what a run would need: memory, output, checkpoints and work.

        Parameters
        ----------
        ranks : int
            Number of ranks of the run.

        Returns
        -------
        Estimate
            The needs of the rank with the largest block, and of the whole run.

        Raises
        ------
        DecompositionError
            If the grid cannot be divided among so many ranks.

        Notes
        -----
        Nothing is allocated or communicated.

        Examples
        --------
        >>> import ridgeline
        >>> case = ridgeline.Case("gray_scott", 10, grid={"shape": (64, 64, 64)})
        >>> case.estimate(ranks=2).block
        (32, 64, 64)
        """
        return estimate(self.settings, ranks)

    @classmethod
    def _of(cls, settings: Any) -> Self:
        """Return the case with settings that are checked."""
        case = cls.__new__(cls)
        case.settings = settings
        return case

    def _given(self) -> dict[str, Any]:
        """Return the settings that were given, as a document of sections."""
        given: dict[str, Any] = self.settings.model_dump(mode="json", exclude_none=True, exclude_unset=True)
        return given

    def _repr_html_(self) -> str:
        return as_html(f"{self!r}\n\n{self.to_toml()}")

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


def plain_value(value: Any) -> Any:
    """Return a value as a settings file would hold it."""
    if isinstance(value, Mapping):
        return {str(key): plain_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, PathLike):
        return fspath(value)
    return value
