"""When parts of a program were at work, on the host and on streams of a device, while somebody looks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

HOST = "host"


class Span(NamedTuple):
    """A span of work: its name, its lane (HOST, or that of a stream), its begin and end by `time.perf_counter`."""

    name: str
    lane: str
    begin: float
    end: float


class Timeline:
    """Spans of work of one rank, as they are noted.

    host: what `Regions` notes; sources: functions that return spans of other lanes, and may wait for a device. Who
    works on a device adds one when first asked to work while there is a timeline.
    """

    def __init__(self) -> None:
        self.host: list[Span] = []
        self.sources: list[Callable[[], Iterable[Span]]] = []

    def spans(self) -> list[Span]:
        """Return all spans, by their begin; waits for devices."""
        found = [*self.host, *(span for source in self.sources for span in source())]
        return sorted(found, key=lambda span: (span.begin, -span.end))


def trace_events(spans: Iterable[Span], rank: int, origin: float) -> list[dict[str, Any]]:
    """Return spans as complete events of Chrome's trace format, in microseconds since `origin`, after their names.

    A process of the trace is a rank, a thread of it the host or a stream. Both are numbers, which viewers sort by;
    events of metadata name them. Source: Google, "Trace Event Format", sections on complete and metadata events.
    """
    spans = list(spans)
    lanes = sorted({span.lane for span in spans}, key=lambda lane: (lane != HOST, lane))
    named = [("process_name", 0, f"rank {rank}"), *(("thread_name", n, lane) for n, lane in enumerate(lanes))]
    return [
        {"name": kind, "ph": "M", "pid": rank, "tid": number, "args": {"name": name}}
        for kind, number, name in named
    ] + [
        {
            "name": span.name,
            "ph": "X",
            "pid": rank,
            "tid": lanes.index(span.lane),
            "ts": 1e6 * (span.begin - origin),
            "dur": 1e6 * (span.end - span.begin),
        }
        for span in spans
    ]


def hidden_share(spans: Sequence[Span], names: Sequence[str], behind: str) -> float:
    """Return the share of the time of spans of some names during which a span of the lane `behind` was under way.

    1: all of it is hidden, 0: nothing, or there is nothing to hide.
    """
    cover = [span for span in spans if span.lane == behind]
    asked = [span for span in spans if span.name in names]
    whole = sum(span.end - span.begin for span in asked)
    both = sum(max(0.0, min(a.end, b.end) - max(a.begin, b.begin)) for a in asked for b in cover)
    return both / whole if whole else 0.0
