"""A run in a Python program or a notebook: to the end, or step by step, seen and steered on its way."""

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
from dataclasses import replace
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self

from ridgeline.config.check import Origin
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

# Sections whose settings are those of the whole run; of these keys the others may change on the way.
_FIXED = ("run", "grid", "output", "checkpoint")
_FREE = ("run.steps",)


class RunInterrupted(KeyboardInterrupt):
    """A signal, such as Ctrl-C, stopped a run between two steps: `Simulation.run` or `advance` goes on from there."""


class Simulation:
    """A run of a case in this process, at its first state once it is made.

        with ridgeline.Simulation(case) as simulation:
            simulation.every(100, lambda now: print(now.step, now.diagnostics()))
            report = simulation.run()

    It writes what the settings say, at the steps that they say, and holds these paths until it is closed. Under a
    launcher every rank makes one; all of it but `case`, `step`, `steps` and `time` is collective over the world, with
    the same arguments on all ranks.

    resume: "never" starts anew, "auto" continues from the newest checkpoint if there is one, else the path of a
    checkpoint. overwrite: delete outputs of earlier runs at the same paths; else they are set aside. progress: tell
    it on stderr.

    Raises ConfigError, OutputError, CheckpointError and DecompositionError, all ranks together. Every method raises
    ConfigError where ranks make different calls, once the simulation is over, and in a fork of its process.
    """

    def __init__(
        self, case: Case, *, resume: str = "never", overwrite: bool = False, progress: bool = True
    ) -> None:
        run = case.settings.run
        self._communicator = join_from_python(run.threads)
        from ridgeline.jit.kernel import numba_threads
        from ridgeline.runtime.blas import blas_threads
        from ridgeline.runtime.context import Context
        from ridgeline.simulation.job import CaseRun, RunCaller
        from ridgeline.simulation.options import RunOptions

        self.case = case
        self._caught = SignalCatcher()
        self._callbacks: list[tuple[int, Callback]] = []
        self._in_callback = False
        self._asked_to_stop = False
        self._ended: str | None = None  # why, if before the last step
        self._report: dict[str, Any] | None = None
        self._process = os.getpid()
        context = Context(self._communicator, run.device, run.threads)
        self._run = CaseRun(
            case.settings,
            create(run.model),
            context,
            RunOptions(resume=resume, overwrite=overwrite),
            RunCaller(progress=progress, caught=self._caught),
        )
        if self._communicator.rank == 0:
            for warning in warnings_of(case.settings, lambda key: Origin(key, "the case")):
                log.warning("%s", warning)
        with contextlib.ExitStack() as held:
            held.enter_context(numba_threads(run.threads))
            held.enter_context(blas_threads(1))  # of a NumPy that was imported before: see `limit_pools`
            held.enter_context(self._run)
            self._held = held.pop_all()
        self._dropped = weakref.finalize(self, _drop, self._held, self._process)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        if os.getpid() != self._process:
            return
        if error is None and self._dropped.alive:
            self.close()
        if isinstance(error, KeyboardInterrupt) and self._dropped.alive and self._communicator.size == 1:
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
        """The present step."""
        return self._run.step

    @property
    def steps(self) -> int:
        """The last step of the run."""
        return int(self.case.settings.run.steps)

    @property
    def time(self) -> float:
        """The model time of the present state."""
        return self._run.model.time(self.step)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return this rank's part of the fields that define the state, by name: read-only, valid until the next step.

        What they are is the model's business: turbulence keeps Fourier coefficients. They are what a checkpoint
        holds, and asking for them rounds as a checkpoint does. See `fields`.
        """
        self._begin_call("state()")
        return {name: _read_only(array.local) for name, array in self._run.model.state().items()}

    def parts(self, *names: str) -> dict[str, DistributedArray]:
        """Return fields as the data set holds them, by name: `local` is this rank's part, `offset_global` its place.

        names: as in output.variables, which they are by default. Read-only, and valid until the next step or call:
        `set_fields` takes changed copies.
        """
        self._begin_call(f"parts{names!r}")
        wanted = names or tuple(self.case.settings.output.variables)
        known = self.case.replace({"output.variables": wanted}, "the fields asked for")  # refuses in words
        found = self._run.model.outputs(tuple(known.settings.output.variables))
        return {name: replace(part, local=_read_only(part.local)) for name, part in found.items()}

    def fields(self, *names: str) -> dict[str, NDArray[Any]]:
        """Return this rank's part of fields as the data set holds them, by name; see `parts`."""
        return {name: part.local for name, part in self.parts(*names).items()}

    def set_fields(self, fields: Mapping[str, Any]) -> None:
        """Replace fields of the present state, and go on from there as from an initial state.

        fields: this rank's part of each, by name, with the shape that `fields` returns; copies are taken. All ranks
        set the same fields, of those that the model advances, and the others stay. The model computes ghosts and
        forces again, takes out divergence, and forgets earlier steps. Time, forcing and averages go on. What was
        written at this step stays as it is. The report lists the names under `changes`.

        Raises ConfigError for a field that the model does not take, that has another shape, or that is not finite;
        the run is as before then.
        """
        names = sorted(map(str, fields)) if isinstance(fields, Mapping) else type(fields).__name__
        self._begin_call(f"set_fields({names})")
        _require_mapping("set_fields", fields)
        self._run.set_fields(fields)

    def diagnostics(self) -> dict[str, float]:
        """Return global scalars of the present state, equal on all ranks."""
        self._begin_call("diagnostics()")
        return dict(self._run.model.diagnostics())

    def profiles(self) -> xr.Dataset:
        """Return spectra and the like of the present state, equal on all ranks; empty for models without any."""
        from ridgeline.io.dataset import to_dataset

        self._begin_call("profiles()")
        found = self._run.model.profiles()
        return to_dataset({name: (p.dims, p.values, p.unit, p.description) for name, p in found.items()})

    def every(self, steps: int, callback: Callback) -> None:
        """Call `callback(simulation)` after each step that is a multiple of `steps`, from now on."""
        self._begin_call(f"every({steps!r}, ...)")
        number = _whole("every", steps, 1)
        if not callable(callback):
            raise ConfigError(
                f"every: got {callback!r} to call; need a function of one argument, the simulation"
            )
        self._callbacks.append((number, callback))

    def advance(self, steps: int = 1) -> int:
        """Go on for some steps, at most to the last one, and return the present step.

        Fewer are done if a callback calls `stop` or the wall-clock limit is reached.

        Raises DivergedError, OutputError and CheckpointError, all ranks together; RunInterrupted after a signal, when
        a checkpoint has been left.
        """
        self._begin_call(f"advance({steps!r})")
        self._advance(self.step + _whole("advance", steps, 0))
        return self.step

    def run(self) -> dict[str, Any]:
        """Go on to the last step, close and return the run report. Raises what `advance` does.

        A run that `stop` or the wall-clock limit ends before its last step leaves a checkpoint.
        """
        self._begin_call("run()")
        self._refuse_in_callback("run")
        self._ended = self._advance(None)
        return self.close()

    def stop(self) -> None:
        """End `advance` or `run` when the callbacks of this step are through. One rank is enough."""
        self._refuse_if_over()
        self._asked_to_stop = True

    def save(self) -> Path:
        """Leave a checkpoint of the present state, unless there is one; return the newest."""
        self._begin_call("save()")
        newest = self._run.save()
        assert newest is not None, "a checkpoint was saved"
        return newest

    def change(self, changes: Mapping[str, Any]) -> None:
        """Go on with other values of some settings, by key: {"model.F": 0.03}. run.steps may be among them.

        The run goes on as from a checkpoint at this step: with the same bits. The report lists the changes, the data
        set tells the last values, and checkpoints from now on are of the new settings.

        Raises ConfigError if a key may not change in a run, or the new settings are wrong; the run is as before then.
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
        """Raise ConfigError if another case differs in what may not change in a run."""
        before, after = self.case.settings.flatten(), case.settings.flatten()
        for key in (key for key in {**before, **after} if before.get(key) != after.get(key)):
            if key.split(".")[0] in _FIXED and key not in _FREE:
                raise ConfigError(
                    f"{key}: this setting is of the whole run; change those of the model, or start a new run"
                )
            if case.settings.is_of_start(key):
                raise ConfigError(
                    f"{key}: this setting is of the initial state, which is past; use set_fields, or start a new run"
                )
        if case.settings.run.steps < self.step:
            raise ConfigError(
                f"run.steps: got {case.settings.run.steps}, but the run is at step {self.step}; need at least that"
            )

    def close(self) -> dict[str, Any]:
        """End the run where it is and return its report. Leaves a checkpoint if the last step is not reached."""
        if self._report is None:
            self._begin_call("close()")
            self._refuse_in_callback("close")
            early = self.step < self.steps
            try:
                self._report = self._run.finish((self._ended or "closed") if early else None)
            except BaseException:
                self._release(*sys.exc_info())
                raise
            self._release(None, None, None)
            self._communicator.Free()
            self._run.raise_failures()
        return self._report

    def _release(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        """Give back what the run holds, once. error: what ended it."""
        if self._dropped.detach() is not None:
            self._held.__exit__(kind, error, trace)

    def _refuse_if_over(self) -> None:
        if os.getpid() != self._process:
            raise ConfigError(
                f"this simulation is of process {self._process}, and this is a fork of it; use the simulation there, "
                f"or make one of other paths here"
            )
        if not self._dropped.alive:
            how = "is closed" if self._report is not None else "ended with an error"
            raise ConfigError(f"this simulation {how}; make a new one, with resume='auto' to go on")

    def _begin_call(self, call: str) -> None:
        """Raise ConfigError if the simulation is over, or if a rank makes another call. Collective."""
        from ridgeline.parallel.allreduce import require_same_on_all_ranks

        self._refuse_if_over()
        advice = "every rank must make the same calls with the same arguments"
        require_same_on_all_ranks(self._communicator, {"the call": call}, advice)

    def _refuse_in_callback(self, call: str) -> None:
        if self._in_callback:
            raise ConfigError(
                f"{call}: a callback cannot end the simulation that calls it; call stop() there, and {call}() after"
            )

    def _advance(self, last: int | None) -> str | None:
        """Go on to a step, None for the run's last, with callbacks on the way; return why it is not reached."""
        self._asked_to_stop = False
        with self._signals():
            while self.step < (until := self.steps if last is None else min(last, self.steps)):
                due = min([until, *((self.step // every + 1) * every for every, _ in self._callbacks)])
                reason = self._run.advance(due)
                if reason is not None and not reason.startswith("SIG"):
                    return reason
                if reason is not None:
                    self._interrupt(reason)
                if self._call_back():
                    return "stopped"
            if (
                self._caught.received and self._communicator.size == 1
            ):  # else the ranks agree at the next step
                self._interrupt(signal.Signals(self._caught.received).name)
        return None

    def _call_back(self) -> bool:
        """Call what is due at this step; return whether it asked to stop, on any rank. Collective."""
        due = [callback for every, callback in self._callbacks if self.step % every == 0]
        outer, self._in_callback = self._in_callback, True
        try:
            for callback in due:
                callback(self)
        finally:
            self._in_callback = outer
        return bool(due) and any(self._communicator.allgather(self._asked_to_stop))

    def _interrupt(self, name: str) -> NoReturn:
        path = self.save()
        self._caught.forget()
        raise RunInterrupted(f"{name} stopped the run at step {self.step}; its checkpoint is {path}")

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Remember signals instead of dying of them. Only the main thread may."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        with self._caught:
            yield


def _drop(held: contextlib.ExitStack, process: int) -> None:
    """Give back what a simulation holds that nobody can reach any more, without a word to other ranks."""
    if os.getpid() == process:
        error = ResourceWarning("a Simulation was dropped before it was closed: it has no report")
        held.__exit__(ResourceWarning, error, None)
        warnings.warn(error, stacklevel=2)


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view of an array that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def _whole(call: str, steps: Any, least: int) -> int:
    """Return a number of steps, an integer of Python or NumPy; ConfigError for anything else."""
    with contextlib.suppress(TypeError):
        if not isinstance(steps, bool) and index(steps) >= least:
            return index(steps)
    raise ConfigError(f"{call}: got {steps!r}; need an integer of steps >= {least}")


def _require_mapping(call: str, values: Any) -> None:
    if not isinstance(values, Mapping):
        raise ConfigError(f"{call}: got {values!r}; need a mapping from names to values")
