"""Pictures of sweeps: where the cases ended, over the settings that differ, from what the sweep's JSON holds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ridgeline.analysis.plot import blank_figure, label_decades, panels
from ridgeline.analysis.shades import finite_range, shades_of
from ridgeline.analysis.time_series import DECADES, PER_ROW, chosen_columns
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.units import in_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

SWEPT = "swept"  # key of the names of the axes in `extra` of the JSON
NO_FIGURES = ("state", "step", "time")  # columns beside the axes
MOST_LABELS = 12  # along an axis whose places have names

Reals = NDArray[np.float64]


def is_sweep(report: Mapping[str, Any]) -> bool:
    """Say whether a report is the table of a sweep."""
    extra = report.get("extra")
    return isinstance(extra, dict) and SWEPT in extra


def plot_sweep(
    result: Mapping[str, Any], names: Sequence[str] = (), every: bool = False, page: int = 1
) -> Figure:
    """Draw final figures of a sweep: curves over its last axis, or maps of a table of two axes; no case, no mark.

    result : what `Result.to_dict` gave, with the axes in extra[SWEPT]. Of three axes or more each combination of the
        others is a curve. Keys that change together are one axis, whose places are named.
    names, every, page : figures to draw, as columns of `plot_time_series`.
    Raises ConfigError for a figure that is not there, or if no case is done.
    """
    rows = result["rows"]
    axes: list[str] = result["extra"][SWEPT]
    heads = {key: head for key, head in result["columns"].items() if key not in (*axes, *NO_FIGURES)}
    if not heads:
        raise ConfigError("no case of the sweep is done yet; run the same sweep again")
    columns = {key: np.array([row.get(key) for row in rows], np.float64) for key in heads}
    drawn = {key: columns[key] for key in chosen_columns(columns, names, every, "the sweep", page)}
    values = [[row[axis] for row in rows] for axis in axes]
    if math.prod(len(_ordered(each)) for each in values) != len(rows):  # keys that change together
        axes, values = [", ".join(axes)], [[", ".join(map(in_words, row)) for row in zip(*values)]]
    if len(axes) == 2:
        return _maps(drawn, heads, axes, values)
    return _curves(drawn, heads, axes, values)


def _ordered(values: Sequence[Any]) -> list[Any]:
    """Return the places along an axis, each once: numbers ascending, all else as words in the order given."""
    if all(isinstance(value, int | float) for value in values):
        return sorted(set(values))
    return list(dict.fromkeys(map(in_words, values)))


def _number_of(values: Sequence[Any]) -> list[int]:
    """Return for each case the number of its place along an axis."""
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
    found = panels(figure, len(drawn), 1)
    for panel, (key, figures) in zip(found, drawn.items()):
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
    found[-1].set_xlabel(axes[-1])
    if len(curves) > 1:
        figure.legend(*found[0].get_legend_handles_labels(), loc="outside right upper", fontsize="small")
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
    """Draw values [down, right] as cells, upwards; those that are not finite are grey."""
    shade = shades_of({key: finite_range(table)})[key]
    low, high = shade.limits
    image = panel.imshow(
        table, cmap=shade.colours, vmin=low, vmax=high, origin="lower", aspect="auto", interpolation="nearest"
    )
    panel.get_figure(root=True).colorbar(image, ax=panel)  # type: ignore[union-attr]


def _name_places(axis: Axis, places: Sequence[Any]) -> None:
    """Write the places along an axis beside their marks, not more of them than are readable."""
    named = list(itertools.islice(enumerate(places), 0, None, -(-len(places) // MOST_LABELS)))
    axis.set_ticks([n for n, _ in named], [in_words(place) for _, place in named])
    if max(len(in_words(place)) for place in places) * len(named) > 60 and axis is axis.axes.xaxis:
        axis.set_tick_params(rotation=45)
