"""When a run writes, saves and looks for NaN: pure arithmetic on step numbers."""

from collections.abc import Collection
from dataclasses import dataclass

from ridgeline.models.recorders import Recorder


@dataclass(frozen=True)
class Schedule:
    """The events of a run of `steps` steps. An interval of 0 means never."""

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
        """Say whether the state at `step` is saved: at every multiple, and at the end."""
        return self.checkpoint_every > 0 and (step % self.checkpoint_every == 0 or step == self.steps)

    def check_due(self, step: int) -> bool:
        """Say whether the state at `step` is searched for NaN: before it is written or saved, and in between.

        Not before what is written without a search (`Recorder.search`), as a row of the time series.
        """
        return (
            step == self.steps
            or (self.check_every > 0 and step % self.check_every == 0)
            or self.checkpoint_due(step)
            or any(recorder.search and recorder.due(step) for recorder in self.recorders)
        )
