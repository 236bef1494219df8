"""What a report says of the machine's limits, and of its meters, for people. Older reports lack parts of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ridgeline.runtime.node_load import MOST_OTHERS
from ridgeline.runtime.units import number


def energy_line(energy: Mapping[str, Any]) -> str:
    """Return what the run used, or why nobody knows."""
    joules = energy["joules"]
    if joules is None:
        blind = [node for node in energy["nodes"] if node["joules"] is None]
        if not blind:
            return "energy: not readable (the nodes count different parts of themselves)"
        why = "; ".join(f"{name}: {reason}" for name, reason in blind[0]["unreadable"].items())
        return f"energy: not readable ({blind[0]['host']}: {why})"
    line = f"energy: {joules:.4g} J ({energy['covers']}"
    if energy["watts"] is not None:
        line += f", {energy['watts']:.4g} W"
    line += f"), {energy['joules_per_rank']:.4g} J a rank"
    if energy["joules_per_step"] is not None:
        line += f", {energy['joules_per_step']:.4g} J a step"
    if energy["joules_per_point_and_step"] is not None:
        line += f", {energy['joules_per_point_and_step']:.4g} J a point and step"
    if energy["exact_below"] is not None:
        line += f"; exact if no counter saw more than {energy['exact_below']:.4g} W"
    return line


def traffic_line(traffic: Mapping[str, Any]) -> str:
    """Return the traffic as measured, or why there is none."""
    if traffic["kind"] == "memory controllers":
        moved, rate = number(traffic["bytes"], "B"), number(traffic["bytes_per_second"], "B/s")
        more = f", {traffic['over_least']:.3g} times the least" if "over_least" in traffic else ""
        return f"measured memory traffic: {moved}, {rate}{more}"
    why = "; ".join(traffic["unreadable"])
    if traffic["kind"] == "cache misses":
        rate = number(traffic["misses_per_second"], "1/s")
        return f"cache misses: {traffic['misses']:.4g}, {rate}; traffic not readable ({why})"
    return f"measured memory traffic: not readable ({why})"


def meter_lines(report: Mapping[str, Any]) -> list[str]:
    """Return the lines of energy and of measured traffic; those of an older report are none."""
    lines = [energy_line(report["energy"])] if "energy" in report else []
    return lines + ([traffic_line(report["traffic"])] if "traffic" in report else [])


def limit_text(report: Mapping[str, Any]) -> str:
    """Return the share of the limit of a whole step that another limit than memory bounds, and which it is."""
    share = report.get("share_of_limit")
    return f"{share:.3f} of the limit, the {report['limit']}" if share is not None else "no limit is known"


def limit_rows(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the rows about limits beside STREAM's for the table of speeds, with the age of older ones."""
    limits = report["limits"]
    peak, caches, network = (_age(limits, what) for what in ("peak", "caches", "network"))
    rows = [
        (f"limit (peak, {dtype}){peak}", number(rate, "FLOP/s"))
        for dtype, rate in limits.get("peak", {}).items()
    ]
    rows += [
        (f"limit (L{cache['level']} cache){caches}", number(cache["rate"], "B/s"))
        for cache in limits.get("caches", ())
    ]
    if "network" in limits:
        size = number(limits["network"]["message"], "B")
        rows.append((f"limit (network, {size} messages){network}", number(limits["network"]["rate"], "B/s")))
    if report.get("share_of_limit") is not None:
        rows.append((f"fraction of a step's limit ({report['limit']})", f"{report['share_of_limit']:.3f}"))
    exchange = report.get("exchange", {})
    if exchange.get("share") is not None:
        rows.append(("exchange, fraction of the network's rate", f"{exchange['share']:.3f}"))
    return rows


def _age(limits: Mapping[str, Any], what: str) -> str:
    """Return how old a rate is, "" for one of this run, and whether others used the node when it was measured."""
    minutes = round(limits.get("ages", {}).get(what, 0.0) / 60)
    others = limits.get("others_share", {}).get(what, 0.0)
    age = f", {minutes // 60} h {minutes % 60} min old" if limits.get("ages", {}).get(what) else ""
    return age + (f", others used {others:.0%} of the node" if others > MOST_OTHERS else "")
