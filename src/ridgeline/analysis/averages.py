"""Pictures of a flow's statistics: profiles over one direction, planes over two."""

from __future__ import annotations

from collections.abc import Sequence

import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure

from ridgeline.analysis.plot import blank_figure, panels, title
from ridgeline.analysis.shades import Shade, finite_range, shades_of
from ridgeline.analysis.slices import select_step
from ridgeline.runtime.errors import ConfigError

MEAN, MOMENT = "velocity_x", "uu"
PLACES = ("x", "y", "z")
PER_ROW = 4


def has_averages(dataset: xr.Dataset) -> bool:
    """Say whether it is a data set of statistics, other than over three directions: those are fields."""
    return MEAN in dataset and MOMENT in dataset and dataset[MEAN].ndim != 4


def plot_averages(dataset: xr.Dataset, variables: Sequence[str] = (), step: int = -1) -> Figure:
    """Draw means and second moments: lines over the one direction that is left, planes over two.

    dataset : as `ridgeline.open` returns it, of output.statistics.
    variables : names; none means all. step : as for `select_step`.
    Raises ConfigError for a name that is not there, and for statistics over no direction.
    """
    now = select_step(dataset, step).load()
    dims = now[MEAN].dims
    known = [str(name) for name, array in now.data_vars.items() if array.dims == dims and name not in PLACES]
    for name in variables:
        if name not in known:
            raise ConfigError(f"variable = '{name}' is not in the statistics, which have {', '.join(known)}")
    if len(dims) not in (1, 2) or dims == ("point",):
        raise ConfigError(
            f"these statistics have the axes {', '.join(map(str, dims))}, which cannot be drawn; average over one or "
            f"two directions with output.homogeneous"
        )
    names = list(variables) or known
    across = min(len(names), PER_ROW)
    figure = blank_figure(4.0 * across, 3.4 * -(-len(names) // across))
    for axes, name in zip(panels(figure, len(names), PER_ROW), names):
        if len(dims) == 1:
            _draw_line(axes, now[name])
        else:
            # One by one: a secondary flow would not be seen on the scale of the mean one.
            shade = shades_of({name: finite_range(now[name].values)}, tuple(known))[name]
            image = _draw_plane(axes, now, name, shade)
            figure.colorbar(image, ax=axes, fraction=0.046, pad=0.03)
        axes.set_title(name)
    figure.suptitle(title(now))
    return figure


def _draw_line(axes: Axes, values: xr.DataArray) -> None:
    (dim,) = values.dims
    axes.plot(values[dim].values, values.values)
    axes.set_xlabel(str(dim))


def _draw_plane(axes: Axes, data: xr.Dataset, name: str, shade: Shade) -> QuadMesh:
    """Draw a plane at its places, which are not uniform, and on mapped meshes not on straight lines."""
    across = [place for place in PLACES if place in data.variables]
    horizontal, vertical = across if len(across) == 2 else reversed([str(dim) for dim in data[name].dims])
    axes.set(xlabel=horizontal, ylabel=vertical, aspect="equal")
    x, y = data[horizontal], data[vertical]
    values = data[name] if x.ndim == 2 else data[name].transpose(*y.dims, *x.dims)
    low, high = shade.limits
    return axes.pcolormesh(
        x.values, y.values, values.values, cmap=shade.colours, vmin=low, vmax=high, shading="gouraud"
    )
