"""The time loop of every run: it steps the model and, between steps, writes, saves and looks for NaN when due."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from ridgeline.models.contract import Model, Region
from ridgeline.models.recorders import Recorder
from ridgeline.runtime.console import Progress
from ridgeline.runtime.device_errors import device_errors_explained
from ridgeline.runtime.errors import DivergedError, full_stop, sentence
from ridgeline.runtime.regions import Regions
from ridgeline.runtime.signals import StopRequest
from ridgeline.simulation.outputs import Outputs
from ridgeline.simulation.restart import Restart
from ridgeline.simulation.step_times import StepClock


@dataclass(frozen=True)
class Schedule:
    """The steps at which a run of `steps` steps writes, saves and looks for NaN. An interval of 0 means never."""

    steps: int
    checkpoint_every: int
    check_every: int
    recorders: Collection[Recorder] = ()

    def next_event(self, step: int) -> int:
        """Return the first step after `step` at which something happens; at the latest the last step."""
        intervals = (self.checkpoint_every, self.check_every)
        events = [(step // n + 1) * n for n in intervals if n > 0]
        return min([self.steps, *events, *(recorder.next(step) for recorder in self.recorders)])

    def checkpoint_due(self, step: int) -> bool:
        """Return whether the state at `step` is saved: at every multiple, and at the end."""
        return self.checkpoint_every > 0 and (step % self.checkpoint_every == 0 or step == self.steps)

    def check_due(self, step: int) -> bool:
        """Return whether the state at `step` is searched for NaN: before it is written or saved, and in between.

        Some outputs, such as a row of the time series, are written without a search (`Recorder.search`).
        """
        return (
            step == self.steps
            or (self.check_every > 0 and step % self.check_every == 0)
            or self.checkpoint_due(step)
            or any(recorder.search and recorder.due(step) for recorder in self.recorders)
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
        self._first_call: dict[str, Region] = {}
        self._checked = self.first
        self._saved = self.first if self.resumed else None
        if self.first == 0:
            with self.regions("output"):
                self.outputs.write_initial()

    def advance(self, last: int, stop: StopRequest, progress: Progress) -> str | None:
        """Step, write, save and check up to step `last`, or until the ranks agree to stop; then return the reason.

        Collective. Raises DivergedError, OutputError or CheckpointError on all ranks. A GPU that fails raises
        DeviceError on its rank, with the last checkpoint in the message.
        """
        with device_errors_explained(self._describe_checkpoint):
            return self._advance(last, stop, progress)

    def _advance(self, last: int, stop: StopRequest, progress: Progress) -> str | None:
        while self.step < last:
            reason = stop.poll()
            if reason is not None:
                return reason
            is_first_call = not self.clock.first_steps
            due = min(last, self.schedule.next_event(self.step))
            try:
                with self.clock:
                    steps = self.model.step(due - self.step)
            except DivergedError as problem:
                raise DivergedError(f"{full_stop(str(problem))} {self._describe_checkpoint()}") from problem
            self.step += steps
            self.clock.record(self.step, steps)
            if is_first_call:
                self._first_call = {name: replace(region) for name, region in self.model.regions().items()}
            self._record(self.step)
            progress.update(self.step)
            self.sample()
        return None

    def end(self) -> None:
        """Save a checkpoint if the run ends early, and close the outputs. Collective. Raises as `advance` does."""
        if self.step < self.schedule.steps:
            self.save()
        with self.regions("output"):
            self.outputs.close()

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

    def _record(self, step: int) -> None:
        """Check, write and save what is due at `step`."""
        if self.schedule.check_due(step):
            self._refuse_nonfinite(step)
        if self.outputs.due(step):
            with self.regions("output"):
                self.outputs.write(step)
        if self.schedule.checkpoint_due(step):
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
