"""A run in a Python program or a notebook: to the end or step by step, inspected and changed meanwhile."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import signal
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self

from ridgeline.config.check import Origin
from ridgeline.config.intervals import Interval, Moment
from ridgeline.config.load import warnings_of
from ridgeline.models import create
from ridgeline.parallel.job import join_from_python
from ridgeline.runtime.errors import ConfigError, RidgelineError
from ridgeline.runtime.signals import SignalCatcher
from ridgeline.simulation.case import Case

if TYPE_CHECKING:
    import xarray as xr
    from mpi4py import MPI
    from numpy.typing import NDArray

    from ridgeline.parallel.partition import DistributedArray

log = logging.getLogger(__name__)

Callback = Callable[["Simulation"], None]

# `change` refuses the settings of these sections, except for the keys of _CHANGEABLE.
_FIXED_SECTIONS = ("run", "grid", "output", "checkpoint")
_CHANGEABLE = ("run.steps", "run.end_time")


class RunInterrupted(KeyboardInterrupt):
    """A signal such as Ctrl-C stopped a run between two steps; `Simulation.run` or `advance` continues it."""


class Simulation:
    """A run of a case in this process. Creating it also sets the initial state, or restores a checkpoint.

        with ridgeline.Simulation(case) as simulation:
            simulation.every(100, lambda now: print(now.step, now.diagnostics()))
            report = simulation.run()

    It writes what the settings say, at the steps that they say, and locks these paths until it is closed. Under a
    launcher every rank creates one. All methods and properties except `case`, `step`, `steps` and `time` are
    collective over the world: every rank calls them with the same arguments.

    Parameters
    ----------
    case
        The settings.
    resume
        "never" starts anew, "auto" continues from the newest checkpoint if there is one, and anything else is the
        path of a checkpoint.
    overwrite
        Delete the outputs of earlier runs at the same paths. Otherwise they are set aside.
    progress
        Show the progress on stderr.

    Raises
    ------
    ConfigError, OutputError, CheckpointError, DecompositionError
        On all ranks. Every method raises ConfigError when ranks make different calls, after the simulation has
        ended, and in a fork of its process.
    """

    def __init__(
        self, case: Case, *, resume: str = "never", overwrite: bool = False, progress: bool = True
    ) -> None:
        run = case.settings.run
        self._communicator = join_from_python(run.threads)
        from ridgeline.jit.kernel import numba_threads
        from ridgeline.runtime.blas import blas_threads
        from ridgeline.runtime.context import Context
        from ridgeline.simulation.case_run import CaseRun, RunCaller
        from ridgeline.simulation.run_options import RunOptions

        self.case = case
        self._stop_signals = SignalCatcher()
        self._callbacks: list[tuple[Interval, Callback]] = []
        self._in_callback = False
        self._stop_requested = False
        # Why the run ended, if it ended before its last step.
        self._end_reason: str | None = None
        self._report: dict[str, Any] | None = None
        self._process = os.getpid()
        context = Context(self._communicator, run.device, run.threads)
        self._run = CaseRun(
            case.settings,
            create(run.model),
            context,
            RunOptions(resume=resume, overwrite=overwrite),
            RunCaller(progress=progress, signals=self._stop_signals),
        )
        if self._communicator.rank == 0:
            for warning in warnings_of(case.settings, lambda key: Origin(key, "the case")):
                log.warning("%s", warning)
        with contextlib.ExitStack() as resources:
            resources.enter_context(numba_threads(run.threads))
            # NumPy may have been imported before this package could limit its threads: see `limit_pools`.
            resources.enter_context(blas_threads(1))
            resources.enter_context(self._run)
            self._resources = resources.pop_all()
        self._finalizer = weakref.finalize(self, _release_dropped, self._resources, self._process)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        if os.getpid() != self._process:
            return
        if error is None and self._finalizer.alive:
            self.close()
        if isinstance(error, KeyboardInterrupt) and self._finalizer.alive and self._communicator.size == 1:
            with contextlib.suppress(RidgelineError):
                self.save()
        self._release(kind, error, trace)

    @property
    def communicator(self) -> MPI.Comm:
        """The communicator of all ranks."""
        self._refuse_if_over()
        return self._communicator

    @property
    def step(self) -> int:
        """The current step."""
        return self._run.step

    @property
    def steps(self) -> int | None:
        """The last step of the run, None if only a model time ends it."""
        steps = self.case.settings.run.steps
        return None if steps is None else int(steps)

    @property
    def time(self) -> float:
        """The model time of the current state."""
        return self._run.time

    def state(self) -> dict[str, NDArray[Any]]:
        """Return this rank's part of the arrays that define the state, as a checkpoint holds them.

        The model decides what they are: turbulence keeps Fourier coefficients. Calling this rounds the state as
        writing a checkpoint does. `fields` returns what the data set holds instead.

        Returns
        -------
        dict
            Read-only views by name, valid until the next step.
        """
        self._begin_call("state()")
        return {name: _read_only(array.local) for name, array in self._run.model.state().items()}

    def parts(self, *names: str) -> dict[str, DistributedArray]:
        """Return fields as the data set holds them: this rank's part, and where it lies in the whole.

        Parameters
        ----------
        names
            Names that output.variables may hold. By default they are those of output.variables.

        Returns
        -------
        dict
            For each name, `local` is a read-only view of this rank's part, valid until the next step or call, and
            `offset_global` is its place. `set_fields` accepts changed copies.
        """
        self._begin_call(f"parts{names!r}")
        wanted = names or tuple(self.case.settings.output.variables)
        # The check of the settings refuses a name that the model does not have.
        checked = self.case.replace({"output.variables": wanted}, "the fields asked for")
        parts = self._run.model.outputs(tuple(checked.settings.output.variables))
        return {name: replace(part, local=_read_only(part.local)) for name, part in parts.items()}

    def fields(self, *names: str) -> dict[str, NDArray[Any]]:
        """Return this rank's part of fields as the data set holds them, by name: the `local` of `parts`."""
        return {name: part.local for name, part in self.parts(*names).items()}

    def set_fields(self, fields: Mapping[str, Any]) -> None:
        """Replace fields of the current state, and continue from there as from an initial state.

        The model computes ghosts and forces again, removes divergence, and forgets earlier steps. Time, forcing and
        averages continue. What was written at this step stays as it is. The report lists the names under `changes`.

        Parameters
        ----------
        fields
            This rank's part of each field, by name, with the shape that `fields` returns; the arrays are copied. All
            ranks set the same fields. Fields that are not given stay as they are.

        Raises
        ------
        ConfigError
            For a field that the model cannot set, that has the wrong shape, or that is not finite. The run is then
            as it was before.
        """
        names = sorted(map(str, fields)) if isinstance(fields, Mapping) else type(fields).__name__
        self._begin_call(f"set_fields({names})")
        _require_mapping("set_fields", fields)
        self._run.set_fields(fields)

    def diagnostics(self) -> dict[str, float]:
        """Return global scalars of the current state, the same on all ranks."""
        self._begin_call("diagnostics()")
        return dict(self._run.model.diagnostics())

    def profiles(self) -> xr.Dataset:
        """Return spectra and other profiles of the current state, the same on all ranks. They may be none."""
        from ridgeline.io.dataset import to_dataset

        self._begin_call("profiles()")
        profiles = self._run.model.profiles()
        return to_dataset({name: (p.dims, p.values, p.unit, p.description) for name, p in profiles.items()})

    def every(self, steps: int, callback: Callback) -> None:
        """Call `callback(simulation)` after each step that is a multiple of `steps`, from now on."""
        self._begin_call(f"every({steps!r}, ...)")
        self._add("every", Interval(steps=_check_steps("every", steps, 1)), callback)

    def every_time(self, time: float, callback: Callback) -> None:
        """Call `callback(simulation)` at each multiple of a model time, from now on.

        With output.align = true steps are shortened so that these times are met exactly.
        """
        self._begin_call(f"every_time({time!r}, ...)")
        if not (interval := _check_time("every_time", time, 0.0)):
            raise ConfigError("every_time: got 0; need a time > 0")
        self._add("every_time", Interval(time=interval), callback)

    def _add(self, call: str, interval: Interval, callback: Callback) -> None:
        if not callable(callback):
            raise ConfigError(
                f"{call}: got {callback!r} to call; need a function of one argument, the simulation"
            )
        self._callbacks.append((interval, callback))

    def advance(self, steps: int | None = None, *, until: float | None = None) -> int:
        """Advance by some steps, or to a model time, at most to the end of the run; return the current step.

        Less is done if a callback calls `stop` or the wall-clock limit is reached.

        Parameters
        ----------
        steps
            How many steps, 1 if nothing is given.
        until
            A model time, not before the current one. With output.align = true, which is the default, steps are
            shortened so that it is met exactly; otherwise the first step after it is the last.

        Raises
        ------
        ConfigError
            If both are given, or for a time that has already passed.
        ------
        DivergedError, OutputError, CheckpointError
            On all ranks.
        RunInterrupted
            After a signal, once a checkpoint has been saved.
        """
        time = "" if until is None else f", until={until!r}"
        self._begin_call(f"advance({steps!r}{time})")
        if until is None:
            self._advance(self.step + _check_steps("advance", 1 if steps is None else steps, 0), None)
        else:
            if steps is not None:
                raise ConfigError("advance: got steps and a time; need one of them")
            self._advance(None, _check_time("advance", until, self.time))
        return self.step

    def run(self) -> dict[str, Any]:
        """Advance to the last step, close, and return the run report. Raises what `advance` raises.

        A run that `stop` or the wall-clock limit ends before its last step saves a checkpoint.
        """
        self._begin_call("run()")
        self._refuse_in_callback("run")
        self._end_reason = self._advance(None, None)
        return self.close()

    def stop(self) -> None:
        """End `advance` or `run` after the callbacks of this step. It is enough that one rank calls it."""
        self._refuse_if_over()
        self._stop_requested = True

    def save(self) -> Path:
        """Save a checkpoint of the current state unless there is one, and return the path of the newest."""
        self._begin_call("save()")
        newest = self._run.save()
        assert newest is not None, "a checkpoint was saved"
        return newest

    def change(self, changes: Mapping[str, Any]) -> None:
        """Continue with other values of some settings, given by key: {"model.F": 0.03}. run.steps may be among them.

        `change` rebuilds the model around its current state. The result is identical, bit for bit, to a restart with
        the new settings. The report lists the changes, the attributes of the data set hold the last values, and later
        checkpoints belong to the new settings.

        Raises ConfigError if a key may not change in a run or if the new settings are wrong. The run is then as it
        was before.
        """
        from ridgeline.parallel.allreduce import errors_on_all_ranks, require_same_on_all_ranks

        self._begin_call("change(...)")
        with errors_on_all_ranks(self._communicator):
            _require_mapping("change", changes)
            case = self.case.replace(changes)
            self._refuse_fixed(case)
        require_same_on_all_ranks(
            self._communicator, case.settings.flatten(), "change the same settings on every rank"
        )
        self._run.change(case.settings, create(case.settings.run.model))
        self.case = case

    def _refuse_fixed(self, case: Case) -> None:
        """Raise ConfigError if the new case differs in a setting that may not change in a run."""
        before, after = self.case.settings.flatten(), case.settings.flatten()
        for key in (key for key in {**before, **after} if before.get(key) != after.get(key)):
            if key.split(".")[0] in _FIXED_SECTIONS and key not in _CHANGEABLE:
                raise ConfigError(
                    f"{key}: this setting is of the whole run; change those of the model, or start a new run"
                )
            if case.settings.is_of_start(key):
                raise ConfigError(
                    f"{key}: this setting is of the initial state, which is past; use set_fields, or start a new run"
                )
        steps, end = case.settings.run.steps, case.settings.run.end_time
        if steps is not None and steps < self.step:
            raise ConfigError(
                f"run.steps: got {steps}, but the run is at step {self.step}; need at least that"
            )
        if end is not None and end < self.time:
            raise ConfigError(
                f"run.end_time: got {end:g}, but the run is at time {self.time:g}; need at least that"
            )

    def close(self) -> dict[str, Any]:
        """End the run where it is and return its report. Saves a checkpoint if the last step is not reached."""
        if self._report is None:
            self._begin_call("close()")
            self._refuse_in_callback("close")
            early = not self._run.complete
            try:
                self._report = self._run.finish((self._end_reason or "closed") if early else None)
            except BaseException:
                self._release(*sys.exc_info())
                raise
            self._release(None, None, None)
            self._communicator.Free()
            self._run.raise_failures()
        return self._report

    def _release(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        """Release the paths and threads of the run, once; `error` is what ended it."""
        if self._finalizer.detach() is not None:
            self._resources.__exit__(kind, error, trace)

    def _refuse_if_over(self) -> None:
        if os.getpid() != self._process:
            raise ConfigError(
                f"this simulation is of process {self._process}, and this is a fork of it; use the simulation there, "
                f"or make one of other paths here"
            )
        if not self._finalizer.alive:
            how = "is closed" if self._report is not None else "ended with an error"
            raise ConfigError(f"this simulation {how}; make a new one, with resume='auto' to go on")

    def _begin_call(self, call: str) -> None:
        """Raise ConfigError if the simulation has ended, or if the ranks make different calls. Collective."""
        from ridgeline.parallel.allreduce import require_same_on_all_ranks

        self._refuse_if_over()
        advice = "every rank must make the same calls with the same arguments"
        require_same_on_all_ranks(self._communicator, {"the call": call}, advice)

    def _refuse_in_callback(self, call: str) -> None:
        if self._in_callback:
            raise ConfigError(
                f"{call}: a callback cannot end the simulation that calls it; call stop() there, and {call}() after"
            )

    def _advance(self, last: int | None, until: float | None) -> str | None:
        """Advance to a step or a time, or else to the end, and call the callbacks; return why it is not reached."""
        self._stop_requested = False
        with self._catch_signals():
            while not self._run.reaches(last, until):
                before, intervals = Moment(self.step, self.time), [every for every, _ in self._callbacks]
                steps = [int(every.next_step(self.step)) for every in intervals if every.steps]
                times = [every.next_time(self.time) for every in intervals if every.time]
                steps += [] if last is None else [last]
                times += [] if until is None else [until]
                reason = self._run.advance(min(steps, default=None), min(times, default=None))
                if reason is not None and not reason.startswith("SIG"):
                    return reason
                if reason is not None:
                    self._interrupt(reason)
                if self._call_back(before):
                    return "stopped"
            # Several ranks agree on a signal at the next step instead.
            if self._stop_signals.received and self._communicator.size == 1:
                self._interrupt(signal.Signals(self._stop_signals.received).name)
        return None

    def _call_back(self, before: Moment) -> bool:
        """Call the callbacks that are due; return whether one of them called `stop` on any rank. Collective."""
        now = Moment(self.step, self.time)
        due = [callback for every, callback in self._callbacks if every.due(before, now)]
        outer, self._in_callback = self._in_callback, True
        try:
            for callback in due:
                callback(self)
        finally:
            self._in_callback = outer
        return bool(due) and any(self._communicator.allgather(self._stop_requested))

    def _interrupt(self, name: str) -> NoReturn:
        path = self.save()
        self._stop_signals.forget()
        raise RunInterrupted(f"{name} stopped the run at step {self.step}; its checkpoint is {path}")

    @contextlib.contextmanager
    def _catch_signals(self) -> Iterator[None]:
        """Catch stop signals for the length of a block. Python allows this in the main thread only."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        with self._stop_signals:
            yield


def _release_dropped(resources: contextlib.ExitStack, process: int) -> None:
    """Release the paths of a simulation that was garbage-collected, without communication."""
    if os.getpid() == process:
        error = ResourceWarning("a Simulation was dropped before it was closed: it has no report")
        resources.__exit__(ResourceWarning, error, None)
        warnings.warn(error, stacklevel=2)


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view of an array that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def _check_steps(call: str, steps: Any, least: int) -> int:
    """Return a number of steps. Raises ConfigError unless it is an integer of Python or NumPy, `least` or more."""
    with contextlib.suppress(TypeError):
        if not isinstance(steps, bool) and index(steps) >= least:
            return index(steps)
    raise ConfigError(f"{call}: got {steps!r}; need an integer of steps >= {least}")


def _check_time(call: str, until: Any, now: float) -> float:
    """Return a model time. Raises ConfigError unless it is a finite number that is not before `now`."""
    with contextlib.suppress(TypeError, ValueError):
        if not isinstance(until, bool | str) and math.isfinite(time := float(until)):
            if time < now:
                raise ConfigError(f"{call}: got the time {time:g}, but the run is at time {now:g} already")
            return time
    raise ConfigError(f"{call}: got {until!r}; need a finite number as time")


def _require_mapping(call: str, values: Any) -> None:
    if not isinstance(values, Mapping):
        raise ConfigError(f"{call}: got {values!r}; need a mapping from names to values")
