"""Pictures of parts on sides of the domain: curves along a side, with separation and reattachment, and maps of it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PolyCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from mpl_toolkits.mplot3d.art3d import Poly3DCollection  # type: ignore[import-untyped]
from numpy.typing import NDArray

from ridgeline.analysis.colour_scales import ColourScale, colour_scales, finite_range
from ridgeline.analysis.plot import PER_ROW, axis_label, blank_figure, names_on_page, panels, title
from ridgeline.analysis.separation import ShearZero, shear_zeros
from ridgeline.analysis.slices import select_step
from ridgeline.config.check import did_you_mean
from ridgeline.runtime.errors import ConfigError

CURVE, FACE = "arc_length", "face"
SHEAR = "wall_shear_"
MARKS = {"separation": "v", "reattachment": "^"}
FLAT = 1e-6  # of the extent of a side: the thickness up to which it counts as a plane


def has_side(dataset: xr.Dataset) -> bool:
    """Whether it is a data set of a part on a side, at points or along a curve."""
    return "part.side" in dataset.attrs and bool({CURVE, FACE} & set(map(str, dataset.dims)))


def plot_side(
    dataset: xr.Dataset,
    variables: Sequence[str] = (),
    step: int = -1,
    page: int = 1,
    colour_map: str | None = None,
) -> Figure:
    """Draw what a run has written on a side of the domain, at one output.

    Along a curve the variables are lines over x if the curve runs along x without turning back, over y or z likewise,
    and over its length otherwise. Triangles on a component of the wall shear mark where the flow separates (down) and
    reattaches (up). A whole side is a map if it is a plane, and otherwise a surface in space.

    Parameters
    ----------
    dataset : xarray.Dataset
        The data set of an [[output.part]] with a side, as `ridgeline.open` returns it.
    variables : sequence of str
        Names to draw; by default all that are not zero up to rounding.
    step, page : int
        As for `select_step`, and the page of many panels, from 1.
    colour_map : str, optional
        Of maps, a name that Matplotlib knows.

    Raises
    ------
    ConfigError
        For a name, an output or a page that does not exist.
    """
    now = select_step(dataset, step).load()
    known = [str(name) for name in now.data_vars]
    for name in variables:
        if name not in known:
            raise ConfigError(
                f"the part has no '{name}'{did_you_mean(name, known)} It has {', '.join(known)}."
            )
    names = names_on_page(list(variables) or _of_size(now, known), page)
    across = min(len(names), PER_ROW)
    figure = blank_figure(4.8 * across, 3.8 * -(-len(names) // across))
    figure.suptitle(f"{dataset.attrs['part.side']}, {title(now)}")
    if CURVE in now.dims:
        for axes, name in zip(panels(figure, len(names), PER_ROW), names):
            _draw_curve(axes, now, name)
        return figure
    scales = colour_scales({name: finite_range(now[name].values) for name in names}, colour_map)
    _draw_maps(figure, now, names, scales)
    return figure


def _of_size(now: xr.Dataset, known: Sequence[str]) -> list[str]:
    """Return the names of variables, without components that are rounding beside the others."""
    sizes = {name: float(np.nanmax(np.abs(now[name].values), initial=0.0)) for name in known}
    shear = max((size for name, size in sizes.items() if name.startswith(SHEAR)), default=0.0)
    kept = [name for name in known if not name.startswith(SHEAR) or sizes[name] > 1e-9 * shear]
    return kept or list(known)


def _draw_curve(axes: Axes, now: xr.Dataset, name: str) -> None:
    along = _along(now)
    values, curves = now[name], now["curve"].values
    for number in np.unique(curves):
        here = curves == number
        axes.plot(now[along].values[here], values.values[here], color="C0", marker=".", markersize=3)
    zeros: list[ShearZero] = []
    if name.startswith(SHEAR):
        axes.axhline(0.0, color="0.7", linewidth=0.8, zorder=0)
        zeros = shear_zeros(values, name[-1])
    for kind, mark in MARKS.items():
        places = [getattr(zero, along) for zero in zeros if zero.kind == kind]
        if places:
            axes.plot(places, np.zeros(len(places)), mark, color="C3", label=kind)
    if zeros:
        axes.legend()
    axes.set(xlabel=axis_label(now[along]), ylabel=axis_label(values))


def _along(now: xr.Dataset) -> str:
    """Return the coordinate over which curves are drawn: a direction in which none turns back, or the length."""
    curves = now["curve"].values
    for axis in "xyz":
        steps = [np.diff(now[axis].values[curves == number]) for number in np.unique(curves)]
        if all((step > 0).all() or (step < 0).all() for step in steps):
            return axis
    return CURVE


def _draw_maps(figure: Figure, now: xr.Dataset, names: Sequence[str], scales: dict[str, ColourScale]) -> None:
    places = np.stack([now[axis].values for axis in "xyz"])
    extents = np.ptp(places.reshape(3, -1), axis=1)
    flat = [axis for axis in range(3) if extents[axis] > FLAT * extents.max()]
    rows = -(-len(names) // PER_ROW)
    for number, name in enumerate(names, start=1):
        colours = ScalarMappable(Normalize(*scales[name].limits), scales[name].colours)
        cells = colours.to_rgba(_cells(now[name].values[None])[0].mean(axis=-1))
        place = (rows, min(len(names), PER_ROW), number)
        axes: Any
        if len(flat) == 2:
            axes = figure.add_subplot(*place)
            axes.add_collection(PolyCollection(list(_corners(places[flat])), facecolors=cells))
            axes.autoscale_view()
            axes.set_aspect("equal")
            first, second = ("xyz"[axis] for axis in flat)
            axes.set(xlabel=axis_label(now[first]), ylabel=axis_label(now[second]))
        else:
            axes = figure.add_subplot(*place, projection="3d")
            axes.add_collection3d(Poly3DCollection(list(_corners(places)), facecolors=cells))
            low, high = (end(places.reshape(3, -1), axis=1) for end in (np.min, np.max))
            axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), zlim=(low[2], high[2]))
            axes.set(xlabel="x", ylabel="y", zlabel="z")
            axes.set_box_aspect(extents)
        axes.set_title(scales[name].note, fontsize="small")
        figure.colorbar(colours, ax=axes, label=axis_label(now[name]))


def _corners(places: NDArray[Any]) -> NDArray[Any]:
    """Return the places of the corners of the cells, [cells, 4, c]."""
    return np.moveaxis(_cells(places), 0, -1)


def _cells(values: NDArray[Any]) -> NDArray[Any]:
    """Return the four corners of the cells between the points of faces, [c, cells, 4], from [c, f, n, n]."""
    corners = values[:, :, :-1, :-1], values[:, :, :-1, 1:], values[:, :, 1:, 1:], values[:, :, 1:, :-1]
    return np.stack([corner.reshape(len(values), -1) for corner in corners], axis=-1)
