"""Figures of scaling studies: curves over ranks or values of an axis, and stacked phases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter, LogLocator, NullFormatter

from ridgeline.analysis.plot import blank_figure, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

X = float | str  # a number of cores, or the value of an axis
MARKERS = "osD^vP*X"
LINES = ("-", "--", ":", "-.")  # of groups of curves
HOLLOW = "hollow: more threads than cores"
MOST_PANELS = 6
MOST_INSIDE = 6  # entries of a legend; more stand beside the axes


@dataclass(frozen=True)
class Spot:
    """One point of a curve. hollow: it says little, and is drawn so. until: the far end of its repeats, if known.

    within: the least and the most that a prediction expects.
    """

    x: X
    y: float
    hollow: bool = False
    until: float | None = None
    within: tuple[float, float] | None = None


@dataclass(frozen=True)
class Curve:
    """A curve of a study. ideal: what perfect scaling gives at the same places; predicted: by a prediction.

    group: curves of one group have one line style, as those of one study of two, or of one kind of efficiency.
    """

    name: str
    spots: tuple[Spot, ...]
    ideal: tuple[Spot, ...] = ()
    predicted: tuple[Spot, ...] = ()
    group: int = 0


class Look(NamedTuple):
    """Colour, marker and line style of a curve, in Matplotlib's words."""

    colour: str
    marker: str
    line: str


@dataclass(frozen=True)
class Panel:
    """What a figure shows. log: whether y is logarithmic over numbers of cores; else it begins at 0."""

    x_label: str
    y_label: str
    title: str
    log: bool = False


@dataclass(frozen=True)
class Bar:
    """One stack. name: under it; parts: heights by the names of the legend, from below; hollow as of a `Spot`."""

    name: str
    parts: dict[str, float]
    hollow: bool = False


def draw_curves(curves: Sequence[Curve], panel: Panel) -> Figure:
    """Return a figure of curves, each spot with a marker; hollow ones are empty, and the legend says so."""
    figure = blank_figure(7.2, 4.4)
    axes = figure.subplots()
    numeric = all(isinstance(spot.x, int | float) for curve in curves for spot in curve.spots)
    places = _places(curves, numeric)
    looks = _looks(curves)
    for curve, look in zip(curves, looks):
        _draw_curve(axes, curve, look, places)
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
    _legend(axes, curves, looks)
    return figure


def _places(curves: Sequence[Curve], numeric: bool) -> dict[X, float]:
    """Return where each x stands: numbers at themselves, on a logarithmic axis, words one after the other."""
    found = dict.fromkeys(spot.x for curve in curves for spot in curve.spots)
    values: list[Any] = sorted(found, key=float) if numeric else list(found)
    return {x: float(x) if numeric else float(n) for n, x in enumerate(values)}


def _looks(curves: Sequence[Curve]) -> list[Look]:
    """Return how each curve looks: the curves of a group have the colours of the other group's, in their order."""
    return [
        Look(
            f"C{number % 10}",
            MARKERS[(number + 4 * curve.group) % len(MARKERS)],
            ("-", "--")[curve.group % 2],
        )
        for n, curve in enumerate(curves)
        for number in [sum(other.group == curve.group for other in curves[:n])]
    ]


def _draw_curve(axes: Axes, curve: Curve, look: Look, places: dict[X, float]) -> None:
    colour = look.colour
    x, y = [places[spot.x] for spot in curve.spots], [spot.y for spot in curve.spots]
    line = look.line if all(_is_number(spot.x) for spot in curve.spots) else ""  # words have no order
    axes.plot(x, y, linestyle=line, color=colour, linewidth=1.4, zorder=2)
    for spot, place in zip(curve.spots, x):
        inside = "white" if spot.hollow else colour
        axes.plot(place, spot.y, look.marker, color=colour, markerfacecolor=inside, markersize=6, zorder=3)
        if spot.until is not None:
            axes.plot(
                [place, place], [spot.y, spot.until], color=colour, linewidth=1.0, marker="_", markersize=5
            )
    for more, dashes in ((curve.ideal, (1, 2)), (curve.predicted, (6, 2, 1, 2))):
        known = [spot for spot in more if spot.x in places]
        values = [spot.y for spot in known]
        axes.plot([places[s.x] for s in known], values, color=colour, dashes=dashes, linewidth=1.0, alpha=0.8)
        for spot in known:
            if spot.within is not None:
                axes.vlines(places[spot.x], *spot.within, color=colour, linewidth=5.0, alpha=0.25)


def _is_number(x: X) -> bool:
    """Say whether a place is a number, also one that is a word of an axis."""
    try:
        float(x)
    except ValueError:
        return False
    return True


def _set_x(axes: Axes, places: dict[X, float], numeric: bool) -> None:
    if numeric and len(places) > 1:
        axes.set_xscale("log", base=2)
    labels = [f"{x:g}" if isinstance(x, int | float) else x for x in places]
    axes.xaxis.set_major_locator(FixedLocator(list(places.values())))
    axes.xaxis.set_major_formatter(FixedFormatter(labels))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_minor_locator(FixedLocator([]))
    if not numeric:
        axes.margins(x=0.3)


def _legend(axes: Axes, curves: Sequence[Curve], looks: Sequence[Look]) -> None:
    """Name curves, and what dots, dashes and hollow markers mean where they occur."""
    entries = [
        Line2D([], [], color=look.colour, marker=look.marker, linestyle=look.line, label=curve.name)
        for curve, look in zip(curves, looks)
        if curve.name
    ]
    if any(curve.ideal for curve in curves):
        entries.append(Line2D([], [], color="0.4", dashes=(1, 2), label="ideal"))
    if any(curve.predicted for curve in curves):
        entries.append(Line2D([], [], color="0.4", dashes=(6, 2, 1, 2), label="predicted"))
    if any(spot.within is not None for curve in curves for spot in curve.predicted):
        entries.append(
            Line2D([], [], color="0.4", linewidth=5.0, alpha=0.25, label="80 % of steps, predicted")
        )
    if any(spot.until is not None for curve in curves for spot in curve.spots):
        entries.append(
            Line2D([], [], color="0.4", marker="|", linestyle="", markersize=10, label="all repeats")
        )
    if any(spot.hollow for curve in curves for spot in curve.spots):
        empty = Line2D([], [], color="0.4", marker="o", markerfacecolor="white", linestyle="", label=HOLLOW)
        entries.append(empty)
    if len(entries) > MOST_INSIDE:
        axes.legend(
            handles=entries, frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.02)
        )
    elif entries:
        axes.legend(handles=entries, frameon=False, fontsize="small")


def draw_bars(stacks: Mapping[str, Sequence[Bar]], panel: Panel) -> Figure:
    """Return a figure of stacked bars, axes for each key of `stacks` (six at most); hollow stacks are hatched."""
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
