"""Functions of the user that a run calls while it steps ([[callback]]), on all ranks at the same moments.

The loop calls them as recorders, so that the schedule, the step control and a resumed run treat them like outputs.
All ranks then agree how the call went: an exception on any of them ends the run on all, rank 0's numbers become
columns of the time series, and a reason to stop ends the run at this step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from numbers import Real
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ridgeline.config.callbacks import load_callbacks
from ridgeline.config.intervals import NEVER
from ridgeline.models.contract import Model
from ridgeline.models.recorders import Recorder
from ridgeline.parallel.allreduce import errors_on_all_ranks, raise_on_all_ranks
from ridgeline.parallel.communicator import AGREE_SECONDS
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.user_code import defined_at, user_errors

if TYPE_CHECKING:
    from mpi4py import MPI
    from numpy.typing import NDArray

    from ridgeline.config.case import AnyCase, Plain
    from ridgeline.parallel.partition import DistributedArray

_POLL = 0.01  # seconds between two looks whether the other ranks have returned from a call


@dataclass(frozen=True)
class RunState:
    """Hold what a callback gets: the moment, and this rank's part of the fields. It is valid during the call.

    Attributes
    ----------
    step : int
        The current step.
    time : float
        The model time.
    fields : mapping of str to array
        Read-only views of this rank's part of the fields, as the data set holds them; on GPUs copies on the host.
    offsets : mapping of str to tuple of int
        Index of the first number of this rank's part in the whole field.
    shapes : mapping of str to tuple of int
        Shape of the whole field.
    coordinates : mapping of str to array
        x, y and z of the numbers of the fields, shaped so that they broadcast with them; empty for models whose
        outputs have no places.
    settings : mapping
        Every setting of the case by its key, such as "model.F".
    comm : MPI.Comm
        The communicator of all ranks, a duplicate for callbacks alone.
    stop : callable
        stop(reason) ends the run after this step, with a checkpoint; one rank that calls it is enough.
    """

    step: int
    time: float
    fields: Mapping[str, NDArray[Any]]
    offsets: Mapping[str, tuple[int, ...]]
    shapes: Mapping[str, tuple[int, ...]]
    coordinates: Mapping[str, NDArray[Any]]
    settings: Mapping[str, Plain]
    comm: MPI.Comm
    stop: Callable[[str], None]


class Callbacks:
    """The callbacks of a run. Every method is collective over comm, except for `take_reason`."""

    def __init__(self, case: AnyCase, comm: MPI.Comm) -> None:
        """Run the files. Raises ConfigError on all ranks for a file or function that cannot be used."""
        self._sections, self._comm = case.callback, comm
        with errors_on_all_ranks(comm):
            self._functions = load_callbacks(case.callback)
        self._for_users = comm.Dup() if case.callback else comm
        self._columns: dict[str, float] = {}
        self._reason: str | None = None

    def recorders(self, model: Model, case: AnyCase) -> list[Recorder]:
        """Return what calls them with the state of a model, and let its time series have their columns.

        Raises ConfigError for a column that the time series of the model has already.
        """
        rows = case.output.interval("series_every")
        columns = {name: float("nan") for section in self._sections for name in section.columns}
        if columns and rows and (twice := [name for name in model.series() if name in columns]):
            raise ConfigError(
                f"the time series of {model.name} has a column {twice[0]}, so no callback can have one. Give it "
                "another name in callback.N.columns."
            )
        self._columns = columns
        model.added_columns = self._columns
        settings = MappingProxyType(case.flatten())
        recorders = []
        for number, section in enumerate(self._sections):
            own, also = section.interval(), rows if section.columns else NEVER
            names = tuple(section.variables or case.output.variables)
            call = _Call(partial(self._call, model, settings, names, number))
            recorders.append(
                Recorder(
                    f"callback {number}",
                    "",
                    own or also,
                    lambda attributes, keep, call=call: call,  # type: ignore[misc]
                    search=False,
                    plot="",
                    also=also if own else NEVER,
                )
            )
        return recorders

    def take_reason(self) -> str | None:
        """Return why a callback has stopped the run since the last look, None if none has."""
        reason, self._reason = self._reason, None
        return reason

    def close(self) -> None:
        """Free the communicator of the functions, whose run is over."""
        if self._sections:
            self._for_users.Free()

    def _call(
        self, model: Model, settings: Mapping[str, Plain], names: tuple[str, ...], number: int, step: int
    ) -> None:
        """Call a function with the state of a step, and use what it returns."""
        section, function = self._sections[number], self._functions[number]
        key, (file, _, name) = f"callback.{number}", section.function.rpartition(":")
        reasons: list[str] = []
        state = _state_of(model, settings, names, step, self._for_users, reasons)
        numbers: dict[str, float] | None = None
        problem: ConfigError | None = None
        try:
            with user_errors(f'{key}.function = "{section.function}": the call at step {step}', file):
                returned = function(state)
            numbers = _numbers(returned, section.columns, self._comm.rank == 0)
        except ConfigError as error:
            problem = error
        except _WrongNumbersError as error:
            place = defined_at(file, function)
            problem = ConfigError(f'{place}{key}.function = "{section.function}" returned {error}')
        self._agree(problem)
        outcomes = self._comm.allgather((numbers, reasons[0] if reasons else None))
        self._columns |= outcomes[0][0] or {}
        reason = next((reason for _, reason in outcomes if reason is not None), None)
        if reason is not None and self._reason is None:
            self._reason = f"stopped by {file}:{name}: {reason}"

    def _agree(self, problem: ConfigError | None) -> None:
        """Raise the error of the first rank that has one, on all ranks.

        Other ranks may wait in the user's function for a rank that failed there. It waits a moment for them, and
        otherwise raises the error alone, which ends the job (`parallel.communicator.end_job`).
        """
        arrived = self._comm.Ibarrier()
        if problem is None:
            arrived.Wait()
        else:
            deadline = time.monotonic() + AGREE_SECONDS
            while not arrived.Test():
                if time.monotonic() > deadline:
                    raise problem
                time.sleep(_POLL)
        raise_on_all_ranks(self._comm, problem)


class _WrongNumbersError(Exception):
    """What a callback returned cannot be used; the message continues "it returned"."""


@dataclass
class _Call:
    """A callback as the record of a recorder."""

    call: Callable[[int], None]
    path: str = ""
    count: int = 0

    def write(self, step: int) -> int:
        self.call(step)
        self.count += 1
        return 0

    def close(self) -> None:
        return


def _numbers(returned: Any, columns: tuple[str, ...], counts: bool) -> dict[str, float] | None:
    """Return the numbers that a callback returned. counts: whether this rank's numbers are used.

    Raises _WrongNumbersError unless they are those of the columns; only rank 0 has to return them.
    """
    if returned is None and not (columns and counts):
        return None
    if not isinstance(returned, Mapping):
        what = f"a dict with {', '.join(columns)}" if columns else "None"
        raise _WrongNumbersError(f"{_shown(returned)}, but it must return {what}.")
    if not columns:
        keys = ", ".join(f'"{key}"' for key in returned)
        raise _WrongNumbersError(
            f"numbers, but its setting columns is not given. Set columns = [{keys}], or return None."
        )
    if set(returned) != set(columns):
        raise _WrongNumbersError(
            f"the keys {', '.join(map(str, returned)) or 'of nothing'}, but its columns are {', '.join(columns)}. "
            "Return all of them in every call, and no others."
        )
    for name, value in returned.items():
        if not (isinstance(value, Real) or (isinstance(value, np.ndarray) and value.ndim == 0)):
            raise _WrongNumbersError(f"{_shown(value)} for the column {name}, but it must return a number.")
    return {name: float(returned[name]) for name in columns}


def _shown(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _state_of(
    model: Model,
    settings: Mapping[str, Plain],
    names: tuple[str, ...],
    step: int,
    comm: MPI.Comm,
    reasons: list[str],
) -> RunState:
    """Return what a callback gets at a step. Collective, because some models compute their outputs."""
    places = model.point_places()
    parts = {
        name: part.read_only()
        for name, part in model.outputs(tuple(dict.fromkeys(filter(None, (*names, places))))).items()
    }
    return RunState(
        step,
        model.time(step),
        MappingProxyType({name: part.local for name, part in parts.items()}),
        MappingProxyType({name: part.offset_global for name, part in parts.items()}),
        MappingProxyType({name: part.shape_global for name, part in parts.items()}),
        MappingProxyType(_coordinates(model, parts)),
        settings,
        comm,
        lambda reason: reasons.append(" ".join(str(reason).split())),
    )


def _coordinates(model: Model, parts: Mapping[str, DistributedArray]) -> dict[str, NDArray[Any]]:
    """Return x, y and z of the numbers of fields: of particles, of points of elements, or of a uniform grid."""
    if places := model.point_places():
        return dict(zip("xyz", parts[places].local.T))
    if set("xyz") <= parts.keys():
        return {axis: parts[axis].local for axis in "xyz"}
    images = [parts[name] for name in model.image_fields() if name in parts]
    if not images:
        return {}
    along = []
    for axis, (origin, h) in enumerate(zip(*model.image_geometry())):
        index = images[0].offset_global[axis] + np.arange(images[0].shape_local[axis])
        shape = [1, 1, 1]
        shape[axis] = -1
        along.append((origin + h * index).reshape(shape))
    return dict(zip("zyx", along))
