"""The one time loop: steps, and between them outputs, checkpoints and the search for NaN, each at its steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ridgeline.models.contract import Model, Region
from ridgeline.runtime.errors import DivergedError
from ridgeline.runtime.progress import Progress
from ridgeline.runtime.regions import Regions
from ridgeline.runtime.signals import StopRequest
from ridgeline.simulation.outputs import Outputs
from ridgeline.simulation.restart import Restart
from ridgeline.simulation.schedule import Schedule
from ridgeline.simulation.step_clock import StepClock


@dataclass(frozen=True)
class Ended:
    """How the loop ended: at which step, and why."""

    step: int
    reason: str


@dataclass
class TimeLoop:
    """Advances a model from `first` to the last step, a signal or the wall-clock limit.

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

    def run(self, stop: StopRequest, progress: Progress) -> Ended:
        """Step, write, save and check, and leave a checkpoint where the run ends early. Collective.

        Raises DivergedError, OutputError, CheckpointError; all ranks raise together.
        """
        self.regions.reset()
        self.clock = StepClock(self.regions, self.model.phases)
        self._warm: dict[str, Region] = {}
        self._checked = self.first
        self._saved = self.first if self.resumed else None
        step, reason = self._advance(stop, progress)
        if step < self.schedule.steps and self._saved != step:
            with self.regions("checkpoint"):
                self._refuse_nonfinite(step)
                self._save(step)
        with self.regions("output"):
            self.outputs.close()
        return Ended(step, reason)

    def _advance(self, stop: StopRequest, progress: Progress) -> tuple[int, str]:
        step, steps = self.first, self.schedule.steps
        if step == 0:
            with self.regions("output"):
                self.outputs.write_initial()
        while step < steps:
            reason = stop.poll()
            if reason is not None:
                return step, reason
            begins = not self.clock.first_steps
            try:
                step += self.clock.time(self.model.step, step, self.schedule.next_event(step) - step)
            except DivergedError as problem:
                raise DivergedError(f"{problem}; {self._kept()}") from problem
            if begins:
                self._warm = {name: replace(region) for name, region in self.model.regions().items()}
            self._record(step)
            progress.update(step)
            self.sample()
        return step, "all steps done"

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
        raise DivergedError(
            f"the fields stopped being finite between step {self._checked + 1} and step {step}: {where} at step "
            f"{step}; {self._kept()}; {self.model.advice}"
        )

    def _kept(self) -> str:
        """Say which checkpoint there is to go on from."""
        kept = self.restart.newest()
        return f"the last good checkpoint is kept ({kept})" if kept else "no checkpoint was written before"
