"""Charts of a validation as SVG text inside a page: distributions over parts, and maps of pairs."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

GOOD, BAD, USUAL, CUT = "#3b73b9", "#c62f2f", "#1d2733", "#d98a00"
FEW = 24  # up to so many parts each is drawn with its name
MAP_CELLS = 128  # largest number of rows of a map; more nodes share rows
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
    """Return the SVG of the distribution of a quantity over parts.

    Parameters
    ----------
    values : float64 [n]
        The quantity, scaled for the label.
    suspect : bool [n]
        Whether each part is suspect.
    names : sequence of str
        Names of the parts, drawn if there are few.
    label : str
        Label of the quantity.
    usual, cut : float
        The reference value, and the value from which a part is slow.
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
            # A few suspects among many parts would be invisible beside the others on a linear axis.
            axes.hist(parts, bins=bins, stacked=True, color=[GOOD, BAD], log=len(values) > 200)
            axes.set_ylabel("parts")
        axes.axvline(usual, color=USUAL, linewidth=1)
        axes.axvline(cut, color=CUT, linewidth=1, linestyle="--")
        axes.set_xlabel(label)
        return _svg(figure)


def draw_pairs(n_nodes: int, first: Integers, second: Integers, extra: Floats, names: Sequence[str]) -> str:
    """Return the SVG of the map of pairs: the extra time of every link over the usual one, in percent.

    first, second: int64 [n_links], the nodes of each link; extra: float64 [n_links], as a fraction; names: of the
    nodes. With many nodes a cell shows the worst of all links between nodes with neighbouring numbers.
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
    """Return a figure as an element of a page, without XML header and without metadata, which has addresses."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    return re.sub(r"\n\s*", "\n", text)
