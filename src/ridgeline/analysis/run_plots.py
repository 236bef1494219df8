"""Pictures of a run's report: the distribution of step times, the time of each rank, output rates, and the roofline.

Sources of the choice of plots:

- times of each process and distributions of bandwidths: Godoy et al., SC-W 2023, Figs. 6 and 7;
- distributions of timings and of I/O: Hadri et al. (NekBox), Figs. 9 and 12;
- steps of varying time: Yeung et al. (GESTS), Sec. 4.4;
- the roofline: Williams, Waterman, Patterson, CACM 52 (4), 2009.

The roofline shows how fast the regions of a run computed beside what the machine allows at their intensity. Both axes
are logarithmic: floating-point operations per byte of least memory traffic, and per second. A slanted line is a
bandwidth, a horizontal one a peak rate. No dot can be above its own limit, to which a thin line leads. The area of a
dot is the region's share of time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator
from numpy.typing import NDArray

from ridgeline.analysis.plot import blank_figure, label_decades
from ridgeline.io.report_file import run_title
from ridgeline.runtime.errors import ConfigError, OutputError
from ridgeline.runtime.units import number, scale_of

TOTAL = "total"
MOST_NUMBERS = 16  # ranks up to which each has its number on the axis
SHORTEST = 1e-3  # phases that take a smaller share of a step are named, not drawn
GREY = "0.35"  # the colour of the total, beside those of the phases
# The roofline: areas of dots in points^2, that of all time and the smallest; the mark of the names of slanted lines;
# and the factor between the outermost dot or corner and the edge of the picture.
_LARGEST, _SMALLEST = 900.0, 12.0
_ALONG = "along its line"
_MARGIN = 4.0


def plot_run(report: Mapping[str, Any], path: str) -> Figure:
    """Draw the distribution of step times by phase, a strip of the ranks, and the B/s of outputs and checkpoints.

    report: the report that a run wrote to `path`, which errors name. Raises OutputError if it lacks the times of
    steps, and KeyError, TypeError or ValueError if it is damaged.
    """
    if "step_times" not in report:
        raise OutputError(
            f"the report {path} has no times of single steps and ranks, because an older version wrote it. Run the "
            f"case again, or print the report with `ridgeline report {path}`."
        )
    if not report["step_times"]:
        raise OutputError(
            f"the report {path} has no step after the first call, whose time is not typical. Increase run.steps."
        )
    times, ranks, writes = report["step_times"], report["ranks"], report.get("writes", {})
    several = len(ranks["rank"]) > 1
    mosaic = [["steps", "ranks"], ["steps", "strip" if several else "ranks"]]
    mosaic += [["writes", "writes"]] if writes else []
    figure = blank_figure(12.0, 8.4 if writes else 5.4)
    axes: dict[str, Axes] = figure.subplot_mosaic(
        mosaic, height_ratios=[2.2, 1.0, 1.7][: len(mosaic)], width_ratios=[1.0, 1.15]
    )
    names = [name for name in times if times[name]["max"] > 0.0]
    colours = {name: GREY if name == TOTAL else f"C{i % 10}" for i, name in enumerate(names)}
    steady = {name: times[name] for name in names if _takes_time(times, name)}
    _draw_steps(axes["steps"], steady, ranks, colours)
    if left_out := [name for name in names if name not in steady]:
        words = f"below {SHORTEST:.1%} of the time in most steps: {', '.join(left_out)}"
        axes["steps"].set_xlabel(words, wrap=True)
    _draw_ranks(axes["ranks"], ranks, colours)
    if several:
        axes["ranks"].tick_params(labelbottom=False)
        axes["ranks"].set_xlabel("")
        axes["strip"].sharex(axes["ranks"])
        _draw_strip(axes["strip"], ranks, names)
    if writes:
        _draw_writes(axes["writes"], writes)
    label_decades(figure)
    run = report["run"]
    figure.suptitle(f"{run_title(report)}, steps {run['first_step'] + 1} to {run['last_step']}")
    return figure


def _takes_time(times: Mapping[str, Any], name: str) -> bool:
    """Whether a phase takes a share of a step that is large enough for a violin."""
    middle = {each: times[each]["percentiles"]["50"] for each in (name, TOTAL)}
    return name == TOTAL or bool(middle[name] >= SHORTEST * middle[TOTAL] > 0.0)


def _draw_steps(
    axes: Axes, times: Mapping[str, Any], ranks: Mapping[str, Any], colours: Mapping[str, str]
) -> None:
    """Draw a violin for each phase, with its median, quartiles, 5 to 95 %, and a cross at the first call."""
    places = np.arange(len(times))
    parts = axes.violin([_shape(row) for row in times.values()], places, widths=0.85, showextrema=False)
    bodies: Any = parts["bodies"]
    for body, name in zip(bodies, times):
        body.set(facecolor=colours[name], edgecolor=colours[name], alpha=0.45)
    percentiles = {
        percent: [row["percentiles"][percent] for row in times.values()]
        for percent in ("5", "25", "50", "75", "95")
    }
    axes.vlines(places, percentiles["5"], percentiles["95"], "black", linewidth=1, label="5 to 95 %")
    axes.vlines(places, percentiles["25"], percentiles["75"], "black", linewidth=5, label="25 to 75 %")
    axes.plot(places, percentiles["50"], "o", color="white", markeredgecolor="black", label="median")
    first = [max(ranks["first"][name]) / ranks["first_steps"] for name in times]
    axes.plot(places, first, "x", color="red", label="first call, slowest rank")
    axes.plot(
        places, [row["max"] for row in times.values()], "_", color="black", markersize=12, label="worst"
    )
    axes.set_yscale("log")
    # The violin of a phase that took no time in some steps would reach down to zero.
    least = min(row["percentiles"]["5"] for row in times.values())
    axes.set_ylim(bottom=max(least, SHORTEST * times[TOTAL]["percentiles"]["50"]) / 2)
    axes.set_xticks(places, list(times), rotation=30, ha="right")
    axes.set(ylabel="seconds of one step")
    worst = times[TOTAL]["worst"]
    axes.set_title(
        f"{ranks['steady_steps']} steps, all ranks; worst: step {worst['step']}, rank {worst['rank']}",
        loc="left",
        fontsize="medium",
    )
    axes.grid(axis="y", alpha=0.3)
    axes.legend(frameon=False, fontsize="small")


def _shape(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a violin in the form of `Axes.violin`: the smoothed density of the logarithms of the times.

    The smoothing is a normal distribution of Silverman's width, but at least as wide as a bin.
    """
    counts = np.array(row["bins"]["counts"], float)
    width = np.log(row["bins"]["ratio"])
    places = np.log(np.maximum(row["bins"]["lower"], 1e-12)) + width / 2
    share = counts / counts.sum()
    spread = np.sqrt(share @ (places - share @ places) ** 2)
    smooth = max(spread * counts.sum() ** -0.2, width)
    low, high = np.log(max(row["min"], 1e-12)), np.log(max(row["max"], 1e-12))
    coords = np.linspace(low - width / 2, high + width / 2, 200)
    density = np.exp(-0.5 * ((coords[:, np.newaxis] - places) / smooth) ** 2) @ share
    middle = row["percentiles"]["50"]
    return {
        "coords": np.exp(coords),
        "vals": density,
        "mean": middle,
        "median": middle,
        "min": row["min"],
        "max": row["max"],
    }


def _draw_ranks(axes: Axes, ranks: Mapping[str, Any], colours: Mapping[str, str]) -> None:
    """Draw the mean step of each rank as a bar, its phases on top of each other."""
    scale, unit = scale_of(max(ranks["steady"][TOTAL]) / ranks["steady_steps"], "s")
    edges = _edges(ranks)
    bottom = np.zeros(len(edges) - 1)
    for name in (name for name in ranks["steady"] if name != TOTAL):
        height = np.maximum(_per_step(ranks, ranks["steady"][name]), 0.0) / scale
        if name in colours:
            axes.stairs(bottom + height, edges, baseline=bottom, fill=True, color=colours[name], label=name)
        bottom += height
    most = ranks.get("most")
    if most:
        axes.stairs(_per_step(ranks, most["steady"][TOTAL]) / scale, edges, color="black", label="slowest")
    axes.set(ylabel=f"mean step, {unit}", xlim=(edges[0], edges[-1]))
    per_row = ranks["ranks_per_row"]
    heading = "each rank" if per_row == 1 else f"means of {per_row} ranks"
    axes.set_title(heading, loc="left", fontsize="medium")
    _number_ranks(axes, ranks)
    axes.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.02))


def _number_ranks(axes: Axes, ranks: Mapping[str, Any]) -> None:
    few = len(ranks["rank"]) <= MOST_NUMBERS
    axes.xaxis.set_major_locator(FixedLocator(ranks["rank"]) if few else MaxNLocator(integer=True))
    axes.set_xlabel("rank")


def _edges(ranks: Mapping[str, Any]) -> NDArray[np.float64]:
    """Return the edges of the bars of the rows."""
    first = np.array(ranks["rank"], float)
    return np.append(first, first[-1] + ranks["ranks_per_row"]) - 0.5


def _per_step(ranks: Mapping[str, Any], seconds: Sequence[float]) -> NDArray[np.float64]:
    return np.array(seconds, float) / float(ranks["steady_steps"])


def _draw_strip(axes: Axes, ranks: Mapping[str, Any], names: Sequence[str]) -> None:
    """Draw the deviation of each rank from the median rank, phase by phase, in percent of a step."""
    steady = (ranks.get("most") or ranks)["steady"]
    table = np.array([steady[name] for name in names])
    whole = np.median(np.array(steady[TOTAL]))
    away = 100.0 * (table - np.median(table, axis=1, keepdims=True)) / whole
    most = max(float(np.abs(away).max()), 1e-3)
    rows = np.arange(len(names) + 1) - 0.5
    image = axes.pcolormesh(_edges(ranks), rows, away, cmap="RdBu_r", vmin=-most, vmax=most)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    _number_ranks(axes, ranks)
    figure = axes.figure
    assert isinstance(figure, Figure)
    figure.colorbar(image, ax=axes, label="from the median rank,\n% of a step")


def _draw_writes(axes: Axes, writes: Mapping[str, Any]) -> None:
    """Draw the rate of each output and checkpoint over its step."""
    for i, (name, kind) in enumerate(writes.items()):
        steps, rates = zip(*((row["step"], row["bytes_per_second"]) for row in kind["rows"]))
        amount = f"{name}: {kind['count']} times, {number(kind['bytes'], 'B')}"
        axes.plot(steps, rates, "o", markersize=4, color=f"C{i}", label=amount)
        axes.axhline(kind["bytes_per_second"], color=f"C{i}", linewidth=1, alpha=0.6)
    axes.set_yscale("log")
    axes.set(xlabel="step", ylabel="B/s")
    axes.set_title("outputs and checkpoints; lines: means", loc="left", fontsize="medium")
    axes.grid(axis="y", alpha=0.3)
    axes.legend(frameon=False, fontsize="small", loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3)


@dataclass(frozen=True)
class RooflineDot:
    """A region of a roofline. intensity: FLOP/B; rate: FLOP/s; limit: FLOP/s that its limit allows, if known."""

    name: str
    share: float
    intensity: float
    rate: float
    limit: float | None
    bound: str


def plot_roofline(report: Mapping[str, Any]) -> Figure:
    """Return the roofline of a report's regions, or of its whole step if it has none.

    Raises ConfigError if no part of it has counted arithmetic and traffic, and KeyError or TypeError if it is
    damaged.
    """
    dots, left_out = roofline_dots(report)
    if not dots:
        raise ConfigError(
            "no part of this run has counted operations, counted bytes and time, so there is no roofline to draw. "
            "Name the report of a run with two steps or more."
        )
    figure = blank_figure(9.0, 5.6)
    axes = figure.subplots()
    peaks = {f"peak, {dtype}": float(rate) for dtype, rate in report["limits"].get("peak", {}).items()}
    lines = bandwidth_lines(report["limits"])
    _draw_ceilings(axes, dots, peaks, lines)
    for i, dot in enumerate(sorted(dots, key=lambda dot: -dot.share)):
        colour = f"C{i % 10}"
        area = max(_LARGEST * dot.share, _SMALLEST)
        axes.scatter(dot.intensity, dot.rate, area, colour, alpha=0.75, zorder=3, label=_legend_entry(dot))
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
    """Return a dot for each region, and the shares of time of the regions without counted arithmetic."""
    dots, left_out = [], {}
    rows = report.get("regions")
    if not rows:  # the whole step as a region
        work, seconds = report["work"], report["seconds_per_step"]
        row = {"seconds": seconds, "share": 1.0, "flops": work["flops"], "bytes": work["bytes_memory"]}
        rows = {"step": row | {key: report[key] for key in ("least_seconds", "limit") if key in report}}
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


def bandwidth_lines(limits: Mapping[str, Any]) -> dict[str, float]:
    """Return the bandwidths in a report by name, in B/s: memory, and the caches that are faster."""
    memory = float(limits.get("best", 0.0))
    lines = {f"L{cache['level']} cache": float(cache["rate"]) for cache in limits.get("caches", ())}
    faster = {name: rate for name, rate in lines.items() if rate > memory}
    return faster | ({"memory": memory} if memory else {})


def _draw_ceilings(
    axes: Axes, dots: list[RooflineDot], peaks: Mapping[str, float], lines: Mapping[str, float]
) -> None:
    """Draw slanted lines up to the highest peak, and horizontal ones from the steepest line on, with their names."""
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
    """Rotate the names of slanted lines along them. The slope follows from the final layout of the figure."""
    figure.draw_without_rendering()
    box = axes.get_window_extent()
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    rise, run = box.height / math.log10(top / bottom), box.width / math.log10(right / left)
    for text in axes.texts:
        if text.get_gid() == _ALONG:
            text.set_rotation(math.degrees(math.atan2(rise, run)))


def _legend_entry(dot: RooflineDot) -> str:
    """Return the entry of a dot in the legend."""
    text = f"{dot.share:5.1%}  {dot.name}"
    return text if dot.limit is None else f"{text}: {dot.rate / dot.limit:.1%} of {dot.bound}"
