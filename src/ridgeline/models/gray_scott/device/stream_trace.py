"""When each stream of a GPU, and the host beside it, was at work: a trace that shows what overlaps.

Events before and after a piece of work on a stream give its times on the device. The host's times are of its own
clock, which is set when the device was idle. So both are on one axis, to some microseconds.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numba import cuda

HOST = "host"


class StreamTrace:
    """Pieces of work on the streams of one rank's device and on its host. Made when the device is idle.

    Recording an event costs a launch, so that traced steps take some microseconds longer.
    """

    def __init__(self) -> None:
        cuda.synchronize()
        self._start = cuda.event()
        self._start.record()
        self._start.synchronize()
        self._host_start = time.perf_counter()
        self._on_streams: list[tuple[str, str, Any, Any]] = []
        self._on_host: list[tuple[str, float, float]] = []

    @contextmanager
    def on_stream(self, name: str, lane: str, stream: Any) -> Iterator[None]:
        """Record what is put on a stream meanwhile, under its name; lane: of the stream."""
        begin, end = cuda.event(), cuda.event()
        begin.record(stream)
        yield
        end.record(stream)
        self._on_streams.append((name, lane, begin, end))

    @contextmanager
    def on_host(self, name: str) -> Iterator[None]:
        """Record what the host does meanwhile."""
        begin = time.perf_counter()
        yield
        self._on_host.append((name, begin - self._host_start, time.perf_counter() - self._host_start))

    def events(self, rank: int) -> list[dict[str, Any]]:
        """Return what was recorded as complete events of Chrome's trace format, microseconds; waits for the device.

        A process of the trace is a rank, a thread of it a stream or the host.
        """
        cuda.synchronize()
        pieces = [(name, HOST, 1e6 * begin, 1e6 * end) for name, begin, end in self._on_host]
        for name, lane, first, last in self._on_streams:
            begin, end = (1e3 * self._start.elapsed_time(event) for event in (first, last))
            pieces.append((name, lane, begin, end))
        return [
            {"name": name, "ph": "X", "pid": rank, "tid": lane, "ts": begin, "dur": end - begin}
            for name, lane, begin, end in sorted(pieces, key=lambda piece: piece[2])
        ]


def hidden_share(events: Sequence[dict[str, Any]], lanes: Sequence[str], behind: str) -> float:
    """Return the share of the time on some lanes of a rank during which a piece of the lane `behind` was under way.

    1: all of it is hidden, 0: nothing, or there is nothing to hide.
    """
    cover = [(e["ts"], e["ts"] + e["dur"]) for e in events if e["tid"] == behind]
    pieces = [(e["ts"], e["ts"] + e["dur"]) for e in events if e["tid"] in lanes]
    whole = sum(end - begin for begin, end in pieces)
    both = sum(max(0.0, min(end, b) - max(begin, a)) for begin, end in pieces for a, b in cover)
    return both / whole if whole else 0.0


def write_trace(path: Path, events: Sequence[dict[str, Any]]) -> None:
    """Write events as a file that Perfetto and chrome://tracing open."""
    path.write_text(json.dumps({"traceEvents": list(events), "displayTimeUnit": "ms"}) + "\n")
