"""The figures of the tests over all testers, and the three blocks in which GPCNeT prints them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from mpi4py import MPI

from ridgeline.bench.congestion.impact import count_buckets, impact_factor, percentile
from ridgeline.bench.congestion.network_tests import TESTS, NetworkTest, Times
from ridgeline.bench.result import Column

BLOCKS = {
    "isolated": "Isolated network tests",
    "congested": "Network tests with congestion tests",
    "impact": "Congestion impact factor",
}
COLUMNS = (
    Column("tests", "tests"),
    Column("title", "name"),
    Column("average", "avg"),
    Column("tail", "99%"),
    Column("unit", "units"),
)


@dataclass(frozen=True)
class NetworkSummary:
    """A test's figures over all testers, in SI units. mean: over rings and ranks; percentile: the 99th."""

    mean: float
    percentile: float
    least: float
    largest: float
    samples: int
    rings: int


def summarise(everyone: MPI.Comm, test: NetworkTest, rounds: Sequence[Times]) -> NetworkSummary:
    """Return the figures of a test from the times of every ring on every rank. Collective over everyone.

    The mean is over rings and ranks, of a ring's mean time; the percentile over single repetitions.
    """
    rings = [float(test.figures(np.array([times.mean()]))[0]) for times in rounds]
    values = test.figures(np.concatenate(rounds))
    low = everyone.allreduce(float(values.min()), MPI.MIN)
    high = everyone.allreduce(float(values.max()), MPI.MAX)
    counts = count_buckets(values, low, high)
    everyone.Allreduce(MPI.IN_PLACE, counts, MPI.SUM)
    total = everyone.allreduce(sum(rings)) / (everyone.size * len(rings))
    at = percentile(counts, low, high, test.higher_is_better)
    return NetworkSummary(total, at, low, high, int(counts.sum()), len(rings))


def make_rows(figures: dict[tuple[str, str], NetworkSummary]) -> list[dict[str, Any]]:
    """Return the three blocks of Fig. 5 from the summaries by ("isolated" | "congested", test).

    tests, average, tail: the cells that are printed, of the block, of the mean and of the percentile.
    """
    rows: list[dict[str, Any]] = []
    for block in ("isolated", "congested"):
        for test in TESTS:
            found = figures[block, test.key]
            row = {"block": block, "test": test.key, "title": test.title, "unit": test.unit_name}
            rows.append(row | asdict(found))
    for test in TESTS:
        before, after = figures["isolated", test.key], figures["congested", test.key]
        factors = {
            key: impact_factor(getattr(before, key), getattr(after, key), test.unit, test.higher_is_better)
            for key in ("mean", "percentile")
        }
        rows.append({"block": "impact", "test": test.key, "title": test.title, "unit": None} | factors)
    for row in rows:
        row["tests"] = BLOCKS[row["block"]] if row["test"] == TESTS[0].key else ""
        row["average"], row["tail"] = _cell(row, "mean"), _cell(row, "percentile")
    return rows


def _cell(row: dict[str, Any], key: str) -> str:
    """Return a figure as GPCNeT prints it: in the unit of its test, or as a factor."""
    value = row.get(key)
    if value is None:
        return "-"
    if row["block"] == "impact":
        return f"{value:.1f}X"
    test = next(test for test in TESTS if test.key == row["test"])
    return f"{value / test.unit:.1f}"
