"""A run in a Python program or a notebook: to the end or step by step, inspected and changed meanwhile."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self

from ridgeline.config.check import Origin
from ridgeline.config.intervals import Interval, Moment
from ridgeline.config.load import warnings_of
from ridgeline.models import create
from ridgeline.parallel.job import join_from_python
from ridgeline.runtime.errors import ConfigError, RidgelineError
from ridgeline.runtime.signals import RunInterrupted, SignalCatcher
from ridgeline.simulation.call_arguments import (
    check_steps,
    check_time,
    refuse_changes,
    require_mapping,
)
from ridgeline.simulation.case import Case

if TYPE_CHECKING:
    import xarray as xr
    from mpi4py import MPI
    from numpy.typing import NDArray

    from ridgeline.parallel.partition import DistributedArray
    from ridgeline.simulation.print_report import RunReport

log = logging.getLogger(__name__)

Callback = Callable[["Simulation"], None]


class Simulation:
    """Run a case in this process, to the end or step by step.

    Creating a simulation also sets its initial state, or restores a checkpoint. A simulation writes what the
    settings say, at the steps that they say, and locks these paths until it is closed. It is a context manager: the
    end of a `with` block closes it.

    Parameters
    ----------
    case : Case
        The settings, the same on all ranks.
    resume : str
        "never" starts a new run, "auto" continues from the newest checkpoint if there is one, and anything else is
        the path of a checkpoint.
    overwrite : bool
        Delete the outputs of earlier runs at the same paths. Otherwise they are set aside.
    progress : bool
        Show the progress on stderr.

    Attributes
    ----------
    case : Case
        The present settings.

    Raises
    ------
    ConfigError, OutputError, CheckpointError, DecompositionError
        On all ranks. Every method also raises ConfigError when ranks make different calls, after the simulation has
        ended, and in a forked child process.

    Notes
    -----
    Collective over all ranks of the job: under a launcher every rank creates the simulation and makes the same calls
    with the same arguments. Only `case`, `step`, `steps`, `time` and `stop` are local. Each collective call compares
    the calls of all ranks first, by one allreduce of a few bytes.

    Examples
    --------
    With two ranks, started by `mpiexec -n 2 python program.py`:

    >>> import ridgeline
    >>> case = ridgeline.Case(
    ...     "gray_scott", 4, grid={"shape": (8, 8, 8)}, output={"path": "spots.bp", "every": 2}
    ... )
    >>> with ridgeline.Simulation(case, progress=False) as simulation:
    ...     step = simulation.advance(2)
    ...     parts = simulation.communicator.allgather(simulation.fields("V")["V"].shape)
    ...     report = simulation.run()
    >>> step, parts
    (2, [(4, 8, 8), (4, 8, 8)])
    >>> report["run"]["ended"]
    'all steps done'
    """

    def __init__(
        self, case: Case, *, resume: str = "never", overwrite: bool = False, progress: bool = True
    ) -> None:
        if not isinstance(case, Case):
            raise ConfigError(
                f"Simulation: case is {case!r}, but it must be a ridgeline.Case. Read a settings file with "
                "ridgeline.Case.read."
            )
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
        self._report: RunReport | None = None
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
            try:
                resources.enter_context(self._run)
            except KeyboardInterrupt:
                raise RunInterrupted(
                    "the run was interrupted before its first step. Nothing was computed, and nothing is locked."
                ) from None
            self._resources = resources.pop_all()
        self._finalizer = weakref.finalize(self, _release_dropped, self._resources, self._process)

    def __repr__(self) -> str:
        case = self.case.settings
        end = f"step {self.step}" if self.steps is None else f"step {self.step} of {self.steps}"
        state = "" if self._finalizer.alive else ", closed"
        return f"<ridgeline.Simulation: {case.run.model}, grid {case.grid.words()}, {end}, time {self.time:g}{state}>"

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
        dict of str to array
            Read-only views by name, valid until the next step.
        """
        self._begin_call("state()")
        return {name: array.read_only().local for name, array in self._run.model.state().items()}

    def parts(self, *names: str) -> dict[str, DistributedArray]:
        """Return fields as the data set holds them: this rank's part, and its place in the whole.

        Parameters
        ----------
        *names : str
            Names that output.variables may hold. By default they are those of output.variables.

        Returns
        -------
        dict of str to DistributedArray
            For each name, `local` is a read-only view of this rank's part, valid until the next step or call, and
            `offset_global` is its place. `set_fields` accepts changed copies.

        Raises
        ------
        ConfigError
            For a name that the model does not have.

        Notes
        -----
        Collective. Models that compute fields for output only, such as turbulence, transform them here.
        """
        self._begin_call(f"parts{names!r}")
        wanted = names or tuple(self.case.settings.output.variables)
        # The check of the settings refuses a name that the model does not have.
        checked = self.case.replace({"output.variables": wanted}, "the requested fields")
        parts = self._run.model.outputs(tuple(checked.settings.output.variables))
        return {name: part.read_only() for name, part in parts.items()}

    def fields(self, *names: str) -> dict[str, NDArray[Any]]:
        """Return this rank's part of fields as the data set holds them: the `local` of each of `parts`.

        Parameters
        ----------
        *names : str
            As for `parts`.

        Returns
        -------
        dict of str to array
            Read-only views by name, in the precision of the run, valid until the next step or call.

        Raises
        ------
        ConfigError
            For a name that the model does not have.
        """
        return {name: part.local for name, part in self.parts(*names).items()}

    def set_fields(self, fields: Mapping[str, Any]) -> None:
        """Replace fields of the current state, and continue from there as from an initial state.

        The model computes ghosts and forces again, removes divergence, and forgets earlier steps. Time, forcing and
        averages continue. What was written at this step stays as it is. The report lists the names under `changes`.

        Parameters
        ----------
        fields : mapping of str to array
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
        require_mapping("set_fields", fields)
        self._run.set_fields(fields)

    def diagnostics(self) -> dict[str, float]:
        """Return global scalars of the current state.

        Returns
        -------
        dict of str to float
            Values by name, the same on all ranks, in the units of the model.
        """
        self._begin_call("diagnostics()")
        return dict(self._run.model.diagnostics())

    def profiles(self) -> xr.Dataset:
        """Return spectra and other profiles of the current state.

        Returns
        -------
        xarray.Dataset
            Copies, the same on all ranks. It is empty if the model has no profiles.
        """
        from ridgeline.io.dataset import to_dataset

        self._begin_call("profiles()")
        profiles = self._run.model.profiles()
        return to_dataset({name: (p.dims, p.values, p.unit, p.description) for name, p in profiles.items()})

    def every(self, steps: int, callback: Callback) -> None:
        """Call a function after each step that is a multiple of `steps`, from now on.

        Parameters
        ----------
        steps : int
            The interval, 1 or more.
        callback : callable
            A function of one argument, the simulation. It runs on every rank, and may call everything except `run`
            and `close`.

        Raises
        ------
        ConfigError
            For a wrong interval, or for something that cannot be called.
        """
        self._begin_call(f"every({steps!r}, ...)")
        self._add("every", Interval(steps=check_steps("every", steps, 1)), callback)

    def every_time(self, time: float, callback: Callback) -> None:
        """Call `callback(simulation)` at each multiple of a model time, from now on.

        With output.align = true, which is the default, steps are shortened so that these times are met exactly.

        Parameters
        ----------
        time : float
            The interval, more than 0, in the unit of the model time.
        callback : callable
            As for `every`.

        Raises
        ------
        ConfigError
            For a wrong interval, or for something that cannot be called.
        """
        self._begin_call(f"every_time({time!r}, ...)")
        if not (interval := check_time("every_time", time, 0.0)):
            raise ConfigError("every_time: the time is 0, but it must be a number > 0.")
        self._add("every_time", Interval(time=interval), callback)

    def _add(self, call: str, interval: Interval, callback: Callback) -> None:
        if not callable(callback):
            raise ConfigError(
                f"{call}: {callback!r} cannot be called. It must be a function of one argument, the simulation."
            )
        self._callbacks.append((interval, callback))

    def advance(self, steps: int | None = None, *, until: float | None = None) -> int:
        """Advance by some steps, or to a model time, at most to the end of the run; return the current step.

        Less is done if a callback calls `stop` or the wall-clock limit is reached.

        Parameters
        ----------
        steps : int, optional
            Time steps, 0 or more; 1 if nothing is given.
        until : float, optional
            A model time, not before the current one, instead of a number of steps. With output.align = true, which is
            the default, steps are shortened so that it is met exactly; otherwise the first step after it is the last.

        Returns
        -------
        int
            The current step, the same on all ranks.

        Raises
        ------
        ConfigError
            If both are given, for a time that has already passed, or if the run has reached its end.
        DivergedError, OutputError, CheckpointError
            On all ranks.
        RunInterrupted
            After a signal, once a checkpoint has been saved.
        """
        time = "" if until is None else f", until={until!r}"
        self._begin_call(f"advance({steps!r}{time})")
        if until is not None and steps is not None:
            raise ConfigError(
                "advance: both a number of steps and a time are given, but only one of them can be."
            )
        if until is None:
            last, end = self.step + check_steps("advance", 1 if steps is None else steps, 0), None
        else:
            last, end = None, check_time("advance", until, self.time)
        if self._run.complete and ((last or 0) > self.step or (end or 0.0) > self.time):
            raise ConfigError(
                f"advance: the run has ended at step {self.step}, time {self.time:g}. To continue it, first call "
                f'change({{"run.steps": ...}}) with a later last step, or change run.end_time.'
            )
        self._advance(last, end)
        return self.step

    def run(self) -> RunReport:
        """Advance to the last step, close the simulation, and return the run report.

        Returns
        -------
        RunReport
            The run report, the same on all ranks: a dictionary, which is shown as `ridgeline report` prints it.

        Raises
        ------
        DivergedError, OutputError, CheckpointError
            On all ranks.
        RunInterrupted
            After a signal, once a checkpoint has been saved. The simulation stays usable.
        """
        self._begin_call("run()")
        self._refuse_in_callback("run")
        self._end_reason = self._advance(None, None)
        return self.close()

    def stop(self) -> None:
        """End `advance` or `run` after the callbacks of this step. It is local: one rank that calls it is enough."""
        self._refuse_if_over()
        self._stop_requested = True

    def save(self) -> Path:
        """Save a checkpoint of the current state unless there is one already.

        Returns
        -------
        pathlib.Path
            The newest checkpoint, the same on all ranks.

        Raises
        ------
        CheckpointError
            On all ranks, if the checkpoint cannot be written.

        Notes
        -----
        Collective: all ranks write, and all wait until the checkpoint is on the disk.
        """
        self._begin_call("save()")
        newest = self._run.save()
        assert newest is not None, "a checkpoint was saved"
        return newest

    def change(self, changes: Mapping[str, Any]) -> None:
        """Continue with other values of some settings.

        `change` rebuilds the model around its current state. The result is identical, bit for bit, to a restart
        with the new settings. The report lists the changes, the attributes of the data set hold the last values,
        and later checkpoints belong to the new settings.

        Parameters
        ----------
        changes : mapping
            Values by key, such as {"model.F": 0.03}. run.steps may be among them.

        Raises
        ------
        ConfigError
            If a key may not change in a run or if the new settings are wrong. The run is then as it was before.

        Notes
        -----
        Collective. It costs about as much as restoring a checkpoint, without reading one.
        """
        from ridgeline.parallel.allreduce import errors_on_all_ranks, require_same_on_all_ranks

        self._begin_call("change(...)")
        with errors_on_all_ranks(self._communicator):
            require_mapping("change", changes)
            case = self.case.replace(changes)
            refuse_changes(self.case.settings, case.settings, self.step, self.time)
        require_same_on_all_ranks(
            self._communicator, case.settings.flatten(), "Change the same settings on every rank."
        )
        self._run.change(case.settings, create(case.settings.run.model))
        self.case = case

    def close(self) -> RunReport:
        """End the run where it is, and return its report. Later calls return the same report.

        A checkpoint is saved if the last step is not reached.

        Returns
        -------
        RunReport
            The run report, the same on all ranks: a dictionary, which is shown as `ridgeline report` prints it.

        Raises
        ------
        OutputError, CheckpointError
            On all ranks, if the last outputs cannot be written.
        """
        if self._report is None:
            self._begin_call("close()")
            self._refuse_in_callback("close")
            early, comm_size = not self._run.complete, self._communicator.size
            try:
                with self._catch_signals():
                    self._report = self._run.finish((self._end_reason or "closed") if early else None)
            except BaseException:
                self._release(*sys.exc_info())
                raise
            self._release(None, None, None)
            self._communicator.Free()
            self._run.raise_failures()
            if self._stop_signals.received and comm_size == 1:
                name = signal.Signals(self._stop_signals.received).name
                self._stop_signals.forget()
                raise RunInterrupted(
                    f"{name} came after the last step. The run ended in order, and close() returns its report."
                )
        return self._report

    def _release(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        """Release the paths and threads of the run, once; `error` is what ended it."""
        if self._finalizer.detach() is not None:
            self._resources.__exit__(kind, error, trace)

    def _refuse_if_over(self) -> None:
        if os.getpid() != self._process:
            raise ConfigError(
                f"this simulation belongs to process {self._process}, of which this process is a fork. Use the "
                f"simulation there, or create one with other paths here."
            )
        if not self._finalizer.alive:
            how = "is closed" if self._report is not None else "ended with an error"
            raise ConfigError(f"this simulation {how}. Create a new one, with resume='auto' to continue it.")

    def _begin_call(self, call: str) -> None:
        """Raise ConfigError if the simulation has ended, or if the ranks make different calls. Collective."""
        from ridgeline.parallel.allreduce import require_same_on_all_ranks

        self._refuse_if_over()
        advice = "Every rank must make the same calls with the same arguments."
        require_same_on_all_ranks(self._communicator, {"the call": call}, advice)

    def _refuse_in_callback(self, call: str) -> None:
        if self._in_callback:
            raise ConfigError(
                f"{call}: a callback cannot end the simulation that calls it. Call stop() in the callback, and "
                f"{call}() afterwards."
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
        from ridgeline.parallel.allreduce import allreduce_max

        now = Moment(self.step, self.time)
        due = [callback for every, callback in self._callbacks if every.due(before, now)]
        outer, self._in_callback = self._in_callback, True
        try:
            for callback in due:
                callback(self)
        finally:
            self._in_callback = outer
        return bool(due) and bool(allreduce_max(self._communicator, [self._stop_requested])[0])

    def _interrupt(self, name: str) -> NoReturn:
        path = self.save()
        self._stop_signals.forget()
        raise RunInterrupted(f"{name} stopped the run at step {self.step}. Its checkpoint is {path}.")

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
        error = ResourceWarning("a Simulation was deleted before it was closed, so it has no report.")
        resources.__exit__(ResourceWarning, error, None)
        warnings.warn(error, stacklevel=2)
