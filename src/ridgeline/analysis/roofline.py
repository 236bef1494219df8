"""The roofline of a run's report: how fast its regions computed, beside what the machine allows at their intensity.

Both axes are logarithmic: floating-point operations per byte of least memory traffic, and per second. A slanted line
is a bandwidth, a level one is a peak rate. No dot can lie above the limit of its own, to which a thin line leads.
The area of a dot is the region's share of time. Source: Williams, Waterman, Patterson, CACM 52 (4), 2009.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ridgeline.analysis.plot import blank_figure
from ridgeline.io.stored_reports import run_title
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.units import number

_LARGEST = 900.0  # area of the dot of all time, in points^2
_SMALLEST = 12.0
_ALONG = "along its line"  # mark of the names that are turned
_MARGIN = 4.0  # factor between the outermost dot or corner and the edge of the picture


@dataclass(frozen=True)
class RooflineDot:
    """A region. intensity: FLOP/B; rate: FLOP/s; limit: FLOP/s that its own limit allows, None if unknown."""

    name: str
    share: float
    intensity: float
    rate: float
    limit: float | None
    bound: str


def plot_roofline(report: Mapping[str, Any]) -> Figure:
    """Return the picture of a report's regions, of its whole step if it has none.

    Raises ConfigError if nothing in it has counted arithmetic and traffic, KeyError, TypeError for what is no report.
    """
    dots, left_out = roofline_dots(report)
    if not dots:
        raise ConfigError(
            "no part of this run has counted operations, counted bytes and time, so there is no roofline to draw; "
            "name the report of a run with two steps or more"
        )
    figure = blank_figure(9.0, 5.6)
    axes = figure.subplots()
    peaks = {f"peak, {dtype}": float(rate) for dtype, rate in report["limits"].get("peak", {}).items()}
    lines = bandwidth_lines(report["limits"])
    _draw_ceilings(axes, dots, peaks, lines)
    for i, dot in enumerate(sorted(dots, key=lambda dot: -dot.share)):
        colour = f"C{i % 10}"
        area = max(_LARGEST * dot.share, _SMALLEST)
        axes.scatter(dot.intensity, dot.rate, area, colour, alpha=0.75, zorder=3, label=_words(dot))
        if dot.limit is not None:
            axes.plot([dot.intensity] * 2, [dot.rate, dot.limit], color=colour, linewidth=0.8, zorder=2)
    axes.set(xlabel="FLOP per byte of least memory traffic", ylabel="FLOP/s, all ranks")
    legend = figure.legend(loc="outside right upper", frameon=False, fontsize="small", title="share of time")
    for handle in legend.legend_handles:
        handle.set_sizes([40.0])  # type: ignore[union-attr]
    axes.set_title(run_title(report), loc="left", fontsize="medium")
    if left_out:
        parts = ", ".join(f"{name} {share:.1%}" for name, share in left_out.items())
        figure.supxlabel(f"without counted arithmetic: {parts}", fontsize="small", x=0.02, ha="left")
    _turn_names(figure, axes)
    return figure


def roofline_dots(report: Mapping[str, Any]) -> tuple[list[RooflineDot], dict[str, float]]:
    """Return a dot for each region, and the shares of time of those that have no place: they count no arithmetic."""
    dots, left_out = [], {}
    rows = report.get("regions") or {"step": _whole_step(report)}
    for name, row in rows.items():
        if not row["seconds"]:
            continue
        if row["flops"] > 0 and row["bytes"] > 0:
            least = row.get("least_seconds")
            dots.append(
                RooflineDot(
                    name,
                    row["share"],
                    row["flops"] / row["bytes"],
                    row["flops"] / row["seconds"],
                    row["flops"] / least if least else None,
                    row.get("limit", ""),
                )
            )
        else:
            left_out[name] = row["share"]
    return dots, left_out


def _whole_step(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return a step of a model without regions as the row of one."""
    work = report["work"]
    more = {key: report[key] for key in ("least_seconds", "limit") if key in report}
    seconds = report["seconds_per_step"]
    return {"seconds": seconds, "share": 1.0, "flops": work["flops"], "bytes": work["bytes_memory"], **more}


def bandwidth_lines(limits: Mapping[str, Any]) -> dict[str, float]:
    """Return the bandwidths of a report by name, in B/s: memory, and the caches that are faster."""
    memory = float(limits.get("best", 0.0))
    lines = {f"L{cache['level']} cache": float(cache["rate"]) for cache in limits.get("caches", ())}
    faster = {name: rate for name, rate in lines.items() if rate > memory}
    return faster | ({"memory": memory} if memory else {})


def _draw_ceilings(
    axes: Axes, dots: list[RooflineDot], peaks: Mapping[str, float], lines: Mapping[str, float]
) -> None:
    """Draw slanted lines up to the highest peak and level ones from the steepest line on, each with its name."""
    ridges = [peak / rate for peak in peaks.values() for rate in lines.values()]
    left = min([dot.intensity for dot in dots] + ridges) / _MARGIN
    right = max([dot.intensity for dot in dots] + ridges) * _MARGIN
    heights = [dot.rate for dot in dots] + [dot.limit for dot in dots if dot.limit] + list(peaks.values())
    top = max(heights) * 2.0
    steepest = max(lines.values(), default=0.0)
    highest = max(peaks.values(), default=0.0)
    for name, rate in lines.items():
        end = highest / rate if highest else right
        axes.plot([left, end], [left * rate, end * rate], color="black", linewidth=1.0, zorder=1)
        text = f"{name} {number(rate, 'B/s')}"
        axes.text(
            left * 1.15, left * 1.25 * rate, text, fontsize="x-small", rotation_mode="anchor", gid=_ALONG
        )
    for name, rate in peaks.items():
        start = rate / steepest if steepest else left
        axes.plot([start, right], [rate, rate], color="black", linewidth=1.0, zorder=1)
        text = f"{name} {number(rate, 'FLOP/s')}"
        axes.text(right, rate * 1.04, text, fontsize="x-small", ha="right", va="bottom")
    bottom = min(dot.rate for dot in dots) / _MARGIN
    axes.set(xscale="log", yscale="log", xlim=(left, right), ylim=(bottom, top))
    axes.grid(which="major", alpha=0.3)


def _turn_names(figure: Figure, axes: Axes) -> None:
    """Turn the names of slanted lines along them, which have one slope in the layout that the figure gets."""
    figure.draw_without_rendering()
    box = axes.get_window_extent()
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    rise, run = box.height / math.log10(top / bottom), box.width / math.log10(right / left)
    for text in axes.texts:
        if text.get_gid() == _ALONG:
            text.set_rotation(math.degrees(math.atan2(rise, run)))


def _words(dot: RooflineDot) -> str:
    """Return the line of a dot in the legend."""
    text = f"{dot.share:5.1%}  {dot.name}"
    return text if dot.limit is None else f"{text}: {dot.rate / dot.limit:.1%} of {dot.bound}"
