"""The figures of GPCNeT's tests: means, 99th percentiles and impact factors, in the three blocks that it prints.

Source: GPCNeT 1.3 (github.com/netbench/GPCNET), its network load test; Sec. 3.8.2 and Fig. 5 of the Aurora paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.bench.congestion.network_tests import NATURAL, TESTS, NetworkTest, Times
from ridgeline.bench.result import Column

BUCKETS = 100_000  # of the distribution that a percentile is read from
SHARE = 0.99
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
    """The figures of a test over all testers, in SI units: the mean over rings and ranks, the 99th percentile, ..."""

    mean: float
    percentile: float
    least: float
    largest: float
    samples: int
    rings: int


def summarise(everyone: MPI.Comm, test: NetworkTest, rounds: Sequence[Times]) -> NetworkSummary:
    """Return the figures of a test from the times of every ring on every rank. Collective over everyone.

    The mean is that of the mean times of a ring, over rings and ranks; the percentile is over single repetitions.
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

    The keys tests, average and tail hold the cells that are printed: the block, the mean and the percentile.
    """
    rows: list[dict[str, Any]] = []
    tests = [test for test in TESTS + NATURAL if ("isolated", test.key) in figures]
    for block in ("isolated", "congested"):
        for test in tests:
            summary = figures[block, test.key]
            row = {"block": block, "test": test.key, "title": test.title, "unit": test.unit_name}
            rows.append(row | asdict(summary))
    for test in tests:
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
    test = next(test for test in TESTS + NATURAL if test.key == row["test"])
    return f"{value / test.unit:.1f}"


def count_buckets(values: NDArray[np.float64], low: float, high: float) -> NDArray[np.int64]:
    """Return how many values are in each of BUCKETS equal intervals, int64 [BUCKETS].

    `low` and `high` are the least and the largest value on all ranks; the largest begins the last interval. The
    counts of several ranks can be added.
    """
    width = (high - low) / (BUCKETS - 1)
    if width <= 0.0:
        places = np.zeros(values.size, np.int64)
    else:
        places = np.clip((values - low) / width, 0, BUCKETS - 1).astype(np.int64)
    return np.bincount(places, minlength=BUCKETS)


def percentile(
    counts: NDArray[np.int64], low: float, high: float, from_top: bool, share: float = SHARE
) -> float:
    """Return the value that `share` of the counted values do not pass: the bad end of an interval.

    With `from_top`, for bandwidths, values are counted from the largest down, so that 99 % reach or exceed the
    result. The number of values is the share of all, cut to an integer.
    """
    width = (high - low) / (BUCKETS - 1)
    wanted = max(1, int(share * int(counts.sum())))
    if from_top:
        place = BUCKETS - 1 - int(np.searchsorted(np.cumsum(counts[::-1]), wanted))
        return low + place * width
    place = int(np.searchsorted(np.cumsum(counts), wanted))
    return min(low + (place + 1) * width, high)


def impact_factor(isolated: float, congested: float, unit: float, higher_is_better: bool) -> float | None:
    """Return the congestion impact factor: how many times worse a figure is under congestion; 1 is ideal.

    Both figures, in SI units, are rounded to 0.1 of the unit that they are printed in before they are divided. The
    result is None if the divisor is printed as 0.
    """
    before, after = (float(format(value / unit, ".1f")) for value in (isolated, congested))
    worse, better = (before, after) if higher_is_better else (after, before)
    return worse / better if better else None
