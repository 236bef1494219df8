"""A device whose time passes when a test says so, and whose events note it."""

import pytest

from ridgeline.jit import cuda_clock


class DeviceTime:
    """now: its seconds so far; made: events that were asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let clocks of streams read it. No device is needed."""
        self.now, self.made = 0.0, 0
        monkeypatch.setattr(cuda_clock.cuda, "event", self._event)
        monkeypatch.setattr(cuda_clock.cuda, "synchronize", lambda: None)
        monkeypatch.setattr(cuda_clock, "simulated", lambda: False)

    def _event(self) -> "NotedEvent":
        self.made += 1
        return NotedEvent(self)


class NotedEvent:
    """An event as those of numba-cuda are."""

    def __init__(self, of: DeviceTime) -> None:
        self._of, self._at = of, float("nan")

    def record(self, stream: object = 0) -> None:
        self._at = self._of.now

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, end: "NotedEvent") -> float:
        """Return milliseconds."""
        return 1000 * (end._at - self._at)
