"""The time loop of every run: it steps the model and, between steps, writes, saves and looks for NaN when due."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from ridgeline.config.fields import MOST_COUNT
from ridgeline.config.intervals import NEVER, ROUNDING, Interval, Moment
from ridgeline.models.contract import Model, Region
from ridgeline.models.recorders import Recorder
from ridgeline.models.time_steps import COUNTED
from ridgeline.runtime.console import Progress
from ridgeline.runtime.device_errors import device_errors_explained
from ridgeline.runtime.errors import DivergedError, full_stop, sentence
from ridgeline.runtime.regions import Regions
from ridgeline.runtime.signals import StopRequest
from ridgeline.simulation.outputs import Outputs
from ridgeline.simulation.restart import Restart
from ridgeline.simulation.step_times import StepClock

if TYPE_CHECKING:
    from ridgeline.config.case import AnyCase


@dataclass(frozen=True)
class Horizon:
    """The moment before which nothing happens in a run.

    step: the next step at which something does; met: the next model time, which is met exactly; passed: the next
    model time of which the first step after it counts; wall: the next second of the clock; longest: no step is
    longer, NaN if nothing is known. All but the last are infinite where there is none.
    """

    step: float
    met: float
    passed: float
    wall: float
    longest: float

    def includes(self, now: Moment) -> bool:
        """Return whether nothing happens at a moment. Where that is in doubt by rounding, it does not."""
        nearly = 1.0 - 4 * ROUNDING
        return (
            now.step < self.step
            and now.time < self.met * nearly
            and now.time < self.passed * nearly
            and now.wall < self.wall * nearly
        )

    def stride(self, now: Moment) -> tuple[int, float]:
        """Return how many steps a call of the model's `step` may make, and the model time that it must meet."""
        most = min(self.step - now.step, MOST_COUNT)
        if self.passed < math.inf and not math.isnan(self.longest):
            most = min(most, max(1, math.ceil((self.passed - now.time) / self.longest - COUNTED)))
        return int(most), self.met


@dataclass(frozen=True)
class Schedule:
    """The moments at which a run ends, writes, saves and looks for NaN. All methods are pure functions of moments.

    Attributes
    ----------
    steps, end_time
        The last step and the model time of the end; None where there is no such limit.
    checkpoint, saves_end
        The interval of checkpoints, and whether the last state is saved.
    check
        The steps between looks for NaN.
    recorders
        What the run writes.
    align
        Whether the end and the model times of recorders are met exactly.
    longest
        No step is longer, model time; NaN if nothing is known. A call of `step` does not pass a time that is not
        met exactly by more than a step then.
    steady
        The largest rate of change of a steady state, at which the run ends; None if it does not.
    """

    steps: int | None = None
    end_time: float | None = None
    checkpoint: Interval = NEVER
    saves_end: bool = False
    check: Interval = NEVER
    recorders: Collection[Recorder] = ()
    align: bool = True
    longest: float = math.nan
    steady: float | None = None

    @classmethod
    def of(cls, case: AnyCase, recorders: Collection[Recorder]) -> Self:
        """Return the schedule of a case."""
        run, checkpoint = case.run, case.checkpoint
        return cls(
            run.steps,
            run.end_time,
            checkpoint.interval(),
            checkpoint.saves_end,
            Interval(run.check_every),
            recorders,
            case.output.align,
            case.step_length() if checkpoint.every_time or not case.output.align else math.nan,
            run.steady_rate(),
        )

    def ends(self, now: Moment) -> bool:
        """Return whether the run has reached its last step or its end."""
        return (self.steps is not None and now.step >= self.steps) or self.reaches(now, self.end_time)

    @staticmethod
    def reaches(now: Moment, time: float | None) -> bool:
        """Return whether a model time, if there is one, is reached, but for rounding."""
        return time is not None and (now.time >= time or math.isclose(now.time, time, rel_tol=1e-12))

    def horizon(self, now: Moment, last: int | None = None, end: float | None = None) -> Horizon:
        """Return the moment before which nothing happens. last, end: a step and a model time to stop at."""
        step, time, wall = now
        recorded = [interval for recorder in self.recorders for interval in recorder.intervals]
        intervals = [*recorded, self.checkpoint]
        steps: list[float] = [limit for limit in (last, self.steps) if limit is not None]
        steps += [every.next_step(step) for every in intervals if every.steps]
        ends = [limit for limit in (end, self.end_time) if limit is not None]
        met = min([*ends, *(every.next_time(time) for every in recorded)], default=math.inf)
        passed = self.checkpoint.next_time(time)
        return Horizon(
            min(*steps, self._before_check(step), math.inf),
            met if self.align else math.inf,
            passed if self.align else min(passed, met),
            min((every.next_wall(wall) for every in intervals), default=math.inf),
            self.longest,
        )

    def _before_check(self, step: int) -> float:
        """Return the step before which a call of `step` ends because of a look at the state.

        The rate of change is that of a single step.
        """
        check = self.check.next_step(step)
        return check if self.steady is None or check - step <= 1 else check - 1

    def checkpoint_due(self, before: Moment, now: Moment) -> bool:
        """Return whether the present state is saved. before: the moment before the last step."""
        return self.checkpoint.due(before, now) or (self.saves_end and self.ends(now))

    def check_due(self, before: Moment, now: Moment) -> bool:
        """Return whether the present state is searched for NaN: before it is written or saved, and in between.

        Some outputs, such as a row of the time series, are written without a search (`Recorder.search`).
        """
        return (
            self.ends(now)
            or self.check.due(before, now)
            or self.checkpoint_due(before, now)
            or any(recorder.search and recorder.due(before, now) for recorder in self.recorders)
        )


@dataclass
class TimeLoop:
    """Advances a model from step `first` on: call `begin` once, `advance` as often as wanted, then `end`.

    `sample` is called after every call of the model's `step`, to read meters.
    """

    model: Model
    schedule: Schedule
    outputs: Outputs
    restart: Restart
    regions: Regions
    first: int
    resumed: bool
    sample: Callable[[], None] = lambda: None

    def begin(self) -> None:
        """Write the initial state if the run begins at step 0. Collective. Raises OutputError on all ranks."""
        self.regions.reset()
        self.clock = StepClock(self.regions, self.model.phases)
        self.step = self.first  # the present one
        self.seconds = 0.0  # of the clock of rank 0, about a step ago
        self.steady = False  # whether the state was found steady
        self._first_call: dict[str, Region] = {}
        self._checked = self.first
        self._saved = self.first if self.resumed else None
        if self.first == 0:
            with self.regions("output"):
                self.outputs.write_initial()

    @property
    def now(self) -> Moment:
        """The present moment."""
        return Moment(self.step, self.model.time(self.step), self.seconds)

    @property
    def complete(self) -> bool:
        """Whether nothing is left to do: the last step, the end or a steady state is reached."""
        return self.steady or self.schedule.ends(self.now)

    def reaches(self, last: float | None, until: float | None) -> bool:
        """Return whether a step or a model time is reached, or else whether nothing is left to do."""
        return (
            (last is not None and self.step >= last)
            or self.complete
            or self.schedule.reaches(self.now, until)
        )

    def advance(
        self, stop: StopRequest, progress: Progress, last: int | None = None, until: float | None = None
    ) -> str | None:
        """Step, write, save and check to the end, or until the ranks agree to stop; then return the reason.

        last, until: a step and a model time at which to return before. Collective.

        Raises DivergedError, OutputError or CheckpointError on all ranks. A GPU that fails raises DeviceError on its
        rank, with the last checkpoint in the message.
        """
        with device_errors_explained(self._describe_checkpoint):
            reason = self._advance(stop, progress, last, until)
            progress.pause(self.step, self.now.time)
            return reason

    def _advance(
        self, stop: StopRequest, progress: Progress, last: int | None, end: float | None
    ) -> str | None:
        now, callbacks = self.now, self.outputs.callbacks
        while not self.reaches(last, end):
            horizon, something_happens = self.schedule.horizon(now, last, end), False
            while not something_happens:
                reason = callbacks.take_reason() or stop.poll()
                if reason is not None:
                    return reason
                before, now = now, self._step(now, horizon, stop)
                something_happens = not horizon.includes(now)
                if something_happens:
                    self._record(before, now)
                progress.update(now.step, now.time)
                self.sample()
        return callbacks.take_reason()

    def _step(self, now: Moment, horizon: Horizon, stop: StopRequest) -> Moment:
        """Let the model make a step or a few, and return the moment after them."""
        is_first_call = not self.clock.first_steps
        most, until = horizon.stride(now)
        try:
            with self.clock:
                steps = self.model.step(most, until)
        except DivergedError as problem:
            raise DivergedError(f"{full_stop(str(problem))} {self._describe_checkpoint()}") from problem
        self.step += steps
        self.seconds = stop.seconds
        self.clock.record(self.step, steps)
        if is_first_call:
            self._first_call = {name: replace(region) for name, region in self.model.regions().items()}
        return self.now

    def end(self) -> None:
        """Save a checkpoint if the run ends early, and close the outputs. Collective. Raises as `advance` does."""
        if not self.complete:
            self.save()
        with self.regions("output"):
            self.outputs.close()

    def describe_end(self) -> str:
        """Say why a run that nothing stopped has ended."""
        if self.steady:
            return "steady state"
        steps = self.schedule.steps
        return "all steps done" if steps is not None and self.step >= steps else "end time reached"

    def save(self) -> None:
        """Save a checkpoint of the current state unless there is one. Collective. Raises as `advance` does."""
        if self._saved != self.step:
            with device_errors_explained(self._describe_checkpoint), self.regions("checkpoint"):
                self._refuse_nonfinite(self.step)
                self._save(self.step)

    def forget_saved(self) -> None:
        """Let the next `save` write even if there is a checkpoint of this step, because the state has changed."""
        self._saved = None

    def follow(self, model: Model, schedule: Schedule, outputs: Outputs) -> None:
        """Continue with another model that is at the current step and has the same phases, and with its outputs."""
        self.model, self.schedule, self.outputs = model, schedule, outputs
        self.steady = False
        self._first_call = {}
        self.forget_saved()

    def steady_regions(self) -> dict[str, Region]:
        """Return the model's regions on this rank without the first call of `step`, unless that is the only one."""
        regions = {}
        for name, region in self.model.regions().items():
            first = self._first_call.get(name, Region()) if self.clock.steady_steps else Region()
            regions[name] = Region(
                region.seconds - first.seconds,
                region.flops - first.flops,
                region.bytes - first.bytes,
                region.calls - first.calls,
            )
        return regions

    def _record(self, before: Moment, now: Moment) -> None:
        """Check, write and save what is due at a moment. before: the moment before the last step."""
        schedule, step = self.schedule, now.step
        if schedule.check_due(before, now):
            self._refuse_nonfinite(step)
        names = self.outputs.due(before, now)
        if schedule.steady is not None and schedule.check.due(before, now) and not schedule.ends(now):
            self.steady = self.model.rate_of_change() <= schedule.steady
            names = list(self.outputs.recorders) if self.steady else names
        if names:
            with self.regions("output"):
                self.outputs.write(step, names)
        if schedule.checkpoint_due(before, now) or (self.steady and schedule.saves_end):
            with self.regions("checkpoint"):
                self._save(step)

    def _save(self, step: int) -> None:
        self.restart.save(step, self.outputs.position())
        self._saved = step

    def _refuse_nonfinite(self, step: int) -> None:
        where = self.model.locate_nonfinite()
        if where is None:
            self._checked = step
            return
        first = self._checked + 1
        when = f"at step {step}" if first == step else f"between step {first} and step {step}"
        raise DivergedError(
            f"the fields stopped being finite {when}: {where} at step {step}. {self._describe_checkpoint()} "
            f"{sentence(self.model.advice)}"
        )

    def _describe_checkpoint(self) -> str:
        """Say in an error message which checkpoint a new run can continue from."""
        newest = self.restart.newest()
        return f"The last good checkpoint is {newest}." if newest else "No checkpoint was written before."
