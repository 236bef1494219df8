"""Counted work and measured time of named regions of a program: how far from the limit each part runs.

Time is exclusive: a region inside another stops the clock of the outer one. Work is what a part must do at the
least, stated by the caller in closed form. Source: Hadri et al. (NekBox), Sec. 3.1.
"""

import time
from collections import defaultdict
from contextlib import AbstractContextManager
from dataclasses import dataclass

from ridgeline.runtime.timeline import HOST, Span, Timeline


@dataclass(slots=True)
class Region:
    """Seconds, floating-point operations, bytes to and from memory, and calls of one region on this rank."""

    seconds: float = 0.0
    flops: float = 0.0
    bytes: float = 0.0
    calls: int = 0


class Regions:
    """The regions of a run on this rank. They may be nested; each second belongs to the innermost one.

    timeline: where each entry is noted too, with begin and end; None, the default: nowhere. Set it while no region is
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
    """Enters and leaves one region. It keeps nothing of a single entry, so that a region may lie inside itself.

    A class and not a generator: that takes a quarter of the time, and a step of a small grid enters several.
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
