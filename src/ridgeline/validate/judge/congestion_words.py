"""What the congestion impact factors of GPCNeT mean, in words, beside published ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ridgeline.runtime.units import number

# Means and 99th percentiles of Aurora on 9658 nodes: Ibeid et al., CUG 2025, Fig. 5 (GPCNeT's network load test 1.2).
# GPCNeT's own goal is 1.0: traffic of others changes nothing.
PUBLISHED = {"ring-latency": (2.3, 10.6), "ring-bandwidth": (1.5, 1.0), "allreduce": (2.4, 3.3)}
_NAMES = {
    "ring-latency": ("latency", "codes that send many small messages will suffer"),
    "ring-bandwidth": (
        "bandwidth with synchronisation",
        "codes that exchange large messages in step will suffer",
    ),
    "allreduce": ("allreduce", "latency-bound codes, which wait for many small sums, will suffer"),
}
NOTICED = 1.2  # a smaller factor is within what repeats of the benchmark differ by
SEVERE = 3.0


def congestion_in_words(results: Sequence[dict[str, Any]]) -> list[str]:
    """Return a sentence for each test of congestion. results: `Measurements.system`."""
    sentences = []
    for result in results:
        if result["benchmark"] != "congestion":
            continue
        rows = result.get("rows", [])
        quiet = {row["test"]: row for row in rows if row.get("block") == "isolated"}
        for row in rows:
            if row.get("block") == "impact" and row["test"] in _NAMES:
                sentences.append(_sentence(row, quiet.get(row["test"], {})))
    return sentences


def _sentence(row: dict[str, Any], quiet: dict[str, Any]) -> str:
    name, who = _NAMES[row["test"]]
    mean, tail = row.get("mean"), row.get("percentile")
    aurora_mean, aurora_tail = PUBLISHED[row["test"]]
    beside = f"Aurora on 9658 nodes: {aurora_mean:g} and {aurora_tail:g} times; ideal: 1"
    factors = [factor for factor in (mean, tail) if isinstance(factor, float)]
    if not factors:
        return f"congestion: the impact on {name} was not measured."
    if max(factors) < NOTICED:
        return f"congestion: traffic of others does not slow down {name} noticeably ({beside})."
    shown = []
    if isinstance(tail, float) and tail >= NOTICED:
        value = quiet.get("percentile")
        rate = row["test"] == "ring-bandwidth"
        was = "" if not isinstance(value, float) else f" of {number(value, 'B/s' if rate else 's')}"
        verb = f"falls to {1 / tail:.2g} of" if rate else f"is {_times(tail)} times"
        shown.append(f"the 99th percentile of {name} {verb} its quiet value{was}")
    if isinstance(mean, float) and (mean >= NOTICED or not shown):
        shown.append(
            f"the mean takes {_times(mean)} times as long"
            if shown
            else f"{name} takes {_times(mean)} times as long"
        )
    degree = who if max(factors) >= SEVERE else who.replace("will suffer", "will notice it")
    return f"congestion: {' and '.join(shown)}: {degree} ({beside})."


def _times(factor: float) -> str:
    return f"{factor:.3g}" if factor < 1000 else f"{factor:,.0f}"
