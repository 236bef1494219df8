"""One run from settings to report.

The stages, in order: compare the memory needed with that free, decompose and allocate, compile, restore or
initialise, step (`loop`), measure the limits, report (`report`). Nothing here knows any physics.
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

from ridgeline.models.contract import Model, Variable
from ridgeline.models.memory_check import refuse_what_does_not_fit
from ridgeline.parallel.allreduce import errors_on_all_ranks, require_same_on_all_ranks
from ridgeline.parallel.communicator import in_turn_per_node
from ridgeline.runtime.console import Progress
from ridgeline.runtime.context import Context
from ridgeline.runtime.device_errors import explained
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.files import LastWrites
from ridgeline.runtime.machine import oversubscription, peak_memory
from ridgeline.runtime.provenance import start_time
from ridgeline.runtime.regions import Regions
from ridgeline.runtime.signals import SignalCatcher, StopRequest
from ridgeline.simulation.claim import Claim
from ridgeline.simulation.loop import TimeLoop
from ridgeline.simulation.meters import Meters
from ridgeline.simulation.options import RunOptions
from ridgeline.simulation.outputs import Outputs
from ridgeline.simulation.report import (
    Measured,
    describe_files,
    make_facts,
    make_provenance,
    make_report,
    write_report,
)
from ridgeline.simulation.restart import Restart
from ridgeline.simulation.schedule import Schedule
from ridgeline.simulation.trace import StepTrace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ridgeline.config.case import AnyCase, Plain

log = logging.getLogger(__name__)


@dataclass
class RunCaller:
    """Who started a run: when, the signals that it caught, and what it shows.

    started: time.monotonic() when the job began, so that the wall-clock limit includes imports.
    caught: the stop signals received so far; the caller has entered it.
    show: called on rank 0 with the facts of the header, before anything is compiled; and with those of the model
    once the grid is decomposed.
    show_end: called on rank 0 with the report, before an error says which of the last files could not be written.
    """

    progress: bool = True
    started: float = field(default_factory=time.monotonic)
    caught: SignalCatcher = field(default_factory=SignalCatcher)
    show: Callable[[dict[str, Any]], None] | None = None
    show_end: Callable[[dict[str, Any]], None] | None = None


class CaseRun:
    """One run in its stages: enter (claim, set up, compile, begin), `advance` as often as wanted, `finish`.

    case, model: the present ones; see `change`. changes: (step, key, value) of settings changed on the way.

    All methods are collective. They raise ConfigError, OutputError, CheckpointError, DivergedError and
    DecompositionError, all ranks together; and DeviceError on the rank whose GPU fails. Leaving the block gives the
    paths of the run free, finished or not.
    """

    def __init__(
        self,
        case: AnyCase,
        model: Model,
        context: Context,
        options: RunOptions | None = None,
        caller: RunCaller | None = None,
    ) -> None:
        """Touches nothing yet."""
        self.case, self.model, self.context = case, model, context
        self.changes: list[tuple[int, str, Plain]] = []
        self._options, self._caller = options or RunOptions(), caller or RunCaller()
        self._spent = Regions()
        self._writes = LastWrites()

    def __enter__(self) -> Self:
        with ExitStack() as held, explained():
            self._begin(held)
            self._held = held.pop_all()
        return self

    def __exit__(self, *problem: Any) -> None:
        self._held.__exit__(*problem)

    @property
    def step(self) -> int:
        """The present step."""
        return self._loop.step

    def _begin(self, held: ExitStack) -> None:
        """Bring the model to its first state, open the outputs, and write what is due then."""
        case, model, context, comm = self.case, self.model, self.context, self.context.comm
        options, caller, resume = self._options, self._caller, self._options.resume or "never"
        require_same_on_all_ranks(
            comm, {**case.flatten(), **asdict(options)}, "start every rank with the same settings"
        )
        claim = held.enter_context(Claim(case, comm, {"--json": options.json, "--trace": options.trace}))
        self._started_at, self._memory_before = start_time(), peak_memory()
        refuse_what_does_not_fit(case, comm)
        with self._spent("setup"):
            self._restart = Restart(case, model, comm)
            self._restart.check(resume)
            case = self.case = self._restart.settle(resume)
        facts = make_facts(case, model, context)
        _announce(facts, context, caller)
        with self._spent("setup"):
            model.setup(case, context)
        decomposition = model.describe()
        self._facts = facts | decomposition
        if caller.show is not None and comm.rank == 0:
            caller.show(decomposition)

        with self._spent("compile"):
            in_turn_per_node(comm, model.compile)

        with self._spent("setup"):
            first, position = self._restart.begin(resume)
            self._provenance = make_provenance(case, model, context, self._started_at)
            if options.overwrite and resume == "never":
                claim.discard()
            outputs = Outputs(case, model, comm, self._provenance, first, position)
            self._restart.set_aside()

        schedule = _schedule(case, outputs)
        self._meters = held.enter_context(Meters(comm))
        self._loop = TimeLoop(
            model,
            schedule,
            outputs,
            self._restart,
            context.regions,
            first,
            position is not None,
            self._sample,
        )
        self._trace = StepTrace(options.trace, context, self._writes) if options.trace else None
        self._stop = held.enter_context(StopRequest(comm, caller.caught, case.run.walltime, caller.started))
        self._progress = held.enter_context(
            Progress(first, schedule.steps, caller.progress and comm.rank == 0)
        )
        with self._spent("loop"):
            self._loop.begin()

    def advance(self, last: int) -> str | None:
        """Go on to step `last`; return why, if the ranks agreed to stop before: a signal, or the wall-clock limit."""
        with self._spent("loop"):
            return self._loop.advance(last, self._stop, self._progress)

    def _sample(self) -> None:
        """Look at the meters after a call of the model's `step`."""
        self._meters.sample()
        if self._trace is not None:
            self._trace.sample()

    def save(self) -> Path | None:
        """Leave a checkpoint of the present state, if there is none yet; return the newest."""
        with self._spent("loop"):
            self._loop.save()
        return self._restart.newest()

    def change(self, case: AnyCase, model: Model) -> None:
        """Go on with other settings, as a resume from the present state would, but in memory.

        model: a new one, not yet set up. The outputs go on where they are; their attributes tell the new settings.

        Raises ConfigError if the state of the new settings has another shape, dtype or time than the present one.
        """
        case = case.settled(self.case.identity())
        before, after = self.case.flatten(), case.flatten()
        with self._spent("setup"):
            model.setup(case, self.context)
        with self._spent("compile"):
            in_turn_per_node(self.context.comm, model.compile)
        with self._spent("setup"):
            _copy_state(self.model, model)
            time = self.model.time(self.step)
            model.restored(self.step, time)
            if (other := model.time(self.step)) != time:
                raise ConfigError(
                    f"these settings cannot be changed in a run: step {self.step}, which is at time {time:g}, would "
                    f"be at time {other:g} then; start a new run"
                )
            self.changes += [(self.step, key, after[key]) for key in after if after[key] != before.get(key)]
            last, self.case, self.model = self.model, case, model
            self._facts = make_facts(case, model, self.context) | model.describe()
            self._provenance = make_provenance(case, model, self.context, self._started_at)
            self._restart.follow(case, model)
            outputs = self._loop.outputs
            position = outputs.position()
            outputs.close()
            again = Outputs(case, model, self.context.comm, self._provenance, self.step, position)
            again.writes = outputs.writes
            self._loop.follow(model, _schedule(case, again), again)
            last.close()

    def set_fields(self, fields: Mapping[str, Any]) -> None:
        """Replace fields of the present state by this rank's part of others, by the names of outputs.

        Raises ConfigError if a field cannot be set, or has another shape than it has, or is not finite.
        """
        model = self.model
        known = model.settable()
        names = [name for name in known if name in fields]
        if unknown := [name for name in fields if name not in known]:
            raise ConfigError(
                f"set_fields: got {unknown[0]!r}; {model.name} takes {', '.join(known) or 'no fields'}"
            )
        layout = model.output_layout(names)
        with self._spent("setup"):
            with errors_on_all_ranks(self.context.comm):
                found = {one.name: _part(one, fields[one.name]) for one in layout if one.name in names}
            model.set_fields(found)
            self._loop.forget_saved()
            self.changes.append((self.step, "fields", list(names)))

    def finish(self, reason: str | None = None) -> dict[str, Any]:
        """End the run where it is and return its report, which is written too; reason: why it ends before its end.

        Says nothing of a trace or report that could not be written: `raise_failures` does.
        """
        with self._spent("loop"):
            self._loop.end()
        self._meters.stop()
        if self._trace is not None:
            self._trace.finish()
        # Before the limits are measured, which takes memory too.
        measured = Measured(
            self._spent.seconds("setup"),
            self._spent.seconds("compile"),
            self._spent.seconds("loop"),
            self._loop.clock,
            self._memory_before,
            peak_memory(),
            self._loop.steady_regions(),
        )
        report = self._report(measured, reason)
        self.model.close()
        return report

    def raise_failures(self) -> None:
        """Raise OutputError if the trace or a report could not be written."""
        self._writes.raise_failures()

    def _report(self, measured: Measured, reason: str | None) -> dict[str, Any]:
        case, model, comm, outputs = self.case, self.model, self.context.comm, self._loop.outputs
        report = make_report(case, model, self.context, self._facts, self._provenance, measured)
        report["run"] |= {
            "first_step": self._loop.first,
            "last_step": self.step,
            "time": model.time(self.step),
            "ended": reason or "all steps done",
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
        return report


def run_case(
    case: AnyCase,
    model: Model,
    context: Context,
    options: RunOptions | None = None,
    caller: RunCaller | None = None,
) -> dict[str, Any]:
    """Run `case` to its last step, its wall-clock limit or a signal, and return the run report. Collective.

    Raises what `CaseRun` does; all ranks raise together.
    """
    caller = caller or RunCaller()
    with CaseRun(case, model, context, options, caller) as run:
        report = run.finish(run.advance(case.run.steps))
        if caller.show_end is not None and context.comm.rank == 0:
            caller.show_end(report)
        run.raise_failures()
        return report


def _schedule(case: AnyCase, outputs: Outputs) -> Schedule:
    return Schedule(
        case.run.steps, case.checkpoint.every, case.run.check_every, tuple(outputs.recorders.values())
    )


def _part(layout: Variable, values: Any) -> NDArray[Any]:
    """Return a copy of this rank's part of a field, as `layout` says; ConfigError if it is none."""
    shape, dtype = tuple(layout.shape_local), np.dtype(layout.dtype)
    try:
        given = np.asarray(values)
    except ValueError:
        given = np.array(None)
    if given.shape != shape or not np.can_cast(given.dtype, dtype, "same_kind"):
        raise ConfigError(
            f"set_fields: {layout.name} has shape {list(given.shape)} and dtype {given.dtype}; need this rank's part "
            f"as `fields` returns it, of shape {list(shape)} and dtype {dtype}"
        )
    with np.errstate(over="ignore"):
        part = given.astype(dtype)
    if not np.isfinite(part).all():
        raise ConfigError(f"set_fields: {layout.name} holds NaN or infinity; need finite numbers")
    return part


def _copy_state(source: Model, target: Model) -> None:
    """Copy the state of a model into another that is set up alike; ConfigError if it is not."""
    present, new = source.state(), target.state()
    for name in {**present, **new}:
        old, made = present.get(name), new.get(name)
        if (
            old is None
            or made is None
            or (old.shape_local, old.local.dtype) != (made.shape_local, made.local.dtype)
        ):
            raise ConfigError(
                f"these settings cannot be changed in a run: the state has another {name} then; start a new run"
            )
    for name, array in new.items():
        array.local[...] = present[name].local


def _announce(facts: dict[str, Any], context: Context, caller: RunCaller) -> None:
    """Show the header, and warn of more threads than cores, on rank 0."""
    if context.comm.rank:
        return
    if caller.show is not None:
        caller.show(facts)
    crowded = oversubscription(facts["ranks_on_node"], context.threads, facts["cores"])
    if crowded:
        log.warning("%s", crowded)
