"""When a run writes, saves and checks: pure arithmetic on step numbers."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Schedule:
    """The events of a run of `steps` steps. An interval of 0 means never."""

    steps: int
    output_every: int
    checkpoint_every: int
    check_every: int
    series_every: int = 0
    spectra_every: int = 0
    further_every: tuple[int, ...] = ()

    def next_event(self, step: int) -> int:
        """Return the first step after `step` at which something happens; at the latest the last step."""
        intervals = (
            self.output_every,
            self.checkpoint_every,
            self.check_every,
            self.series_every,
            self.spectra_every,
            *self.further_every,
        )
        return min([self.steps, *((step // n + 1) * n for n in intervals if n > 0)])

    def output_due(self, step: int) -> bool:
        """Say whether the fields at `step` are written to the data set."""
        return is_multiple(step, self.output_every)

    def series_due(self, step: int) -> bool:
        """Say whether `step` is a row of the time series."""
        return is_multiple(step, self.series_every)

    def spectra_due(self, step: int) -> bool:
        """Say whether the spectra at `step` are written."""
        return is_multiple(step, self.spectra_every)

    def checkpoint_due(self, step: int) -> bool:
        """Say whether the state at `step` is saved: at every multiple, and at the end."""
        return self.checkpoint_every > 0 and (step % self.checkpoint_every == 0 or step == self.steps)

    def check_due(self, step: int) -> bool:
        """Say whether the state at `step` is searched for NaN: before it is written or saved, and in between.

        Not before a row of the time series, which may be due at every step and costs less than the search.
        """
        return (
            step == self.steps
            or is_multiple(step, self.check_every)
            or self.output_due(step)
            or self.spectra_due(step)
            or any(is_multiple(step, every) for every in self.further_every)
            or self.checkpoint_due(step)
        )


def is_multiple(step: int, interval: int) -> bool:
    """Say whether something that happens every `interval` steps, 0 being never, happens at `step`."""
    return interval > 0 and step % interval == 0
