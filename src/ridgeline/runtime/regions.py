"""Counted work and measured time of named regions of a program: how far from the limit each part runs.

Time is exclusive: a region inside another stops the clock of the outer one. Work is what a part must do at the
least, stated by the caller in closed form. Source: Hadri et al. (NekBox), Sec. 3.1.
"""

import time
from collections import defaultdict
from contextlib import AbstractContextManager
from dataclasses import dataclass


@dataclass
class Region:
    """Seconds, floating-point operations, bytes to and from memory, and calls of one region on this rank."""

    seconds: float = 0.0
    flops: float = 0.0
    bytes: float = 0.0
    calls: int = 0


class _Open:
    """What a `with` block on a region enters and leaves: a class, since a generator takes more than twice as long."""

    __slots__ = ("_region", "_regions")

    def __init__(self, regions: "Regions", region: Region) -> None:
        self._regions, self._region = regions, region

    def __enter__(self) -> None:
        self._regions.tick()
        self._regions.open.append(self._region)

    def __exit__(self, *failure: object) -> None:
        self._regions.tick()
        self._regions.open.pop()


class Regions:
    """The regions of a run on this rank. They may be nested; each second belongs to the innermost one."""

    def __init__(self) -> None:
        self.table: dict[str, Region] = defaultdict(Region)
        self.open: list[Region] = []  # the innermost one last
        self._since = 0.0

    def tick(self) -> None:
        """Charge the seconds since the last call to the innermost open region."""
        now = time.perf_counter()
        if self.open:
            self.open[-1].seconds += now - self._since
        self._since = now

    def __call__(self, name: str, flops: float = 0.0, bytes: float = 0.0) -> AbstractContextManager[None]:
        """Charge the time of a `with` block, and its least work, to a region."""
        region = self.table[name]
        region.flops += flops
        region.bytes += bytes
        region.calls += 1
        return _Open(self, region)

    def seconds(self, name: str) -> float:
        """Return the seconds charged to a region so far, 0 if it was never entered."""
        return self.table[name].seconds if name in self.table else 0.0

    def total(self) -> float:
        """Return the seconds of all regions together."""
        return sum(region.seconds for region in self.table.values())

    def charge(self, name: str, seconds: float) -> None:
        """Move seconds that were measured elsewhere, as by threads, from the open region to another one."""
        self.table[name].seconds += seconds
        if self.open:
            self.open[-1].seconds -= seconds

    def count(self, name: str, flops: float, bytes: float) -> None:
        """Add work to a region whose time is charged elsewhere."""
        self.table[name].flops += flops
        self.table[name].bytes += bytes

    def reset(self) -> None:
        """Forget all regions; none may be open."""
        self.table.clear()
