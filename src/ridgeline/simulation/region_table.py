"""The table of a run's regions: counted work over measured time, part by part, and the overall efficiency.

A region is compared with its own limit (roofline.py). Overall efficiency is counted bytes over time over STREAM. It
is the share of the memory bandwidth that the run would use if it moved its least traffic only. It includes parallel
efficiency and bounds what is left to gain. Source: Hadri et al. (NekBox), Sec. 3.1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.table import Table

from ridgeline.models.contract import SolveCount, Work
from ridgeline.runtime.regions import Region
from ridgeline.simulation.roofline import Ceilings, RooflineWork, of_limit


@dataclass(frozen=True)
class RegionContext:
    """What the limits of regions depend on beside their work.

    dtype: of the run's arithmetic; precisions: of the regions that compute in another; field_bytes: of the model's
    memory on all ranks, which no region touches more of.
    """

    dtype: str = "float64"
    precisions: Mapping[str, str] = field(default_factory=dict)
    field_bytes: float = math.inf

    def work_of(self, name: str, row: Mapping[str, float]) -> RooflineWork:
        """Return the work of a merged region. A call counts each byte that it touches once or more."""
        of_call = row["bytes"] / max(row["calls"], 1)
        dtype = self.precisions.get(name, self.dtype)
        return RooflineWork(row["flops"], row["bytes"], min(of_call, self.field_bytes), dtype)

    def work_of_step(self, work: Work) -> RooflineWork:
        """Return the work of a whole step."""
        touched = min(work.bytes_memory, self.field_bytes)
        return RooflineWork(work.flops, work.bytes_memory, touched, self.dtype)


def merge_regions(ranks: Sequence[Mapping[str, Region]]) -> dict[str, dict[str, float]]:
    """Combine the regions of all ranks, by name in the order of the first rank that has it.

    Seconds are means over ranks; seconds_max is the slowest rank's. Means add up to the time of the steps, also where
    ranks wait for each other in another region than the one that took longer. Work is of all ranks.
    """
    names = list(dict.fromkeys(name for rank in ranks for name in rank))
    merged = {}
    for name in names:
        here = [rank.get(name, Region()) for rank in ranks]
        merged[name] = {
            "seconds": sum(region.seconds for region in here) / len(here),
            "seconds_max": max(region.seconds for region in here),
            "flops": sum(region.flops for region in here),
            "bytes": sum(region.bytes for region in here),
            "calls": max(region.calls for region in here),
        }
    return merged


def rate_regions(
    merged: Mapping[str, Mapping[str, float]], ceilings: Ceilings, context: RegionContext
) -> dict[str, dict[str, Any]]:
    """Return the rows of the table: what `merge_regions` returned, with rates; None without a denominator.

    share_of_limit: the least seconds of a region's work by its own limit, over its seconds; limit: which one that is.
    """
    total = sum(row["seconds"] for row in merged.values())
    rated = {}
    for name, row in merged.items():
        least = ceilings.least_seconds(context.work_of(name, row))
        rated[name] = {**row, **_rates(row, total, ceilings.memory), **of_limit(row["seconds"], least)}
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


def overall(merged: Mapping[str, Mapping[str, float]], stream: float) -> dict[str, Any]:
    """Return seconds, work and rates of all regions together; fraction_of_stream is the overall efficiency."""
    sums = {key: sum(row[key] for row in merged.values()) for key in ("seconds", "flops", "bytes")}
    return {**sums, **_rates(sums, sums["seconds"], stream)}


def report_regions(
    ranks: Sequence[Mapping[str, Region]],
    solves: Mapping[str, SolveCount],
    ceilings: Ceilings,
    context: RegionContext,
) -> dict[str, Any]:
    """Return the part of the run report that regions and solves make; {} for a model that has neither.

    ranks: the regions of every rank. Of all regions together, least_seconds is the sum of theirs, and limit the one
    that bounds most of it.
    """
    merged = merge_regions(ranks)
    found: dict[str, Any] = {}
    if merged:
        rows = rate_regions(merged, ceilings, context)
        total = overall(merged, ceilings.memory)
        found["regions"] = rows
        found["all_regions"] = {**total, **of_limit(total["seconds"], _sum_of_least(rows))}
        found["overall_efficiency"] = total["fraction_of_stream"]
    if solves:
        found["solves"] = {
            name: {**asdict(solve), "iterations_per_solve": solve.iterations / max(solve.solves, 1)}
            for name, solve in solves.items()
        }
    return found


def _sum_of_least(rows: Mapping[str, Mapping[str, Any]]) -> tuple[float, str] | None:
    by_limit: dict[str, float] = {}
    for row in rows.values():
        if row["least_seconds"] is not None:
            by_limit[row["limit"]] = by_limit.get(row["limit"], 0.0) + row["least_seconds"]
    if not by_limit:
        return None
    return sum(by_limit.values()), max(by_limit, key=by_limit.__getitem__)


def region_table(report: Mapping[str, Any]) -> Table:
    """Return the table for people, a row for each region and one for all."""
    table = Table(title="regions, all ranks", title_justify="left", box=None, pad_edge=False)
    table.add_column("")
    by_limit = "share_of_limit" in report["all_regions"]  # reports before 0.2 know STREAM alone
    last = ("of its limit", "limit") if by_limit else ("of STREAM",)
    for name in ("seconds", "slowest", "share", "GFLOP/s", "GB/s", *last):
        table.add_column(name, justify="left" if name == "limit" else "right")
    rows = {**report["regions"], "all": {**report["all_regions"], "seconds_max": None}}
    for name, row in rows.items():
        style = "bold" if name == "all" else None
        table.add_row(
            name,
            _number(row["seconds"], ".3f"),
            _number(row["seconds_max"], ".3f"),
            _number(row["share"], ".1%"),
            _number(row["flops_per_second"], ".2f", 1e-9),
            _number(row["bytes_per_second"], ".2f", 1e-9),
            _number(row["share_of_limit" if by_limit else "fraction_of_stream"], ".3f"),
            *([row["limit"]] if by_limit else []),
            style=style,
        )
    return table


def solve_table(solves: Mapping[str, Mapping[str, float]]) -> Table:
    """Return the table of the linear solves for people."""
    table = Table(title="solves", title_justify="left", box=None, pad_edge=False)
    table.add_column("")
    for name in ("solves", "iterations per solve", "most"):
        table.add_column(name, justify="right")
    for name, row in solves.items():
        table.add_row(name, f"{row['solves']}", f"{row['iterations_per_solve']:.2f}", f"{row['most']}")
    return table


def _number(value: float | None, form: str, scale: float = 1.0) -> str:
    return "" if value is None else format(scale * value, form)
