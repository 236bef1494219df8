"""How long a device works at what: events beside the work on a stream, read when the stream is through."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba import cuda

from ridgeline.runtime.devices import simulated


class DeviceClock:
    """Adds up the device's seconds between the begin and the end of pieces of work on one stream.

    seconds: by name, of what `collect` has read. Simulated devices take no time.
    """

    def __init__(self, stream: Any, names: tuple[str, ...]) -> None:
        self._stream = stream
        self.seconds = dict.fromkeys(names, 0.0)
        self._free: list[tuple[Any, Any]] = []
        self._open: list[tuple[str, tuple[Any, Any]]] = []

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Time what is put on the stream meanwhile."""
        pair = self._free.pop() if self._free else (cuda.event(), cuda.event())
        pair[0].record(self._stream)
        yield
        pair[1].record(self._stream)
        self._open.append((name, pair))

    def collect(self) -> None:
        """Read what was timed; the stream must have been synchronised since."""
        for name, pair in self._open:
            if not simulated():
                self.seconds[name] += pair[0].elapsed_time(pair[1]) / 1000  # milliseconds
            self._free.append(pair)
        self._open.clear()

    def reset(self) -> None:
        """Begin to count anew."""
        self.seconds = dict.fromkeys(self.seconds, 0.0)
