"""The one time loop: steps, and between them outputs, checkpoints and the search for NaN, each at its steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ridgeline.models.contract import Model, Region
from ridgeline.runtime.console import Progress
from ridgeline.runtime.device_errors import explained
from ridgeline.runtime.errors import DivergedError
from ridgeline.runtime.regions import Regions
from ridgeline.runtime.signals import StopRequest
from ridgeline.simulation.outputs import Outputs
from ridgeline.simulation.restart import Restart
from ridgeline.simulation.schedule import Schedule
from ridgeline.simulation.step_times import StepClock


@dataclass
class TimeLoop:
    """Advances a model from step `first` on, as far as each call of `advance` says: `begin`, `advance` ..., `end`.

    sample: called after every call of the model's `step`, to look at meters.
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
        """Write the first state, if the run begins with it. Collective. Raises OutputError on all ranks."""
        self.regions.reset()
        self.clock = StepClock(self.regions, self.model.phases)
        self.step = self.first  # the present one
        self._warm: dict[str, Region] = {}
        self._checked = self.first
        self._saved = self.first if self.resumed else None
        if self.first == 0:
            with self.regions("output"):
                self.outputs.write_initial()

    def advance(self, last: int, stop: StopRequest, progress: Progress) -> str | None:
        """Step, write, save and check up to step `last`, or until the ranks agree to stop: return why. Collective.

        Raises DivergedError, OutputError, CheckpointError; all ranks raise together. A GPU that fails raises
        DeviceError on its rank, with the last checkpoint.
        """
        with explained(self._kept):
            return self._advance(last, stop, progress)

    def _advance(self, last: int, stop: StopRequest, progress: Progress) -> str | None:
        while self.step < last:
            reason = stop.poll()
            if reason is not None:
                return reason
            begins = not self.clock.first_steps
            due = min(last, self.schedule.next_event(self.step))
            try:
                self.step += self.clock.time(self.model.step, self.step, due - self.step)
            except DivergedError as problem:
                raise DivergedError(f"{problem}; {self._kept()}") from problem
            if begins:
                self._warm = {name: replace(region) for name, region in self.model.regions().items()}
            self._record(self.step)
            progress.update(self.step)
            self.sample()
        return None

    def end(self) -> None:
        """Leave a checkpoint where the run ends early, and finish the outputs. Collective. Raises as `advance`."""
        if self.step < self.schedule.steps:
            self.save()
        with self.regions("output"):
            self.outputs.close()

    def save(self) -> None:
        """Leave a checkpoint of the present state, unless there is one. Collective. Raises as `advance`."""
        if self._saved != self.step:
            with explained(self._kept), self.regions("checkpoint"):
                self._refuse_nonfinite(self.step)
                self._save(self.step)

    def forget_saved(self) -> None:
        """Let the next checkpoint be written even if there is one of this step: the state is another one now."""
        self._saved = None

    def follow(self, model: Model, schedule: Schedule, outputs: Outputs) -> None:
        """Go on with another model of the same phases, which is at the present step; and what belongs to it."""
        self.model, self.schedule, self.outputs = model, schedule, outputs
        self._warm = {}
        self.forget_saved()

    def steady_regions(self) -> dict[str, Region]:
        """Return the model's regions on this rank without the first call of `step`; with it if there was no other."""
        found = {}
        for name, region in self.model.regions().items():
            first = self._warm.get(name) if self.clock.steady_steps else None
            first = first or Region()
            found[name] = Region(
                region.seconds - first.seconds,
                region.flops - first.flops,
                region.bytes - first.bytes,
                region.calls - first.calls,
            )
        return found

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
            f"the fields stopped being finite {when}: {where} at step {step}; {self._kept()}; {self.model.advice}"
        )

    def _kept(self) -> str:
        """Say which checkpoint there is to go on from."""
        kept = self.restart.newest()
        return f"the last good checkpoint is kept ({kept})" if kept else "no checkpoint was written before"
