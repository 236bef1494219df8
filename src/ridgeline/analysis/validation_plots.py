"""Charts of a validation as SVG text, to stand inside a page: distributions over parts, and maps of pairs."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence

import matplotlib

matplotlib.use("Agg")

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

GOOD, BAD, USUAL, CUT = "#3b73b9", "#c62f2f", "#1d2733", "#d98a00"
FEW = 24  # parts that are drawn one by one, by name
MAP_CELLS = 128  # rows of a map at most: more nodes share them
_COLOURS = LinearSegmentedColormap.from_list("extra time", ["#f2f6fb", "#a9c6e8", "#f3c969", "#c62f2f"])
_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "validation",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.edgecolor": "#9aa5b1",
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def draw_distribution(
    values: Floats, suspect: NDArray[np.bool_], names: Sequence[str], label: str, usual: float, cut: float
) -> str:
    """Return the SVG of a quantity's distribution over its parts.

    values: [n], scaled for the label; suspect: [n]; names: of the parts, drawn where there are few; usual, cut: the
    reference, and the value from which a part is slow.
    """
    with matplotlib.rc_context(_STYLE):
        if len(values) <= FEW:
            figure = Figure(figsize=(5.2, max(1.5, 0.9 + 0.2 * len(values))), layout="constrained")
            axes = figure.subplots()
            places = np.arange(len(values))
            axes.hlines(places, usual, values, color="#cfd7e0", linewidth=2)
            axes.scatter(values, places, c=[BAD if s else GOOD for s in suspect], s=26, zorder=3)
            axes.set_yticks(places, names)
            axes.set_ylim(len(values) - 0.5, -0.5)
        else:
            figure = Figure(figsize=(5.2, 2.6), layout="constrained")
            axes = figure.subplots()
            bins = list(np.histogram_bin_edges(values, bins=int(np.clip(2 * np.sqrt(len(values)), 12, 60))))
            parts = [values[~suspect], values[suspect]]
            # Of many parts the suspects are few, and would not be seen beside the others.
            axes.hist(parts, bins=bins, stacked=True, color=[GOOD, BAD], log=len(values) > 200)
            axes.set_ylabel("parts")
        axes.axvline(usual, color=USUAL, linewidth=1)
        axes.axvline(cut, color=CUT, linewidth=1, linestyle="--")
        axes.set_xlabel(label)
        return _svg(figure)


def draw_pairs(n_nodes: int, first: Integers, second: Integers, extra: Floats, names: Sequence[str]) -> str:
    """Return the SVG of the map of pairs: extra time of every link over the usual, in percent.

    extra: [n_links]. With many nodes a cell is the worst of all links between its neighbours in number.
    """
    cells = min(n_nodes, MAP_CELLS)
    place = np.arange(n_nodes) * cells // n_nodes
    worst = np.full((cells, cells), -np.inf)
    for a, b in ((first, second), (second, first)):
        np.maximum.at(worst, (place[a], place[b]), 100 * extra)
    worst[~np.isfinite(worst)] = np.nan
    with matplotlib.rc_context(_STYLE):
        side = 3.2 if cells > 12 else 2.2 + 0.09 * cells
        figure = Figure(figsize=(side + 1.6, side + 0.6), layout="constrained")
        axes = figure.subplots()
        most = float(np.nanmax(worst)) if np.isfinite(worst).any() else 0.0
        image = axes.imshow(
            worst,
            cmap=_COLOURS,
            vmin=0.0,
            vmax=min(max(most, 10.0), 100.0),
            interpolation="nearest",
            extent=(-0.5, n_nodes - 0.5, n_nodes - 0.5, -0.5),
        )
        if n_nodes <= FEW:
            axes.set_xticks(range(n_nodes), names, rotation=90)
            axes.set_yticks(range(n_nodes), names)
        else:
            axes.set_xlabel("node number")
            axes.set_ylabel("node number")
        figure.colorbar(
            image, ax=axes, shrink=0.8, label="extra time, %", extend="max" if most > 100 else "neither"
        )
        return _svg(figure)


def _svg(figure: Figure) -> str:
    """Return a figure as an element of a page: no XML header, no metadata with addresses."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    return re.sub(r"\n\s*", "\n", text)
