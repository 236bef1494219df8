"""Counted work and measured time of named regions of a program: how far from the limit each part runs.

Time is exclusive: a region inside another stops the clock of the outer one. Work is what a part must do at the
least, stated by the caller in closed form. Source: Hadri et al. (NekBox), Sec. 3.1.
"""

import time
from collections import defaultdict
from contextlib import AbstractContextManager
from dataclasses import dataclass


@dataclass(slots=True)
class Region:
    """Seconds, floating-point operations, bytes to and from memory, and calls of one region on this rank."""

    seconds: float = 0.0
    flops: float = 0.0
    bytes: float = 0.0
    calls: int = 0


class Regions:
    """The regions of a run on this rank. They may be nested; each second belongs to the innermost one."""

    def __init__(self) -> None:
        self.table: dict[str, Region] = defaultdict(Region)
        self._open: list[Region] = []
        self._since = 0.0
        self._entries: dict[str, _Entry] = {}

    def __call__(self, name: str, flops: float = 0.0, bytes: float = 0.0) -> AbstractContextManager[None]:
        """Charge the time of the `with` block that follows, and its least work, to a region."""
        entry = self._entries.get(name)
        if entry is None:
            entry = self._entries[name] = _Entry(self, self.table[name])
        region = entry.region
        region.flops += flops
        region.bytes += bytes
        region.calls += 1
        return entry

    def seconds(self, name: str) -> float:
        """Return the seconds charged to a region so far, 0 if it was never entered."""
        return self.table[name].seconds if name in self.table else 0.0

    def charge(self, name: str, seconds: float) -> None:
        """Move seconds that were measured elsewhere, as by threads, from the open region to another one."""
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

    A class and not a generator: that takes a third of the time, and a step of a small grid enters several.
    """

    __slots__ = ("_of", "region")

    def __init__(self, of: Regions, region: Region) -> None:
        self._of, self.region = of, region

    def __enter__(self) -> None:
        of, now = self._of, time.perf_counter()
        if of._open:
            of._open[-1].seconds += now - of._since
        of._since = now
        of._open.append(self.region)

    def __exit__(self, *_: object) -> None:
        of, now = self._of, time.perf_counter()
        of._open.pop().seconds += now - of._since
        of._since = now
