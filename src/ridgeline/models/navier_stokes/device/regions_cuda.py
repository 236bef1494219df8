"""The regions of a step timed by the clock of a GPU: the solves, and their operators and sweeps within them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from numba import cuda

from ridgeline.jit.cuda_clock import DeviceClock
from ridgeline.runtime.regions import HOST, Regions, Span, Timeline


class DeviceRegions(Regions):
    """The regions of a run whose seconds are those of the device, between events on a stream.

    Regions are nested like those of CPUs, and each second belongs to the innermost one. The host does not wait at
    their ends: seconds count once `collect` has read the events, work and calls count at once.

    of: the regions of the run, which own the table and reset it. stream: where all work goes. On a timeline, a region
    is the time in which the host put its work on the stream.
    """

    def __init__(self, of: Regions, stream: Any = 0) -> None:
        super().__init__()
        self._of, self._clock = of, DeviceClock(stream)
        self.table = of.table

    def __call__(self, name: str, flops: float = 0.0, bytes: float = 0.0) -> AbstractContextManager[None]:
        """Charge the device's time of the `with` block that follows, and its least work, to a region."""
        region, piece = self.table[name], self._clock(name)
        region.calls += 1
        region.flops += flops
        region.bytes += bytes
        timeline = self._of.timeline
        return piece if timeline is None else _on_timeline(piece, name, timeline)

    def collect(self) -> None:
        """Charge the seconds of all regions that have ended; none may be open. Waits for the device.

        The region that is open in `of` meanwhile is not charged for these seconds.
        """
        cuda.synchronize()
        self._clock.collect()
        for name, seconds in self._clock.seconds.items():
            self._of.charge(name, seconds)
        self._clock.reset()


@contextmanager
def _on_timeline(piece: AbstractContextManager[None], name: str, timeline: Timeline) -> Iterator[None]:
    begin = time.perf_counter()
    with piece:
        yield
    timeline.host.append(Span(name, HOST, begin, time.perf_counter()))
