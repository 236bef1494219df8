"""When each stream of a GPU was at work, on the clock of the host beside it.

Events before and after a span of work on a stream give its times on the device. When the device is idle, an event is
recorded and the host's clock is read. So streams and host are on one axis, to some microseconds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba import cuda

from ridgeline.runtime.regions import Span, Timeline


class StreamTrace:
    """Spans of work on the streams of one rank's device, a source of a timeline.

    Making it waits for the device. Recording an event costs a launch, so that traced steps take some microseconds
    longer.
    """

    def __init__(self, timeline: Timeline) -> None:
        cuda.synchronize()
        self._start = cuda.event()
        self._start.record()
        self._start.synchronize()
        self._host_start = time.perf_counter()
        self._on_streams: list[tuple[str, str, Any, Any]] = []
        self.timeline = timeline
        timeline.sources.append(self.spans)

    @contextmanager
    def on_stream(self, name: str, lane: str, stream: Any) -> Iterator[None]:
        """Record what is put on a stream meanwhile, under its name; lane: of the stream."""
        begin, end = cuda.event(), cuda.event()
        begin.record(stream)
        yield
        end.record(stream)
        self._on_streams.append((name, lane, begin, end))

    def spans(self) -> Iterator[Span]:
        """Yield what was recorded; waits for the device."""
        cuda.synchronize()
        for name, lane, *ends in self._on_streams:
            begin, end = (self._host_start + 1e-3 * self._start.elapsed_time(event) for event in ends)
            yield Span(name, lane, begin, end)
