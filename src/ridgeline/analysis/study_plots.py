"""Figures of scaling studies and of sweeps.

A study has curves over ranks or over the values of an axis, and stacked phases. A sweep has the final figures of its
cases over the settings that differ, from the sweep's JSON: curves, or maps of two axes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter, LogLocator, NullFormatter
from numpy.typing import NDArray

from ridgeline.analysis.colour_scales import colour_scales, finite_range
from ridgeline.analysis.plot import blank_figure, label_decades, panels
from ridgeline.analysis.time_series import DECADES, PER_ROW, chosen_columns
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.units import in_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

AxisValue = float | str  # a number of cores, or the value of an axis
Reals = NDArray[np.float64]
MARKERS = "osD^vP*X"
HOLLOW = "hollow: more threads than cores"
MOST_PANELS = 6
MOST_INSIDE = 6  # entries of a legend inside the axes; a longer one is beside them
SWEEP_AXES = "swept"  # key of the names of a sweep's axes in `extra` of its JSON
NO_FIGURES = ("state", "step", "time")  # columns that are neither axes nor figures
MOST_LABELS = 12  # labels along an axis whose values have names


@dataclass(frozen=True)
class CurvePoint:
    """A point of a curve.

    hollow: drawn with an empty marker, because its value says little; until: the far end of its repeats, if there are
    any; within: the least and the largest value that a prediction expects.
    """

    x: AxisValue
    y: float
    hollow: bool = False
    until: float | None = None
    within: tuple[float, float] | None = None


@dataclass(frozen=True)
class StudyCurve:
    """A curve of a study.

    ideal: the values of perfect scaling at the same x; predicted: the values of a prediction; group: curves of a
    group share a line style, for example those of one study, or of one kind of efficiency.
    """

    name: str
    points: tuple[CurvePoint, ...]
    ideal: tuple[CurvePoint, ...] = ()
    predicted: tuple[CurvePoint, ...] = ()
    group: int = 0


class CurveStyle(NamedTuple):
    """Colour, marker and line style of a curve, as Matplotlib names them."""

    colour: str
    marker: str
    line: str


@dataclass(frozen=True)
class FigureLabels:
    """The labels of a figure. log: whether y is logarithmic over numbers of cores; otherwise it begins at 0."""

    x_label: str
    y_label: str
    title: str
    log: bool = False


@dataclass(frozen=True)
class StackedBar:
    """One stack. name: below it; parts: heights by legend entry, from the bottom; hollow: as for a `CurvePoint`."""

    name: str
    parts: dict[str, float]
    hollow: bool = False


def draw_curves(curves: Sequence[StudyCurve], panel: FigureLabels) -> Figure:
    """Return a figure of curves with a marker for each point; the legend explains hollow markers."""
    figure = blank_figure(7.2, 4.4)
    axes = figure.subplots()
    numeric = all(isinstance(point.x, int | float) for curve in curves for point in curve.points)
    places = _places(curves, numeric)
    styles = _curve_styles(curves)
    for curve, style in zip(curves, styles):
        _draw_curve(axes, curve, style, places)
    _set_x(axes, places, numeric)
    if panel.log and numeric:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(bottom=0.0)
    axes.set(xlabel=panel.x_label, ylabel=panel.y_label)
    axes.set_title(panel.title, loc="left", fontsize="medium")
    axes.grid(alpha=0.25, which="major")
    _draw_legend(axes, curves, styles)
    return figure


def _places(curves: Sequence[StudyCurve], numeric: bool) -> dict[AxisValue, float]:
    """Return the coordinate of each x: numbers at their value, words one after the other."""
    unique = dict.fromkeys(point.x for curve in curves for point in curve.points)
    values: list[Any] = sorted(unique, key=float) if numeric else list(unique)
    return {x: float(x) if numeric else float(n) for n, x in enumerate(values)}


def _curve_styles(curves: Sequence[StudyCurve]) -> list[CurveStyle]:
    """Return the style of each curve: the curves of each group have the same colours in the same order."""
    return [
        CurveStyle(
            f"C{number % 10}",
            MARKERS[(number + 4 * curve.group) % len(MARKERS)],
            ("-", "--")[curve.group % 2],
        )
        for n, curve in enumerate(curves)
        for number in [sum(other.group == curve.group for other in curves[:n])]
    ]


def _draw_curve(axes: Axes, curve: StudyCurve, style: CurveStyle, places: dict[AxisValue, float]) -> None:
    colour = style.colour
    x, y = [places[point.x] for point in curve.points], [point.y for point in curve.points]
    line = style.line if all(_is_number(point.x) for point in curve.points) else ""  # words have no order
    axes.plot(x, y, linestyle=line, color=colour, linewidth=1.4, zorder=2)
    for point, place in zip(curve.points, x):
        inside = "white" if point.hollow else colour
        axes.plot(place, point.y, style.marker, color=colour, markerfacecolor=inside, markersize=6, zorder=3)
        if point.until is not None:
            axes.plot(
                [place, place], [point.y, point.until], color=colour, linewidth=1.0, marker="_", markersize=5
            )
    for more, dashes in ((curve.ideal, (1, 2)), (curve.predicted, (6, 2, 1, 2))):
        known = [point for point in more if point.x in places]
        values = [point.y for point in known]
        axes.plot([places[s.x] for s in known], values, color=colour, dashes=dashes, linewidth=1.0, alpha=0.8)
        for point in known:
            if point.within is not None:
                axes.vlines(places[point.x], *point.within, color=colour, linewidth=5.0, alpha=0.25)


def _is_number(x: AxisValue) -> bool:
    """Whether a value of an axis is a number, or a word that is one."""
    try:
        float(x)
    except ValueError:
        return False
    return True


def _set_x(axes: Axes, places: dict[AxisValue, float], numeric: bool) -> None:
    if numeric and len(places) > 1:
        axes.set_xscale("log", base=2)
    labels = [f"{x:g}" if isinstance(x, int | float) else x for x in places]
    axes.xaxis.set_major_locator(FixedLocator(list(places.values())))
    axes.xaxis.set_major_formatter(FixedFormatter(labels))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_minor_locator(FixedLocator([]))
    if not numeric:
        axes.margins(x=0.3)


def _draw_legend(axes: Axes, curves: Sequence[StudyCurve], styles: Sequence[CurveStyle]) -> None:
    """Draw a legend with the curves, and the meaning of the dots, dashes and hollow markers that occur."""
    entries = [
        Line2D([], [], color=style.colour, marker=style.marker, linestyle=style.line, label=curve.name)
        for curve, style in zip(curves, styles)
        if curve.name
    ]
    if any(curve.ideal for curve in curves):
        entries.append(Line2D([], [], color="0.4", dashes=(1, 2), label="ideal"))
    if any(curve.predicted for curve in curves):
        entries.append(Line2D([], [], color="0.4", dashes=(6, 2, 1, 2), label="predicted"))
    if any(point.within is not None for curve in curves for point in curve.predicted):
        entries.append(
            Line2D([], [], color="0.4", linewidth=5.0, alpha=0.25, label="predicted for 80 % of steps")
        )
    if any(point.until is not None for curve in curves for point in curve.points):
        entries.append(
            Line2D([], [], color="0.4", marker="|", linestyle="", markersize=10, label="all repeats")
        )
    if any(point.hollow for curve in curves for point in curve.points):
        empty = Line2D([], [], color="0.4", marker="o", markerfacecolor="white", linestyle="", label=HOLLOW)
        entries.append(empty)
    if len(entries) > MOST_INSIDE:
        axes.legend(
            handles=entries, frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.02)
        )
    elif entries:
        axes.legend(handles=entries, frameon=False, fontsize="small")


def draw_bars(stacks: Mapping[str, Sequence[StackedBar]], panel: FigureLabels) -> Figure:
    """Return a figure of stacked bars, with axes for each of the first six stacks; hollow bars are hatched."""
    shown = dict(list(stacks.items())[:MOST_PANELS])
    across = min(len(shown), 3)
    figure = blank_figure(max(6.8, 3.6 * across), 4.0 * -(-len(shown) // across))
    names = list(dict.fromkeys(part for bars in shown.values() for bar in bars for part in bar.parts))
    colours = {name: f"C{n % 10}" for n, name in enumerate(names)}
    highest = 1.05 * max((sum(bar.parts.values()) for bars in shown.values() for bar in bars), default=1.0)
    most = max(map(len, shown.values()))
    for axes, (label, bars) in zip(panels(figure, len(shown), across), shown.items()):
        axes.set(xlim=(-0.6, most - 0.4), ylim=(0.0, highest))
        for n, bar in enumerate(bars):
            bottom = 0.0
            for name, height in bar.parts.items():
                axes.bar(
                    n,
                    height,
                    bottom=bottom,
                    width=0.7,
                    color="white" if bar.hollow else colours[name],
                    edgecolor=colours[name],
                    hatch="////" if bar.hollow else None,
                    label=name if n == 0 else None,
                )
                bottom += height
        axes.set_xticks(range(len(bars)), [bar.name for bar in bars])
        axes.set_title(label, loc="left", fontsize="small")
        axes.set(xlabel=panel.x_label, ylabel=panel.y_label)
        axes.grid(alpha=0.25, axis="y")
        axes.set_axisbelow(True)
    handles = [Line2D([], [], color=colours[name], linewidth=6, label=name) for name in names]
    if any(bar.hollow for bars in shown.values() for bar in bars):
        handles.append(
            Line2D([], [], color="0.4", marker="s", markerfacecolor="white", linestyle="", label=HOLLOW)
        )
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize="small")
    figure.suptitle(panel.title, x=0.01, ha="left", fontsize="medium")
    return figure


def is_sweep(report: Mapping[str, Any]) -> bool:
    """Whether a report is the table of a sweep."""
    extra = report.get("extra")
    return isinstance(extra, dict) and SWEEP_AXES in extra


def plot_sweep(
    result: Mapping[str, Any], names: Sequence[str] = (), every: bool = False, page: int = 1
) -> Figure:
    """Draw the final figures of a sweep: curves over its last axis, or maps if it has two axes.

    Parameters
    ----------
    result : mapping
        The sweep's JSON (`Result.to_dict`), with its axes in extra[SWEEP_AXES]. With three axes or more each
        combination of the others is a curve. Keys that change together are one axis, whose values have names.
    names, every, page
        The figures to draw, like the columns of `plot_time_series`.

    Raises
    ------
    ConfigError
        For a figure that does not exist, or if no case is done. A case that is not done has no mark.
    """
    rows = result["rows"]
    axes: list[str] = result["extra"][SWEEP_AXES]
    heads = {key: head for key, head in result["columns"].items() if key not in (*axes, *NO_FIGURES)}
    if not heads:
        raise ConfigError("no case of the sweep is done yet. Run the same sweep again.")
    columns = {key: np.array([row.get(key) for row in rows], np.float64) for key in heads}
    drawn = {key: columns[key] for key in chosen_columns(columns, names, every, "the sweep", page)}
    values = [[row[axis] for row in rows] for axis in axes]
    if math.prod(len(_ordered(each)) for each in values) != len(rows):  # keys that change together
        axes, values = [", ".join(axes)], [[", ".join(map(in_words, row)) for row in zip(*values)]]
    if len(axes) == 2:
        return _maps(drawn, heads, axes, values)
    return _curves(drawn, heads, axes, values)


def _ordered(values: Sequence[Any]) -> list[Any]:
    """Return the distinct values of an axis: numbers in ascending order, others as words in their order."""
    if all(isinstance(value, int | float) for value in values):
        return sorted(set(values))
    return list(dict.fromkeys(map(in_words, values)))


def _number_of(values: Sequence[Any]) -> list[int]:
    """Return for each case the index of its value along an axis."""
    places = _ordered(values)
    return [places.index(value if value in places else in_words(value)) for value in values]


def _curves(
    drawn: Mapping[str, Reals], heads: Mapping[str, str], axes: Sequence[str], values: Sequence[Sequence[Any]]
) -> Figure:
    places, number = _ordered(values[-1]), _number_of(values[-1])
    numeric = not isinstance(places[0], str)
    curves: dict[str, list[int]] = {}
    for case in sorted(range(len(number)), key=number.__getitem__):
        others = (f"{axis} = {in_words(each[case])}" for axis, each in zip(axes[:-1], values))
        curves.setdefault(", ".join(others), []).append(case)
    figure = blank_figure(7.0 + 2.0 * (len(curves) > 1), 2.1 * len(drawn) + 0.8)
    stacked = panels(figure, len(drawn), 1)
    for panel, (key, figures) in zip(stacked, drawn.items()):
        for words, cases in sorted(curves.items()):
            x = [places[number[case]] if numeric else number[case] for case in cases]
            panel.plot(x, figures[cases], marker="o", markersize=4, label=words)
        panel.set_title(heads[key])
        panel.grid(alpha=0.3)
        if not numeric:
            _name_places(panel.xaxis, places)
        elif places[0] > 0 and places[-1] >= places[0] * 10**DECADES:
            panel.set_xscale("log")
    label_decades(figure)
    stacked[-1].set_xlabel(axes[-1])
    if len(curves) > 1:
        figure.legend(*stacked[0].get_legend_handles_labels(), loc="outside right upper", fontsize="small")
    return figure


def _maps(
    drawn: Mapping[str, Reals], heads: Mapping[str, str], axes: Sequence[str], values: Sequence[Sequence[Any]]
) -> Figure:
    down, right = map(_ordered, values)
    across = min(len(drawn), PER_ROW)
    figure = blank_figure(4.2 * across, 3.6 * -(-len(drawn) // across))
    for panel, (key, figures) in zip(panels(figure, len(drawn), across), drawn.items()):
        table = np.full((len(down), len(right)), np.nan)
        table[_number_of(values[0]), _number_of(values[1])] = figures
        _draw_map(panel, table, key)
        panel.set(title=heads[key], xlabel=axes[1], ylabel=axes[0])
        _name_places(panel.xaxis, right)
        _name_places(panel.yaxis, down)
    return figure


def _draw_map(panel: Axes, table: Reals, key: str) -> None:
    """Draw values [vertical, horizontal] as cells. Those that are not finite are grey."""
    shade = colour_scales({key: finite_range(table)})[key]
    low, high = shade.limits
    image = panel.imshow(
        table, cmap=shade.colours, vmin=low, vmax=high, origin="lower", aspect="auto", interpolation="nearest"
    )
    panel.get_figure(root=True).colorbar(image, ax=panel)  # type: ignore[union-attr]


def _name_places(axis: Axis, places: Sequence[Any]) -> None:
    """Label the values of an axis, as many of them as are readable."""
    named = list(itertools.islice(enumerate(places), 0, None, -(-len(places) // MOST_LABELS)))
    axis.set_ticks([n for n, _ in named], [in_words(place) for _, place in named])
    if max(len(in_words(place)) for place in places) * len(named) > 60 and axis is axis.axes.xaxis:
        axis.set_tick_params(rotation=45)
