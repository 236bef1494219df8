"""Pictures of benchmarks, drawn from their JSON (`bench.result.Result.to_dict`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from matplotlib.figure import Figure

from ridgeline.analysis.plot import blank_figure, label_decades, save_figure
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.node_load import busy_note
from ridgeline.runtime.units import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def save_plot(result: Mapping[str, Any], path: str) -> None:
    """Draw a benchmark into a file, whose suffix selects the format.

    Raises ConfigError if the benchmark has no picture or the format is unknown, OutputError if it cannot be written.
    """
    save_figure(draw_benchmark(result), path, "--plot", crop=True)


def draw_benchmark(result: Mapping[str, Any]) -> Figure:
    """Return the figure of a benchmark. Raises ConfigError if it has none."""
    plot = result["plot"]
    if plot is None:
        raise ConfigError(f"{result['benchmark']} has no picture. Leave --plot out.")
    # A map is square, and has only the names of its rows and its colour bar beside it.
    figure = blank_figure(6.4 if plot["kind"] == "heat" else 8.0, 5.0)
    axes = figure.subplots()
    drawers = {"lines": _draw_lines, "heat": _draw_map, "boxes": _draw_boxes, "bars": _draw_bars}
    drawers[plot["kind"]](axes, result, plot)
    label_decades(figure)
    axes.set_title(f"{result['benchmark']}, {counted(result['ranks'], 'rank')}", loc="left")
    busy = busy_note(result.get("others_share", 0.0))
    if busy is not None:
        figure.supxlabel(busy.replace(". ", ".\n"), x=0.01, ha="left", fontsize="small")
    return figure


def _name(values: tuple[Any, ...]) -> str:
    return ", ".join(str(value) for value in values if value is not None)


def _parts(result: Mapping[str, Any], row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what tells the curve of a row apart. Several keys have their heads before their numbers."""
    by = result["plot"]["by"]
    if len(by) < 2:
        return tuple(row.get(key) for key in by)
    return tuple(
        f"{result['columns'].get(key, key)} {row[key]}" if str(row.get(key, "")).isdigit() else row.get(key)
        for key in by
    )


def _draw_lines(axes: Axes, result: Mapping[str, Any], plot: Mapping[str, Any]) -> None:
    curves: dict[str, list[tuple[float, float]]] = {}
    for row in result["rows"]:
        for key in plot["y"]:
            if row.get(key) is None or row.get(plot["x"]) is None:
                continue
            parts = _parts(result, row) + ((key,) if len(plot["y"]) > 1 else ())
            curves.setdefault(_name(parts), []).append((row[plot["x"]], row[key] / plot["y_scale"]))
    for name, points in curves.items():
        x, y = zip(*sorted(points))
        axes.plot(x, y, marker="o", markersize=3, label=name or None)
    if plot["log_x"]:
        axes.set_xscale("symlog", base=2, linthresh=1)  # sizes begin at 0 bytes
    if plot["log_y"]:
        axes.set_yscale("log")
    axes.set_xlabel(plot["x_label"])
    axes.set_ylabel(plot["y_label"])
    axes.grid(alpha=0.3)
    if any(curves):
        axes.legend(frameon=False, fontsize="small")


def _draw_map(axes: Axes, result: Mapping[str, Any], plot: Mapping[str, Any]) -> None:
    rows = [[np.nan if value is None else value for value in row] for row in result["extra"]["matrix"]]
    image = axes.imshow(np.array(rows, float) / plot["y_scale"], interpolation="nearest")
    names = result["extra"].get("names")
    if names and len(names) <= 32:
        axes.set_xticks(range(len(names)), names, rotation=90)
        axes.set_yticks(range(len(names)), names)
    axes.set_xlabel(plot["x_label"])
    assert axes.figure is not None
    axes.figure.colorbar(image, label=plot["y_label"])


def _draw_boxes(axes: Axes, result: Mapping[str, Any], plot: Mapping[str, Any]) -> None:
    samples = {name: values for name, values in result["extra"]["samples"].items() if values}
    data = [np.asarray(values, float) / plot["y_scale"] for values in samples.values()]
    upright = len(data) <= 12
    along: Literal["vertical", "horizontal"] = "vertical" if upright else "horizontal"
    axes.violinplot(data, showmedians=True, orientation=along)
    axes.boxplot(data, widths=0.1, showfliers=False, orientation=along)
    values, names = (axes.yaxis, axes.xaxis) if upright else (axes.xaxis, axes.yaxis)
    names.set_ticks(range(1, len(data) + 1), list(samples))
    if upright:
        _slant(axes)
    else:  # many names are one below the other, with the first on top
        axes.invert_yaxis()
        assert isinstance(axes.figure, Figure)
        axes.figure.set_size_inches(10.0, 1.5 + 0.22 * len(data))
    if plot["log_y"]:
        (axes.set_yscale if upright else axes.set_xscale)("log")
    values.set_label_text(plot["y_label"])


def _draw_bars(axes: Axes, result: Mapping[str, Any], plot: Mapping[str, Any]) -> None:
    names = [_name((row[plot["x"]], *(row.get(by) for by in plot["by"]))) for row in result["rows"]]
    bottom = np.zeros(len(names))
    for key in plot["y"]:
        heights = np.array([row.get(key) or 0.0 for row in result["rows"]]) / plot["y_scale"]
        axes.bar(names, heights, bottom=bottom, label=key)
        bottom += heights
    _slant(axes)
    axes.set_ylabel(plot["y_label"])
    axes.legend(frameon=False, fontsize="small")


def _slant(axes: Axes) -> None:
    """Slant the names below an axis so that each ends at its mark."""
    for label in axes.get_xticklabels():
        label.set(rotation=30, ha="right", rotation_mode="anchor")
