"""When a run writes, saves and checks: pure arithmetic on step numbers."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Schedule:
    """The events of a run of `steps` steps. An interval of 0 means never."""

    steps: int
    output_every: int
    checkpoint_every: int
    check_every: int

    def _intervals(self) -> tuple[int, ...]:
        return tuple(n for n in (self.output_every, self.checkpoint_every, self.check_every) if n > 0)

    def next_event(self, step: int) -> int:
        """Return the first step after `step` at which something happens; at the latest the last step."""
        return min([self.steps, *((step // n + 1) * n for n in self._intervals())])

    def output_due(self, step: int) -> bool:
        """Say whether the state at `step` is written to the data set."""
        return self.output_every > 0 and step % self.output_every == 0

    def checkpoint_due(self, step: int) -> bool:
        """Say whether the state at `step` is saved: at every multiple, and at the end."""
        return self.checkpoint_every > 0 and (step % self.checkpoint_every == 0 or step == self.steps)

    def check_due(self, step: int) -> bool:
        """Say whether the state at `step` is searched for NaN: before it is written or saved, and in between."""
        return (
            step == self.steps
            or (self.check_every > 0 and step % self.check_every == 0)
            or self.output_due(step)
            or self.checkpoint_due(step)
        )
