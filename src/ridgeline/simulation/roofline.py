"""The roofline: how fast counted work can be at most, which limit of the machine bounds it, and regions rated by it.

A part of a program with F floating-point operations and B bytes takes at least max(F / peak, B / bandwidth) seconds;
its rate is at most min(peak, bandwidth x F / B). The bandwidth is that of memory, or of a cache that holds the
working set, because such work need not wait for memory. Source: Williams, Waterman, Patterson, "Roofline: an
insightful visual performance model", CACM 52 (4), 2009.

A region is compared with its own limit. The overall efficiency is the counted bytes over the time over STREAM: the
share of the memory bandwidth that the run would use if it moved only its least traffic. It includes the parallel
efficiency and bounds what is left to gain. Source: Hadri et al. (NekBox), Sec. 3.1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ridgeline.models.contract import SolveCount, StepTimes, Work
from ridgeline.runtime.regions import Region

PEAK, MEMORY = "peak", "memory"


@dataclass(frozen=True)
class RooflineWork:
    """Counted work of all ranks, the bytes that it may touch at most, and the dtype of its arithmetic."""

    flops: float
    bytes: float
    working_set: float = math.inf
    dtype: str = "float64"


@dataclass(frozen=True)
class Ceilings:
    """Rates of all ranks together: peak in FLOP/s by dtype, memory in B/s, and caches by name, capacity (B), B/s."""

    peak: Mapping[str, float]
    memory: float
    caches: tuple[tuple[str, float, float], ...] = ()

    @classmethod
    def of(cls, limits: Mapping[str, Any]) -> Ceilings:
        """Return the ceilings that a report holds. Older reports hold only the memory bandwidth."""
        caches = tuple((f"L{c['level']} cache", c["capacity"], c["rate"]) for c in limits.get("caches", ()))
        return cls(limits.get("peak", {}), float(limits.get("best", 0.0)), caches)

    def bandwidth(self, working_set: float) -> tuple[float, str]:
        """Return the highest bandwidth (B/s) of the memory and the caches that hold so many bytes, and its name."""
        caches = [(rate, name) for name, capacity, rate in self.caches if working_set <= capacity]
        return max([(self.memory, MEMORY), *caches])

    def least_seconds(self, work: RooflineWork) -> tuple[float, str] | None:
        """Return the least seconds of some work and the limit that bounds it; None without work or a known limit."""
        if not self.memory or not (work.flops or work.bytes):
            return None
        rate, name = self.bandwidth(work.working_set)
        peak = self.peak.get(work.dtype, 0.0)
        arithmetic = work.flops / peak if peak else 0.0
        return max((work.bytes / rate, name), (arithmetic, PEAK))


def compare_with_limit(seconds: float, least: tuple[float, str] | None) -> dict[str, Any]:
    """Return least_seconds, limit and share_of_limit for the report; without a limit they are None and ""."""
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
    """Compare the seconds of a step's messages with the least that they take at the measured network rate.

    `exchanges` names the phases of the step that send and receive. Where exchanges overlap with computation, these
    phases hold only the time spent waiting, and the share may exceed 1.

    Returns
    -------
    dict
        seconds: of the slowest rank's mean step; least_seconds; share: of the network rate, None where nothing is
        sent or no rate is known.
    """
    rate = limits.get("network", {}).get("rate", 0.0)
    seconds = sum(step.phases.get(name, 0.0) for name in exchanges) if step is not None else 0.0
    least = work.bytes_exchanged / rate if rate else None
    return {
        "seconds": seconds,
        "least_seconds": least,
        "share": least / seconds if least and seconds else None,
    }


@dataclass(frozen=True)
class RegionContext:
    """What the limits of regions depend on beside their work.

    Attributes
    ----------
    dtype
        The dtype of the run's arithmetic.
    precisions
        The dtype of the regions that compute in another one.
    field_bytes
        The model's memory on all ranks. No region touches more.
    """

    dtype: str = "float64"
    precisions: Mapping[str, str] = field(default_factory=dict)
    field_bytes: float = math.inf

    def work_of(self, name: str, row: Mapping[str, float]) -> RooflineWork:
        """Return the work of a merged region. A call counts each byte that it touches at least once."""
        bytes_per_call = row["bytes"] / max(row["calls"], 1)
        dtype = self.precisions.get(name, self.dtype)
        return RooflineWork(row["flops"], row["bytes"], min(bytes_per_call, self.field_bytes), dtype)

    def work_of_step(self, work: Work) -> RooflineWork:
        """Return the work of a whole step."""
        touched = min(work.bytes_memory, self.field_bytes)
        return RooflineWork(work.flops, work.bytes_memory, touched, self.dtype)


def merge_regions(ranks: Sequence[Mapping[str, Region]]) -> dict[str, dict[str, float]]:
    """Combine the regions of all ranks by name, in the order of the first rank that has each.

    Seconds are means over the ranks, and seconds_max is the slowest rank's. Means add up to the time of the steps,
    even if a rank waits for another in a later region than the one that took longer. Work is that of all ranks.
    """
    names = list(dict.fromkeys(name for rank in ranks for name in rank))
    merged = {}
    for name in names:
        regions = [rank.get(name, Region()) for rank in ranks]
        merged[name] = {
            "seconds": sum(region.seconds for region in regions) / len(regions),
            "seconds_max": max(region.seconds for region in regions),
            "flops": sum(region.flops for region in regions),
            "bytes": sum(region.bytes for region in regions),
            "calls": max(region.calls for region in regions),
        }
    return merged


def rate_regions(
    merged: Mapping[str, Mapping[str, float]], ceilings: Ceilings, context: RegionContext
) -> dict[str, dict[str, Any]]:
    """Add rates to what `merge_regions` returned; a rate without a denominator is None.

    share_of_limit is the least seconds of a region's work by its own limit over its seconds; limit names that limit.
    """
    total = sum(row["seconds"] for row in merged.values())
    rated = {}
    for name, row in merged.items():
        least = ceilings.least_seconds(context.work_of(name, row))
        rated[name] = {
            **row,
            **_rates(row, total, ceilings.memory),
            **compare_with_limit(row["seconds"], least),
        }
    return rated


def _rates(row: Mapping[str, float], total: float, stream: float) -> dict[str, float | None]:
    seconds = row["seconds"]
    rate = row["bytes"] / seconds if seconds else None
    return {
        "share": seconds / total if total else None,
        "flops_per_second": row["flops"] / seconds if seconds else None,
        "bytes_per_second": rate,
        "fraction_of_stream": rate / stream if rate is not None and stream else None,
    }


def sum_regions(merged: Mapping[str, Mapping[str, float]], stream: float) -> dict[str, Any]:
    """Return seconds, work and rates of all regions together. Their fraction_of_stream is the overall efficiency."""
    sums = {key: sum(row[key] for row in merged.values()) for key in ("seconds", "flops", "bytes")}
    return {**sums, **_rates(sums, sums["seconds"], stream)}


def report_regions(
    ranks: Sequence[Mapping[str, Region]],
    solves: Mapping[str, SolveCount],
    ceilings: Ceilings,
    context: RegionContext,
) -> dict[str, Any]:
    """Return the part of the run report about regions and solves; {} for a model that has neither.

    `ranks` holds the regions of every rank. The least_seconds of all regions together is the sum of theirs, and their
    limit the one that bounds most of it.
    """
    merged = merge_regions(ranks)
    report: dict[str, Any] = {}
    if merged:
        rows = rate_regions(merged, ceilings, context)
        by_limit: dict[str, float] = {}
        for row in rows.values():
            if row["least_seconds"] is not None:
                by_limit[row["limit"]] = by_limit.get(row["limit"], 0.0) + row["least_seconds"]
        least = (sum(by_limit.values()), max(by_limit, key=by_limit.__getitem__)) if by_limit else None
        total = sum_regions(merged, ceilings.memory)
        report["regions"] = rows
        report["all_regions"] = {**total, **compare_with_limit(total["seconds"], least)}
        report["overall_efficiency"] = total["fraction_of_stream"]
    if solves:
        report["solves"] = {
            name: {**asdict(solve), "iterations_per_solve": solve.iterations / max(solve.solves, 1)}
            for name, solve in solves.items()
        }
    return report
