"""Counted work and measured time of named regions of a program, and the timeline of their entries.

Time is exclusive: a region inside another stops the clock of the outer one. Work is the least that a part must do,
which the caller states in closed form, so that a report can say how far from its limit each part runs. A `Timeline`
also keeps when each region, or each piece of work on a device, began and ended, for traces.

Source: Hadri et al. (NekBox), Sec. 3.1.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass(slots=True)
class Region:
    """Seconds, floating-point operations, bytes to and from memory, and calls of one region on this rank."""

    seconds: float = 0.0
    flops: float = 0.0
    bytes: float = 0.0
    calls: int = 0


class Regions:
    """The regions of a run on this rank. They may be nested; each second belongs to the innermost one.

    timeline: if it is not None, the begin and the end of each entry are noted there too. Set it while no region is
    open.
    """

    def __init__(self) -> None:
        self.timeline: Timeline | None = None
        self._begun: list[float] = []  # of the open regions, while there is a timeline
        self.table: dict[str, Region] = defaultdict(Region)
        self._open: list[Region] = []
        self._since = 0.0
        self._entries: dict[str, _Entry] = {}

    def __call__(self, name: str, flops: float = 0.0, bytes: float = 0.0) -> AbstractContextManager[None]:
        """Charge the time of the `with` block that follows, and its least work, to a region."""
        try:
            entry = self._entries[name]
        except KeyError:
            entry = self._entries[name] = _Entry(self, name, self.table[name])
        if flops or bytes:
            entry.region.flops += flops
            entry.region.bytes += bytes
        return entry

    def seconds(self, name: str) -> float:
        """Return the seconds charged to a region so far, 0 if it was never entered."""
        return self.table[name].seconds if name in self.table else 0.0

    def total(self) -> float:
        """Return the seconds of all regions together."""
        return sum(region.seconds for region in self.table.values())

    def charge(self, name: str, seconds: float) -> None:
        """Move seconds that were measured elsewhere, as by threads, from the open region, if any, to another."""
        self.table[name].seconds += seconds
        if self._open:
            self._open[-1].seconds -= seconds

    def count(self, name: str, flops: float, bytes: float) -> None:
        """Add work to a region whose time is charged elsewhere."""
        self.table[name].flops += flops
        self.table[name].bytes += bytes

    def reset(self) -> None:
        """Forget all regions; none may be open."""
        self.table.clear()
        self._entries.clear()


class _Entry(AbstractContextManager[None]):
    """Enters and leaves one region. It keeps nothing of a single entry, so that a region may be nested in itself.

    It is a class and not a generator because that takes a quarter of the time, and a step of a small grid enters
    several regions.
    """

    __slots__ = ("_name", "_of", "_open", "region")

    def __init__(self, of: Regions, name: str, region: Region) -> None:
        self._of, self._name, self._open, self.region = of, name, of._open, region

    def __enter__(self) -> None:
        now, of = time.perf_counter(), self._of
        if self._open:
            self._open[-1].seconds += now - of._since
        of._since = now
        self.region.calls += 1
        self._open.append(self.region)
        if of.timeline is not None:
            of._begun.append(now)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        now, of = time.perf_counter(), self._of
        self._open.pop().seconds += now - of._since
        of._since = now
        if of.timeline is not None:
            of.timeline.host.append(Span(self._name, HOST, of._begun.pop(), now))


HOST = "host"


class Span(NamedTuple):
    """A span of work: its name, its lane (HOST, or that of a stream), its begin and end by `time.perf_counter`."""

    name: str
    lane: str
    begin: float
    end: float


class Timeline:
    """Spans of work of one rank.

    host: the spans that `Regions` notes. sources: functions that return the spans of other lanes, and may wait for a
    device. An engine that works on a device adds one when it first works while there is a timeline.
    """

    def __init__(self) -> None:
        self.host: list[Span] = []
        self.sources: list[Callable[[], Iterable[Span]]] = []

    def spans(self) -> list[Span]:
        """Return all spans in the order in which they begin. Waits for devices."""
        spans = list(self.host)
        for source in self.sources:
            spans += source()
        return sorted(spans, key=lambda span: (span.begin, -span.end))


def trace_events(spans: Iterable[Span], rank: int, origin: float) -> list[dict[str, Any]]:
    """Return spans as events of Chrome's trace format: first those that name ranks and lanes, then one a span.

    Times are in microseconds since `origin`. A process of the trace is a rank, and a thread of it is the host or a
    stream. Both are numbers, which viewers sort by; events of metadata name them.
    Source: Google, "Trace Event Format", sections on complete and metadata events.
    """
    spans = list(spans)
    lanes = sorted({span.lane for span in spans}, key=lambda lane: (lane != HOST, lane))
    named = [("process_name", 0, f"rank {rank}")]
    named += [("thread_name", number, lane) for number, lane in enumerate(lanes)]
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
    """Return the share of the time of the spans called `names` during which a span of the lane `behind` was running.

    1 means that all of their time is hidden; 0 that none is, or that there is nothing to hide.
    """
    cover = [span for span in spans if span.lane == behind]
    named = [span for span in spans if span.name in names]
    whole = sum(span.end - span.begin for span in named)
    both = sum(max(0.0, min(a.end, b.end) - max(a.begin, b.begin)) for a in named for b in cover)
    return both / whole if whole else 0.0
