"""The one time loop: steps, and between them outputs, checkpoints and the search for NaN, each at its steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ridgeline.models.contract import Model, Region, StepTimes
from ridgeline.runtime.errors import DivergedError
from ridgeline.runtime.progress import Progress
from ridgeline.runtime.regions import Regions
from ridgeline.runtime.signals import StopRequest
from ridgeline.simulation.outputs import Outputs
from ridgeline.simulation.restart import Restart
from ridgeline.simulation.schedule import Schedule


class StepClock:
    """Seconds of this rank's steps and of their phases, apart from everything between them.

    first: of the first call of `step`, which also warms caches and touches pages; steady: of the others. Steady
    steps are averaged, and the best one is kept, as the paper of the turbulence model reports it (Sec. 4.1).
    """

    STEP = "step"  # the region of what a step spends outside the model's own regions

    def __init__(self, regions: Regions, phases: Sequence[str]) -> None:
        self.first = self.steady = 0.0
        self.first_steps = self.steady_steps = 0
        self.best: StepTimes | None = None
        self._regions = regions
        self._names = tuple(phases)
        self._first_phases = [0.0] * len(phases)
        self._steady_phases = [0.0] * len(phases)

    def time(self, advance: Callable[[int], int], most: int) -> int:
        """Call `advance(most)`, which returns how many steps it did, and count its seconds."""
        begin, before = self._regions.total(), self._read()
        with self._regions(self.STEP):
            steps = advance(most)
        seconds = self._regions.total() - begin
        phases = [after - b for after, b in zip(self._read(), before)]
        if self.first_steps == 0:
            self.first, self.first_steps, self._first_phases = seconds, steps, phases
            return steps
        self.steady += seconds
        self.steady_steps += steps
        self._steady_phases = [a + b for a, b in zip(self._steady_phases, phases)]
        if self.best is None or seconds / steps < self.best.total:
            self.best = self._per_step(seconds, phases, steps)
        return steps

    def _read(self) -> list[float]:
        return [self._regions.seconds(name) for name in self._names]

    def _per_step(self, seconds: float, phases: Sequence[float], steps: int) -> StepTimes:
        named = {name: phase / steps for name, phase in zip(self._names, phases)}
        return StepTimes(seconds / steps, {**named, "other": (seconds - sum(phases)) / steps})

    def mean(self) -> StepTimes | None:
        """Return the mean of the steady steps, of the first call if there was no other, None without steps."""
        if self.steady_steps:
            return self._per_step(self.steady, self._steady_phases, self.steady_steps)
        return self._per_step(self.first, self._first_phases, self.first_steps) if self.first_steps else None


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
            try:
                step += self.clock.time(self.model.step, self.schedule.next_event(step) - step)
            except DivergedError as problem:
                raise DivergedError(f"{problem}; {self._kept()}") from problem
            if not self.clock.steady_steps:
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
