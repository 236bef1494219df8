"""Pictures of a flow's statistics: profiles over one direction, planes over two."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterator, Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.interpolate import KroghInterpolator

from ridgeline.analysis.plot import blank_figure, label_decades, label_of, on_page, panels, title
from ridgeline.analysis.shades import ROUNDING, Shade, finite_range, is_component, shades_of
from ridgeline.analysis.slices import select_step
from ridgeline.runtime.errors import ConfigError

MEAN, MOMENT = "velocity_x", "uu"
STRESSES = ("uu", "vv", "ww", "uv", "uw", "vw")
PLACES = ("x", "y", "z")
PER_ROW = 4
KARMAN, OFFSET = 0.41, 5.2  # of the law of the wall
STILL = 1e-6  # of the largest mean velocity: less is that of a wall
LINES = ("-", "--")  # of the two walls
log = logging.getLogger(__name__)

Reals = NDArray[np.float64]


def has_averages(dataset: xr.Dataset) -> bool:
    """Say whether it is a data set of statistics, other than over three directions: those are fields."""
    return MEAN in dataset and MOMENT in dataset and dataset[MEAN].ndim != 4


def plot_averages(
    dataset: xr.Dataset, variables: Sequence[str] = (), step: int = -1, page: int = 1
) -> Figure:
    """Draw means and moments: lines over the one direction that is left, planes over two.

    dataset : as `ridgeline.open` returns it, of output.statistics.
    variables : names; none means all but those that are rounding, which a note names. step : as for `select_step`.
    page : of many panels, from 1.
    Raises ConfigError for a name or a page that is not there, and for statistics over no direction.
    """
    now, known = _statistics(dataset, step)
    dims = now[MEAN].dims
    for name in variables:
        if name not in known:
            raise ConfigError(f"variable = '{name}' is not in the statistics, which have {', '.join(known)}")
    rounding = [] if variables else _rounding(now, known)
    if rounding:
        log.info("not drawn, zero but for rounding: %s; --variable draws them", ", ".join(rounding))
    names = on_page(list(variables) or [name for name in known if name not in rounding], page)
    across = min(len(names), PER_ROW)
    figure = blank_figure(4.0 * across, 3.4 * -(-len(names) // across))
    for axes, name in zip(panels(figure, len(names), PER_ROW), names):
        if len(dims) == 1:
            _draw_line(axes, now[name])
        else:
            # One by one: a secondary flow would not be seen on the scale of the mean one.
            shade = shades_of({name: finite_range(now[name].values)})[name]
            image = _draw_plane(axes, now, name, shade)
            figure.colorbar(image, ax=axes, fraction=0.046, pad=0.03)
        axes.set_title(label_of(now[name]))
    figure.suptitle(title(now))
    return figure


def plot_wall_units(dataset: xr.Dataset, step: int = -1) -> Figure:
    """Draw the mean velocity along walls over the distance from them, both in wall units, and the Reynolds stresses.

    With the friction velocity u_tau = sqrt(nu |dU/dy|) of each wall, U+ = U / u_tau and y+ = y u_tau / nu, beside
    U+ = y+ and the law of the wall, U+ = ln(y+) / 0.41 + 5.2 (Pope, "Turbulent Flows", Sec. 7.1.4).

    dataset, step : as for `plot_averages`; profiles over one direction, with the viscosity among the attributes.
    Raises ConfigError where there is no such profile, or no wall at its ends.
    """
    now, known = _statistics(dataset, step)
    if now[MEAN].ndim != 1:
        raise ConfigError(
            f"--wall-units needs profiles over one direction, and these statistics are over "
            f"{', '.join(map(str, now[MEAN].dims))}; average over two directions with output.homogeneous"
        )
    along = max((name for name in known if is_component(name)), key=lambda name: float(abs(now[name]).max()))
    walls = list(_walls(now, along))
    if not walls:
        raise ConfigError(
            f"--wall-units needs a wall, and {along} is not zero at either end of its profile; leave it out"
        )
    figure = blank_figure(10.0, 4.4)
    mean, stresses = panels(figure, 2)
    (dim,) = now[along].dims
    for number, (end, friction, points, distance) in enumerate(walls):
        label = f"{dim}_{end}, u_tau = {friction:.4g}"
        mean.semilogx(
            distance[1:], now[along].values[points][1:] / friction, LINES[number], label=label, color="C0"
        )
        for colour, name in enumerate(name for name in STRESSES if name in known):
            stresses.plot(
                distance, now[name].values[points] / friction**2, LINES[number], color=f"C{colour}",
                label=None if number else name,
            )  # fmt: skip
    y = np.geomspace(0.1, max(float(wall[3][-1]) for wall in walls), 100)
    mean.plot(y[y < 12], y[y < 12], ":", color="black", label="y+")
    mean.plot(
        y[y > 12], np.log(y[y > 12]) / KARMAN + OFFSET, "-.", color="black", label="ln(y+) / 0.41 + 5.2"
    )
    mean.set(xlabel=f"{dim}+", ylabel=f"{along} / u_tau")
    stresses.set(xlabel=f"{dim}+", ylabel="Reynolds stresses / u_tau^2")
    mean.legend(frameon=False, fontsize="small")
    if stresses.lines:
        stresses.legend(frameon=False, fontsize="small")
    figure.suptitle(title(now))
    label_decades(figure)
    return figure


def _walls(now: xr.Dataset, along: str) -> Iterator[tuple[str, float, slice, Reals]]:
    """Yield each wall's end of the profile, friction velocity, points from it on, and their distances in wall units.

    Points are those up to the middle if both ends are walls. The slope is that of the polynomial of the first
    element.
    """
    (dim,) = now[along].dims
    y, mean = now[dim].values, now[along].values
    viscosity = float(now.attrs.get("model.viscosity", 0.0))
    degree = min(int(now.attrs.get("grid.order", 2)), len(y) - 1)
    ends = {"min": slice(None), "max": slice(None, None, -1)}
    still = {end: points for end, points in ends.items() if abs(mean[points][0]) < STILL * np.abs(mean).max()}
    for end, points in still.items():
        there, u = y[points], mean[points]
        slope = float(KroghInterpolator(there[: degree + 1], u[: degree + 1]).derivative(there[0]))
        friction = np.sqrt(viscosity * abs(slope))
        if friction > 0:
            n = (len(y) + 1) // 2 if len(still) == 2 else len(y)
            part = slice(0, n) if end == "min" else slice(None, -n - 1, -1)
            yield end, friction, part, np.abs(y[part] - there[0]) * friction / viscosity


def _statistics(dataset: xr.Dataset, step: int) -> tuple[xr.Dataset, list[str]]:
    """Return the statistics of a step, and the names that can be drawn: means, second moments, and what is left."""
    now = select_step(dataset, step).load()
    dims = now[MEAN].dims
    known = [str(name) for name, array in now.data_vars.items() if array.dims == dims and name not in PLACES]
    if len(dims) not in (1, 2) or dims == ("point",):
        raise ConfigError(
            f"these statistics have the axes {', '.join(map(str, dims))}, which cannot be drawn; average over one or "
            f"two directions with output.homogeneous"
        )
    return now, sorted(known, key=lambda name: 0 if is_component(name) else 1 if name in STRESSES else 2)


def _rounding(now: xr.Dataset, names: Sequence[str]) -> list[str]:
    """Return what is zero, or rounding beside what it is made of: components, moments of velocity and pressure."""
    sizes = {name: float(np.abs(now[name]).max()) for name in names}
    largest: dict[str, float] = {}
    for name, size in sizes.items():
        largest[_kind(name)] = max(size, largest.get(_kind(name), 0.0))
    of = dict.fromkeys("uvw", largest[_kind(MEAN)]) | {"p": sizes.get("pressure", 0.0)}

    def scale(name: str) -> float:
        return math.prod(of[letter] for letter in name) if set(name) <= of.keys() else largest[_kind(name)]

    return [name for name, size in sizes.items() if size == 0.0 or size < ROUNDING * scale(name)]


def _kind(name: str) -> str:
    """Return what components and moments have in common: u_scalar_0 for w_scalar_0, dissipation for its _xy."""
    return re.sub(r"^[uvw](?=_)", "u", re.sub(r"_[xyz]{1,2}$", "", name))


def _draw_line(axes: Axes, values: xr.DataArray) -> None:
    (dim,) = values.dims
    axes.plot(values[dim].values, values.values)
    axes.set_xlabel(label_of(values[dim]))


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
