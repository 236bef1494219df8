"""Pictures of a run report: how step times spread, what each rank spends a step on, how fast outputs were.

Sources of the choice of plots:

- times of each process and distributions of bandwidths: Godoy et al., SC-W 2023, Figs. 6 and 7;
- distributions of timings and of I/O: Hadri et al. (NekBox), Figs. 9 and 12;
- steps of varying time: Yeung et al. (GESTS), Sec. 4.4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator
from numpy.typing import NDArray

from ridgeline.analysis.plot import blank_figure, label_decades
from ridgeline.io.stored_reports import run_title
from ridgeline.runtime.errors import OutputError
from ridgeline.runtime.units import number, scale_of

TOTAL = "total"
MOST_NUMBERS = 16  # ranks that each have their number on the axis
SHORTEST = 1e-3  # of a step: phases that take less are named, not drawn
GREY = "0.35"  # of the total, beside the colours of the phases


def plot_run(report: Mapping[str, Any], path: str) -> Figure:
    """Draw the distribution of step times by phase, a strip of the ranks, and the B/s of outputs and checkpoints.

    report: as a run has written it to `path`, which errors name.
    Raises OutputError if it lacks the times of its steps, KeyError, TypeError or ValueError if it is damaged.
    """
    if "step_times" not in report:
        raise OutputError(
            f"the report {path} holds no times of single steps and ranks: an older version has written it; run the "
            f"case again, or print it with `ridgeline report {path}`"
        )
    if not report["step_times"]:
        raise OutputError(
            f"the report {path} holds no step after the first call, whose time is not that of the others; raise "
            f"run.steps"
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
        words = f"in most steps below {SHORTEST:.1%} of the time: {', '.join(left_out)}"
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
    """Say whether a phase takes a share of a step that is worth a violin."""
    middle = {each: times[each]["percentiles"]["50"] for each in (name, TOTAL)}
    return name == TOTAL or bool(middle[name] >= SHORTEST * middle[TOTAL] > 0.0)


def _draw_steps(
    axes: Axes, times: Mapping[str, Any], ranks: Mapping[str, Any], colours: Mapping[str, str]
) -> None:
    """Draw a violin for each phase, with its median, quartiles and 5 to 95 %, and a cross at the first call."""
    places = np.arange(len(times))
    parts = axes.violin([_shape(row) for row in times.values()], places, widths=0.85, showextrema=False)
    bodies: Any = parts["bodies"]
    for body, name in zip(bodies, times):
        body.set(facecolor=colours[name], edgecolor=colours[name], alpha=0.45)
    percentiles = {percent: [row["percentiles"][percent] for row in times.values()] for percent in
                   ("5", "25", "50", "75", "95")}  # fmt: skip
    axes.vlines(places, percentiles["5"], percentiles["95"], "black", linewidth=1, label="5 to 95 %")
    axes.vlines(places, percentiles["25"], percentiles["75"], "black", linewidth=5, label="25 to 75 %")
    axes.plot(places, percentiles["50"], "o", color="white", markeredgecolor="black", label="median")
    first = [max(ranks["first"][name]) / ranks["first_steps"] for name in times]
    axes.plot(places, first, "x", color="red", label="first call, slowest rank")
    axes.plot(
        places, [row["max"] for row in times.values()], "_", color="black", markersize=12, label="worst"
    )
    axes.set_yscale("log")
    # A phase that took no time in some steps has a violin that runs down to nothing.
    least = min(row["percentiles"]["5"] for row in times.values())
    axes.set_ylim(bottom=max(least, SHORTEST * times[TOTAL]["percentiles"]["50"]) / 2)
    axes.set_xticks(places, list(times), rotation=30, ha="right")
    axes.set(ylabel="seconds of one step")
    worst = times[TOTAL]["worst"]
    axes.set_title(
        f"{ranks['steady_steps']} steps, all ranks; worst: step {worst['step']}, rank {worst['rank']}",
        loc="left", fontsize="medium",
    )  # fmt: skip
    axes.grid(axis="y", alpha=0.3)
    axes.legend(frameon=False, fontsize="small")


def _shape(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return one violin as `Axes.violin` takes it: the density of the logarithms of the times, smoothed.

    The smoothing is a normal distribution of Silverman's width, at least that of a bin.
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
        "coords": np.exp(coords), "vals": density, "mean": middle, "median": middle, "min": row["min"],
        "max": row["max"],
    }  # fmt: skip


def _phases(ranks: Mapping[str, Any]) -> list[str]:
    return [name for name in ranks["steady"] if name != TOTAL]


def _draw_ranks(axes: Axes, ranks: Mapping[str, Any], colours: Mapping[str, str]) -> None:
    """Draw the mean step of each rank as a bar, its phases on top of each other."""
    scale, unit = scale_of(max(ranks["steady"][TOTAL]) / ranks["steady_steps"], "s")
    edges = _edges(ranks)
    bottom = np.zeros(len(edges) - 1)
    for name in _phases(ranks):
        height = np.maximum(_per_step(ranks, ranks["steady"][name]), 0.0) / scale
        if name in colours:
            axes.stairs(bottom + height, edges, baseline=bottom, fill=True, color=colours[name], label=name)
        bottom += height
    most = ranks.get("most")
    if most:
        axes.stairs(_per_step(ranks, most["steady"][TOTAL]) / scale, edges, color="black", label="slowest")
    axes.set(ylabel=f"mean step, {unit}", xlim=(edges[0], edges[-1]))
    axes.set_title(_heading(ranks), loc="left", fontsize="medium")
    _number_ranks(axes, ranks)
    axes.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.02))


def _number_ranks(axes: Axes, ranks: Mapping[str, Any]) -> None:
    few = len(ranks["rank"]) <= MOST_NUMBERS
    axes.xaxis.set_major_locator(FixedLocator(ranks["rank"]) if few else MaxNLocator(integer=True))
    axes.set_xlabel("rank")


def _heading(ranks: Mapping[str, Any]) -> str:
    per_row = ranks["ranks_per_row"]
    return "each rank" if per_row == 1 else f"means of {per_row} ranks"


def _edges(ranks: Mapping[str, Any]) -> NDArray[np.float64]:
    """Return where the bars of the rows begin and end."""
    first = np.array(ranks["rank"], float)
    return np.append(first, first[-1] + ranks["ranks_per_row"]) - 0.5


def _per_step(ranks: Mapping[str, Any], seconds: Sequence[float]) -> NDArray[np.float64]:
    return np.array(seconds, float) / float(ranks["steady_steps"])


def _draw_strip(axes: Axes, ranks: Mapping[str, Any], names: Sequence[str]) -> None:
    """Draw how far each rank is from the median rank, phase by phase, in percent of a step."""
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
    """Draw B/s of each output and checkpoint over its step."""
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
