"""How long a device spends on each piece of work: events on its stream, read when the stream has finished."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from numba import cuda

from ridgeline.runtime.devices import simulated


class _Piece(NamedTuple):
    """A finished piece of work on a stream: its name, that of the piece around it, and its two events."""

    name: str
    around: str | None
    begin: Any
    end: Any


class DeviceClock:
    """Adds up the device's seconds between the begin and the end of pieces of work on one stream.

    Pieces may be nested; each second belongs to the innermost one, as in `runtime.regions`. Time in which the stream
    waits, for the host or another stream, counts too. A piece takes two events, which are reused once they have been
    read.

    seconds: by name, what `collect` has read so far. Simulated devices take no time.
    """

    def __init__(self, stream: Any, names: Iterable[str] = ()) -> None:
        """Start with 0 seconds for `names`; other names are added with their first piece."""
        self._stream = stream
        self.seconds: dict[str, float] = defaultdict(float, dict.fromkeys(names, 0.0))
        self._free: list[tuple[Any, Any]] = []
        self._open: list[str] = []
        self._timed: list[_Piece] = []

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Time the work that the block puts on the stream."""
        begin, end = self._free.pop() if self._free else (cuda.event(), cuda.event())
        around = self._open[-1] if self._open else None
        begin.record(self._stream)
        self._open.append(name)
        try:
            yield
        finally:
            self._open.pop()
            end.record(self._stream)
            self._timed.append(_Piece(name, around, begin, end))

    def collect(self) -> None:
        """Read the timed pieces. The stream must have been synchronised since, and no piece may be open."""
        for name, around, begin, end in self._timed:
            if not simulated():
                seconds = begin.elapsed_time(end) / 1000  # milliseconds
                self.seconds[name] += seconds
                if around is not None:
                    self.seconds[around] -= seconds
            self._free.append((begin, end))
        self._timed.clear()

    def reset(self) -> None:
        """Set all seconds to 0."""
        for name in self.seconds:
            self.seconds[name] = 0.0
