"""One run from settings to report, for `ridgeline run` (run_on_ranks.py) and for Python (simulation.py).

The stages are, in this order: lock the paths, compare the memory needed with the memory that is free, decompose and
allocate, compile, restore or initialise, step (loop.py), measure the limits (limits.py) and report (report.py).
Nothing here knows any physics.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ridgeline.config.recorders import load_recorders
from ridgeline.models.contract import Model, Variable
from ridgeline.models.earlier_runs import remember_run
from ridgeline.models.memory_check import refuse_what_does_not_fit
from ridgeline.parallel.allreduce import errors_on_all_ranks, require_same_on_all_ranks
from ridgeline.parallel.communicator import compile_on_nodes
from ridgeline.runtime.console import Progress, open_log_file
from ridgeline.runtime.context import Context
from ridgeline.runtime.device_errors import device_errors_explained
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.files import LastWrites
from ridgeline.runtime.machine import oversubscription, peak_memory
from ridgeline.runtime.provenance import start_time
from ridgeline.runtime.regions import Regions
from ridgeline.runtime.signals import SignalCatcher, StopRequest
from ridgeline.simulation.callbacks import Callbacks
from ridgeline.simulation.loop import Schedule, TimeLoop
from ridgeline.simulation.meters import Meters, StepTrace
from ridgeline.simulation.output_paths import OutputLocks
from ridgeline.simulation.outputs import Outputs
from ridgeline.simulation.print_report import RunReport
from ridgeline.simulation.report import (
    Measured,
    describe_files,
    make_facts,
    make_provenance,
    make_report,
    write_report,
)
from ridgeline.simulation.restart import Restart
from ridgeline.simulation.run_options import RunOptions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ridgeline.config.case import AnyCase, Plain

log = logging.getLogger(__name__)


@dataclass
class RunCaller:
    """What the program that starts a run contributes: its start time, its signals, and how it shows the run.

    Attributes
    ----------
    progress
        Show the progress on stderr.
    started
        time.monotonic() when the job began, so that the wall-clock limit includes imports.
    signals
        The stop signals received so far. The caller has entered it.
    show
        Called on rank 0 with the facts of the header before anything is compiled, and again with those of the model
        once the grid is decomposed.
    show_end
        Called on rank 0 with the report, before an error says which of the last files could not be written.
    """

    progress: bool = True
    started: float = field(default_factory=time.monotonic)
    signals: SignalCatcher = field(default_factory=SignalCatcher)
    show: Callable[[dict[str, Any]], None] | None = None
    show_end: Callable[[dict[str, Any]], None] | None = None


class CaseRun:
    """One run in its stages: enter the block, call `advance` as often as wanted, then `finish`.

    Entering locks the paths of the run, sets up and compiles the model, and brings it to its first state. Leaving the
    block unlocks the paths, whether the run is finished or not. All methods are collective. They raise ConfigError,
    OutputError, CheckpointError, DivergedError and DecompositionError on all ranks, and DeviceError on the rank whose
    GPU fails.

    Attributes
    ----------
    case, model
        The current settings and model; `change` replaces them.
    changes
        (step, key, value) of the settings that were changed during the run.
    """

    def __init__(
        self,
        case: AnyCase,
        model: Model,
        context: Context,
        options: RunOptions | None = None,
        caller: RunCaller | None = None,
    ) -> None:
        """Nothing is touched before the block is entered."""
        self.case, self.model, self.context = case, model, context
        self.changes: list[tuple[int, str, Plain]] = []
        self._options, self._caller = options or RunOptions(), caller or RunCaller()
        self._regions = Regions()
        self._writes = LastWrites()

    def __enter__(self) -> Self:
        with ExitStack() as resources, device_errors_explained():
            self._begin(resources)
            self._resources = resources.pop_all()
        return self

    def __exit__(self, *problem: Any) -> None:
        self._resources.__exit__(*problem)

    @property
    def step(self) -> int:
        """The current step."""
        return self._loop.step

    def _begin(self, resources: ExitStack) -> None:
        """Bring the model to its first state, open the outputs, and write what is due then."""
        case, model, context, comm = self.case, self.model, self.context, self.context.comm
        options, caller, resume = self._options, self._caller, self._options.resume or "never"
        require_same_on_all_ranks(
            comm, {**case.flatten(), **asdict(options)}, "Start every rank with the same settings."
        )
        locks = resources.enter_context(
            OutputLocks(case, comm, {"--json": options.json, "--trace": options.trace, "--log": options.log})
        )
        if options.log is not None:
            open_log_file(options.log, comm.rank)
        self._started_at, self._memory_before = start_time(), peak_memory()
        refuse_what_does_not_fit(case, comm)
        with self._regions("setup"):
            self._restart = Restart(case, model, comm)
            self._restart.check(resume)
            case = self.case = self._restart.settle(resume)
            self._callbacks = Callbacks(case, comm)
            with errors_on_all_ranks(comm):
                load_recorders(case.recorder)
        facts = make_facts(case, model, context)
        if comm.rank == 0:
            if caller.show is not None:
                caller.show(facts)
            if warning := oversubscription(facts["ranks_on_node"], context.threads, facts["cores"]):
                log.warning("%s", warning)
        with self._regions("setup"):
            model.setup(case, context)
        decomposition = model.describe()
        self._facts = facts | decomposition
        if caller.show is not None and comm.rank == 0:
            caller.show(decomposition)

        with self._regions("compile"):
            compile_on_nodes(comm, model.compile)

        with self._regions("setup"):
            first, position = self._restart.set_first_state(resume)
            self._provenance = make_provenance(case, model, context, self._started_at)
            if options.overwrite and resume == "never":
                locks.discard()
            outputs = Outputs(case, model, comm, self._provenance, first, position, self._callbacks)
            self._restart.set_aside()

        schedule = Schedule.of(case, outputs.recorders.values())
        self._meters = resources.enter_context(Meters(comm))
        self._loop = TimeLoop(
            model=model,
            schedule=schedule,
            outputs=outputs,
            restart=self._restart,
            regions=context.regions,
            first=first,
            resumed=position is not None,
            sample=self._sample,
        )
        self._trace = StepTrace(options.trace, context, self._writes) if options.trace else None
        self._stop = resources.enter_context(
            StopRequest(comm, caller.signals, case.run.walltime, caller.started)
        )
        self._progress = resources.enter_context(
            Progress(
                first,
                case.run.steps,
                caller.progress and comm.rank == 0,
                model.time(first),
                case.run.end_time,
            )
        )
        with self._regions("loop"):
            self._loop.begin()

    @property
    def time(self) -> float:
        """The model time of the current state."""
        return self.model.time(self.step)

    @property
    def complete(self) -> bool:
        """Whether the run has reached its last step, its end or a steady state."""
        return self._loop.complete

    def reaches(self, last: int | None = None, until: float | None = None) -> bool:
        """Return whether a step or a model time is reached, or else whether the run is complete."""
        return self._loop.reaches(last, until)

    def advance(self, last: int | None = None, until: float | None = None) -> str | None:
        """Continue to the end, or return why the ranks agreed to stop earlier: a signal or the time limit.

        last, until: a step and a model time at which to return before the end.
        """
        with self._regions("loop"):
            return self._loop.advance(self._stop, self._progress, last, until)

    def _sample(self) -> None:
        """Read the meters after a call of the model's `step`."""
        self._meters.sample()
        if self._trace is not None:
            self._trace.sample()

    def save(self) -> Path | None:
        """Save a checkpoint of the current state unless there is one; return the newest."""
        with self._regions("loop"):
            self._loop.save()
        return self._restart.newest()

    def change(self, case: AnyCase, model: Model) -> None:
        """Continue with other settings, as a restart from the current state would, but in memory.

        `model` is a new one that is not yet set up. The outputs continue where they are, and their attributes get the
        new settings.

        Raises ConfigError if the new settings give the state another shape, dtype or time than it has.
        """
        case = case.settled(self.case.identity())
        before, after = self.case.flatten(), case.flatten()
        with self._regions("setup"):
            model.setup(case, self.context)
        with self._regions("compile"):
            compile_on_nodes(self.context.comm, model.compile)
        with self._regions("setup"):
            _copy_state(self.model, model)
            time = self.model.time(self.step)
            model.restored(self.step, time)
            if (new_time := model.time(self.step)) != time:
                raise ConfigError(
                    f"these settings cannot be changed during a run, because step {self.step}, which is at time "
                    f"{time:g}, would then be at time {new_time:g}. Start a new run."
                )
            self.changes += [(self.step, key, after[key]) for key in after if after[key] != before.get(key)]
            previous_model, self.case, self.model = self.model, case, model
            self._facts = make_facts(case, model, self.context) | model.describe()
            self._provenance = make_provenance(case, model, self.context, self._started_at)
            self._restart.follow(case, model)
            previous = self._loop.outputs
            position = previous.position()
            previous.close()
            outputs = Outputs(
                case, model, self.context.comm, self._provenance, self.step, position, self._callbacks
            )
            outputs.writes = previous.writes
            self._loop.follow(model, Schedule.of(case, outputs.recorders.values()), outputs)
            previous_model.close()

    def set_fields(self, fields: Mapping[str, Any]) -> None:
        """Replace fields of the current state, by the names of outputs; each rank gives its part.

        Raises ConfigError if a field cannot be set, has the wrong shape or dtype, or is not finite.
        """
        model = self.model
        settable = model.settable()
        names = [name for name in settable if name in fields]
        if unknown := [name for name in fields if name not in settable]:
            raise ConfigError(
                f"set_fields: {model.name} cannot set {unknown[0]!r}. It can set "
                f"{', '.join(settable) or 'no fields'}."
            )
        layout = model.output_layout(names)
        with self._regions("setup"):
            with errors_on_all_ranks(self.context.comm):
                parts = {
                    variable.name: _part(variable, fields[variable.name])
                    for variable in layout
                    if variable.name in names
                }
            model.set_fields(parts)
            self._loop.forget_saved()
            self.changes.append((self.step, "fields", list(names)))

    def finish(self, reason: str | None = None) -> RunReport:
        """End the run where it is, write its report and return it.

        `reason` says why the run ends before its last step. `raise_failures` tells whether the trace or the report
        could not be written.
        """
        with self._regions("loop"):
            self._loop.end()
        self._meters.stop()
        if self._trace is not None:
            self._trace.finish()
        measured = Measured(
            setup=self._regions.seconds("setup"),
            compile=self._regions.seconds("compile"),
            loop=self._regions.seconds("loop"),
            clock=self._loop.clock,
            memory_before=self._memory_before,
            # Read before the limits are measured, which takes memory too.
            memory_peak=peak_memory(),
            regions=self._loop.steady_regions(),
        )

        case, model, comm, outputs = self.case, self.model, self.context.comm, self._loop.outputs
        report = make_report(case, model, self.context, self._facts, self._provenance, measured)
        report["run"] |= {
            "first_step": self._loop.first,
            "last_step": self.step,
            "time": model.time(self.step),
            "ended": reason or self._loop.describe_end(),
            "complete": self._loop.complete,
        }
        if self.changes:
            report["changes"] = [
                {"step": step, "key": key, "value": value} for step, key, value in self.changes
            ]
        report |= self._meters.report(
            report["work"]["points"], report["steps"], report["work"]["bytes_memory"]
        )
        report["checkpoint"] = self._restart.figures()
        writes = {**outputs.writes, "checkpoints": self._restart.writes}
        report["writes"] = {kind: log.to_dict() for kind, log in writes.items() if log.count}
        report["files"] = outputs.files()
        if self._trace is not None:
            report["files"]["trace"] = self._trace.path
        report["written"] = describe_files(case, outputs, report["checkpoint"]["written"], comm)
        write_report(report, case, self._options.json, comm, self._writes)
        if comm.rank == 0:
            remember_run(case, report)
        model.close()
        self._callbacks.close()
        return report

    def raise_failures(self) -> None:
        """Raise OutputError if the trace or a report could not be written."""
        self._writes.raise_failures()


def run_case(
    case: AnyCase,
    model: Model,
    context: Context,
    options: RunOptions | None = None,
    caller: RunCaller | None = None,
) -> RunReport:
    """Run `case` to its last step, its wall-clock limit or a signal, and return the run report. Collective.

    Raises what `CaseRun` raises, on all ranks.
    """
    caller = caller or RunCaller()
    with CaseRun(case, model, context, options, caller) as run:
        report = run.finish(run.advance())
        if caller.show_end is not None and context.comm.rank == 0:
            caller.show_end(report)
        run.raise_failures()
        return report


def _part(layout: Variable, values: Any) -> NDArray[Any]:
    """Return a copy of this rank's part of a field. Raises ConfigError unless it is as `layout` says."""
    shape, dtype = tuple(layout.shape_local), np.dtype(layout.dtype)
    try:
        array = np.asarray(values)
    except ValueError:
        array = np.array(None)
    if array.shape != shape or not np.can_cast(array.dtype, dtype, "same_kind"):
        raise ConfigError(
            f"set_fields: {layout.name} has shape {list(array.shape)} and dtype {array.dtype}, but it must be this "
            f"rank's part as `fields` returns it, of shape {list(shape)} and dtype {dtype}."
        )
    with np.errstate(over="ignore"):
        part = array.astype(dtype)
    if not np.isfinite(part).all():
        raise ConfigError(
            f"set_fields: {layout.name} contains NaN or infinity, but all its numbers must be finite."
        )
    return part


def _copy_state(source: Model, target: Model) -> None:
    """Copy the state of one model into another. Raises ConfigError unless names, shapes and dtypes are equal."""
    before, after = source.state(), target.state()
    for name in {**before, **after}:
        old, new = before.get(name), after.get(name)
        if (
            old is None
            or new is None
            or (old.shape_local, old.local.dtype) != (new.shape_local, new.local.dtype)
        ):
            raise ConfigError(
                f"these settings cannot be changed during a run, because the shape or type of {name} in the state "
                "would change. Start a new run."
            )
    for name, array in after.items():
        array.local[...] = before[name].local
