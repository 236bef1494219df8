"""The roofline: how fast counted work can be at the most, and which of the machine's limits bounds it.

A part of a program with F floating-point operations and B bytes takes at least max(F / peak, B / bandwidth) seconds;
its rate is at most min(peak, bandwidth x F / B). The bandwidth is that of memory, or of a cache that the working set
fits into, since nothing obliges such work to wait for memory. Source: Williams, Waterman, Patterson, "Roofline: an
insightful visual performance model", CACM 52 (4), 2009.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ridgeline.models.contract import StepTimes, Work

PEAK, MEMORY = "peak", "memory"


@dataclass(frozen=True)
class RooflineWork:
    """Counted work of all ranks. working_set: the most bytes that it may touch; dtype: of its arithmetic."""

    flops: float
    bytes: float
    working_set: float = math.inf
    dtype: str = "float64"


@dataclass(frozen=True)
class Ceilings:
    """Rates of all ranks together. peak: FLOP/s by dtype; memory: B/s; caches: name, capacity in B, B/s."""

    peak: Mapping[str, float]
    memory: float
    caches: tuple[tuple[str, float, float], ...] = ()

    @classmethod
    def of(cls, limits: Mapping[str, Any]) -> Ceilings:
        """Return the ceilings of a report's limits; those of older reports have a bandwidth of memory alone."""
        caches = tuple((f"L{c['level']} cache", c["capacity"], c["rate"]) for c in limits.get("caches", ()))
        return cls(limits.get("peak", {}), float(limits.get("best", 0.0)), caches)

    def bandwidth(self, working_set: float) -> tuple[float, str]:
        """Return the highest bandwidth of what holds so many bytes, in B/s, and its name."""
        holding = [(rate, name) for name, capacity, rate in self.caches if working_set <= capacity]
        return max([(self.memory, MEMORY), *holding])

    def least_seconds(self, work: RooflineWork) -> tuple[float, str] | None:
        """Return the least seconds of some work and the limit that bounds it; None without work or a known limit."""
        if not self.memory or not (work.flops or work.bytes):
            return None
        rate, name = self.bandwidth(work.working_set)
        peak = self.peak.get(work.dtype, 0.0)
        arithmetic = work.flops / peak if peak else 0.0
        return max((work.bytes / rate, name), (arithmetic, PEAK))


def of_limit(seconds: float, least: tuple[float, str] | None) -> dict[str, Any]:
    """Return least_seconds, limit and share_of_limit for the report; None and "" without a limit."""
    if least is None:
        return {"least_seconds": None, "limit": "", "share_of_limit": None}
    return {
        "least_seconds": least[0],
        "limit": least[1],
        "share_of_limit": least[0] / seconds if seconds else None,
    }


def exchange_share(
    work: Work, step: StepTimes | None, exchanges: Sequence[str], limits: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what the messages of a step take at the least, at the measured network rate, beside what they took.

    exchanges: the phases of the step that send and receive. seconds: of the slowest rank's mean step; share: of the
    network rate, None where nothing is sent or no rate is known. Where exchanges run beside computation, only the
    time that they were waited for is in the phases, and the share may exceed 1.
    """
    rate = limits.get("network", {}).get("rate", 0.0)
    seconds = sum(step.phases.get(name, 0.0) for name in exchanges) if step is not None else 0.0
    least = work.bytes_exchanged / rate if rate else None
    return {
        "seconds": seconds,
        "least_seconds": least,
        "share": least / seconds if least and seconds else None,
    }
